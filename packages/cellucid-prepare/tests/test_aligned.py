"""Tables given by hand are paired with the data by the names of cells and genes."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from typing import Any

import anndata
import mudata
import numpy as np
import pandas as pd
import pytest
from prepare_reading import read, refusal_leaves_nothing, refused_everywhere, written
from prepare_samples import cell_names, coordinates, counts, graph, obs, small, var
from test_inputs import IDENTITY

import cellucid_prepare
import scx_core

ORDER = [3, 0, 5, 1, 4, 2]


def data() -> anndata.AnnData:
    return anndata.AnnData(
        counts(),
        obs=obs(),
        var=var("g0", "g1", "g2", "g3"),
        obsm={"X_umap": coordinates()},
    )


@pytest.mark.filterwarnings("ignore:Writing zarr v2")
@pytest.mark.parametrize("source", ["object", "in.h5ad", "in.zarr", "in.scx"])
def test_obs_in_another_order_keeps_each_label_with_its_cell(source: str) -> None:
    whole = data()
    whole.write_h5ad("in.h5ad")
    whole.write_zarr("in.zarr")
    scx_core.from_anndata(whole, "in.scx", progress=False)
    table = obs(label=[f"of {name}" for name in cell_names()]).iloc[ORDER]
    given = whole if source == "object" else source
    back = read(written("h5ad", data=given, obs=table, **IDENTITY))
    assert back.obs_names.tolist() == cell_names()
    assert back.obs["label"].tolist() == [f"of {name}" for name in back.obs_names]
    assert (back.X != whole.X).nnz == 0


def test_every_table_is_put_in_order() -> None:
    """The reference is what the same values give in the order of the cells, as arrays."""
    names, genes = cell_names(), ["g0", "g1", "g2", "g3"]
    cells, values = obs(n=range(6)), counts().toarray()
    symbols = var(*genes, symbol=["s0", "s1", "s2", "s3"])
    umap, velocity, weights = coordinates(), coordinates(2) + 1, graph().toarray()
    weights[2, 3] = weights[3, 2] = 0.25

    def table(array: Any, columns: Any = None) -> pd.DataFrame:
        return pd.DataFrame(array, index=names, columns=columns).iloc[ORDER]

    shuffled: dict[str, Any] = {
        "obs": cells.iloc[ORDER],
        "var": symbols.iloc[[2, 0, 3, 1]],
        "gene_expression": table(values, genes).iloc[:, [1, 3, 0, 2]],
        "connectivities": table(weights, names).iloc[:, [4, 1, 0, 2, 5, 3]],
        "embeddings": {"X_umap": table(umap), "X_one": table(umap)[0]},
        "vector_fields": {"velocity": {"X_umap": table(velocity)}},
    }
    in_order: dict[str, Any] = {
        "obs": cells,
        "var": symbols,
        "gene_expression": values,
        "connectivities": weights,
        "embeddings": {"X_umap": umap, "X_one": umap[:, 0]},
        "vector_fields": {"velocity": {"X_umap": velocity}},
    }
    expected = written("h5ad", "arrays", data=data(), **in_order, **IDENTITY).read_bytes()
    for name in ("obs", "gene_expression", "connectivities", "embeddings", "vector_fields"):
        # where an array is the matrix, var has the order of its genes
        one = {**in_order, name: shuffled[name]}
        path = written("h5ad", f"shuffled_{name}", data=data(), **one, **IDENTITY)
        assert path.read_bytes() == expected, name
    genes_alone = {**in_order, "var": shuffled["var"], "gene_expression": None}
    back = read(written("h5ad", "shuffled_var", data=data(), **genes_alone, **IDENTITY))
    assert back.var_names.tolist() == genes
    assert back.var["symbol"].tolist() == ["s0", "s1", "s2", "s3"]
    by_names = {**shuffled, "var": symbols}
    both = written("h5ad", "all", data=data(), **by_names, **IDENTITY)
    assert both.read_bytes() == expected
    alone = written("h5ad", "alone", **{**by_names, "obs": cells}, **IDENTITY)
    assert alone.read_bytes() == expected


def test_a_table_of_x_names_the_genes() -> None:
    table = pd.DataFrame(counts().toarray(), index=cell_names(), columns=list("abcd"))
    refused_everywhere(r"X columns.*'a', 'b'.*it lacks 'g0'", **small(gene_expression=table))
    back = read(written("h5ad", **small(gene_expression=table, var=None)))
    assert back.var_names.tolist() == ["a", "b", "c", "d"]


def test_other_names_are_refused_with_the_first_of_them() -> None:
    others = obs(a=range(6))
    others.index = ["cell0", "x", "cell2", "y", "cell4", "cell5"]
    refusal_leaves_nothing(
        "obs: 2 names of no cell: 'x', 'y'; it lacks 'cell1', 'cell3'",
        data=data(), obs=others, **IDENTITY,
    )  # fmt: skip
    umap = pd.DataFrame(coordinates(), index=others.index)
    refusal_leaves_nothing(
        r"obsm\['X_umap'\]: 2 names", data=data(), embeddings={"X_umap": umap}, **IDENTITY
    )
    genes = var("g0", "g1", "g2", "other")
    refusal_leaves_nothing("var: 1 name of no gene: 'other'", data=data(), var=genes, **IDENTITY)
    twice = obs(a=range(6))
    twice.index = ["cell0", "cell0", *cell_names()[2:]]
    refusal_leaves_nothing("lacks|repeat", data=data(), obs=twice, **IDENTITY)


def test_what_the_error_advises_works() -> None:
    others = obs(a=range(6)).set_axis(list("abcdef"), axis=0).set_axis(data().obs_names, axis=0)
    assert read(written("h5ad", data=data(), obs=others, **IDENTITY)).obs["a"].tolist() == [
        0, 1, 2, 3, 4, 5
    ]  # fmt: skip
    umap = pd.DataFrame(coordinates(), index=list("abcdef")).to_numpy()
    written("h5ad", "array", data=data(), embeddings={"X_umap": umap}, **IDENTITY)


def test_a_table_without_names_goes_by_position() -> None:
    """Names of the output come from obs, as everything that is given by hand replaces the data."""
    nameless = pd.DataFrame({"a": range(6)})
    back = read(written("h5ad", data=data(), obs=nameless, **IDENTITY))
    assert back.obs["a"].tolist() == [0, 1, 2, 3, 4, 5]
    assert back.obs_names.tolist() == ["0", "1", "2", "3", "4", "5"]
    np.testing.assert_array_equal(back.obsm["X_umap"], coordinates().astype("f4"))


def test_cells_that_are_only_numbered_get_names_by_position(
    caplog: pytest.LogCaptureFixture,
) -> None:
    numbered = data()
    numbered.obs_names = [str(number) for number in range(6)]
    with caplog.at_level(logging.WARNING, "cellucid_prepare"):
        back = read(written("h5ad", data=numbered, obs=obs(a=range(6)), **IDENTITY))
    assert back.obs_names.tolist() == cell_names() and back.obs["a"].tolist() == [0, 1, 2, 3, 4, 5]
    assert "only numbers its cells" in caplog.text
    # their own numbers in another order are names
    permuted = pd.DataFrame({"a": ORDER}, index=ORDER)
    back = read(written("h5ad", "permuted", data=numbered, obs=permuted.rename(str), **IDENTITY))
    assert back.obs["a"].tolist() == [0, 1, 2, 3, 4, 5]


def test_data_that_gives_nothing_of_its_cells_does_not_name_them() -> None:
    others = {**small(), "obs": obs().set_axis(list("uvwxyz"), axis=0)}
    back = read(written("h5ad", data=data(), **{**others, **IDENTITY}))
    assert back.obs_names.tolist() == list("uvwxyz")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("modalities", [None, ["rna"]])
def test_obs_of_a_mudata(modalities: list[str] | None) -> None:
    several = mudata.MuData({"rna": data(), "prot": data()[:, :2].copy()})
    table = obs(label=[f"of {name}" for name in cell_names()]).iloc[ORDER]
    path = cellucid_prepare.prepare(
        "out.zarr", format="zarr", data=several, obs=table, modalities=modalities, **IDENTITY
    )
    reader: Callable[[Any], Any] = mudata.read_zarr if modalities is None else read
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        back = reader(path)
    assert back.obs_names.tolist() == cell_names()
    assert back.obs["label"].tolist() == [f"of {name}" for name in cell_names()]
    others = table.set_axis(list("abcdef"), axis=0)
    refusal_leaves_nothing(
        "obs: 6 names of no cell", "zarr2", data=several, obs=others, modalities=modalities,
        **IDENTITY,
    )  # fmt: skip
