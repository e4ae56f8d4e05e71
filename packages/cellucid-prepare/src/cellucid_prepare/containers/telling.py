"""Errors of writing name the output.

The input is read while the output is written. A full disk must not look like damage of the input,
and what HDF5 and zipfile raise knows no path, or that of the staged file.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from cellucid_prepare.containers.base import Container

# no reading fails with these
OF_WRITING = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS})


@contextmanager
def writing_to(path: Path | None, *, every: bool = False) -> Iterator[None]:
    """Turn the system's errors in the block into an OSError that names `path`, if there is one.

    Those alone that only writing has, if not `every` one. Temporary files count: they lie beside
    the output.
    """
    try:
        yield
    except (OSError, RuntimeError) as error:
        if path is None or isinstance(error, _WritingError):
            raise
        code = _error_number(error)
        if code not in OF_WRITING and not (every and code is not None):
            raise
        reason = f"cannot be written: {os.strerror(code)}"
        raise _WritingError(code, reason, str(path)) from error


class _WritingError(OSError):
    """Names the output already."""


def _error_number(error: BaseException) -> int | None:
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno
    # HDF5 has it in its text alone
    found = re.search(r"\berrno = (\d+)", str(error))
    return None if found is None else int(found[1])


def told(container: Container, path: Path) -> Container:
    """`container`, whose errors name `path`."""
    return cast(Container, _Told(container, path))


class _Told:
    def __init__(self, container: Container, path: Path) -> None:
        self._container = container
        self._path = path

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._container, name)
        if not callable(method):
            return method

        def call(*arguments: Any, **options: Any) -> Any:
            with writing_to(self._path, every=True):
                return method(*arguments, **options)

        # found without this method from the second time on
        self.__dict__[name] = call
        return call
