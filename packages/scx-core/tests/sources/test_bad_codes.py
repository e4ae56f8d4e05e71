"""Codes that name no label: conversion names column, row and code, and writes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anndata as ad
import h5py
import mudata
import numpy as np
import pandas as pd
import pytest

import scx_core

SAID = "1 code names none of its 2 labels \\(categories\\), the first is 7 in row 2"


def adata(codes: Any = (0, 1, 0, -1)) -> ad.AnnData:
    labels = pd.Categorical.from_codes(np.array(codes, np.int8), ["a", "b"], validate=False)
    frame = pd.DataFrame({"type": labels, "n": [1, 2, 3, 4]}, index=list("wxyz"))
    return ad.AnnData(np.eye(4, dtype=np.float32), frame)


def spoil(path: Path, group: str) -> None:
    with h5py.File(path, "r+") as file:
        file[f"{group}/type/codes"][2] = 7  # type: ignore[index]


def test_of_objects(tmp_path: Path) -> None:
    for codes in ((0, 1, 7, -1), (0, 1, -2, -1)):
        said = SAID.replace("7", str(codes[2]))
        with pytest.raises(ValueError, match=rf"obs\['type'\].*: {said}"):
            scx_core.from_anndata(adata(codes), tmp_path / "out.scx")
    assert not list(tmp_path.iterdir())


def test_of_files_and_lazy_objects(tmp_path: Path) -> None:
    source, out = tmp_path / "a.h5ad", tmp_path / "out.scx"
    adata().write_h5ad(source)
    spoil(source, "obs")
    with pytest.raises(ValueError, match=rf"a\.h5ad: /obs: column 'type': {SAID}"):
        scx_core.from_h5ad(source, out)
    with pytest.raises(ValueError, match=f"column 'type': {SAID}"):
        scx_core.from_anndata(ad.experimental.read_lazy(source), out)
    assert not out.exists()


def test_of_tables_in_uns(tmp_path: Path) -> None:
    source, out = tmp_path / "a.h5ad", tmp_path / "out.scx"
    data = adata()
    data.uns["inner"] = {"table": data.obs}
    data.write_h5ad(source)
    spoil(source, "uns/inner/table")
    with pytest.raises(
        ValueError, match=rf"a\.h5ad: /uns/inner/table: column 'type': {SAID}"
    ) as told:
        scx_core.from_h5ad(source, out)
    assert str(told.value).count("a.h5ad") == 1
    assert not out.exists()


def test_of_anndata_0_7(tmp_path: Path) -> None:
    """Codes in a plain array then, with a reference to their labels."""
    source = tmp_path / "a.h5ad"
    adata().write_h5ad(source)
    with h5py.File(source, "r+") as file:
        obs: Any = file["obs"]
        codes, labels = obs["type/codes"][()], obs["type/categories"][()]
        del obs["type"]
        obs.attrs["encoding-version"] = "0.1.0"
        obs.create_dataset("__categories/type", data=labels)
        obs["type"] = codes
        obs["type"].attrs["categories"] = obs["__categories/type"].ref
    scx_core.from_h5ad(source, tmp_path / "good.scx")
    assert scx_core.read(tmp_path / "good.scx").obs["type"].tolist()[:3] == ["a", "b", "a"]
    with h5py.File(source, "r+") as file:
        file["obs/type"][2] = 7  # type: ignore[index]
    with pytest.raises(ValueError, match=f"column 'type': {SAID}"):
        scx_core.from_h5ad(source, tmp_path / "out.scx")


@pytest.mark.filterwarnings("ignore")
def test_of_modalities(tmp_path: Path) -> None:
    source = tmp_path / "a.h5mu"
    mudata.MuData({"rna": adata()}).write(source)
    spoil(source, "mod/rna/obs")
    with pytest.raises(ValueError, match=f"/mod/rna/obs: column 'type': {SAID}"):
        scx_core.from_h5mu(source, tmp_path / "out.scx")
