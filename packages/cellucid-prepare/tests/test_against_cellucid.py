"""The published cellucid accepts, refuses and writes the same, element by element."""

from __future__ import annotations

import contextlib
import io
import tempfile
import warnings
from pathlib import Path
from typing import Any

import anndata
import mudata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prepare_reading import CONTAINERS, elements, open_store
from prepare_samples import complete

import cellucid_prepare

cellucid = pytest.importorskip(
    "cellucid", reason="cellucid, which the output is compared with, needs Python 3.11 here"
)

WIDTHS = {"umap": 2, "pca": 4}
TEXT = st.sampled_from(["a", "b", "", "é", "A b", "-1", "NA", "nan"])
# cellucid stores float16, which browsers do not read, so it is no reference there
COLUMNS = st.one_of(
    st.sampled_from(["int8", "uint16", "int64", "uint64", "float32", "float64", "bool"]),
    st.sampled_from(["Int64", "UInt8", "boolean", "Float64", "string", "Int64 labels"]),
    st.sampled_from(["category", "ordered", "numbers", "object", "mixed", "dates", "infinite"]),
)


def column(draw: Any, kind: str, n_cells: int) -> Any:
    integers = st.lists(st.integers(0, 3), min_size=n_cells, max_size=n_cells)
    numbers = draw(integers)
    gaps = [
        None if gap == 0 else number for gap, number in zip(draw(integers), numbers, strict=True)
    ]
    texts = draw(st.lists(TEXT, min_size=n_cells, max_size=n_cells))
    with_gaps = [None if gap is None else text for gap, text in zip(gaps, texts, strict=True)]
    if kind in ("Int64", "UInt8", "boolean", "Float64"):
        values = [None if gap is None else gap % 2 if kind == "boolean" else gap for gap in gaps]
        return pd.array(
            [bool(v) if kind == "boolean" and v is not None else v for v in values], dtype=kind
        )
    if kind == "string":
        return pd.array(with_gaps, dtype="string")
    if kind == "Int64 labels":
        return pd.Series(gaps, dtype="Int64").astype("category").array
    if kind == "category":
        return pd.Categorical(with_gaps)
    if kind == "ordered":
        return pd.Categorical(texts, categories=["unused", *sorted(set(texts))], ordered=True)
    if kind == "numbers":
        return pd.Categorical(gaps)
    if kind == "object":
        return pd.Series(with_gaps, dtype=object).to_numpy()
    if kind == "mixed":
        return np.array([*texts[:-1], 1], dtype=object)
    if kind == "dates":
        return pd.date_range("2020", periods=n_cells)
    if kind == "infinite":
        return np.array([np.inf, *numbers[1:]])
    return np.array(numbers).astype(kind)


@st.composite
def inputs(draw: Any) -> dict[str, Any]:
    n_cells, n_genes = draw(st.integers(1, 12)), draw(st.integers(0, 6))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kinds = draw(st.lists(COLUMNS, max_size=4))
    obs = pd.DataFrame(
        {f"c{place}": column(draw, kind, n_cells) for place, kind in enumerate(kinds)},
        index=draw(st.lists(st.sampled_from("abcd"), min_size=n_cells, max_size=n_cells)),
    )
    dtype = draw(st.sampled_from(["f4", "f8", "i4", "u2", "?"]))
    matrix: Any = (
        rng.poisson(0.7, (n_cells, n_genes)) * draw(st.sampled_from([1, 2**24 + 1]))
    ).astype(dtype)
    if draw(st.booleans()) and dtype == "f8" and matrix.size:
        matrix[0, 0] = draw(st.sampled_from([np.nan, np.inf, 0.1, 1e300, -2.5]))
    form = draw(st.sampled_from(["dense", "csr", "csc", "coo"]))
    if form != "dense":
        matrix = getattr(sp, f"{form}_matrix")(matrix)
    arguments: dict[str, Any] = {
        "obs": obs,
        "gene_expression": matrix,
        "var": pd.DataFrame(index=[f"g{gene % 4}" for gene in range(n_genes)]),
        "embeddings": {
            "X_umap": rng.normal(size=(n_cells, 2)),
            "X_pca": rng.normal(size=(n_cells, 4)),
        },
        "dataset_id": "id",
        "dataset_name": "name",
    }
    if draw(st.booleans()):
        arguments |= {"latent_key": "X_pca", "centroid_min_points": draw(st.integers(1, 4))}
    if draw(st.booleans()):
        arguments["vector_fields"] = {"v": {"X_umap": rng.normal(size=(n_cells, 2))}}
    if draw(st.booleans()) and n_genes:
        names = ["g0", "g1", "g0-1", "zz"]
        arguments["gene_identifiers"] = draw(st.lists(st.sampled_from(names), unique=True))
    if draw(st.booleans()):
        dense = np.triu(rng.random((n_cells, n_cells)) < 0.3, k=draw(st.sampled_from([0, 1])))
        weights = dense * rng.random((n_cells, n_cells))
        arguments["connectivities"] = sp.csr_matrix(
            weights + weights.T if draw(st.booleans()) else weights
        )
    return arguments


