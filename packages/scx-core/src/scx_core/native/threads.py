"""How many threads decode where a call leaves it open."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_threads: ContextVar[int] = ContextVar("threads that decode", default=0)


@contextmanager
def decoding_threads(threads: int) -> Iterator[None]:
    """Let calls in the block, in this thread, decode with `threads` where they leave it open."""
    token = _threads.set(threads)
    try:
        yield
    finally:
        _threads.reset(token)


def checked_threads(threads: int) -> int:
    """What `threads` stands for: itself, or what was set around the call; 0 for all there are.

    Raises ValueError where it is negative.
    """
    if threads < 0:
        raise ValueError(f"threads={threads} must not be negative; 0 takes all of the machine")
    return threads or _threads.get()
