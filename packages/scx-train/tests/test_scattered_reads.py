"""Rows from anywhere in a file that is not in the page cache: what is read of it, and values."""

from __future__ import annotations

import ctypes
import itertools
import mmap
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import scipy.sparse as sp

import scx_core
from scx_core import _memory
from scx_core._section_names import SectionType
from scx_core.native.container import FileReader
from scx_core.native.matrix import Matrix
from scx_train import IndexPlanDataset, SparseCellSetDataset, TrainingDataset

N_CELLS, N_GENES, PER_CELL = 12_000, 4_000, 700
PAGE = mmap.PAGESIZE
# A row is on two pages or three, its table entry on one. Twice as much allows for what lies between
# pages that are read together.
PAGES_PER_ROW = 8
RAW: dict[str, Any] = {"normalize": False, "log1p": False}

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="rows are asked for on their own on Linux alone"
)


@pytest.fixture(scope="module")
def counts() -> sp.csr_matrix:
    rng = np.random.default_rng(11)
    gaps = rng.integers(1, N_GENES // PER_CELL, size=(N_CELLS, PER_CELL), dtype=np.int32)
    columns = np.cumsum(gaps, axis=1, dtype=np.int32) - 1
    values = rng.integers(1, 60_000, size=columns.size).astype(np.float32)
    indptr = np.arange(0, columns.size + 1, PER_CELL)
    return sp.csr_matrix((values, columns.ravel(), indptr), shape=(N_CELLS, N_GENES))


@pytest.fixture(scope="module")
def path(counts: sp.csr_matrix, tmp_path_factory: pytest.TempPathFactory) -> Path:
    import anndata

    target = tmp_path_factory.mktemp("scattered") / "cells.scx"
    scx_core.from_anndata(anndata.AnnData(counts), target, shard_size=3_000)
    if resident_bytes(target, drop_first=True) > 16 * PAGE:
        pytest.skip("the file system keeps files in memory")
    return target


def resident_bytes(path: Path, *, drop_first: bool = False) -> int:
    """How much of a file is in the page cache."""
    with path.open("rb") as file:
        if drop_first:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        view = mmap.mmap(
            file.fileno(), 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE
        )
    with view:
        states = (ctypes.c_ubyte * -(-len(view) // PAGE))()
        start = ctypes.c_char.from_buffer(view)
        libc = ctypes.CDLL(None, use_errno=True)
        failed = libc.mincore(
            ctypes.c_void_p(ctypes.addressof(start)), ctypes.c_size_t(len(view)), states
        )
        del start
    assert not failed
    return int((np.frombuffer(states, np.uint8) & 1).sum()) * PAGE


def scattered(n_rows: int, seed: int = 5) -> npt.NDArray[np.int64]:
    return np.random.default_rng(seed).choice(N_CELLS, n_rows, replace=False)


def read_by(path: Path, open_file: Callable[[], Any], use: Callable[[Any], Any]) -> tuple[Any, int]:
    """What `use` makes of a file that was opened, and how many bytes were read for it."""
    resident_bytes(path, drop_first=True)
    opened = open_file()
    before = resident_bytes(path)
    result = use(opened)
    return result, resident_bytes(path) - before


def matrix_of(path: Path) -> Matrix:
    return Matrix(FileReader(path), section_type=int(SectionType.CSR_SHARD), name="X")


@pytest.mark.parametrize("n_rows", [40, 300])
@pytest.mark.parametrize("dense", [True, False])
def test_gathering_reads_little_more_than_the_rows(
    path: Path, counts: sp.csr_matrix, n_rows: int, dense: bool
) -> None:
    rows = scattered(n_rows)

    def gather(matrix: Matrix) -> npt.NDArray[Any]:
        if dense:
            return matrix.gather_dense(rows, threads=2)
        indptr, indices, values = matrix.gather_csr(rows, threads=2)
        return sp.csr_matrix((values, indices, indptr), shape=(n_rows, N_GENES)).toarray()

    values, n_bytes = read_by(path, lambda: matrix_of(path), gather)
    np.testing.assert_array_equal(values, counts[rows].toarray())
    assert 0 < n_bytes < n_rows * PAGES_PER_ROW * PAGE


@pytest.mark.parametrize("lookahead", [0, 4])
def test_pairs_read_little_more_than_their_rows(
    path: Path, counts: sp.csr_matrix, lookahead: int
) -> None:
    plans = scattered(3 * 2 * 60).reshape(3, 60, 2)

    def batches(dataset: IndexPlanDataset) -> list[Any]:
        with dataset:
            return list(dataset.iter_with_plans(plans, lookahead=lookahead))

    found, n_bytes = read_by(path, lambda: IndexPlanDataset(path, **RAW), batches)
    for plan, batch in zip(plans, found, strict=True):
        first, second = np.array(batch["pairs"]).T
        np.testing.assert_array_equal(np.sort(first), np.sort(plan[:, 0]))
        np.testing.assert_array_equal(batch["X"], counts[first].toarray())
        np.testing.assert_array_equal(batch["X_paired"], counts[second].toarray())
    assert 0 < n_bytes < plans.size * PAGES_PER_ROW * PAGE


@pytest.mark.parametrize("reader_limit", [None, 1])
def test_cell_sets_read_little_more_than_their_rows(
    path: Path, counts: sp.csr_matrix, reader_limit: int | None
) -> None:
    all_rows = scattered(3 * 120).reshape(3, 120)
    # twice the same file: one that is open decodes ahead, two of which one may be do not
    files = np.arange(120) % 2
    plans = [(files, rows, 0 * files, np.array([0, 50, 120])) for rows in all_rows]

    def batches(dataset: SparseCellSetDataset) -> list[Any]:
        with dataset:
            return list(dataset.iter_with_plans(plans))

    found, n_bytes = read_by(
        path, lambda: SparseCellSetDataset([path, path], reader_limit=reader_limit), batches
    )
    for rows, batch in zip(all_rows, found, strict=True):
        expected = counts[rows]
        np.testing.assert_array_equal(batch["indptr"], expected.indptr)
        np.testing.assert_array_equal(batch["indices"], expected.indices)
        np.testing.assert_array_equal(batch["data"], expected.data)
    assert 0 < n_bytes < all_rows.size * PAGES_PER_ROW * PAGE


@pytest.mark.parametrize("layout", ["dense", "csr"])
@pytest.mark.parametrize("order", ["draws", "chosen", "mixed"])
def test_epochs_that_memory_has_no_room_for_read_little_more_than_their_rows(
    path: Path,
    counts: sp.csr_matrix,
    order: str,
    layout: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    options: dict[str, Any] = {"batch_size": 50, "prefetch_batches": 2, "layout": layout, **RAW}
    if order == "chosen":
        options["rows"] = np.sort(scattered(120))  # too few of each shard to read it as a whole
    else:
        monkeypatch.setattr(_memory, "MACHINE", path.parent / "meminfo")
        (path.parent / "meminfo").write_text("MemFree: 1 kB\nMemAvailable:  20000 kB\n")
    if order == "draws":
        options["weights"] = np.ones(N_CELLS)
    n_batches = 2

    def batches(dataset: TrainingDataset) -> list[Any]:
        with dataset:
            return list(itertools.islice(dataset, n_batches))

    found, n_bytes = read_by(path, lambda: TrainingDataset(path, **options), batches)
    assert len(found) == n_batches
    for batch in found:
        values = batch["X"] if layout == "dense" else batch["X"].toarray()
        np.testing.assert_array_equal(values, counts[batch["cell_indices"]].toarray())
    n_rows = (n_batches + 2) * 50  # two batches more are made ahead
    assert 0 < n_bytes < n_rows * PAGES_PER_ROW * PAGE


def test_epochs_that_fit_memory_read_their_groups_as_a_whole(path: Path) -> None:
    def batches(dataset: TrainingDataset) -> list[Any]:
        with dataset:
            return list(itertools.islice(dataset, 1))

    _, n_bytes = read_by(
        path, lambda: TrainingDataset(path, batch_size=50, shard_group_size=2, **RAW), batches
    )
    assert n_bytes > path.stat().st_size / 3
