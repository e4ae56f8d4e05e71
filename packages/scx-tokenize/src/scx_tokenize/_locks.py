"""Files that tell other processes that one is at work, and folders that go with their process.

A lock is the system's: it ends with its process, however that ended, and it is seen by other
machines where the file system tells them. Where there are none, nothing is kept out, and nothing is
taken for left over.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO

LOCK_SUFFIX = ".lock"


@contextmanager
def held_lock(path: Path) -> Iterator[bool]:
    """Hold the lock of a file that is made for it and removed at the end; gives False where
    another process holds it."""
    file = _locked(path)
    if file is None:
        yield False
        return
    with file:
        try:
            yield True
        finally:
            if os.name == "nt":
                file.close()  # there a file that is open cannot be removed
            path.unlink(missing_ok=True)


def _locked(path: Path) -> IO[str] | None:
    while True:
        file = path.open("a")
        try:
            if not _lock(file):
                file.close()
                return None
            if _is_at(file, path):
                return file
        except BaseException:
            file.close()
            raise
        file.close()  # who held the lock has removed the file, and another one may be there


def _is_at(file: IO[str], path: Path) -> bool:
    try:
        there = os.stat(path)
    except FileNotFoundError:
        return False
    return os.path.samestat(os.fstat(file.fileno()), there)


def _lock(file: IO[str]) -> bool:
    """False where another process holds it; True also where the file system has no locks."""
    try:
        import fcntl
    except ImportError:  # on Windows
        return True
    with suppress(OSError):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


@contextmanager
def working_folder(parent: Path, prefix: str) -> Iterator[Path]:
    """A hidden folder in `parent` that is removed at the end, with all that is in it.

    Folders of the same prefix whose processes were killed are removed first. Each has a locked file
    beside it, which is made before and removed after it.
    """
    _remove_left(parent, prefix)
    while True:
        folder = parent / f"{prefix}{uuid.uuid4().hex}"
        with _beside(folder) as held:
            if not held:
                continue  # who looks for what is left has come between
            try:
                folder.mkdir()
                yield folder
            finally:
                shutil.rmtree(folder, ignore_errors=True)
        return


@contextmanager
def _beside(folder: Path) -> Iterator[bool]:
    with ExitStack() as stack:
        try:
            held = stack.enter_context(held_lock(_lock_of(folder)))
        except OSError as error:
            # not the hidden name, which means nothing to anybody
            reason = f"no file can be made in it: {error.strerror}"
            raise OSError(error.errno, reason, str(folder.parent)) from error
        yield held


def _lock_of(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}{LOCK_SUFFIX}")


def _remove_left(parent: Path, prefix: str) -> None:
    for lock in parent.glob(f"{prefix}*{LOCK_SUFFIX}"):
        with suppress(OSError):
            _remove_if_left(lock)


def _remove_if_left(lock: Path) -> None:
    folder = lock.with_name(lock.name.removesuffix(LOCK_SUFFIX))
    if os.name == "nt":
        lock.unlink()  # an error while its process runs
        shutil.rmtree(folder, ignore_errors=True)
        return
    import fcntl

    with lock.open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # an error while its process runs
        if _is_at(file, lock):
            shutil.rmtree(folder, ignore_errors=True)
            lock.unlink()
