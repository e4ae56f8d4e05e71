"""Parts that are left out of a file: those that are named, or all that it cannot hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anndata
import h5py
import mudata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import scx_core
from mudata_samples import nothing_pulled
from scx_core._cli import main

# frames with columns of pairs are what obsm cannot hold
PAIRS = pd.DataFrame({"pair": [(1, 2), (3, 4), (5, 6)]}, index=["a", "b", "c"])


def sample() -> anndata.AnnData:
    obs = pd.DataFrame({"good": [1, 2, 3], "code": [3, 2, 1]}, index=["a", "b", "c"])
    adata = anndata.AnnData(np.eye(3, dtype=np.float32), obs, layers={"counts": np.eye(3)})
    adata.raw = adata.copy()
    adata.obsm["X_pca"] = np.ones((3, 2))
    adata.uns["kept"] = 1
    adata.uns["not"] = 2
    return adata


def unstorable() -> anndata.AnnData:
    adata = sample()
    adata.obsm["pairs"] = PAIRS
    adata.obs["code"] = np.array([b"x", b"y", b"z"], dtype="S1")
    return adata


ALL = ["layers/counts", "obs/code", "obsm/X_pca", "raw", "uns/not"]


def test_parts_that_are_named(tmp_path: Path) -> None:
    adata = sample()
    scx_core.write(adata, tmp_path / "a.scx", skip=ALL)
    back = scx_core.read(tmp_path / "a.scx")
    assert (list(back.obs), list(back.obsm), list(back.uns)) == (["good"], [], ["kept"])
    assert (list(back.layers), back.raw) == ([], None)
    assert np.array_equal(back.X, adata.X)
    assert list(adata.obs) == ["good", "code"]  # the object stays as it is
    assert list(adata.obsm) == ["X_pca"]


def test_parts_of_files(tmp_path: Path) -> None:
    sample().write_h5ad(tmp_path / "a.h5ad")
    arguments = ["convert", str(tmp_path / "a.h5ad"), str(tmp_path / "a.scx"), "--quiet"]
    assert main([*arguments, "--skip", ",".join(ALL)]) == 0
    with scx_core.open(tmp_path / "a.scx") as cells:
        assert (cells.obs_keys(), list(cells.obsm), list(cells.layers)) == (["good"], [], [])
        assert cells.raw is None


def test_parts_of_modalities(tmp_path: Path) -> None:
    proteins = sample()
    proteins.var_names = ["p0", "p1", "p2"]
    with nothing_pulled():
        mdata = mudata.MuData({"rna": sample(), "adt": proteins})
    scx_core.write(mdata, tmp_path / "a.scx", skip=["mod/rna/obsm/X_pca", "mod/adt/raw"])
    with scx_core.open(tmp_path / "a.scx") as cells:
        assert list(cells["rna"].obsm) == []
        assert list(cells["adt"].obsm) == ["X_pca"]
        assert cells["rna"].raw is not None
        assert cells["adt"].raw is None


def test_what_cannot_be_held_says_how_to_do_without_it(tmp_path: Path) -> None:
    adata, path = unstorable(), tmp_path / "a.scx"
    with pytest.raises(TypeError, match=r"obs\['code'\] has the dtype .S1.*decode") as told:
        scx_core.write(adata, path)
    assert str(told.value).endswith("; or leave it out, with skip='obs/code'")
    decoded = adata.obs["code"].astype(object).str.decode("utf-8")  # as it says
    assert decoded.tolist() == ["x", "y", "z"]
    with pytest.raises(TypeError, match=r"obsm\['pairs'\].*; or leave it out, with skip='obsm/pai"):
        scx_core.write(adata, path, skip="obs/code")
    assert not path.exists()
    scx_core.write(adata, path, skip=["obs/code", "obsm/pairs"])
    assert list(scx_core.read(path).obsm) == ["X_pca"]


def test_the_names_of_parts_of_modalities_are_those_that_skip_takes(tmp_path: Path) -> None:
    adata = sample()
    adata.obsm["it's"] = PAIRS
    with nothing_pulled():
        mdata = mudata.MuData({"r.n'a": adata})
    with pytest.raises(TypeError) as told:
        scx_core.write(mdata, tmp_path / "a.scx")
    name = """mod/r.n'a/obsm/it's"""
    assert str(told.value).endswith(f"with skip={name!r}")
    scx_core.write(mdata, tmp_path / "a.scx", skip=name)


def test_all_that_cannot_be_held_is_left_out_with_a_warning_each(tmp_path: Path) -> None:
    with pytest.warns(scx_core.ScxWarning) as told:
        scx_core.write(unstorable(), tmp_path / "a.scx", skip="unstorable")
    said = sorted(str(each.message) for each in told)
    assert len(said) == 2
    assert said[0].startswith("obs['code'] ") and said[0].endswith(" The column is left out")
    assert said[1].startswith("obsm['pairs']") and "obsm/pairs is left out" in said[1]
    assert {each.filename for each in told} == {__file__}
    back = scx_core.read(tmp_path / "a.scx")
    assert (list(back.obs), list(back.obsm)) == (["good"], ["X_pca"])


def test_a_part_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(KeyError, match="no part 'obsm/X_pcs'; did you mean 'obsm/X_pca'"):
        scx_core.write(sample(), tmp_path / "a.scx", skip="obsm/X_pcs")
    with pytest.raises(KeyError, match="no part 'q'; there are X, layers/counts, obs/code, obs/go"):
        scx_core.write(sample(), tmp_path / "a.scx", skip="q")
    assert not (tmp_path / "a.scx").exists()


class Ragged:
    """Like an array of the package awkward, which is not needed for this."""

    __module__ = "awkward.highlevel"
    shape = (3,)

    def __len__(self) -> int:
        return 3

    def to_numpy(self) -> Any:
        raise ValueError("cannot convert to RegularArray because subarray lengths are not regular")


def test_ragged_arrays_are_not_told_to_become_arrays(tmp_path: Path) -> None:
    from scx_core.metadata import encode_embedding

    with pytest.raises(TypeError, match=r"rows may differ in length\. Where they do not, awkward"):
        encode_embedding(Ragged(), 3, "obsm['airr']")


def test_ragged_arrays_of_files_without_their_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample().write_h5ad(tmp_path / "a.h5ad")
    with h5py.File(tmp_path / "a.h5ad", "a") as file:
        airr = file["obsm"].create_group("airr")
        airr.attrs.update({"encoding-type": "awkward-array", "encoding-version": "0.1.0"})
    monkeypatch.setattr("scx_core.sources.h5_elements.find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"/obsm/airr is an awkward array.*with skip='obsm/airr'$"):
        scx_core.from_h5ad(tmp_path / "a.h5ad", tmp_path / "a.scx")
    scx_core.from_h5ad(tmp_path / "a.h5ad", tmp_path / "a.scx", skip="obsm/airr")
    with scx_core.open(tmp_path / "a.scx") as cells:
        assert list(cells.obsm) == ["X_pca"]
    with pytest.warns(scx_core.ScxWarning, match="obsm/airr is left out"):
        scx_core.from_h5ad(
            tmp_path / "a.h5ad", tmp_path / "a.scx", skip="unstorable", overwrite=True
        )


@pytest.mark.parametrize("place", ["uns", "uns/tcr"])
def test_an_awkward_array_in_uns_is_left_out_without_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.setattr("scx_core.sources.h5_elements.find_spec", lambda _name: None)
    path = tmp_path / "a.h5ad"
    anndata.AnnData(np.ones((3, 2), np.float32), uns={"k": 1, "tcr": {"n": 2}}).write_h5ad(path)
    with h5py.File(path, "a") as file:
        airr = file[place].create_group("airr")
        airr.attrs.update({"encoding-type": "awkward-array", "encoding-version": "0.1.0"})
    with pytest.warns(scx_core.ScxWarning, match="awkward array.*the entry is left out"):
        scx_core.from_h5ad(path, tmp_path / "a.scx")
    assert scx_core.open(tmp_path / "a.scx").uns == {"k": 1, "tcr": {"n": 2}}


def with_unknown(path: Path, place: str) -> Path:
    """A file, one part of which nobody can read."""
    adata = anndata.AnnData(sp.csr_matrix(np.eye(6, 4, dtype=np.float32)))
    adata.layers["bad"] = adata.layers["good"] = adata.X.copy()
    adata.uns["plan"] = {"bad": 1, "good": 2}
    adata.raw = adata.copy()
    adata.write_h5ad(path)
    with h5py.File(path, "a") as file:
        del file[place]
        file.create_group(place).attrs.update(
            {"encoding-type": "quantum", "encoding-version": "0.9"}
        )
    return path


@pytest.mark.parametrize(
    ("place", "skip"),
    [("layers/bad", "layers/bad"), ("raw/X", "raw"), ("raw/var", "raw"), ("X", "X")],
)
def test_a_matrix_that_cannot_be_read_can_be_left_out(
    tmp_path: Path, place: str, skip: str
) -> None:
    path, target = with_unknown(tmp_path / "a.h5ad", place), tmp_path / "a.scx"
    with pytest.raises(ValueError, match=f"/{place} .*quantum.*leave it out, with skip='{skip}'"):
        scx_core.from_h5ad(path, target)
    assert not target.exists()
    scx_core.from_h5ad(path, target, skip=skip)
    with scx_core.open(target) as cells:
        assert (cells.X is None) == (skip == "X")
        assert (cells.raw is None) == (skip == "raw")
        assert list(cells.layers) == (["good"] if skip == "layers/bad" else ["bad", "good"])
        np.testing.assert_array_equal(cells.layers["good"][:].toarray(), np.eye(6, 4))
    if skip == "X":
        return
    with pytest.warns(scx_core.ScxWarning, match=f"quantum.*{skip} is left out"):
        scx_core.from_h5ad(path, target, skip="unstorable", overwrite=True)


@pytest.mark.parametrize("skip", ["layers/bad", "raw", "X"])
@pytest.mark.parametrize("modality", ["", "rna"])
def test_a_matrix_of_values_that_cannot_be_held_can_be_left_out(
    tmp_path: Path, skip: str, modality: str
) -> None:
    whole, target = sample(), tmp_path / "a.scx"
    phases = np.full((3, 3), 1j)
    if skip == "raw":
        whole.raw = anndata.AnnData(phases, var=whole.var)
    elif skip == "X":
        whole.X = phases
    else:
        whole.layers["bad"] = phases
    data: Any = whole
    if modality:
        with nothing_pulled():
            data = mudata.MuData({modality: whole})
        skip = f"mod/{modality}/{skip}"
    with pytest.raises(TypeError, match=f"complex128.*convert it.*, with skip='{skip}'$"):
        scx_core.write(data, target)
    if skip.endswith("X"):  # which is never left out by itself
        with pytest.raises(TypeError, match=f"complex128.*, with skip='{skip}'$"):
            scx_core.write(data, target, skip="unstorable")
    else:
        with pytest.warns(scx_core.ScxWarning, match=f"complex128.*; {skip} is left out$"):
            scx_core.write(data, target, skip="unstorable")
    scx_core.write(data, target, skip=skip, overwrite=True)
    with scx_core.open(target) as cells:
        (part,) = cells.parts()
        assert (part.X is None) == skip.endswith("X")
        assert (part.raw is None) == skip.endswith("raw")
        assert list(part.layers) == ["counts"]


def test_columns_whose_names_are_no_text_can_be_left_out(tmp_path: Path) -> None:
    adata = sample()
    adata.obs[3] = 1
    with pytest.raises(TypeError, match=r"; or leave it out, with skip='obs/3'$"):
        scx_core.write(adata, tmp_path / "a.scx")
    scx_core.write(adata, tmp_path / "a.scx", skip="obs/3")
    assert scx_core.open(tmp_path / "a.scx").obs_keys() == ["good", "code"]


def test_an_entry_of_uns_that_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    path = with_unknown(tmp_path / "a.h5ad", "uns/plan/bad")
    with pytest.warns(scx_core.ScxWarning, match=r"uns\['plan'\]\['bad'\].*quantum"):
        scx_core.from_h5ad(path, tmp_path / "a.scx")
    assert scx_core.open(tmp_path / "a.scx").uns == {"plan": {"good": 2}}
    with pytest.raises(ValueError, match="quantum"):
        scx_core.from_h5ad(path, tmp_path / "a.scx", overwrite=True, strict_uns=True)


def test_a_column_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.h5ad"
    anndata.AnnData(np.eye(3), obs={"n": [1, 2, 3]}).write_h5ad(path)
    with h5py.File(path, "a") as file:
        del file["obs/n"]
        file["obs"].create_group("n").attrs["encoding-type"] = "quantum"
    with pytest.raises(ValueError, match="/obs/n cannot be read"):
        scx_core.from_h5ad(path, tmp_path / "a.scx")
