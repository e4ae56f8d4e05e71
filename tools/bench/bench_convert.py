"""Conversion of an uncompressed .h5ad to .scx: stored values a second, beside a copy of the file.

The source is in the page cache; the target is on the same disk and is synced by the converter. Not
measured: compressed sources, and sources that are not in the cache.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import h5py

from bench.harness import Limit, Result, alternate, timed
from bench.setup import Setup

VALUES_PER_SECOND = Limit("at least", 60e6)


def run(setup: Setup) -> Result:
    """Alternate the conversion with a plain copy, which does nothing but move the bytes."""
    import scx_core

    result = Result("convert")
    h5ad = setup.counts()
    with h5py.File(h5ad) as file:
        stored = int(file["X/data"].shape[0])
    scx = setup.folder / "convert.scx"
    copy = setup.folder / "convert.copy"
    comparison = alternate(
        lambda: timed(stored, lambda: scx_core.from_h5ad(h5ad, scx, overwrite=True)),
        lambda: timed(stored, lambda: _copy(h5ad, copy)),
        2 if setup.quick else 3,
    )
    limit = None if setup.quick else VALUES_PER_SECOND
    result.add("from_h5ad", [s.rate for s in comparison.ours], "values/s", limit)
    result.add("copy of the .h5ad", [s.rate for s in comparison.theirs], "values/s")
    result.add("from_h5ad / copy", comparison.ratios, "x")
    result.add("whole .scx", scx.stat().st_size / stored, "B/value")
    result.add("whole .h5ad", h5ad.stat().st_size / stored, "B/value")
    _check(h5ad, scx, stored, result)
    result.facts.update(h5ad=h5ad.name, stored_values=stored)
    scx.unlink()
    copy.unlink()
    return result


def _copy(source: Path, target: Path) -> None:
    target.unlink(missing_ok=True)  # or the kernel is asked to share the bytes instead
    with source.open("rb") as read, target.open("wb") as write:
        shutil.copyfileobj(read, write, 1 << 22)


def _check(h5ad: Path, scx: Path, stored: int, result: Result) -> None:
    """The first and the last rows of both files hold the same bytes."""
    import numpy as np

    import scx_core

    with scx_core.open(scx) as experiment, h5py.File(h5ad) as file:
        if experiment.nnz != stored:
            raise AssertionError(f"{experiment.nnz} values in the .scx, {stored} in the .h5ad")
        n = min(1000, experiment.n_obs)
        indptr = file["X/indptr"][:]
        for first in (0, experiment.n_obs - n):
            counts = experiment.gather_rows(np.arange(first, first + n))
            part = slice(indptr[first], indptr[first + n])
            np.testing.assert_array_equal(counts.indptr, indptr[first : first + n + 1] - part.start)
            np.testing.assert_array_equal(counts.indices, file["X/indices"][part])
            np.testing.assert_array_equal(counts.data, file["X/data"][part])
    result.checks.append(f"the first and last {n:,} rows of the .scx equal the .h5ad's")
