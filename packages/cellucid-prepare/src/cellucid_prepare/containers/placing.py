"""An output appears whole or not at all: it is made beside its place and then moved there.

The staged output is called `.{name}.`, what `TemporaryNames` adds, and `.partial`; an output that
it replaces is moved aside under the same name with `.previous`, and removed when the new one is in
place.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from scx_core._interrupts import uninterrupted
from scx_core._locks import Locked
from scx_core._temporary import ADDED_LETTERS, TemporaryNames, remove

PARTIAL, PREVIOUS = ".partial", ".previous"
# file systems have names of 255 bytes
NAME_BYTES_MAX = 255 - len("..") - ADDED_LETTERS - len(PREVIOUS)
# the outputs that this process writes at the moment
_written: set[Path] = set()
_lock = threading.Lock()
_APPEARED = "{target} has appeared meanwhile: pass overwrite=True to replace it"


@contextmanager
def staged(target: Path, *, overwrite: bool) -> Iterator[Path]:
    """Give a path beside `target` to write to; it becomes `target` if the block succeeds.

    Missing folders above `target` are made. Whatever fails in the block removes what was staged,
    and such folders; what was at `target` stays. What killed processes left is cleared first.

    Raises
    ------
    FileExistsError
        Something is at `target`, or has come there while the block ran, and `overwrite` is False.
    RuntimeError
        Another call in this process writes to `target`.
    """
    with _lock:
        if target in _written:
            raise RuntimeError(f"another call in this process is writing {target}: wait for it")
        _written.add(target)
    try:
        with _staged(target, overwrite=overwrite) as hidden:
            yield hidden
    finally:
        with _lock:
            _written.discard(target)


@contextmanager
def _staged(target: Path, *, overwrite: bool) -> Iterator[Path]:
    made: list[Path] = []
    try:
        _make_folders(target.parent, made)
        names = _staging(target, made)
        names.clear_left()
        with names.writer() as stem:
            if not overwrite and os.path.lexists(target):
                raise FileExistsError(_APPEARED.format(target=target))
            hidden = stem.with_name(f"{stem.name}{PARTIAL}")
            yield hidden
            _sync(hidden)
            if overwrite:
                _move_into_place(hidden, target, stem.with_name(f"{stem.name}{PREVIOUS}"))
            else:
                _move_if_free(hidden, target)
    except BaseException:
        uninterrupted(lambda: _remove_empty(made))
        raise


@dataclass(frozen=True)
class _Staging(TemporaryNames):
    """What is made beside `target` on the way to it."""

    target: Path
    made: Sequence[Path] = ()

    def remove(self, stem: Path) -> None:
        """Remove what was staged, and bring back what was moved aside and is not replaced yet."""
        previous = stem.with_name(f"{stem.name}{PREVIOUS}")
        if os.path.lexists(previous) and not os.path.lexists(self.target):
            remove(stem.with_name(f"{stem.name}{PARTIAL}"))
            with suppress(OSError):
                os.replace(previous, self.target)
            return
        super().remove(stem)

    def _end(self, process: int, stem: Path, locked: Locked | None) -> None:
        super()._end(process, stem, locked)
        if not os.path.lexists(self.target):
            _remove_empty(self.made)


def _staging(target: Path, made: Sequence[Path] = ()) -> _Staging:
    return _Staging(target.parent, f".{target.name}.", (PARTIAL, PREVIOUS), target, made)


def moved_aside(target: Path) -> Path | None:
    """The output that a killed process had moved aside, where nothing has come in its place."""
    if os.path.lexists(target):
        return None
    for stem in _staging(target).left():
        previous = stem.with_name(f"{stem.name}{PREVIOUS}")
        if os.path.lexists(previous):
            return previous
    return None


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


def _move_into_place(hidden: Path, target: Path, aside: Path) -> None:
    if not target.is_dir():
        os.replace(hidden, target)  # an old file is replaced in the same step
        return
    os.replace(target, aside)  # what ends in between brings it back, be it the next run
    os.replace(hidden, target)


def _make_folders(folder: Path, made: list[Path]) -> None:
    """Make what is missing, and note it."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(missing):
        made.append(path)
        path.mkdir(exist_ok=True)


def _remove_empty(made: Sequence[Path]) -> None:
    for folder in reversed(made):
        with suppress(OSError):
            folder.rmdir()


def _sync(path: Path) -> None:
    if path.is_file():
        with path.open("rb+") as file:
            os.fsync(file.fileno())
