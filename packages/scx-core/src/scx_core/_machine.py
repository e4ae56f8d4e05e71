"""Which machine made a file, and whether locks of other machines are seen here.

A lock that is free tells nothing of its writer where the file system keeps locks to each machine,
as NFS does when it is mounted with `nolock`, and as FUSE does.
"""

from __future__ import annotations

import hashlib
import os
import re
import socket
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
MOUNTS = Path("/proc/self/mountinfo")
STATISTICS = Path("/proc/stat")
TAG_LETTERS = 8
OTHER_MACHINE = ""  # no machine's tag


@cache
def machine_tag() -> str:
    """A text of 8 hex digits that other machines do not have.

    On Linux it belongs to the running kernel, so that containers of one machine share it, as they
    share its locks; a machine that was started anew has another one.
    """
    try:
        identity = BOOT_ID.read_bytes()
    except OSError:
        identity = socket.gethostname().encode()
    return hashlib.blake2b(identity, digest_size=TAG_LETTERS // 2).hexdigest()


def lock_tells(folder: Path, tag: str, made: float) -> bool:
    """Whether a lock in `folder` that is free proves that the process that took it has ended.

    `tag` is that of the process's machine, and `made` when it made the file, in seconds.
    """
    if tag == machine_tag():
        return True
    mount = _mount_of(folder)
    if mount is None:
        return False
    return mount.passes_locks_on or (mount.is_own_disk and made < _started())


@dataclass(frozen=True)
class Mount:
    """A line of mountinfo."""

    kind: str
    source: str
    options: frozenset[str]

    @property
    def passes_locks_on(self) -> bool:
        """Whether each machine sees the locks of all others."""
        if self.kind in ("nfs", "nfs4"):
            return not self.options & {"nolock", "local_lock=flock", "local_lock=all"}
        if self.kind in ("cifs", "smb3"):
            return "nobrl" not in self.options
        return self.kind == "ceph" or (self.kind == "lustre" and "flock" in self.options)

    @property
    def is_own_disk(self) -> bool:
        """Whether it is a disk of this machine, which others can only have from it."""
        return self.source.startswith("/dev/") or self.kind in ("overlay", "zfs")


def _mount_of(folder: Path) -> Mount | None:
    found, longest = None, -1
    real = os.path.realpath(folder)
    with suppress(OSError, ValueError):
        for line in MOUNTS.read_text("utf-8", "surrogateescape").splitlines():
            before, after = line.split(" - ", 1)
            place = _unescaped(before.split(" ")[4])
            # what was mounted later lies over what was there
            if len(place) >= longest and Path(real).is_relative_to(place):
                longest = len(place)
                kind, source, options = after.split(" ")[:3]
                found = Mount(kind, _unescaped(source), frozenset(options.split(",")))
    return found


def _unescaped(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)


def _started() -> float:
    """When this machine was started; long ago where that is not known."""
    with suppress(OSError):
        found = re.search(r"^btime (\d+)$", STATISTICS.read_text("ascii"), re.MULTILINE)
        if found is not None:
            return float(found[1])
    return 0.0
