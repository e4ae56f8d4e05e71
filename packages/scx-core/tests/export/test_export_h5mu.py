"""Export to .h5mu: what mudata reads from the file equals `to_mudata()`, and what was put in."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anndata
import h5py
import mudata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from anndata.tests.helpers import assert_equal

import scx_core
from hdf5_samples import counts
from mudata_samples import nothing_pulled


def quietly(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*arguments, **options)


def modality(cells: list[str], genes: list[str], seed: int) -> anndata.AnnData:
    matrix = counts(len(cells), len(genes), 0.6, seed)
    adata = anndata.AnnData(matrix, obs=pd.DataFrame(index=cells), var=pd.DataFrame(index=genes))
    adata.obs["depth"] = np.asarray(matrix.sum(1)).ravel()
    adata.obsm["X_pca"] = np.arange(2.0 * len(cells)).reshape(-1, 2)
    adata.layers["csc"] = sp.csc_matrix(matrix * 2)
    adata.layers["dense"] = (matrix * 3).toarray()
    adata.raw = anndata.AnnData(
        counts(len(cells), 5, 0.5, 9), var=pd.DataFrame(index=list("uvwxy"))
    )
    return adata


def sample(axis: int = 0) -> mudata.MuData:
    first = modality(["c", "a", "d", "b"], ["g1", "g2", "shared"], 1)
    second = modality(["b", "e", "a", "c"], ["p1", "p2"], 2)
    mdata = quietly(mudata.MuData, {"rna": first, "adt": second}, axis=axis)
    mdata.obs["batch"] = pd.Categorical((["x", "y"] * mdata.n_obs)[: mdata.n_obs])
    mdata.obsm["joint"] = np.arange(2.0 * mdata.n_obs).reshape(-1, 2)
    mdata.uns["study"] = {"id": 7}
    return mdata


def assert_same(ours: mudata.MuData, expected: mudata.MuData) -> None:
    assert list(ours.mod) == list(expected.mod)
    assert ours.axis == expected.axis
    for kind in ("obs", "var"):
        assert_equal(getattr(ours, kind), getattr(expected, kind), exact=True)
    for kind in ("obsm", "varm", "obsp", "varp", "obsmap", "varmap"):
        ours_part, expected_part = getattr(ours, kind), getattr(expected, kind)
        # HDF5 lists its groups by name
        assert sorted(ours_part) == sorted(expected_part)
        for key in ours_part:
            assert np.array_equal(np.asarray(ours_part[key]), np.asarray(expected_part[key]))
    assert_equal(dict(ours.uns), dict(expected.uns), exact=True)
    for name in ours.mod:
        assert_equal(ours[name], expected[name], exact=True)


@pytest.mark.parametrize("memory_budget", [1000, "2GiB"])
@pytest.mark.parametrize("compression", [None, "gzip"])
def test_everything_comes_back(tmp_path: Path, compression: Any, memory_budget: int | str) -> None:
    mdata = sample()
    scx_core.from_mudata(mdata, tmp_path / "a.scx", shard_size=2)
    with scx_core.open(tmp_path / "a.scx") as experiment:
        experiment.to_h5mu(
            tmp_path / "a.h5mu", compression=compression, memory_budget=memory_budget
        )
        expected = experiment.to_mudata()
    assert sorted(os.listdir(tmp_path)) == ["a.h5mu", "a.scx"]
    # mudata warns of files that do not begin as its own do, and warnings are errors here
    with nothing_pulled():
        read = mudata.read_h5mu(tmp_path / "a.h5mu")
    assert_same(read, expected)
    with h5py.File(tmp_path / "a.h5mu") as file:
        assert file["mod/rna/X/data"].compression == compression
    assert (tmp_path / "a.h5mu").read_bytes()[:6] == b"MuData"


def test_one_modality_as_an_h5ad(tmp_path: Path) -> None:
    scx_core.from_mudata(sample(), tmp_path / "a.scx", shard_size=2)
    with scx_core.open(tmp_path / "a.scx") as experiment:
        for name in ("rna", "adt"):
            out = tmp_path / f"{name}.h5ad"
            experiment.to_h5ad(out, modality=name, memory_budget=200)
            expected = experiment.to_anndata(modality=name)
            assert_equal(anndata.read_h5ad(out), expected, exact=True)
        with pytest.raises(ValueError, match=r"name one of \['rna', 'adt'\] with modality="):
            experiment.to_h5ad(tmp_path / "b.h5ad")
        with pytest.raises(KeyError, match="no modality 'atac'"):
            experiment.to_h5ad(tmp_path / "b.h5ad", modality="atac")
    assert not (tmp_path / "b.h5ad").exists()


def test_back_and_forth(tmp_path: Path) -> None:
    scx_core.from_mudata(sample(), tmp_path / "a.scx")
    with scx_core.open(tmp_path / "a.scx") as experiment:
        experiment.to_h5mu(tmp_path / "a.h5mu")
        expected = experiment.to_mudata()
    quietly(scx_core.from_h5mu, tmp_path / "a.h5mu", tmp_path / "b.scx")
    with scx_core.open(tmp_path / "b.scx") as experiment:
        for name in ("rna", "adt"):
            assert_equal(experiment.to_anndata(modality=name), expected[name], exact=True)
