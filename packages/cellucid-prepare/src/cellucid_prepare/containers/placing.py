"""An output appears whole or not at all: it is made beside its place and then moved there.

The staged output is called `.{name}.{process}.partial`; an output that it replaces is moved aside
as `.{name}.{process}.previous` and removed when the new one is in place.
"""

from __future__ import annotations

import glob
import os
import re
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

# the outputs that this process writes at the moment; what is staged has the process's number alone
_written: set[Path] = set()
_lock = threading.Lock()
_APPEARED = "{target} has appeared meanwhile: pass force=True to replace it"


@contextmanager
def staged(target: Path, *, force: bool) -> Iterator[Path]:
    """Give a path beside `target` to write to; it becomes `target` if the block succeeds.

    Missing folders above `target` are made. Whatever fails in the block removes what was staged,
    and such folders; what was at `target` stays. What killed processes left is cleared first.

    Raises
    ------
    FileExistsError
        Something is at `target`, or has come there while the block ran, and `force` is False.
    RuntimeError
        Another call in this process writes to `target`.
    """
    with _lock:
        if target in _written:
            raise RuntimeError(f"another call in this process is writing {target}: wait for it")
        _written.add(target)
    try:
        with _staged(target, force=force) as hidden:
            yield hidden
    finally:
        with _lock:
            _written.discard(target)


@contextmanager
def _staged(target: Path, *, force: bool) -> Iterator[Path]:
    made = _make_folders(target.parent)
    clear_left_overs(target)
    hidden = target.parent / f".{target.name}.{os.getpid()}.partial"
    remove(hidden)
    try:
        if not force and os.path.lexists(target):
            raise FileExistsError(_APPEARED.format(target=target))
        yield hidden
        _sync(hidden)
        if force:
            _move_into_place(hidden, target)
        else:
            _move_if_free(hidden, target)
    except BaseException:
        try:
            _remove_whatever_comes(hidden)
        finally:
            for folder in reversed(made):
                with suppress(OSError):
                    folder.rmdir()
        raise


def clear_left_overs(target: Path) -> None:
    """Remove what killed processes staged for `target`; bring back what they had moved aside."""
    for path, kind in _left_overs(target):
        if kind == "previous" and not os.path.lexists(target):
            os.replace(path, target)
        else:
            remove(path)


def moved_aside(target: Path) -> Path | None:
    """The output that a killed process had moved aside, where nothing has come in its place."""
    if os.path.lexists(target):
        return None
    return next((path for path, kind in _left_overs(target) if kind == "previous"), None)


def _left_overs(target: Path) -> Iterator[tuple[Path, str]]:
    """What killed processes left beside `target`, and whether it is "partial" or "previous"."""
    start = f".{target.name}."
    for path in sorted(target.parent.glob(f"{glob.escape(start)}*")):
        match = re.fullmatch(r"(\d+)\.(partial|previous)", path.name[len(start) :])
        if match is not None and not _is_running(int(match[1])):
            yield path, match[2]


def remove(path: Path) -> None:
    """Remove a file or folder that may be there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink(missing_ok=True)


def _remove_whatever_comes(path: Path) -> None:
    """Remove it although Ctrl-C comes meanwhile, which is raised then."""
    try:
        remove(path)
    except BaseException:
        remove(path)
        raise


def _move_if_free(hidden: Path, target: Path) -> None:
    appeared = _APPEARED.format(target=target)
    if os.path.lexists(target):
        raise FileExistsError(appeared)
    if hidden.is_dir():
        os.rename(hidden, target)  # fails where a folder with content has come in between
        return
    try:
        os.link(hidden, target)
    except FileExistsError:
        raise FileExistsError(appeared) from None
    except OSError:  # not every file system has second names for a file
        os.replace(hidden, target)
    else:
        hidden.unlink()


def _move_into_place(hidden: Path, target: Path) -> None:
    if not target.is_dir():
        os.replace(hidden, target)  # an old file is replaced in the same step
        return
    aside = target.parent / f".{target.name}.{os.getpid()}.previous"
    remove(aside)
    os.replace(target, aside)
    try:
        os.replace(hidden, target)
    except BaseException:
        os.replace(aside, target)
        raise
    _remove_whatever_comes(aside)  # the output is in place


def _make_folders(folder: Path) -> list[Path]:
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    missing.reverse()
    for path in missing:
        path.mkdir(exist_ok=True)
    return missing


def _is_running(process: int) -> bool:
    if process == os.getpid():
        return False  # what an earlier call of this process could not remove
    if os.name == "nt":
        return False  # there what is open cannot be removed
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _sync(path: Path) -> None:
    if path.is_file():
        with path.open("rb+") as file:
            os.fsync(file.fileno())