@given(arguments=inputs(), container=st.sampled_from(list(CONTAINERS)))
@settings(max_examples=70, deadline=None, suppress_health_check=list(HealthCheck))
def test_same_acceptance_and_elements(arguments: dict[str, Any], container: str) -> None:
    compare(CONTAINERS[container], arguments)


def compare(options: dict[str, Any], arguments: dict[str, Any]) -> None:
    """Both refuse, or both write the same elements."""
    with tempfile.TemporaryDirectory() as folder:
        outcomes = [
            outcome(prepare, Path(folder) / f"{name}.{options['format']}", options, arguments)
            for name, prepare, arguments in (
                ("theirs", cellucid.prepare, with_columns(arguments)),
                ("ours", cellucid_prepare.prepare, arguments),
            )
        ]
    theirs, ours = outcomes
    assert isinstance(ours, str) == isinstance(theirs, str), outcomes
    if isinstance(ours, dict):
        assert ours.keys() == theirs.keys()
        assert [name for name in ours if ours[name] != theirs[name]] == []


def with_columns(arguments: dict[str, Any]) -> dict[str, Any]:
    """With the obs of the single modality that is chosen, which cellucid leaves behind."""
    data, chosen = arguments.get("data"), arguments.get("modalities", [])
    if len(chosen) != 1 or chosen[0] not in data.mod:
        return arguments
    own = data[chosen[0]].obs
    if len(own) < data.n_obs:
        return arguments
    shared = data.obs[[name for name in data.obs if ":" not in name]]
    return {**arguments, "obs": shared.join(own)}


SEVERAL: dict[str, dict[str, Any]] = {
    "h5mu": {"format": "h5mu"},
    "zarr2": {"format": "zarr", "zarr_format": 2},
    "zarr3": {"format": "zarr", "zarr_format": 3},
    "zip2": {"format": "zarr.zip", "zarr_format": 2},
    "zip3": {"format": "zarr.zip", "zarr_format": 3},
}


