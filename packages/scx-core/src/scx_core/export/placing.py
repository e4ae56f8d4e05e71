"""A new file appears whole or not at all.

The hidden file lies beside the target and is called `.{target}.` and what `TemporaryNames` adds; of
a long target only the start is used.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from scx_core._temporary import TemporaryNames, name_start

SUFFIX = ".tmp"


@contextmanager
def placed_file(path: Path, *, overwrite: bool) -> Iterator[Path]:
    """Give a hidden path beside `path` to write to; it gets the name `path` if the block succeeds.

    Whatever fails in the block, an interrupt included, removes the hidden file and leaves what was
    at `path`. What killed processes left of earlier files for the same `path` is removed first. A
    link stays one: what it points to is replaced.

    Raises
    ------
    FileExistsError
        `path` exists and `overwrite` is False, or appeared while the block ran.
    IsADirectoryError, ValueError
        `path` is a folder, or something else that is no file, such as a device.
    FileNotFoundError
        The folder is missing.
    """
    if not overwrite and os.path.lexists(path):
        raise FileExistsError(f"{path} exists: pass overwrite=True to replace it")
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder")
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} is no regular file, and will not be replaced by one")
    target = Path(os.path.realpath(path)) if path.is_symlink() else path
    if not target.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {target.parent} to write to")
    names = TemporaryNames(target.parent, f".{name_start(target.name)}.", (SUFFIX,))
    names.clear_left()
    with names.writer() as stem:
        hidden = stem.with_name(f"{stem.name}{SUFFIX}")
        hidden.touch(mode=0o600, exist_ok=False)  # nobody else may read what is not whole
        yield hidden
        _give_usual_mode(hidden)
        _sync(hidden)
        if overwrite:
            os.replace(hidden, target)
        else:
            _place_if_free(hidden, target)
        _sync_folder(target.parent)


def _place_if_free(hidden: Path, target: Path) -> None:
    """Give `hidden` the name `target` unless something has got it meanwhile."""
    taken = f"{target} has appeared meanwhile: pass overwrite=True to replace it"
    try:
        os.link(hidden, target)
    except FileExistsError:
        raise FileExistsError(taken) from None
    except OSError:  # not every file system has second names for a file
        if os.path.lexists(target):
            raise FileExistsError(taken) from None
        os.replace(hidden, target)
    else:
        hidden.unlink()


def _give_usual_mode(path: Path) -> None:
    # temporary files are for their owner alone; a new file is for whom the umask allows
    mask = os.umask(0)
    os.umask(mask)
    path.chmod(0o666 & ~mask)


def _sync(path: Path) -> None:
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    """Bring the new name to the medium, where folders can be opened."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):
            os.fsync(handle)
    finally:
        os.close(handle)
