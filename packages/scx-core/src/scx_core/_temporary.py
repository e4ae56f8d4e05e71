"""Outputs appear whole or not at all: they are made beside their place, synced, and moved there.

What is made on the way to `{name}` is called `.{name}.{8 hex digits}` and a suffix; of a very long
name only the start is used. A writer that is killed leaves it behind, and the next writer of the
same output removes it. Of two writers at the same time the one that began last wins, and the other
one gets an error.

A folder cannot be replaced in one step: the old one is moved aside under such a name that ends in
`.previous`. Who finds it without the new one, because its writer was killed in between, brings it
back.
"""

from __future__ import annotations

import glob
import os
import re
import secrets
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

# names of 255 bytes are allowed nearly everywhere: this leaves room for what is added
NAME_START_BYTES_MAX = 160
PARTIAL, PREVIOUS = ".tmp", ".previous"


@contextmanager
def beside(target: Path, *, suffix: str = PARTIAL) -> Iterator[Path]:
    """Give a hidden path beside `target` to write a file or folder to.

    What killed writers of the same target left is removed first. What is still there at the end is
    removed, whatever happens, but not by a process that was forked in between.
    """
    bring_back(target)
    for left in left_overs(target, suffix):
        # in one step, so that a writer that is still at work misses all of it
        gone = _hidden(target, suffix)
        with suppress(OSError):
            os.replace(left, gone)
        remove(gone)
    hidden = _hidden(target, suffix)
    process = os.getpid()
    try:
        yield hidden
    finally:
        if os.getpid() == process:
            remove(hidden)


def put_in_place(hidden: Path, target: Path, *, overwrite: bool) -> None:
    """Bring a file or folder to the medium, and then under its name.

    Raises
    ------
    FileExistsError
        Something is at `target`, and `overwrite` is False.
    OSError
        It cannot be done; or another writer of the same target has begun meanwhile.
    """
    if not os.path.lexists(hidden):
        raise OSError(f"another process has begun to write {target} meanwhile: wait for it")
    sync(hidden)
    if not overwrite:
        _place_if_free(hidden, target)
    elif target.is_dir():
        _replace_folder(hidden, target)
    else:
        os.replace(hidden, target)
    _sync_folder(target.parent)


@contextmanager
def working_folder(target: Path) -> Iterator[Path]:
    """A hidden folder beside `target` that is removed at the end, with all that is in it."""
    with beside(target, suffix=".work") as folder:
        folder.mkdir()
        yield folder


def left_overs(target: Path, suffix: str) -> list[Path]:
    """What writers of `target` have made beside it and not taken away."""
    start = f".{_name_start(target.name)}."
    pattern = re.compile(rf"{re.escape(start)}[0-9a-f]{{8}}{re.escape(suffix)}")
    found = target.parent.glob(f"{glob.escape(start)}*{suffix}")
    return sorted(path for path in found if pattern.fullmatch(path.name))


def bring_back(target: Path) -> None:
    """Bring an old folder back whose writer was killed before the new one was in its place."""
    for aside in left_overs(target, PREVIOUS):
        if os.path.lexists(target):
            remove(aside)
        else:
            os.replace(aside, target)


def remove(path: Path) -> None:
    """Remove a file or folder that may be there, as far as it can be."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Bring a file, or all that is in a folder, to the medium."""
    if not path.is_dir():
        _sync_file(path)
        return
    for folder, _folders, files in os.walk(path, topdown=False):
        for name in files:
            _sync_file(Path(folder, name))
        _sync_folder(Path(folder))


def _sync_file(path: Path) -> None:
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    """Bring the names in a folder to the medium, where folders can be opened."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):
            os.fsync(handle)
    finally:
        os.close(handle)


def _place_if_free(hidden: Path, target: Path) -> None:
    taken = f"{target} has appeared meanwhile: pass overwrite=True to replace it"
    if os.path.lexists(target):
        raise FileExistsError(taken)
    if hidden.is_dir():
        os.rename(hidden, target)  # fails where a folder with content has come in between
        return
    try:
        os.link(hidden, target)
    except FileExistsError:
        raise FileExistsError(taken) from None
    except OSError:  # not every file system has second names for a file
        os.replace(hidden, target)
    else:
        hidden.unlink()


def _replace_folder(hidden: Path, target: Path) -> None:
    aside = _hidden(target, PREVIOUS)
    os.replace(target, aside)
    try:
        os.replace(hidden, target)
    except BaseException:
        bring_back(target)
        raise
    remove(aside)


def _hidden(target: Path, suffix: str) -> Path:
    return target.with_name(f".{_name_start(target.name)}.{secrets.token_hex(4)}{suffix}")


def _name_start(name: str) -> str:
    start = os.fsencode(name)[:NAME_START_BYTES_MAX]
    return start.decode(sys.getfilesystemencoding(), errors="ignore")
