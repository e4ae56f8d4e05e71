"""Warnings to the user, each once: what is built again from the same arguments stays quiet."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from scx_core._user_warnings import warn_user

_told: ContextVar[bool] = ContextVar("told", default=False)


def warn(message: str) -> None:
    """Warn with a UserWarning at the user's line, unless `told_before`."""
    if not _told.get():
        warn_user(message, UserWarning)


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
