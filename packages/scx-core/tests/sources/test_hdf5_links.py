"""Links in HDF5 files: followed, also into other files, or refused when they lead nowhere."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import anndata
import h5py
import mudata
import numpy as np
import pytest
from anndata.tests.helpers import assert_equal

import scx_core
from hdf5_samples import counts, write_10x
from mudata_samples import nothing_pulled


def write_full(path: Path) -> None:
    adata = anndata.AnnData(counts(6, 4))
    adata.layers["twice"] = counts(6, 4) * 2
    adata.obsm["X_pca"] = np.ones((6, 2))
    adata.obs["n"] = range(6)
    adata.uns["deep"] = {"x": 1}
    adata.raw = adata.copy()
    adata.write_h5ad(path)


def put_link(path: Path, name: str, link: Any) -> None:
    with h5py.File(path, "r+") as file:
        if name in file:
            del file[name]
        file[name] = link


@pytest.mark.parametrize(
    "name",
    [
        *("X", "X/data", "layers", "layers/new", "raw", "raw/X", "raw/var", "obs", "obs/n", "var"),
        *("obsm", "obsm/X_pca", "obsp", "uns", "uns/deep", "uns/deep/y", "unknown"),
    ],
)
def test_a_link_that_leads_nowhere_is_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / "a.h5ad"
    for link, words in (
        (h5py.SoftLink("/nowhere"), "a link to /nowhere, which"),
        (h5py.ExternalLink("none.h5", "/x"), r"a link to /x in the file none\.h5, which"),
        (h5py.SoftLink(f"/{name}"), f"a link to /{name}, which"),
    ):
        write_full(path)
        put_link(path, name, link)
        with pytest.raises(ValueError, match=rf"a\.h5ad: /{name} is {words} cannot be opened"):
            scx_core.from_h5ad(path, tmp_path / "a.scx")
        assert os.listdir(tmp_path) == ["a.h5ad"]


@pytest.mark.parametrize("name", ["X", "X/data", "layers", "raw", "obs", "uns", "obsm/X_pca"])
def test_links_into_another_file_are_followed(tmp_path: Path, name: str) -> None:
    path = tmp_path / "a.h5ad"
    write_full(path)
    with h5py.File(path) as file, h5py.File(tmp_path / "other.h5", "w") as other:
        file.copy(name, other, name)
    put_link(path, "layers/again", h5py.SoftLink("/raw/X"))
    put_link(path, name, h5py.ExternalLink("other.h5", f"/{name}"))
    scx_core.from_h5ad(path, tmp_path / "a.scx")
    assert_equal(scx_core.read(tmp_path / "a.scx"), anndata.read_h5ad(path), exact=True)


def test_links_in_what_a_link_leads_to(tmp_path: Path) -> None:
    path = tmp_path / "a.h5ad"
    write_full(path)
    with h5py.File(path) as file, h5py.File(tmp_path / "other.h5", "w") as other:
        file.copy("layers", other, "layers")
        other["layers/self"] = h5py.SoftLink("/layers/twice")
    put_link(path, "layers", h5py.ExternalLink("other.h5", "/layers"))
    # circles are no reason to search without end
    put_link(path, "unknown", h5py.SoftLink("/"))
    put_link(path, "unknown_too", h5py.ExternalLink("other.h5", "/"))
    put_link(tmp_path / "other.h5", "back", h5py.ExternalLink("a.h5ad", "/"))
    with pytest.warns(scx_core.ScxWarning, match="'unknown', 'unknown_too', which"):
        scx_core.from_h5ad(path, tmp_path / "a.scx")
    assert list(scx_core.read(tmp_path / "a.scx").layers)[:2] == ["self", "twice"]
    # in the other file the path means something else
    put_link(tmp_path / "other.h5", "layers/self", h5py.SoftLink("/raw/X"))
    with pytest.raises(ValueError, match=r"other\.h5: /layers/self is a link to /raw/X, which"):
        scx_core.from_h5ad(path, tmp_path / "a.scx", overwrite=True)


def test_other_kinds_of_files(tmp_path: Path) -> None:
    write_10x(tmp_path / "a.h5", counts(6, 4))
    put_link(tmp_path / "a.h5", "matrix/features/genome", h5py.SoftLink("/nowhere"))
    with pytest.raises(ValueError, match="/matrix/features/genome is a link to /nowhere"):
        scx_core.from_10x(tmp_path / "a.h5", tmp_path / "a.scx")
    with nothing_pulled():
        mudata.MuData({"rna": anndata.AnnData(counts(6, 4))}).write(tmp_path / "a.h5mu")
    put_link(tmp_path / "a.h5mu", "mod/rna/X", h5py.ExternalLink("none.h5", "/x"))
    with pytest.raises(ValueError, match="/mod/rna/X is a link to /x in the file none"):
        scx_core.from_h5mu(tmp_path / "a.h5mu", tmp_path / "a.scx")


@pytest.mark.parametrize("name", ["layers", "raw"])
def test_a_dataset_where_a_group_belongs_is_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / "a.h5ad"
    write_full(path)
    put_link(path, name, np.ones((6, 4)))
    with pytest.raises(ValueError, match=rf"/{name} is a dataset where a group is expected"):
        scx_core.from_h5ad(path, tmp_path / "a.scx")


def test_a_filter_that_is_missing_in_another_file(tmp_path: Path) -> None:
    path = tmp_path / "a.h5ad"
    write_full(path)
    with h5py.File(tmp_path / "other.h5", "w") as other:
        creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        creation.set_chunk((6, 4))
        # a number that no registered filter has, marked optional so that it can be declared
        creation.set_filter(31999, h5py.h5z.FLAG_OPTIONAL, ())
        space = h5py.h5s.create_simple((6, 4))
        h5py.h5d.create(other.id, b"x", h5py.h5t.IEEE_F32LE, space, creation)
    put_link(path, "layers/packed", h5py.ExternalLink("other.h5", "/x"))
    with pytest.raises(ValueError, match=r"other\.h5: /x is compressed with .*number 31999"):
        scx_core.from_h5ad(path, tmp_path / "a.scx")
