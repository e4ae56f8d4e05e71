"""An output appears whole or not at all: it is made beside its place and then moved there."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from scx_core._temporary import PREVIOUS, beside, left_overs, put_in_place

# the outputs that this process writes at the moment
_written: set[Path] = set()
_lock = threading.Lock()


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
    made: list[Path] = []
    try:
        _make_folders(target.parent, made)
        with beside(target) as hidden:
            if not overwrite and os.path.lexists(target):
                raise FileExistsError(
                    f"{target} has appeared meanwhile: pass overwrite=True to replace it"
                )
            yield hidden
            put_in_place(hidden, target, overwrite=overwrite)
    except BaseException:
        _remove_empty(made)
        raise
    finally:
        with _lock:
            _written.discard(target)


def moved_aside(target: Path) -> Path | None:
    """The output that a killed process had moved aside, where nothing has come in its place."""
    aside = left_overs(target, PREVIOUS)
    return aside[0] if aside and not os.path.lexists(target) else None


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
