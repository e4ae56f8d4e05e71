"""The usual libraries read every output without a warning, and cellucid decodes all of it."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import anndata
import mudata
import numpy as np
import pandas as pd
import pytest
import scanpy
from prepare_reading import CONTAINERS, assert_same, readable, written
from prepare_samples import complete, small
from test_inputs import IDENTITY, multimodal

import cellucid_prepare

SEVERAL: dict[str, dict[str, Any]] = readable(
    {
        "h5mu": {"format": "h5mu"},
        "zarr2": {"format": "zarr", "zarr_format": 2},
        "zarr3": {"format": "zarr", "zarr_format": 3},
        "zip2": {"format": "zarr.zip", "zarr_format": 2},
        "zip3": {"format": "zarr.zip", "zarr_format": 3},
    }
)


@contextmanager
def warnings_are_errors() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # what anndata and mudata ask of pandas 3 that it is about to give up, with any file
        if hasattr(pd.errors, "Pandas4Warning"):
            warnings.simplefilter("ignore", pd.errors.Pandas4Warning)
        yield


@contextmanager
def store_of(path: Path) -> Iterator[Any]:
    """What anndata and mudata take for a Zarr store, also one in a zip."""
    if path.suffix != ".zip":
        yield path
        return
    import zarr

    store = zarr.storage.ZipStore(str(path), mode="r")
    yield store
    store.close()


def nothing_pulled() -> AbstractContextManager[Any]:
    """mudata 0.3 announces with every file what its next version does; this adopts it."""
    if mudata.__version__.startswith("0.3."):
        options: AbstractContextManager[Any] = mudata.set_options(pull_on_update=False)
        return options
    return nullcontext()


@pytest.mark.parametrize("container", CONTAINERS)
def test_anndata_and_scanpy_read_it_without_a_warning(container: str) -> None:
    arguments = complete()
    path = written(container, **arguments)
    with warnings_are_errors():
        if container == "h5ad":
            back = anndata.read_h5ad(path)
            assert_same(scanpy.read_h5ad(path), back)
            backed = anndata.read_h5ad(path, backed="r")
            assert backed.n_obs == back.n_obs
            backed.file.close()
        else:
            with store_of(path) as store:
                back = anndata.read_zarr(store)
        scanpy.pp.log1p(back)  # what it is read for
    assert back.obs["gap"].dtype == "Int64" and back.obs["flag_gap"].dtype == "boolean"
    assert back.obs["ordered"].cat.ordered


@pytest.mark.parametrize("container", CONTAINERS)
def test_columns_with_gaps_are_exact_in_every_container(container: str) -> None:
    columns = {
        "Int64": pd.array([1, None, 2**53 + 1, -(2**63), 2**63 - 1, 0], dtype="Int64"),
        "UInt8": pd.array([None, 255, None, 0, 1, 2], dtype="UInt8"),
        "boolean": pd.array([True, None, False, None, True, True], dtype="boolean"),
        "Float64": pd.array([0.1, None, -1.5, 0, 1, 2], dtype="Float64"),
        "string": pd.array(["x", None, "y", "x", "y", "x"], dtype="string"),
    }
    path = written(container, **small(obs=pd.DataFrame(columns, index=list("abcdef"))))
    with warnings_are_errors(), store_of(path) as store:
        back = anndata.read_h5ad(path) if container == "h5ad" else anndata.read_zarr(store)
    for name in ("Int64", "UInt8", "boolean"):
        assert back.obs[name].dtype == name
        assert back.obs[name].tolist() == list(columns[name])
    assert back.obs["Float64"].dtype == np.float64
    assert back.obs["Float64"].isna().tolist() == [False, True, False, False, False, False]
    assert back.obs["string"].astype(object).where(back.obs["string"].notna(), None).tolist() == [
        "x", None, "y", "x", "y", "x"
    ]  # fmt: skip


def several(container: str) -> tuple[Path, mudata.MuData]:
    options = SEVERAL[container]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        parts = dict(multimodal().mod)
        # of a gene in two modalities mudata would remark on the name
        parts["prot"].var_names = ["p0", "p1"]
        data = mudata.MuData(parts)
    path = cellucid_prepare.prepare(
        f"several.{options['format']}", data=data, **options, **IDENTITY
    )
    return path, data


@pytest.mark.parametrize("container", SEVERAL)
def test_mudata_reads_it_without_a_warning(container: str) -> None:
    path, data = several(container)
    with warnings_are_errors(), nothing_pulled():
        if container == "h5mu":
            back = mudata.read_h5mu(path)
            assert mudata.read(str(path)).shape == back.shape
            one = mudata.read_h5ad(path, "rna")
            assert_same(one, back["rna"])
        else:
            with store_of(path) as store:
                back = mudata.read_zarr(store)
    assert list(back.mod) == list(data.mod)
    for name in data.mod:
        assert back[name].obs_names.tolist() == data[name].obs_names.tolist()
        np.testing.assert_array_equal(np.asarray(back.obsmap[name]).ravel(), data.obsmap[name])
    assert (back["rna"].X != data["rna"].X).nnz == 0


def decoded_by_cellucid(path: Path) -> list[str]:
    files = pytest.importorskip("cellucid._anndata_files")
    found: list[str] = files.browser_undecodable(files.classify_anndata_path(path))
    return found


@pytest.mark.parametrize("container", CONTAINERS)
def test_cellucid_finds_nothing_that_browsers_cannot_decode(container: str) -> None:
    assert decoded_by_cellucid(written(container, **complete())) == []


@pytest.mark.parametrize("container", SEVERAL)
def test_cellucid_decodes_several_modalities(container: str) -> None:
    path, _ = several(container)
    assert decoded_by_cellucid(path) == []


def test_cellucid_serves_it_without_being_told_what_it_is() -> None:
    files = pytest.importorskip("cellucid._anndata_files")
    for container in CONTAINERS:
        path = written(container, container, **complete())
        identity = files.read_cellucid_identity(files.classify_anndata_path(path))
        assert re.search("complete.*All of it", str(identity))
