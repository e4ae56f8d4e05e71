"""Files that are there as a whole or not at all, and the hashes of their bytes."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from scx_core._locks import LOCK_SUFFIX
from scx_core._temporary import PARTIAL, beside, put_in_place, remove
from scx_core.native.threads import usable_cpus

CACHE_SUFFIX = ".cache"
HASHED_BYTES = 2**20
HASHED_IN_THREADS_BYTES = 2**23

Item = TypeVar("Item")
Result = TypeVar("Result")


class Stopped(Exception):
    """Nobody waits for the result any more."""


@contextmanager
def whole_file(target: Path) -> Iterator[Path]:
    """A path to write to, which becomes `target` when the block ends well, and else is removed."""
    try:
        with beside(target) as partial:
            yield partial
            put_in_place(partial, target, overwrite=True)
    except BaseException as error:
        raise naming(target, error) from None


def clear_temporary(folder: Path) -> None:
    """Remove what writers that were killed have left in a folder that only this job writes to."""
    for name in os.listdir(folder) if folder.is_dir() else ():
        if name.startswith(".") and name.endswith((PARTIAL, CACHE_SUFFIX)):
            remove(folder / name)


def is_temporary(name: str) -> bool:
    """Whether it is the name of something that comes and goes."""
    return name.startswith(".") and name.endswith((PARTIAL, CACHE_SUFFIX, LOCK_SUFFIX))


def write_text(target: Path, text: str) -> None:
    """Write a text in UTF-8."""
    with whole_file(target) as path:
        path.write_text(text, "utf-8")


def sha256_of(path: Path, stop: threading.Event | None = None) -> str:
    """The hash of a file's bytes, hexadecimal; `Stopped` once `stop` is set."""
    return _hash_of(path, hashlib.sha256(), HASHED_BYTES, stop)


def blake3_of(path: Path, stop: threading.Event | None = None, *, threads: int = 1) -> str:
    """The same with BLAKE3, which is faster, and of which several threads take parts of a file."""
    from blake3 import blake3

    return _hash_of(path, blake3(max_threads=threads), HASHED_IN_THREADS_BYTES, stop)


def _hash_of(path: Path, digest: Any, piece_bytes: int, stop: threading.Event | None) -> str:
    piece = memoryview(bytearray(piece_bytes))
    with path.open("rb", buffering=0) as file:
        while n_bytes := file.readinto(piece):
            digest.update(piece[:n_bytes])
            if stop is not None and stop.is_set():
                raise Stopped
    return str(digest.hexdigest())


def each_in_threads(
    function: Callable[[Item, threading.Event], Result], items: Sequence[Item]
) -> Generator[Result, None, None]:
    """What the function gives for each item, in their order, from as many threads as there are
    CPUs. When the generator ends before all are done, or is interrupted, it sets the event."""
    stop = threading.Event()
    n_threads = max(1, min(len(items), usable_cpus()))
    pool = ThreadPoolExecutor(n_threads, thread_name_prefix="scx-tokenize")
    try:
        yield from pool.map(function, items, [stop] * len(items))
    finally:
        stop.set()
        pool.shutdown(wait=True, cancel_futures=True)


def naming(path: Path, error: BaseException) -> BaseException:
    """The error, with the file in it where the system told none: no space left, of which disk?"""
    if not isinstance(error, OSError) or error.errno is None or error.filename is not None:
        return error
    return OSError(error.errno, os.strerror(error.errno), str(path))
