"""Epochs from a cold page cache, beside a plain read of the same file from front to back."""

from __future__ import annotations

import ctypes
import mmap
import os
import statistics
import time
from pathlib import Path

import numpy as np

from bench import data
from bench.harness import Limit, Result, Run, Sample, alternate, repeat
from bench.others import Undisturbed

READ_BYTES = 1 << 22
STAYED_MAX = 0.01


def compare(
    name: str,
    path: Path,
    run: Run,
    n_pairs: int,
    limit: Limit | None,
    result: Result,
    *,
    quiet: Undisturbed,
) -> None:
    """Add the bytes of the file a second that `run` takes of it, cold and warm, and a read does.

    `run` says itself how long it took: what it does before, such as a garbage collection of a
    process that has imported much, does not count.
    """
    if not hasattr(os, "posix_fadvise"):
        result.skipped[f"{name}, cold"] = "the system cannot drop one file from the page cache"
        return
    size = path.stat().st_size

    def cold(function: Run) -> Sample:
        left = drop(path)
        if left > STAYED_MAX:
            raise AssertionError(f"{left:.0%} of {path} stayed in the page cache")
        return of_file(function)

    def of_file(function: Run) -> Sample:
        return Sample(size, function().seconds)

    both = alternate(quiet(lambda: cold(run)), quiet(lambda: cold(lambda: _read(path))), n_pairs)
    warm = statistics.median(sample.rate for sample in repeat(quiet(lambda: of_file(run)), n_pairs))
    result.add(f"{name}, cold, file bytes", [sample.rate for sample in both.ours], "B/s")
    result.add(f"{name}, warm, file bytes", warm, "B/s")
    result.add(f"{name}, sequential read, cold", [sample.rate for sample in both.theirs], "B/s")
    shares = [a.rate / min(b.rate, warm) for a, b in zip(both.ours, both.theirs, strict=True)]
    result.add(f"{name}, cold / the lower of the two", shares, "x", limit)


def _read(path: Path) -> Sample:
    start = time.perf_counter()
    with path.open("rb", buffering=0) as file:
        while file.read(READ_BYTES):
            pass
    return Sample(path.stat().st_size, time.perf_counter() - start)


def read_again(path: Path) -> None:
    """Have the page cache hold a file as a read fills it, and not as its writer did.

    What comes from the disk lies in larger pages, and is faster to reach.
    """
    if hasattr(os, "posix_fadvise"):
        drop(path)
    data.warm(path)


def drop(path: Path) -> float:
    """Drop a file from the page cache; the share of its pages that stayed."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        with mmap.mmap(
            file.fileno(), 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE
        ) as view:
            pages = -(-len(view) // mmap.PAGESIZE)
            resident = (ctypes.c_ubyte * pages)()
            start = ctypes.c_char.from_buffer(view)
            libc = ctypes.CDLL(None, use_errno=True)
            address = ctypes.c_void_p(ctypes.addressof(start))
            failed = libc.mincore(address, ctypes.c_size_t(len(view)), resident)
            del start
            if failed:
                raise OSError(ctypes.get_errno(), "mincore")
    return float((np.frombuffer(bytes(resident), np.uint8) & 1).mean())
