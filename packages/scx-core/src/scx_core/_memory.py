"""How much memory this process can have at most, and requests that go beyond it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath

from scx_core._byte_sizes import format_bytes

MACHINE = Path("/proc/meminfo")
CGROUPS = Path("/sys/fs/cgroup")
OWN_GROUPS = Path("/proc/self/cgroup")


def check_room(n_bytes: int, *, what: str, advice: str) -> None:
    """ValueError if so many bytes are more than this process can have at most.

    Parameters
    ----------
    n_bytes
        What would be allocated.
    what
        What the message begins with: who wants the memory and what for.
    advice
        What the message ends with.
    """
    there = memory_bytes()
    if there is not None and n_bytes > there:
        raise ValueError(
            f"{what} takes {format_bytes(n_bytes)}, but this process can have "
            f"{format_bytes(there)} of memory at most: {advice}"
        )


@cache
def memory_bytes() -> int | None:
    """What this process can have at most: all memory and swap space, or the limit of its cgroup.

    None where the system does not tell.
    """
    return min(_limits(), default=None)


def machine_memory() -> dict[str, int]:
    """What Linux says of the memory of the machine, in bytes; OSError or ValueError elsewhere."""
    lines = MACHINE.read_text("ascii").splitlines()
    return {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines}


@dataclass(frozen=True)
class MemoryGroup:
    """A control group that may limit the memory of this process.

    Attributes
    ----------
    folder
        Where the system shows it. It need not be there.
    version
        1 or 2: that of control groups.
    """

    folder: Path
    version: int

    @property
    def limit(self) -> int | None:
        """The bytes that its processes may have together; None without a limit."""
        return self.number("memory.max" if self.version == 2 else "memory.limit_in_bytes")

    def number(self, name: str) -> int | None:
        """What one of its files says; None where it is not there or holds no number."""
        with suppress(OSError, ValueError):
            return int((self.folder / name).read_text("ascii"))
        return None


def memory_groups() -> Iterator[MemoryGroup]:
    """The groups of this process and those they are in; OSError where the system tells of none."""
    for line in OWN_GROUPS.read_text("utf-8").splitlines():
        _, controllers, place = line.split(":", 2)
        if controllers == "":
            root, version = CGROUPS, 2
        elif "memory" in controllers.split(","):
            root, version = CGROUPS / "memory", 1
        else:
            continue
        # In a container the place may be that which the machine sees: then the top alone is there.
        inside = PurePosixPath(place.lstrip("/"))
        for group in (inside, *inside.parents):
            yield MemoryGroup(root / group, version)


def _limits() -> Iterator[int]:
    with suppress(OSError, ValueError, KeyError):
        sizes = machine_memory()
        yield sizes["MemTotal"] + sizes["SwapTotal"]
        yield from _cgroup_limits()
        return
    with suppress(OSError, ValueError, AttributeError):
        yield os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _cgroup_limits() -> Iterator[int]:
    for group in memory_groups():
        limit = group.limit
        if limit is not None:
            yield limit
