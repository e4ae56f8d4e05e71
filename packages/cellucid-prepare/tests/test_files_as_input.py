"""Files as input give what the same AnnData in memory gives, whatever their format and layout."""

from __future__ import annotations

import os
import shutil
import tempfile
import warnings
import zipfile
from pathlib import Path
from typing import Any

import anndata
import mudata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from prepare_reading import READS_ZARR_3, read, read_lazily, refusal_leaves_nothing, written
from prepare_samples import small
from test_inputs import adata, multimodal

import cellucid_prepare
import scx_core

IDENTITY = {"dataset_id": "a", "dataset_name": "A"}


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks and turned pieces of a few values, so that there are many of them."""
    from cellucid_prepare.inputs import matrices
    from cellucid_prepare.matrix import expression

    monkeypatch.setattr(expression, "BLOCK_BYTES", 500)
    monkeypatch.setattr(matrices, "TURNING_BYTES", 2000)
    # what waits on disk does so beside the output: the system's folder may be small
    monkeypatch.setattr(tempfile, "tempdir", "no such folder")


def held_as(form: str) -> anndata.AnnData:
    data = adata(dense=form == "dense")
    if form == "csc":
        data.X = sp.csc_matrix(data.X)
    return data


def packed(folder: Path, name: str, top: str = "") -> Path:
    with zipfile.ZipFile(name, "w", zipfile.ZIP_DEFLATED if top else zipfile.ZIP_STORED) as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                archive.write(path, os.path.join(top, path.relative_to(folder)))
    return Path(name)


def zarr_store(data: Any, name: str, zarr_format: int) -> Path:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if READS_ZARR_3:
            with anndata.settings.override(zarr_write_format=zarr_format):
                data.write_zarr(name)
        else:
            data.write_zarr(name)
    return Path(name)


@pytest.mark.parametrize("form", ["csr", "csc", "dense"])
def test_every_kind_of_file_gives_the_same_bytes(form: str) -> None:
    data = held_as(form)
    data.layers["twice"] = data.X * 2
    data.write_h5ad("in.h5ad", compression="gzip")
    scx_core.from_anndata(data, "in.scx", progress=False)
    zarr_store(data, "two.zarr", 2)
    zarr_store(data, "three.zarr", 3 if READS_ZARR_3 else 2)
    expected = written("h5ad", "memory", data=data, **IDENTITY).read_bytes()
    for source in (
        "in.h5ad",
        "in.scx",
        "two.zarr",
        "three.zarr",
        packed(Path("two.zarr"), "two.zarr.zip"),
        packed(Path("three.zarr"), "three.zarr.zip", "three.zarr"),
    ):
        name = Path(source).name.replace(".", "_")
        assert written("h5ad", name, data=source, **IDENTITY).read_bytes() == expected, source
    for name, lazy in read_lazily("in.h5ad").items():
        assert written("h5ad", name, data=lazy, **IDENTITY).read_bytes() == expected


@pytest.mark.parametrize("form", ["csr", "csc", "dense"])
def test_a_view_of_a_file_is_written_like_one_in_memory(form: str) -> None:
    data = held_as(form)
    data.write_h5ad("in.h5ad")
    rng = np.random.default_rng(0)
    backed = anndata.read_h5ad("in.h5ad", backed="r")
    selections: dict[str, Any] = {
        "mask": (rng.random(data.n_obs) < 0.5, slice(None)),
        "order": (rng.permutation(data.n_obs), rng.permutation(data.n_vars)),
        "part": (rng.permutation(data.n_obs)[:9], slice(2, 9)),
        "step": (slice(1, None, 3), ["g3", "g1"]),
    }
    for name, (rows, columns) in selections.items():
        expected = written("h5ad", name, data=data[rows, columns].copy(), **IDENTITY)
        some = backed[rows, columns]
        result = written("h5ad", f"{name}_backed", data=some, **IDENTITY)
        assert result.read_bytes() == expected.read_bytes(), name
        for lazy in read_lazily("in.h5ad").values():
            result = written("h5ad", f"{name}_lazy", data=lazy[rows, columns], **IDENTITY)
            assert result.read_bytes() == expected.read_bytes(), name
    backed.file.close()


def test_a_backed_object_is_as_open_or_closed_as_before() -> None:
    data = adata()
    data.write_h5ad("in.h5ad")
    expected = written("h5ad", "memory", data=data, **IDENTITY).read_bytes()
    backed = anndata.read_h5ad("in.h5ad", backed="r")
    for is_open in (True, False):
        if not is_open:
            backed.file.close()
        again = written("h5ad", "again", data=backed, overwrite=True, **IDENTITY)
        assert again.read_bytes() == expected and backed.file.is_open == is_open
        for some in (backed, backed[:20]):
            refusal_leaves_nothing("latent_key", data=some, latent_key="X_no", **IDENTITY)
            assert backed.file.is_open == is_open


@pytest.mark.skipif(READS_ZARR_3, reason="zarr reads format 3 here")
@pytest.mark.parametrize("container", ["zarr3", "zip3"])
def test_a_store_that_zarr_is_too_old_for(container: str) -> None:
    store = written(container, **small())
    with pytest.raises(ImportError, match="of format 3, needs zarr 3"):
        written("h5ad", "again", data=store, **IDENTITY)
    with pytest.raises(ImportError, match="of format 3, needs zarr 3"):
        cellucid_prepare.check(store)


def without_news(function: Any, *arguments: Any, **options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*arguments, **options)


def test_several_modalities_from_every_kind_of_file() -> None:
    data = without_news(multimodal)
    data["rna"].layers["twice"] = data["rna"].X * 2
    data["prot"].X = sp.csc_matrix(data["prot"].X)
    without_news(data.write, "in.h5mu")
    without_news(data.write_zarr, "in.zarr")
    without_news(scx_core.from_mudata, data, "in.scx", progress=False)
    packed(Path("in.zarr"), "in.zarr.zip")
    expected = cellucid_prepare.prepare("a.h5mu", format="h5mu", data=data, **IDENTITY)
    one = written("h5ad", "one", data=data, modalities=["rna"], **IDENTITY)
    for source in ("in.h5mu", "in.zarr", "in.scx", "in.zarr.zip"):
        path = cellucid_prepare.prepare(
            "b.h5mu", format="h5mu", data=source, overwrite=True, **IDENTITY
        )
        assert path.read_bytes() == expected.read_bytes(), source
        again = written("h5ad", "b", data=source, modalities=["rna"], overwrite=True, **IDENTITY)
        assert again.read_bytes() == one.read_bytes(), source
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        backed = mudata.read_h5mu("in.h5mu", backed="r")
    path = cellucid_prepare.prepare("c.h5mu", format="h5mu", data=backed, **IDENTITY)
    assert path.read_bytes() == expected.read_bytes()
    backed.file.close()


def test_what_a_multimodal_scx_packs_stays_packed(monkeypatch: pytest.MonkeyPatch) -> None:
    data = without_news(multimodal)
    without_news(scx_core.from_mudata, data, "in.scx", progress=False)

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a matrix was loaded whole")

    from scx_core.experiment._matrix_view import MatrixView

    monkeypatch.setattr(MatrixView, "to_memory", refuse)
    cellucid_prepare.prepare("a.h5mu", format="h5mu", data="in.scx", **IDENTITY)


def test_files_that_are_no_input() -> None:
    Path("notes.txt").write_text("no matrix")
    refusal_leaves_nothing("notes.txt.*no kind that is known", data="notes.txt", **IDENTITY)
    written("h5ad", "good", **small())
    Path("cut.h5ad").write_bytes(Path("good.h5ad").read_bytes()[:-5000])
    with pytest.raises(ValueError, match=r"cut\.h5ad"):
        written("h5ad", data="cut.h5ad", **IDENTITY)
    with zipfile.ZipFile("else.zip", "w") as archive:
        archive.writestr("a/b", "c")
    with pytest.raises(ValueError, match=r"else\.zip.*without a Zarr store"):
        written("h5ad", data="else.zip", **IDENTITY)
    with pytest.raises(FileNotFoundError, match="nowhere"):
        written("h5ad", data="nowhere.h5ad", **IDENTITY)
    store = written("zarr2", "store", **small())
    shutil.rmtree(store / "var")
    (store / ".zmetadata").unlink()
    with pytest.raises(ValueError, match="'var'"):
        written("h5ad", data=store, **IDENTITY)
    assert not Path("out.h5ad").exists()


def test_an_index_with_a_gap_or_a_numeric_name_is_refused() -> None:
    names = pd.Index(pd.array(["a", None, *"bcde"], dtype="string"))
    table = pd.DataFrame(index=names)
    refusal_leaves_nothing(r"obs\.index.*row 1", **small(obs=table))
    assert read(written("h5ad", **small())).n_obs == 6
