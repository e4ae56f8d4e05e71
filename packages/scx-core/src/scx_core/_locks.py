"""Files that tell other processes that one is at work.

A lock is the system's: it ends with its process, however that ended, and it is seen by other
machines where the file system tells them. Where there are no locks, nothing is kept out.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import Enum, auto
from pathlib import Path
from typing import IO

LOCK_SUFFIX = ".lock"


class Lock(Enum):
    """What came of asking for a lock."""

    HELD = auto()
    TAKEN_BY_ANOTHER = auto()
    UNAVAILABLE = auto()


class Locked:
    """A file that is there and locked, as long as it is not given back."""

    def __init__(self, file: IO[str], path: Path) -> None:
        self._file = file
        self._path = path
        self._process = os.getpid()

    def give_back(self) -> None:
        """Unlock the file and remove it; in a process that was forked since, only close it."""
        if os.getpid() != self._process:
            self._file.close()  # the lock stays: it is that of both
            return
        if os.name != "nt":
            self._path.unlink(missing_ok=True)  # before anybody else can lock it
        self._file.close()
        if os.name == "nt":
            with suppress(OSError):  # somebody is just looking at it
                self._path.unlink(missing_ok=True)


def take_lock(path: Path) -> tuple[Lock, Locked | None]:
    """Make a file, where it is missing, and lock it.

    A file that cannot be locked is not left there: it would seem to be of a process that has ended.
    """
    while True:
        file = path.open("a")
        try:
            answer = ask_for_lock(file)
            if answer is Lock.HELD and is_at(file, path):
                return answer, Locked(file, path)
            if answer is Lock.UNAVAILABLE:
                path.unlink(missing_ok=True)
        except BaseException:
            file.close()
            raise
        file.close()
        if answer is not Lock.HELD:
            return answer, None
        # who held the lock has removed the file, and another one may be there


@contextmanager
def held_lock(path: Path) -> Iterator[Lock]:
    """Hold the lock of a file that is made for it and removed at the end."""
    answer, locked = take_lock(path)
    try:
        yield answer
    finally:
        if locked is not None:
            locked.give_back()


def ask_for_lock(file: IO[str]) -> Lock:
    """Lock an open file that may be written to, unless another one has locked it."""
    if sys.platform == "win32":
        import msvcrt

        file.seek(0)
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return Lock.TAKEN_BY_ANOTHER
        return Lock.HELD
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return Lock.TAKEN_BY_ANOTHER
    except OSError:
        return Lock.UNAVAILABLE
    return Lock.HELD


def is_at(file: IO[str], path: Path) -> bool:
    """Whether an open file is still the one of that name."""
    try:
        there = os.stat(path)
    except FileNotFoundError:
        return False
    return os.path.samestat(os.fstat(file.fileno()), there)
