"""How much memory this process can have at most, and requests that go beyond it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path, PurePosixPath

from scx_core._byte_sizes import format_bytes

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


def _limits() -> Iterator[int]:
    with suppress(OSError, ValueError, KeyError):
        lines = Path("/proc/meminfo").read_text("ascii").splitlines()
        sizes = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines}
        yield sizes["MemTotal"] + sizes["SwapTotal"]
        yield from _cgroup_limits()
        return
    with suppress(OSError, ValueError, AttributeError):
        yield os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _cgroup_limits() -> Iterator[int]:
    """Of the groups of this process and of those they are in, in either version of cgroups."""
    for line in OWN_GROUPS.read_text("utf-8").splitlines():
        number, controllers, path = line.split(":", 2)
        if number == "0":
            root, name = CGROUPS, "memory.max"
        elif "memory" in controllers.split(","):
            root, name = CGROUPS / "memory", "memory.limit_in_bytes"
        else:
            continue
        group = PurePosixPath(path)
        for one in (group, *group.parents):
            with suppress(OSError, ValueError):  # there is none, or it is "max"
                yield int((root / one.relative_to("/") / name).read_text("ascii"))
