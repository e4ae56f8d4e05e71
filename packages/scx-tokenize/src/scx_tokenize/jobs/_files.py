"""Files that are there as a whole or not at all."""

from __future__ import annotations

import hashlib
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PARTIAL_SUFFIX = ".tmp"


@contextmanager
def whole_file(target: Path) -> Iterator[Path]:
    """A path to write to, which becomes `target` when the block ends well, and else is removed."""
    partial = target.with_name(f".{target.name}.{uuid.uuid4().hex}{PARTIAL_SUFFIX}")
    try:
        yield partial
        with partial.open("rb") as file:
            os.fsync(file.fileno())
        partial.replace(target)
    except BaseException as error:
        partial.unlink(missing_ok=True)
        raise naming(target, error) from None


def write_text(target: Path, text: str) -> None:
    """Write a text in UTF-8."""
    with whole_file(target) as path:
        path.write_text(text, "utf-8")


def sha256_of(path: Path) -> str:
    """The hash of a file's bytes, hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def naming(path: Path, error: BaseException) -> BaseException:
    """The error, with the file in it where the system told none: no space left, of which disk?"""
    if not isinstance(error, OSError) or error.errno is None or error.filename is not None:
        return error
    return OSError(error.errno, os.strerror(error.errno), str(path))
