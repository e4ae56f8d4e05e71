"""Files to stream from, and an order of epochs that shares no code with the package."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anndata
import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
import scipy.sparse as sp

from published_draws import shuffled, splitmix64, stream_of, words_of


def epoch_words(seed: int, tag: bytes, epoch: int) -> Iterator[int]:
    return words_of(stream_of(seed, int.from_bytes(tag, "big"), epoch))


def rows_of_epoch(
    n_obs: int,
    *,
    shard_size: int,
    group_size: int,
    seed: int,
    epoch: int,
    chosen: set[int] | None = None,
) -> list[int]:
    """All rows, or the chosen ones, in the order of one epoch."""
    contents = [
        [row for row in range(first, min(n_obs, first + shard_size)) if not chosen or row in chosen]
        for first in range(0, n_obs, shard_size)
    ]
    contents = [rows for rows in contents if rows]
    n_shards = len(contents)
    shards = shuffled(list(range(n_shards)), epoch_words(seed, b"SCXSHRD1", epoch))
    words = epoch_words(seed, b"SCXROW_2", epoch)
    order: list[int] = []
    for first in range(0, n_shards, group_size):
        group: list[int] = []
        for shard in shards[first : first + group_size]:
            group += contents[shard]
        order += shuffled(group, words)
    return order


@pytest.fixture(scope="session")
def expected_rows() -> Callable[..., list[int]]:
    return rows_of_epoch


@pytest.fixture(scope="session")
def random_words() -> Callable[[int], Iterator[int]]:
    return words_of


@pytest.fixture(scope="session")
def mix() -> Callable[[int], int]:
    return splitmix64


def random_counts(n_obs: int, n_vars: int, *, seed: int = 0) -> sp.csr_matrix:
    """Counts with a heavy tail, some empty rows among them."""
    rng = np.random.default_rng(seed)
    counts = rng.geometric(0.3, size=(n_obs, n_vars)) - 1
    counts[rng.random((n_obs, n_vars)) < 0.7] = 0
    large = rng.random((n_obs, n_vars)) < 0.002
    counts[large] = rng.integers(1, 100_000, size=int(large.sum()))
    counts[rng.random(n_obs) < 0.03] = 0
    return sp.csr_matrix(counts.astype(np.float32))


def poisson_counts(n_obs: int, n_vars: int, seed: int) -> npt.NDArray[np.float32]:
    return np.random.default_rng(seed).poisson(0.7, size=(n_obs, n_vars)).astype(np.float32)


def write_file(path: Path, adata: anndata.AnnData, *, shard_size: int) -> Path:
    import scx_core

    scx_core.from_anndata(adata, path, shard_size=shard_size)
    return path


@pytest.fixture
def make_file(tmp_path: Path) -> Callable[..., Path]:
    """Writes a file: `make_file(n_obs)` for one of counts, or `make_file(adata=...)`."""

    def make(
        n_obs: int = 101,
        n_vars: int = 30,
        *,
        shard_size: int = 10,
        name: str = "cells.scx",
        matrix: Any = None,
        obs: pd.DataFrame | None = None,
    ) -> Path:
        if matrix is None:
            matrix = random_counts(n_obs, n_vars)
        if obs is None:
            obs = pd.DataFrame({"number": np.arange(matrix.shape[0])})
        obs.index = obs.index.astype(str)
        adata = anndata.AnnData(X=matrix, obs=obs)
        return write_file(tmp_path / name, adata, shard_size=shard_size)

    return make


@pytest.fixture
def multimodal(tmp_path: Path) -> tuple[Any, Path]:
    """Two modalities that share 30 of 60 cells, in another order."""
    import mudata

    import scx_core

    rng = np.random.default_rng(7)
    rna = anndata.AnnData(sp.csr_matrix(poisson_counts(50, 30, 4)))
    rna.obs_names = [f"cell {number}" for number in range(50)]
    rna.var_names = [f"gene {number}" for number in range(30)]
    rna.layers["counts"] = sp.csr_matrix(poisson_counts(50, 30, 5))
    rna.obsm["X_pca"] = rng.normal(size=(50, 3))
    rna.obs["phase"] = pd.Categorical(rng.choice(["G1", "S"], size=50))
    # another order, cells that rna lacks, and not all of those that it has
    order = rng.permutation(np.arange(20, 60))
    adt = anndata.AnnData(sp.csr_matrix(poisson_counts(40, 8, 6)))
    adt.obs_names = [f"cell {number}" for number in order]
    adt.var_names = [f"protein {number}" for number in range(8)]
    adt.obs["depth"] = np.asarray(adt.X.sum(axis=1)).ravel()
    adt.obs["passed"] = rng.random(40) < 0.5
    adt.obs["note"] = [f"note {number % 3}" for number in range(40)]
    adt.obsm["umap"] = rng.normal(size=(40, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mdata = mudata.MuData({"rna": rna, "adt": adt})
        mdata.obs["donor"] = np.arange(mdata.n_obs)
        scx_core.from_mudata(mdata, tmp_path / "multi.scx", shard_size=10)
    return mdata, tmp_path / "multi.scx"


@pytest.fixture(scope="session")
def large_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of 200 MB, stored as it is."""
    import scx_core

    rng = np.random.default_rng(0)
    n_obs, n_vars, per_row = 16_672, 20_000, 2000
    indices = np.argsort(rng.random((16, n_vars)), axis=1)[:, :per_row].astype(np.int32)
    indices.sort(axis=1)
    matrix = sp.csr_matrix(
        (
            1 + rng.random(n_obs * per_row, dtype=np.float32),
            np.tile(indices, (n_obs // 16, 1)).ravel(),
            np.arange(n_obs + 1) * per_row,
        ),
        shape=(n_obs, n_vars),
    )
    path = tmp_path_factory.mktemp("large") / "large.scx"
    scx_core.from_anndata(anndata.AnnData(matrix), path, shard_size=500, codec="none")
    return path
