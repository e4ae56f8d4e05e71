"""How the bytes of an epoch come into memory, which follows from how much of it is free.

Stretches of the file that an order reads as a whole (the shards of a group, or all shards where a
batch takes its rows from anywhere) are read from front to back, the fastest way. That helps only if
they stay in memory until they are decoded. Where they do not fit, the system would throw pages away
before they were used, and read megabytes around each row for the sake of pages that it throws away
too: there each batch has the pages of its own rows read, all at once, when it is submitted.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from scx_core._memory import MemoryGroup, machine_memory, memory_groups
from scx_train.streams.order import EpochOrder, RowRange, Rows, ShardGroups

# Of the memory that is free, what the bytes of an epoch may take; the rest is for what the process
# goes on to allocate.
SHARE_OF_AVAILABLE = 0.75


@dataclass(frozen=True)
class Reading:
    """How the bytes of an epoch are read.

    Attributes
    ----------
    whole
        The stretches that the order names, from front to back.
    ahead
        Those of the next group while one is decoded.
    scattered
        The rows of each batch on their own, unless they are in memory.
    """

    whole: bool
    ahead: bool
    scattered: bool


class RowByRow:
    """An order of which no stretch is read as a whole."""

    def __init__(self, order: EpochOrder) -> None:
        self._order = order

    def __len__(self) -> int:
        return len(self._order)

    def __iter__(self) -> Iterator[Rows]:
        return iter(self._order)

    def ranges(self, group: int) -> list[RowRange]:
        """None."""
        return []


def reading_of(order: EpochOrder, *, row_bytes: float, available: int | None) -> Reading:
    """How an epoch is read.

    Parameters
    ----------
    order
        Its cells.
    row_bytes
        What a row takes in the file on average.
    available
        Bytes of memory that are free, as of `available_bytes`; None where that is not known.
    """
    n_rows = sum(part.stop - part.start for part in order.ranges(0)) if len(order) else 0
    room = float("inf") if available is None else SHARE_OF_AVAILABLE * available
    whole = n_rows * row_bytes <= room
    return Reading(
        whole=whole,
        ahead=2 * n_rows * row_bytes <= room,
        scattered=not whole or not isinstance(order, ShardGroups) or order.leaves_shards_out,
    )


def available_bytes() -> int | None:
    """Memory that the process can have, and the page cache with it, before anything is swapped out.

    That of the machine, or of the control groups of the process if these leave less. None where the
    system does not say.
    """
    found = [size for size in (_of_machine(), *_of_groups()) if size is not None]
    return min(found, default=None)


def _of_machine() -> int | None:
    with suppress(OSError, ValueError):
        return machine_memory().get("MemAvailable")
    return None


def _of_groups() -> Iterator[int | None]:
    with suppress(OSError):
        yield from map(_left_in, memory_groups())


def _left_in(group: MemoryGroup) -> int | None:
    """What is left up to the limit of a control group; files that are cached give way."""
    if group.version == 2:
        usage, cached = "memory.current", ("active_file", "inactive_file")
    else:
        usage, cached = "memory.usage_in_bytes", ("total_active_file", "total_inactive_file")
    limit, used = group.limit, group.number(usage)
    if limit is None or used is None:
        return None
    statistics = _statistics(group)
    in_use = used - sum(statistics.get(name, 0) for name in cached)
    return max(0, limit - max(0, in_use))


def _statistics(group: MemoryGroup) -> dict[str, int]:
    with suppress(OSError):
        pairs = [line.split() for line in (group.folder / "memory.stat").read_text().splitlines()]
        return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2}
    return {}
