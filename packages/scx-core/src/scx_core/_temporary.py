"""Temporary outputs beside their place, of which every process knows whether a writer still lives.

What a writer makes is called `{start}{machine}{random}{suffix}`, with 8 hex digits for each of the
two. Beside it lies a file that ends in `.lock`, which its writer holds locked; it is made before
and removed after the others. What lies beside a file that can be locked is left over. What has no
such file beside it is never taken for left over, nor is what another machine made where the file
system does not pass locks on (see `_machine`).
"""

from __future__ import annotations

import atexit
import glob
import os
import re
import secrets
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ._interrupts import deferred_interrupts, uninterrupted
from ._locks import LOCK_SUFFIX, Lock, Locked, ask_for_lock, is_at, take_lock
from ._machine import OTHER_MACHINE, TAG_LETTERS, lock_tells, machine_tag

# what ends the writers of this process: Ctrl-C again and again may hinder a block to do it
_open: dict[Path, Callable[[], None]] = {}
# names of 255 bytes are allowed nearly everywhere: this leaves room for what is added
NAME_START_BYTES_MAX = 160
RANDOM_LETTERS = 8
ADDED_LETTERS = TAG_LETTERS + RANDOM_LETTERS


@dataclass(frozen=True)
class TemporaryNames:
    """What writers of one output make in `folder`: names that begin and end alike."""

    folder: Path
    start: str
    suffixes: tuple[str, ...]

    @contextmanager
    def writer(self) -> Iterator[Path]:
        """Give what all names of a new writer begin with, as a path.

        Paths of the suffixes behind it belong to this process. What is there at the end is removed,
        whatever happens, but not by a process that was forked in between.

        Raises
        ------
        OSError
            Nothing can be made in the folder, which the error names.
        """
        stem: Path | None = None
        try:
            with deferred_interrupts():
                stem, locked = self._new_writer()
                _open[stem] = partial(self._end, os.getpid(), stem, locked)
            yield stem
        finally:
            if stem is not None:
                uninterrupted(_open[stem])
                del _open[stem]

    def left(self) -> Iterator[Path]:
        """What names of writers that have ended begin with; no other process clears it meanwhile.

        The lock of one that has nothing left is removed.
        """
        escaped = glob.escape(self.start)
        for lock in sorted(self.folder.glob(f"{escaped}*{LOCK_SUFFIX}")):
            added = lock.name[len(self.start) : -len(LOCK_SUFFIX)]
            if not re.fullmatch(rf"[0-9a-f]{{{ADDED_LETTERS}}}", added):
                continue
            try:
                file = lock.open("r+")
                made = os.fstat(file.fileno()).st_mtime
            except OSError:
                continue  # of another user, or just gone
            locked = Locked(file, lock)
            try:
                known = lock_tells(self.folder, added[:TAG_LETTERS], made)
                if known and ask_for_lock(file) is Lock.HELD and is_at(file, lock):
                    stem = self.folder / f"{self.start}{added}"
                    yield stem
                    locked.give_back(remove=not self.paths(stem))
            finally:
                file.close()

    def clear_left(self) -> None:
        """Remove what writers that have ended left."""
        for stem in self.left():
            self.remove(stem)

    def paths(self, stem: Path) -> list[Path]:
        """What is there of a writer."""
        every = [stem.with_name(f"{stem.name}{suffix}") for suffix in self.suffixes]
        return [path for path in every if os.path.lexists(path)]

    def remove(self, stem: Path) -> None:
        """Remove what is there of a writer, and can be removed."""
        for path in self.paths(stem):
            remove(path)

    def _new_writer(self) -> tuple[Path, Locked | None]:
        while True:
            added = f"{machine_tag()}{secrets.token_hex(RANDOM_LETTERS // 2)}"
            stem = self.folder / f"{self.start}{added}"
            try:
                answer, locked = take_lock(stem.with_name(f"{stem.name}{LOCK_SUFFIX}"))
            except OSError as error:
                # not the hidden name, which means nothing to anybody
                reason = f"no file can be made in it: {error.strerror}"
                raise OSError(error.errno, reason, str(self.folder)) from error
            # another one that looks for what is left may have come between
            if answer is not Lock.TAKEN_BY_ANOTHER:
                return stem, locked

    def _end(self, process: int, stem: Path, locked: Locked | None) -> None:
        if os.getpid() != process:
            return
        self.remove(stem)
        if locked is not None:
            # what could not be removed is for the next one
            locked.give_back(remove=not self.paths(stem))


@atexit.register
def _end_all() -> None:
    for end in list(_open.values()):
        end()


@contextmanager
def working_folder(parent: Path, start: str) -> Iterator[Path]:
    """A hidden folder in `parent` that is removed at the end, with all that is in it.

    Those of the same start whose processes were killed are removed first.
    """
    names = TemporaryNames(parent, start, ("",))
    names.clear_left()
    with names.writer() as folder:
        folder.mkdir()
        yield folder


def name_start(name: str) -> str:
    """What temporary names use of a name: all of it, or the start of a very long one."""
    start = os.fsencode(name)[:NAME_START_BYTES_MAX]
    return start.decode(sys.getfilesystemencoding(), errors="ignore")


def clear_left_by_library(target: Path) -> None:
    """Remove what killed writers of `target` left that write by the native library.

    These lock the hidden file itself. The library clears what this machine left; this is for the
    other machines, where their locks are seen, and for the time before this one was started.
    """
    if os.name == "nt":
        return
    start = f".{name_start(target.name)}."
    for path in target.parent.glob(f"{glob.escape(start)}*.tmp"):
        if not re.fullmatch(r"\d+\.[0-9a-f]{16}\.tmp", path.name[len(start) :]):
            continue
        with suppress(OSError), path.open("r+") as file:
            changed = os.fstat(file.fileno()).st_mtime
            known = lock_tells(target.parent, OTHER_MACHINE, changed)
            if known and ask_for_lock(file) is Lock.HELD:
                path.unlink()


def remove(path: Path) -> None:
    """Remove a file or folder that may be there, as far as it can be."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink(missing_ok=True)
