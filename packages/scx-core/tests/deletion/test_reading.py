"""Everything that reads a file leaves its deleted rows out."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anndata
import numpy as np
import pytest
import scipy.sparse as sp
from anndata.tests.helpers import assert_equal

import scx_core
from scx_core._cli import main
from scx_core.experiment._to_mudata import no_columns_pulled

GONE = [0, 3, 16, 17, 31, 50, 51, 52, 99]


@pytest.fixture
def kept() -> np.ndarray[Any, Any]:
    return np.setdiff1d(np.arange(100), GONE)


@pytest.fixture
def marked(path: Path) -> Path:
    assert scx_core.mark_deleted(path, GONE) == len(GONE)
    return path


@pytest.fixture
def expected(adata: anndata.AnnData, kept: np.ndarray[Any, Any]) -> anndata.AnnData:
    """What anndata makes of the same choice of cells, with all categories."""
    part = adata[kept].copy()
    part.obs["kind"] = adata.obs["kind"].iloc[kept]
    return part


def same(one: anndata.AnnData, other: anndata.AnnData) -> None:
    assert_equal(one, other)
    assert list(one.obs["kind"].cat.categories) == list(other.obs["kind"].cat.categories)
    for kind in ("obsm", "obsp", "layers"):
        for key, value in getattr(other, kind).items():
            assert type(getattr(one, kind)[key]) is type(value), (kind, key)
    # stored zeros are values like any other
    for key in ("graph", "by_columns"):
        assert one.obsp[key].nnz == other.obsp[key].nnz
        assert one.obsp[key].indices.dtype == other.obsp[key].indices.dtype


def test_parts(marked: Path, expected: anndata.AnnData, kept: np.ndarray[Any, Any]) -> None:
    experiment = scx_core.open(marked)
    assert (experiment.n_obs, len(experiment), experiment.shape) == (91, 91, (91, 30))
    assert experiment.n_obs_physical == 100
    assert experiment.live_rows.tolist() == kept.tolist()
    assert experiment.deleted_rows.tolist() == GONE
    assert experiment.live_rows.dtype == experiment.deleted_rows.dtype == np.int64
    with pytest.raises(ValueError, match="read-only"):
        experiment.live_rows[0] = 1
    assert experiment.obs_names.tolist() == expected.obs_names.tolist()
    assert experiment.obs_column("number").tolist() == kept.tolist()
    kinds = experiment.obs_column("kind")
    assert isinstance(kinds, dict) and kinds["categories"] == ["b", "a", "c"]
    assert kinds["codes"].tolist() == expected.obs["kind"].cat.codes.tolist()
    assert experiment.obs_column("text").tolist() == expected.obs["text"].tolist()
    assert experiment.X is not None and experiment.raw is not None
    assert experiment.X.shape == (91, 30) and experiment.nnz == expected.X.nnz
    assert experiment.raw.shape == experiment.raw.X.shape == (91, 40)
    assert "without 9 deleted rows" in repr(experiment)


def test_rows_of_matrices_are_those_of_obs(marked: Path, expected: anndata.AnnData) -> None:
    experiment = scx_core.open(marked)
    assert experiment.X is not None and experiment.raw is not None
    chosen = np.flatnonzero(experiment.obs["kind"] == "a")
    for view, matrix in (
        (experiment.X, expected.X),
        (experiment.layers["columns"], sp.csr_matrix(expected.layers["columns"])),
        (experiment.raw.X, expected.raw.X),
    ):
        assert (view[chosen] != matrix[chosen]).nnz == 0
        assert (view[-1] != matrix[90]).nnz == 0
        assert (view[::-3, [4, 1]] != matrix[::-3][:, [4, 1]]).nnz == 0
        with pytest.raises(IndexError, match="cell 91 is out of range for 91 cells"):
            view[91]
        np.testing.assert_array_equal(np.asarray(view), matrix.toarray())
    assert (experiment.gather_rows([5]) != expected.X[5]).nnz == 0


def test_to_anndata_and_back(marked: Path, expected: anndata.AnnData) -> None:
    same(scx_core.read(marked), expected)
    experiment = scx_core.open(marked)
    for kind in ("obsm", "obsp"):
        for key, value in getattr(expected, kind).items():
            assert_equal(getattr(experiment, kind)[key], value)


def test_backed(marked: Path, expected: anndata.AnnData) -> None:
    pytest.importorskip("dask")
    lazy = scx_core.open(marked).to_anndata(backed=True)
    assert (lazy.X.compute() != expected.X).nnz == 0
    np.testing.assert_array_equal(lazy.layers["dense"].compute(), expected.layers["dense"])


def test_exports(marked: Path, expected: anndata.AnnData, tmp_path: Path) -> None:
    scx_core.open(marked).to_h5ad(tmp_path / "cells.h5ad", progress=False)
    back = anndata.read_h5ad(tmp_path / "cells.h5ad")
    same(back, expected)


def test_all_rows_when_asked_for(marked: Path, adata: anndata.AnnData) -> None:
    experiment = scx_core.open(marked, include_deleted=True)
    assert (experiment.n_obs, experiment.n_obs_physical) == (100, 100)
    assert experiment.deleted_rows.tolist() == GONE
    same(experiment.to_anndata(), adata)


def test_pickles(marked: Path, expected: anndata.AnnData) -> None:
    experiment = scx_core.open(marked)
    assert pickle.loads(pickle.dumps(experiment)).n_obs == 91
    whole = scx_core.open(marked, include_deleted=True)
    assert pickle.loads(pickle.dumps(whole)).n_obs == 100
    assert experiment.X is not None and whole.X is not None
    assert (pickle.loads(pickle.dumps(experiment.X))[:] != expected.X).nnz == 0
    assert pickle.loads(pickle.dumps(whole.X)).shape == (100, 30)
    sent = pickle.dumps(experiment.X)
    scx_core.mark_deleted(marked, [1])
    with pytest.raises(RuntimeError, match="has been changed meanwhile"):
        pickle.loads(sent)


def test_a_file_without_living_cells(path: Path, check: Callable[[Path], None]) -> None:
    scx_core.mark_deleted(path, np.ones(100, dtype=bool))
    check(path)
    back = scx_core.read(path)
    assert back.shape == (0, 30) and back.raw.shape == (0, 40)
    assert back.obsp["graph"].shape == (0, 0)
    experiment = scx_core.open(path)
    assert experiment.live_rows.tolist() == [] and experiment.nnz == 0


def test_info_tells(marked: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", str(marked)]) == 0
    assert "91 x 30" in (text := capsys.readouterr().out)
    assert "9 deleted rows left out" in text.splitlines()[0]
    assert main(["info", "--json", str(marked)]) == 0
    described = json.loads(capsys.readouterr().out)
    assert (described["n_obs"], described["n_deleted"]) == (91, 9)
    assert main(["validate", "--deep", str(marked)]) == 0


def test_compact(
    marked: Path, expected: anndata.AnnData, tmp_path: Path, check: Callable[[Path], None]
) -> None:
    target = tmp_path / "compact.scx"
    scx_core.compact(marked, target, shard_size=40)
    check(target)
    experiment = scx_core.open(target)
    assert (experiment.n_obs, experiment.n_obs_physical) == (91, 91)
    assert experiment.live_rows.tolist() == list(range(91))
    same(experiment.to_anndata(), expected)
    with pytest.raises(FileExistsError):
        scx_core.compact(marked, target)
    before = marked.read_bytes()
    with pytest.raises(ValueError, match="is the file that is read"):
        scx_core.compact(marked, marked, overwrite=True)
    assert marked.read_bytes() == before


def test_compact_from_the_command_line(
    marked: Path, expected: anndata.AnnData, tmp_path: Path
) -> None:
    target = tmp_path / "compact.scx"
    assert main(["convert", str(marked), str(target), "--quiet"]) == 0
    same(scx_core.read(target), expected)


def multimodal() -> Any:
    mudata = pytest.importorskip("mudata")
    rng = np.random.default_rng(0)
    parts = {}
    for name, cells, n_vars in (("rna", range(60), 12), ("prot", range(79, 19, -1), 5)):
        part = anndata.AnnData(sp.csr_matrix(rng.poisson(1.0, (len(cells), n_vars)).astype("f4")))
        part.obs_names = [f"cell {cell}" for cell in cells]
        part.var_names = [f"{name} {gene}" for gene in range(n_vars)]
        part.obs["depth"] = np.asarray(part.X.sum(axis=1)).ravel()
        part.obsm["pca"] = rng.normal(size=(len(cells), 2))
        part.obsp["graph"] = sp.random(len(cells), len(cells), 0.2, format="csr", random_state=3)
        parts[name] = part
    with no_columns_pulled():
        mdata = mudata.MuData(parts)
    mdata.obsm["umap"] = rng.normal(size=(mdata.n_obs, 2))
    return mdata


def test_modalities(tmp_path: Path, check: Callable[[Path], None]) -> None:
    mdata = multimodal()
    path, again = tmp_path / "cells.scx", tmp_path / "compact.scx"
    scx_core.from_mudata(mdata, path, shard_size=16)
    gone = [0, 30, 31, 59, 60, 79]
    scx_core.mark_deleted(path, gone)
    check(path)
    names = [name for row, name in enumerate(mdata.obs_names) if row not in gone]
    scx_core.compact(path, again)
    check(again)
    scx_core.open(path).to_h5mu(tmp_path / "cells.h5mu", progress=False)
    import mudata

    with no_columns_pulled():
        from_h5mu = mudata.read(tmp_path / "cells.h5mu")
    for back in (scx_core.read(path), scx_core.read(again), from_h5mu):
        assert back.obs_names.tolist() == names
        kept = [row for row in range(mdata.n_obs) if row not in gone]
        np.testing.assert_array_equal(back.obsm["umap"], mdata.obsm["umap"][kept])
        for key, whole in mdata.mod.items():
            wanted = whole[[name for name in whole.obs_names if name in names]].copy()
            assert_equal(back.mod[key], wanted)
            place = back.obsmap[key]
            assert [names[i] for i in np.flatnonzero(place)] == [
                name for name in names if name in set(wanted.obs_names)
            ]
    experiment = scx_core.open(path)
    protein = experiment["prot"]
    assert protein.X is not None and protein.X.shape[0] == experiment.n_obs == len(names)
    wanted = mdata.mod["prot"][[n for n in mdata.mod["prot"].obs_names if n in names]]
    assert protein.n_obs == wanted.n_obs
    assert (protein.X[protein.rows] != wanted.X).nnz == 0
