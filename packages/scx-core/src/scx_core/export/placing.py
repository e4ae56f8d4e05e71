"""A new file appears whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def placed_file(path: Path, *, overwrite: bool) -> Iterator[Path]:
    """Give a hidden path beside `path` to write to; it gets the name `path` if the block succeeds.

    Whatever fails in the block, an interrupt included, removes the hidden file and leaves what was
    at `path`.

    Raises
    ------
    FileExistsError
        `path` exists and `overwrite` is False.
    FileNotFoundError
        The folder is missing.
    """
    if not overwrite and path.exists():
        raise FileExistsError(f"{path} exists: pass overwrite=True to replace it")
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.parent} to write to")
    prefix = f".{path.name[:100]}.{os.getpid()}."
    handle, name = tempfile.mkstemp(prefix=prefix, suffix=".tmp", dir=path.parent)
    os.close(handle)
    hidden = Path(name)
    try:
        yield hidden
        _give_usual_mode(hidden)
        _sync(hidden)
        os.replace(hidden, path)
    except BaseException:
        hidden.unlink(missing_ok=True)
        raise


def _give_usual_mode(path: Path) -> None:
    # temporary files are for their owner alone; a new file is for whom the umask allows
    mask = os.umask(0)
    os.umask(mask)
    path.chmod(0o666 & ~mask)


def _sync(path: Path) -> None:
    with path.open("rb+") as file:
        os.fsync(file.fileno())
