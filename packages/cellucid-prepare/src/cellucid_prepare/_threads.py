"""How many threads a call takes, for all that works in it: its own and those of libraries."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from typing import Any

THREADS_MAX = 64
_given: ContextVar[int | None] = ContextVar("threads of a call", default=None)


@contextmanager
def at_most(threads: int | None) -> Iterator[None]:
    """Let what works in the block take that many threads; None for one for each CPU.

    This goes for the decoding of .scx files, and for dask and zarr where they are loaded already.
    """
    from scx_core.native.threads import decoding_threads

    token = _given.set(threads)
    try:
        with ExitStack() as stack:
            if threads is not None:
                stack.enter_context(decoding_threads(thread_count()))
                if "dask" in sys.modules:
                    stack.enter_context(sys.modules["dask"].config.set(num_workers=threads))
                if "zarr" in sys.modules:
                    stack.enter_context(zarr_at_most(sys.modules["zarr"]))
            yield
    finally:
        _given.reset(token)


@contextmanager
def zarr_at_most(zarr: Any) -> Iterator[None]:
    """Let zarr decode as many chunks at once in the block as the call may take threads."""
    threads = _given.get()
    if threads is None or not hasattr(zarr, "config"):  # zarr 2 decodes where it is called
        yield
        return
    with zarr.config.set({"async.concurrency": threads}):
        yield


def thread_count() -> int:
    """How many threads the call around may take."""
    threads = _given.get()
    if threads is not None:
        return min(threads, THREADS_MAX)
    if hasattr(os, "sched_getaffinity"):
        return min(len(os.sched_getaffinity(0)), THREADS_MAX)
    return min(os.cpu_count() or 1, THREADS_MAX)
