"""Files with some of everything, and what AnnData makes of them without some cells."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import scx_core

N_OBS = 100


def sample(n_obs: int = N_OBS, n_vars: int = 30) -> anndata.AnnData:
    """An AnnData in which each part that has cells can be told apart by them."""
    rng = np.random.default_rng(0)
    counts = sp.csr_matrix(rng.poisson(0.5, size=(n_obs, n_vars)).astype(np.float32))
    adata = anndata.AnnData(counts)
    adata.obs_names = [f"cell {number}" for number in range(n_obs)]
    adata.obs["kind"] = pd.Categorical(rng.choice(["a", "b"], n_obs), categories=["b", "a", "c"])
    adata.obs["number"] = np.arange(n_obs)
    adata.obs["text"] = [f"t{number % 7}" for number in range(n_obs)]
    adata.layers["dense"] = rng.normal(size=(n_obs, n_vars))
    adata.layers["columns"] = sp.csc_matrix(counts)
    adata.obsm["pca"] = rng.normal(size=(n_obs, 3))
    adata.obsm["sparse"] = sp.csr_matrix(rng.poisson(0.5, size=(n_obs, 4)))
    adata.obsm["frame"] = pd.DataFrame({"x": rng.normal(size=n_obs)}, index=adata.obs_names)
    adata.varm["loadings"] = rng.normal(size=(n_vars, 2))
    graph = sp.random(n_obs, n_obs, 0.1, format="csr", random_state=1)
    graph.data[::5] = 0  # stored zeros stay
    adata.obsp["graph"] = graph
    adata.obsp["by_columns"] = sp.random(n_obs, n_obs, 0.1, format="csc", random_state=2)
    adata.obsp["dense"] = rng.normal(size=(n_obs, n_obs))
    adata.uns["note"] = {"a": 1}
    adata.raw = anndata.AnnData(sp.csr_matrix(rng.poisson(0.5, size=(n_obs, 40)).astype("f4")))
    return adata


@pytest.fixture
def adata() -> anndata.AnnData:
    return sample()


@pytest.fixture
def path(tmp_path: Path, adata: anndata.AnnData) -> Path:
    """The sample in shards of 16 rows."""
    target = tmp_path / "cells.scx"
    scx_core.from_anndata(adata, target, shard_size=16)
    return target


@pytest.fixture
def check() -> Callable[[Path], None]:
    """Looks for damage in depth, in a fresh view of the file."""

    def look(path: Path) -> None:
        with scx_core.open(path) as experiment:
            assert experiment.find_damage(deep=True) == []

    return look
