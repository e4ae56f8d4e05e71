"""How many threads decode where a call leaves it open."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

THREADS_MAX = 64  # SCX_PIPELINE_THREADS_MAX

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


def usable_cpus() -> int:
    """How many CPUs the process may use, as far as the library takes them for decode threads."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return min(count or 1, THREADS_MAX)
