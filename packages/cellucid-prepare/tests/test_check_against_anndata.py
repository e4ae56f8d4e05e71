"""What anndata cannot open, or opens to other data, is not ready: anndata is asked itself."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anndata
import h5py
import mudata
import numpy as np
import pandas as pd
import pytest
from prepare_reading import needs_zarr_3, written
from prepare_samples import complete, graph, small
from test_inputs import IDENTITY, multimodal

import cellucid_prepare
from cellucid_prepare import check

Damage = Callable[[Any], None]
CONTAINERS = ["h5ad", "zarr2", pytest.param("zarr3", marks=needs_zarr_3)]


def value(path: str, place: int, new: int) -> Damage:
    def damage(root: Any) -> None:
        root[path][place] = new

    return damage


def attribute(path: str, name: str, new: Any) -> Damage:
    def damage(root: Any) -> None:
        (root[path] if path else root).attrs[name] = new

    return damage


def without_attribute(path: str, name: str) -> Damage:
    def damage(root: Any) -> None:
        del (root[path] if path else root).attrs[name]

    return damage


def without(path: str) -> Damage:
    def damage(root: Any) -> None:
        del root[path]

    return damage


def other(path: str, change: Callable[[Any], Any]) -> Damage:
    """Put another array in the place of one; strings are of no use here."""

    def damage(root: Any) -> None:
        values, attributes = root[path][...], dict(root[path].attrs)
        del root[path]
        make = root.create_dataset if isinstance(root, h5py.File) else root.create_array
        made = make(path, data=change(values))
        for name, kept in attributes.items():
            made.attrs[name] = kept

    return damage


def texts(path: str) -> Damage:
    """Put a list of texts in the place of what is there."""

    def damage(root: Any) -> None:
        if path in root:
            del root[path]
        anndata.io.write_elem(root, path, np.array(["X_pca", "b"], dtype=object))

    return damage


# what is wrong, by the place that the report must name
REFUSED_BY_ANNDATA: dict[str, tuple[str, Damage]] = {
    "a code too high": ("obs['label']", value("obs/label/codes", 7, 100)),
    "a code too low": ("obs['label']", value("obs/label/codes", 7, -2)),
    "a code too high, ordered": ("obs['ordered']", value("obs/ordered/codes", 7, 100)),
    "no order": ("obs['label']", without_attribute("obs/label", "ordered")),
    "a short mask": ("obs['gap']", other("obs/gap/mask", lambda a: a[:-1])),
    "a mask of numbers": ("obs['gap']", other("obs/gap/mask", lambda a: a.astype("i4"))),
    "values of floats": ("obs['gap']", other("obs/gap/values", lambda a: a.astype("f8"))),
    "flags of numbers": ("obs['flag_gap']", other("obs/flag_gap/values", lambda a: a * 3)),
    "a column of two axes": ("obs['whole']", other("obs/whole", lambda a: a[:, None])),
    "a short column": ("obs['whole']", other("obs/whole", lambda a: a[:-1])),
    "a listed column": ("obs['whole']", without("obs/whole")),
    "no index": ("obs", without_attribute("obs", "_index")),
    "an unknown root": ("the file", attribute("", "encoding-type", "bogus")),
    "a later root": ("the file", attribute("", "encoding-version", "9.9.9")),
    "a later frame": ("obs", attribute("obs", "encoding-version", "9.9.9")),
    "a later column": ("obs['label']", attribute("obs/label", "encoding-version", "9.9.9")),
    "a later matrix": ("X", attribute("X", "encoding-version", "9.9.9")),
    "a later group": ("obsp", attribute("obsp", "encoding-version", "9.9.9")),
    "a group without a type": ("uns", without_attribute("uns", "encoding-type")),
    "an embedding of no kind": ("obsm['X_umap']", attribute("obsm/X_umap", "encoding-type", "x")),
    "a short embedding": ("obsm['X_umap']", other("obsm/X_umap", lambda a: a[:-1])),
    "a graph without values": ("obsp['connectivities']", without("obsp/connectivities/data")),
    "X without pointers": ("X", without("X/indptr")),
    "X without a shape": ("X", without_attribute("X", "shape")),
}
# anndata opens these, to other data
OTHER_DATA: dict[str, tuple[str, Damage]] = {
    "an index too high": ("X", value("X/indices", 3, 1000)),
    "an index below 0": ("X", value("X/indices", 3, -1)),
    "a graph's index too high": (
        "obsp['connectivities']",
        value("obsp/connectivities/indices", 0, 1000),
    ),
    "a graph's pointer": ("obsp['connectivities']", value("obsp/connectivities/indptr", 3, 0)),
    "indices of floats": ("X", other("X/indices", lambda a: a.astype("f4"))),
    "a pointer": ("X", value("X/indptr", 3, 100_000)),
    "an unlisted column": ("obs['whole']", attribute("obs", "column-order", ["label"])),
    "labels as bytes": (
        "obs['label']",
        attribute("obs/label/categories", "encoding-type", "array"),
    ),
    "names as bytes": ("var['_index']", attribute("var/_index", "encoding-type", "array")),
    "several names": ("uns['cellucid']/name", texts("uns/cellucid/name")),
    "several descriptions": ("uns['cellucid']/description", texts("uns/cellucid/description")),
    "no citation": ("uns['cellucid']/citation", texts("uns/cellucid/citation")),
    "several titles": ("uns['title']", texts("uns/title")),
    "several latent spaces": (
        "uns['cellucid']/defaults",
        texts("uns/cellucid/defaults/latentKey"),
    ),
    "a latent space that is gone": (
        "uns['cellucid']/outlierQuantiles",
        without("uns/cellucid/defaults/latentKey"),
    ),
    "defaults that are gone": (
        "uns['cellucid']/outlierQuantiles",
        without("uns/cellucid/defaults"),
    ),
    "order as a text": ("obs['label']", attribute("obs/label", "ordered", "no")),
}


def sample() -> dict[str, Any]:
    arguments = complete()
    if "connectivities" not in arguments:
        arguments["connectivities"] = graph(50)
    return arguments


@contextmanager
def opened(path: Path) -> Iterator[Any]:
    if path.is_file():
        with h5py.File(path, "r+") as file:
            yield file
        return
    import zarr

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield zarr.open_group(str(path), mode="r+", use_consolidated=False)
        zarr.consolidate_metadata(str(path))


def damaged(good: Path, damage: Damage) -> Path:
    path = Path(f"damaged{good.suffix}")
    (shutil.copytree if good.is_dir() else shutil.copyfile)(good, path)
    with opened(path) as root:
        damage(root)
    return path


def faults_at(place: str, path: Path) -> list[str]:
    """What a report says of a place or its parts; the report says that the file is not ready."""
    report = check(path)
    assert not report and not report.is_ready
    return [str(fault) for fault in report.faults if fault.where.startswith(place)]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("name", REFUSED_BY_ANNDATA)
def test_what_anndata_cannot_open_is_not_ready(name: str, container: str) -> None:
    place, damage = REFUSED_BY_ANNDATA[name]
    good = written(container, "good", **sample())
    assert check(good)
    path = damaged(good, damage)
    with pytest.raises(Exception):  # noqa: B017, PT011  (of many kinds)
        (anndata.read_h5ad if path.is_file() else anndata.read_zarr)(path)
    assert faults_at(place, path), check(path)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("name", OTHER_DATA)
def test_what_anndata_opens_to_other_data_is_not_ready(name: str, container: str) -> None:
    place, damage = OTHER_DATA[name]
    path = damaged(written(container, "good", **sample()), damage)
    assert faults_at(place, path), check(path)


@pytest.mark.filterwarnings("ignore")
def test_modalities_are_looked_at_too() -> None:
    good = cellucid_prepare.prepare("good.h5mu", format="h5mu", data=multimodal(), **IDENTITY)
    with h5py.File(good) as file:
        column = next(
            name
            for name, item in file["mod/rna/obs"].items()
            if "codes" in item  # type: ignore[union-attr]
        )
    path = damaged(good, value(f"mod/rna/obs/{column}/codes", 1, 50))
    with pytest.raises(ValueError, match="codes need to be between"):
        mudata.read_h5mu(path)
    (said,) = faults_at(f"mod['rna'].obs[{column!r}]", path)
    assert "the first is 50 in row 1" in said


def bad_frame() -> pd.DataFrame:
    codes = np.array([0, 1, 0, 5, -1, -3], np.int8)
    labels = pd.Categorical.from_codes(codes, ["a", "b"], validate=False)
    return pd.DataFrame({"type": labels}, index=list("abcdef"))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("container", [*CONTAINERS, "object", "lazy"])
def test_codes_without_labels_are_named_among_the_other_faults(container: str) -> None:
    frame = bad_frame()
    good = frame.assign(type=["a", "b", "a", "b", "a", "b"])
    if container == "object":
        data: Any = anndata.AnnData(np.eye(6, dtype=np.float32), frame)
        data.obsm["X_umap"] = np.zeros((6, 2))
    else:
        data = written("h5ad" if container == "lazy" else container, "in", **small(obs=good))
        with opened(data) as root:
            root["obs/type/codes"][...] = frame["type"].cat.codes.to_numpy()
    if container == "lazy":
        data = anndata.experimental.read_lazy(data)
    with pytest.raises(cellucid_prepare.PrepareError) as refused:
        cellucid_prepare.prepare(
            "out.h5ad", format="h5ad", data=data, dataset_id="no id", dataset_name="x"
        )
    faults = {fault.where: fault.problem for fault in refused.value.faults}
    assert set(faults) == {"obs['type']", "dataset_id"}
    assert faults["obs['type']"] == (
        "2 codes name none of its 2 labels (categories), the first is 5 in row 3"
    )
    assert not Path("out.h5ad").exists()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("container", ["h5ad", "zarr2"])
@pytest.mark.parametrize("place", ["uns/table", "obsm/table"])
def test_codes_of_tables_that_are_not_written_do_not_matter(place: str, container: str) -> None:
    data = anndata.AnnData(np.eye(6, dtype=np.float32), obsm={"X_umap": np.zeros((6, 2))})
    part, name = place.split("/")
    table = pd.DataFrame({"q": pd.Categorical(list("xyxyxy"))}, index=data.obs_names)
    getattr(data, part)[name] = table
    path = Path("in.h5ad" if container == "h5ad" else "in.zarr")
    (data.write_h5ad if container == "h5ad" else data.write_zarr)(path)
    with opened(path) as root:
        root[f"{place}/q/codes"][0] = 9
    made = cellucid_prepare.prepare("out.h5ad", format="h5ad", data=path, **IDENTITY)
    assert list(anndata.read_h5ad(made).obsm) == ["X_umap"]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("container", ["h5ad", "zarr2"])
def test_a_prepared_file_that_is_read_lazily_keeps_its_defaults(container: str) -> None:
    chosen = {"embedding_defaults": {"2d": ("X_pca", [1, 0])}, "obs_keys": ["label", "whole"]}
    good = written(container, "good", **{**sample(), **chosen})
    lazy = anndata.experimental.read_lazy(good)
    again = cellucid_prepare.prepare("again.h5ad", format="h5ad", data=lazy, overwrite=True)
    stored = anndata.read_h5ad(again).uns["cellucid"]["defaults"]
    assert list(stored["obsKeys"]) == ["label", "whole"]
    assert stored["embedding2d"]["key"] == "X_pca"
    assert list(stored["embedding2d"]["columns"]) == [1, 0]
