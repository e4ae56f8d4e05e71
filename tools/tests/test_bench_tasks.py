"""The tasks of the benchmark: what they count, and that a dropped file has really gone."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import realistic_counts
import scx_core
from bench import bench_growth, bench_sampling, bench_tasks, cold


@pytest.fixture(scope="module")
def counts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tasks")
    realistic_counts.write_counts(folder / "counts.h5ad", 1500, 300, 500.0, 0)
    scx_core.from_h5ad(folder / "counts.h5ad", folder / "counts.scx")
    return folder / "counts.scx"


def test_an_epoch_counts_every_cell_and_stops_where_it_is_told(counts: Path) -> None:
    panel = np.arange(0, 300, 7)
    assert bench_tasks.epoch(counts, hvg_indices=panel).work == 1500
    assert bench_tasks.epoch(counts, layout="csr", cells_max=1).work == 1024


def test_every_kind_of_epoch_counts_the_cells_that_it_gives(counts: Path) -> None:
    works = {
        kind: bench_tasks.epoch(counts, layout="csr", **choice).work
        for kind, choice in bench_sampling.kinds_of(1500).items()
    }
    assert works == {"a random half": 750, "weights": 1500, "balance_by": 1500, "batch_by": 1500}


def test_filling_stands_for_whole_batches() -> None:
    filling = bench_tasks._Filling(2500, 40)
    assert filling.run().work == 2048
    assert all((buffer == 1).all() for buffer in filling._buffers)


@pytest.mark.skipif(not hasattr(os, "posix_fadvise"), reason="the system drops no single files")
def test_a_dropped_file_is_the_same_and_out_of_the_cache(counts: Path) -> None:
    before = counts.read_bytes()
    assert cold.drop(counts) < 0.01
    assert counts.read_bytes() == before


def test_cells_are_repeated_in_their_order(counts: Path, tmp_path: Path) -> None:
    bench_growth.repeat_cells(counts, tmp_path / "more.scx", 3)
    with scx_core.open(counts) as one, scx_core.open(tmp_path / "more.scx") as more:
        assert more.n_obs == 3 * one.n_obs
        expected = one.X[:].toarray()
        np.testing.assert_array_equal(more.X[:].toarray(), np.tile(expected, (3, 1)))
        types = one.obs["cell_type"].astype(str).tolist()
        assert more.obs["cell_type"].astype(str).tolist() == 3 * types
