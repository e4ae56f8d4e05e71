"""Warnings to the user, each once: what is built again from the same arguments stays quiet."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_told: ContextVar[bool] = ContextVar("told", default=False)


def warn(message: str, *, stacklevel: int) -> None:
    """Warn with a UserWarning, `stacklevel` frames up from the caller, unless `told_before`."""
    if not _told.get():
        warnings.warn(message, UserWarning, stacklevel=stacklevel + 1)


def is_told() -> bool:
    """Whether `warn` does nothing."""
    return _told.get()


@contextmanager
def told_before() -> Iterator[None]:
    """In it nothing is warned about: the user has been told of these arguments."""
    token = _told.set(True)
    try:
        yield
    finally:
        _told.reset(token)
