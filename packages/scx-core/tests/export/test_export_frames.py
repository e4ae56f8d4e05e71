"""Columns that HDF5 has no name or no type for: found again, or refused with nothing left."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import anndata
import numpy as np
import pandas as pd
import pytest

import scx_core
from hdf5_samples import counts

NAMES = ["c0", "c1", "c2"]
OBJECT = np.dtype(object)


def three_cells(**columns: Any) -> anndata.AnnData:
    adata = anndata.AnnData(counts(3, 2), obs=pd.DataFrame(index=pd.Index(NAMES)))
    for name, values in columns.items():
        adata.obs[name] = values
    return adata


def exported(folder: Path, adata: anndata.AnnData) -> anndata.AnnData:
    scx_core.from_anndata(adata, folder / "a.scx", overwrite=True)
    with scx_core.open(folder / "a.scx") as experiment:
        experiment.to_h5ad(folder / "a.h5ad", overwrite=True)
    return anndata.read_h5ad(folder / "a.h5ad")


def refusal(folder: Path, adata: anndata.AnnData) -> str:
    with pytest.raises(ValueError, match=r"in an HDF5 file|in HDF5 by anndata") as caught:
        exported(folder, adata)
    assert os.listdir(folder) == ["a.scx"]
    return str(caught.value)


@pytest.mark.parametrize("name", ["", ".", "/a", "a/", "a//b", "./a", "a/.", "x\0y"])
def test_names_that_hdf5_would_take_for_others_are_refused(tmp_path: Path, name: str) -> None:
    message = refusal(tmp_path, three_cells(**{name: [1, 2, 3]}))
    assert message.startswith(f"obs[{name!r}] cannot have the name {name!r}")
    in_var = three_cells()
    in_var.var[name] = [1, 2]
    assert refusal(tmp_path, in_var).startswith(f"var[{name!r}] cannot")
    in_raw = three_cells()
    in_raw.raw = in_var
    assert refusal(tmp_path, in_raw).startswith(f"raw.var[{name!r}] cannot")
    in_uns = three_cells()
    in_uns.uns["deep"] = {"frame": pd.DataFrame({name: [1]})}
    assert refusal(tmp_path, in_uns).startswith(f"uns['deep']['frame'][{name!r}] cannot")
    in_obsm = three_cells()
    in_obsm.obsm["frame"] = pd.DataFrame({name: [1, 2, 3]}, index=in_obsm.obs_names)
    assert refusal(tmp_path, in_obsm).startswith(f"obsm['frame'][{name!r}] cannot")
    named = three_cells()
    named.obs.index.name = name
    assert refusal(tmp_path, named).startswith("obs.index cannot have the name")


def test_a_column_inside_another_is_refused(tmp_path: Path) -> None:
    kinds = pd.Categorical(["x", "y", "x"])
    message = refusal(tmp_path, three_cells(**{"kind": kinds, "kind/codes": [7, 7, 7]}))
    assert "would lie inside obs['kind']" in message
    adata = three_cells(**{"cell/n": [1, 2, 3]})
    adata.obs.index.name = "cell"
    assert "would lie inside obs.index" in refusal(tmp_path, adata)
    read = exported(tmp_path, three_cells(**{"G1/S": [1, 2, 3], "G1/M": [4, 5, 6], "..": [7] * 3}))
    assert read.obs.columns.tolist() == ["G1/S", "G1/M", ".."]
    assert read.obs["G1/M"].tolist() == [4, 5, 6]


def test_names_in_uns_with_a_zero_character_are_refused(tmp_path: Path) -> None:
    adata = three_cells()
    adata.uns["deep"] = {"x\0y": 1}
    assert refusal(tmp_path, adata).startswith(r"uns['deep']['x\x00y'] cannot have this name")


@pytest.mark.parametrize("gap", [None, np.nan, pd.NA])
def test_text_with_gaps_becomes_categorical_and_is_named(tmp_path: Path, gap: Any) -> None:
    adata = three_cells(
        text=pd.Series(["b", gap, "a"], index=NAMES, dtype=OBJECT),
        nothing=pd.Series([gap] * 3, index=NAMES, dtype=OBJECT),
        whole=pd.Series(["u", "v", "u"], index=NAMES, dtype=OBJECT),
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", scx_core.ScxWarning)
        read = exported(tmp_path, adata)
    (message,) = [str(one.message) for one in caught]
    assert message.startswith("obs['text'], obs['nothing']: text with gaps")
    assert read.obs["text"].astype(object).fillna("-").tolist() == ["b", "-", "a"]
    assert read.obs["nothing"].isna().all()
    assert not isinstance(read.obs["whole"].dtype, pd.CategoricalDtype)
    assert read.obs["whole"].tolist() == ["u", "v", "u"]


TIMES = pd.to_datetime(["2020-01-01", None, "2021-06-01"])


@pytest.mark.parametrize(
    ("values", "remedy"),
    [
        (TIMES, "obs['c'].astype(\"string\")"),
        (TIMES.tz_localize("Europe/Berlin"), "obs['c'].astype(\"string\")"),
        (TIMES - TIMES[0], "obs['c'].astype(\"string\")"),
        (pd.Categorical(TIMES), "obs['c'].cat.rename_categories(str)"),
        (pd.array([0.5, None, 1], dtype="Float64"), "obs['c'].astype(float)"),
        (
            pd.array([1, None, 2], dtype="int64[pyarrow]"),
            "obs['c'].convert_dtypes(dtype_backend=\"numpy_nullable\")",
        ),
    ],
)
def test_types_without_a_place_are_refused_with_a_remedy_that_helps(
    tmp_path: Path, values: Any, remedy: str
) -> None:
    adata = three_cells(c=values)
    assert f"obs['c'] is of dtype {adata.obs['c'].dtype}, store {remedy}" in refusal(
        tmp_path, adata
    )
    adata.obs["c"] = eval(remedy, {"obs": adata.obs})
    assert exported(tmp_path, adata).obs["c"].isna().tolist() == [False, True, False]


def test_refusals_come_before_any_matrix_is_written(tmp_path: Path) -> None:
    adata = three_cells(when=TIMES)
    scx_core.from_anndata(adata, tmp_path / "a.scx")
    rows: list[int] = []
    with scx_core.open(tmp_path / "a.scx") as experiment, pytest.raises(ValueError, match="when"):
        experiment.to_h5ad(tmp_path / "a.h5ad", progress=lambda done, _total: rows.append(done))
    assert max(rows, default=0) == 0


def test_entries_of_uns_are_named_by_their_whole_path(tmp_path: Path) -> None:
    adata = three_cells()
    adata.uns["deep"] = {"er": {"list": [{"x": 1}]}}
    message = refusal(tmp_path, adata)
    assert message.startswith("uns['deep']['er']['list'] cannot be stored in HDF5 by anndata: ")