@st.composite
def several_modalities(draw: Any) -> dict[str, Any]:
    """A MuData whose modalities have some of the cells each, in orders of their own."""
    n_cells = draw(st.integers(2, 8))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    names = np.array([f"cell{number}" for number in range(n_cells)], dtype=object)
    parts: dict[str, anndata.AnnData] = {}
    for number, name in enumerate(draw(st.sampled_from([["rna"], ["b", "rna"], ["c", "b", "a"]]))):
        own = rng.permutation(n_cells)[: draw(st.integers(1, n_cells))]
        n_genes = draw(st.integers(0, 4))
        matrix: Any = rng.poisson(0.7, (len(own), n_genes)).astype("f4")
        form = draw(st.sampled_from(["dense", "csr", "csc"]))
        kind = draw(COLUMNS)
        parts[name] = anndata.AnnData(
            matrix if form == "dense" else getattr(sp, f"{form}_matrix")(matrix),
            obs=pd.DataFrame({f"c{number}": column(draw, kind, len(own))}, index=names[own]),
            var=pd.DataFrame(index=[f"{name}{gene}" for gene in range(n_genes)]),
        )
        if draw(st.booleans()):
            parts[name].obsm["X_umap"] = rng.normal(size=(len(own), 2))
    data = mudata.MuData(parts)
    if draw(st.booleans()):
        data.obsm["X_joint"] = rng.normal(size=(data.n_obs, 3))
    if draw(st.booleans()):
        data.obs["shared"] = column(draw, draw(COLUMNS), data.n_obs)
    arguments: dict[str, Any] = {"data": data, "dataset_id": "id", "dataset_name": "name"}
    if draw(st.booleans()):
        arguments["modalities"] = draw(
            st.lists(st.sampled_from([*parts, "none"]), min_size=1, max_size=2, unique=True)
        )
    if draw(st.booleans()):
        name = draw(st.sampled_from(list(parts)))
        arguments |= {"latent_key": draw(st.sampled_from([f"{name}:X_umap", "X_joint"]))}
        arguments["centroid_min_points"] = 1
    if draw(st.booleans()):
        arguments["obs_keys"] = [f"{draw(st.sampled_from(list(parts)))}:measured"]
    if draw(st.booleans()):
        arguments["modality"] = draw(st.sampled_from([*parts, "none"]))
    return arguments


@given(data=st.data(), container=st.sampled_from(["h5ad", *SEVERAL]))
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
def test_same_for_several_modalities(data: Any, container: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        arguments = data.draw(several_modalities())
    compare(SEVERAL.get(container, {"format": "h5ad"}), arguments)


@given(data=st.data(), latent=st.sampled_from(["a", "b", None]))
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
def test_same_fields_can_be_shown_first(data: Any, latent: str | None) -> None:
    """Which embeddings a viewer shows decides which vector field may be the first one."""
    keys = ["X_umap", "X_UMAP_", "X_umap_1d", "X_umap_2d", "X_umap_3d", "X_pca", "X_tsne", "X_zz"]
    chosen = data.draw(st.lists(st.sampled_from(keys), min_size=1, max_size=3, unique=True))
    widths = {key: data.draw(st.sampled_from([1, 2, 3, 5])) for key in chosen}
    widths |= {key: int(key[-2]) for key in chosen if key.endswith("d")}
    arrays = {key: np.ones((2, width)) for key, width in widths.items()}
    over = data.draw(st.sampled_from(chosen))
    arguments: dict[str, Any] = {
        "embeddings": arrays,
        "vector_fields": {"v": {over: arrays[over]}},
        "vector_field_default": "v",
        "dataset_id": "id",
        "dataset_name": "name",
    }
    if latent is not None:
        arguments["latent_key"] = over if latent == "a" else chosen[0]
    if data.draw(st.booleans()):
        key = data.draw(st.sampled_from(chosen))
        dimension = data.draw(st.integers(1, min(3, widths[key])))
        arguments["embedding_defaults"] = {f"{dimension}d": key}
    compare({"format": "h5ad"}, arguments)


def test_same_for_every_kind_of_element(tmp_path: Path) -> None:
    theirs = outcome(cellucid.prepare, tmp_path / "theirs.h5ad", {"format": "h5ad"}, complete())
    ours = outcome(cellucid_prepare.prepare, tmp_path / "ours.h5ad", {"format": "h5ad"}, complete())
    assert isinstance(ours, dict) and ours == theirs


def outcome(
    prepare: Any, path: Path, options: dict[str, Any], arguments: dict[str, Any]
) -> dict[str, Any] | str:
    """The elements that were written, or what was said against the input."""
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            with contextlib.redirect_stderr(io.StringIO()):
                prepare(path, **options, **arguments)
    except (ValueError, TypeError) as error:
        return str(error)
    with open_store(path) as root:
        return elements(root)
