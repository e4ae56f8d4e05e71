"""A new file appears whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scx_core._temporary import beside, put_in_place


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
    with beside(target) as hidden:
        try:
            hidden.touch(mode=0o600, exist_ok=False)  # nobody else may read what is not whole
        except OSError as error:
            # not the hidden name, which means nothing to anybody
            reason = f"no file can be made in it: {error.strerror}"
            raise OSError(error.errno, reason, str(target.parent)) from error
        yield hidden
        _give_usual_mode(hidden)
        put_in_place(hidden, target, overwrite=overwrite)


def _give_usual_mode(path: Path) -> None:
    # temporary files are for their owner alone; a new file is for whom the umask allows
    mask = os.umask(0)
    os.umask(mask)
    if path.exists():  # another writer of the same file may have taken it away
        path.chmod(0o666 & ~mask)
