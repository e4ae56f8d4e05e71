"""Where temporary files of large inputs lie: beside the output, where there is room for it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

_folder: ContextVar[Path | None] = ContextVar("folder of temporary files", default=None)


@contextmanager
def temporary_files_beside(target: Path | None) -> Iterator[None]:
    """Let the temporary files of the block lie in the folder of `target`.

    Folders that are missing yet are made only when everything has been checked: until then it is
    the one above them, which lies on the same disk. None for the system's own folder.
    """
    folder = None if target is None else next(path for path in target.parents if path.is_dir())
    token = _folder.set(folder)
    try:
        yield
    finally:
        _folder.reset(token)


def temporary_folder() -> Path:
    """The folder for temporary files."""
    return _folder.get() or Path(tempfile.gettempdir())
