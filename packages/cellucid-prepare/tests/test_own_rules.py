"""The rules that docs/browser.md calls the package's own."""

from __future__ import annotations

import json
import math

import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from prepare_reading import read, refused_everywhere, same_everywhere, written
from prepare_samples import complete, coordinates, graph, obs, small


def test_a_key_belongs_to_the_longest_basis() -> None:
    import anndata

    data = anndata.AnnData(
        np.ones((6, 2), "f4"),
        var=pd.DataFrame(index=["a", "b"]),
        obsm={
            "X_umap": coordinates(2),
            "X_b_umap": coordinates(2) + 1,
            "a_b_umap": coordinates(2) + 2,
            "a_pca": coordinates(3),
        },
    )
    identity = {"dataset_id": "a", "dataset_name": "A"}
    # of "a" over X_b_umap, and not of "a_b" over X_umap; a_pca has no embedding of its own
    path = written("h5ad", data=data, vector_field_default="a", **identity)
    assert read(path).uns["cellucid"]["defaults"]["vectorFieldDefault"] == "a"
    with pytest.raises(ValueError, match=r"vector_field_default.*'a_b'.*\['a'\]"):
        written("h5ad", "other", data=data, vector_field_default="a_b", **identity)
    data.obsm = {key: data.obsm[key] for key in reversed(list(data.obsm))}
    again = written("h5ad", "again", data=data, vector_field_default="a", **identity)
    assert again.read_bytes() == path.read_bytes()


def test_a_weight_that_float32_rounds_to_zero_stays_stored() -> None:
    weights = graph()
    weights.data[:] = 1e-60
    with h5py.File(written("h5ad", **small(connectivities=weights))) as file:
        assert file["obsp/connectivities/data"][()].tolist() == [0, 0]
    weights.data[:] = 0
    with h5py.File(written("h5ad", "none", **small(connectivities=weights))) as file:
        assert file["obsp/connectivities/data"].shape == (0,)


def test_masked_arrays_wide_floats_and_long_names_are_refused() -> None:
    masked = np.ma.masked_less(np.arange(24.0).reshape(6, 4), 3)
    refused_everywhere("X: .*masked", **small(gene_expression=masked))
    if np.dtype(np.longdouble).itemsize > 8:
        wide = np.arange(6, dtype=np.longdouble)
        refused_everywhere(r"obs\['a'\].*float64", **small(obs=obs(a=wide)))
    refused_everywhere("255 bytes", **small(obs=obs(**{"é" * 128: [1] * 6})))
    same_everywhere(**small(obs=obs(**{"é" * 127: [1] * 6})))


def test_labels_stand_in_the_order_of_code_points() -> None:
    back = same_everywhere(**small(obs=obs(a=["é", "b", "B", "10", "9", "9"])))
    assert back.obs["a"].cat.categories.tolist() == ["10", "9", "B", "b", "é"]


@pytest.mark.parametrize("container", ["zarr2", "zarr3"])
def test_every_chunk_is_a_file_also_one_of_zeros(container: str) -> None:
    arguments = complete() | {"gene_expression": sp.csr_matrix((50, 40), dtype="f4")}
    arguments["embeddings"]["X_umap"][:] = 0
    arguments["obs"]["number"] = 0.0
    store = written(container, **arguments)
    n_arrays = 0
    for path in [*store.rglob(".zarray"), *store.rglob("zarr.json")]:
        document = json.loads(path.read_text())
        shape = document.get("shape")
        if not shape:
            continue  # a group, or a single value
        chunks = document.get("chunks")
        chunks = chunks or document["chunk_grid"]["configuration"]["chunk_shape"]
        n_chunks = math.prod(-(-length // step) for length, step in zip(shape, chunks, strict=True))
        stored = [item for item in path.parent.rglob("*") if item.is_file()]
        stored = [item for item in stored if item.name not in (path.name, ".zattrs")]
        assert len(stored) == n_chunks, path
        n_arrays += 1
    assert n_arrays > 20


@pytest.mark.parametrize("by_gene", [False, True])
@pytest.mark.parametrize("dtype", ["u1", "i1", "i2", "?", "f4", "i8"])
def test_what_comes_twice_is_added_up_as_scipy_does(dtype: str, by_gene: bool) -> None:
    matrix = (sp.csc_matrix if by_gene else sp.csr_matrix)((6, 6), dtype=dtype)
    matrix.data = np.array([100, 100, 100, 7]).astype(dtype)
    matrix.indices = np.array([2, 1, 2, 0], "i4")
    matrix.indptr = np.array([0, 3, 3, 4, 4, 4, 4], "i4")
    genes = pd.DataFrame(index=list("abcdef"))
    back = read(written("h5ad", **small(gene_expression=matrix, var=genes))).X
    np.testing.assert_array_equal(back.toarray(), matrix.toarray().astype("f4"))


def test_weights_that_come_twice_are_added_up_exactly() -> None:
    weights = sp.csr_matrix((6, 6), dtype="u1")
    weights.data = np.array([200, 100, 100, 200], "u1")
    weights.indices = np.array([1, 1, 0, 0], "i4")
    weights.indptr = np.array([0, 2, 4, 4, 4, 4, 4], "i4")
    back = read(written("h5ad", **small(connectivities=weights))).obsp["connectivities"]
    assert back.nnz == 2 and back[0, 1] == back[1, 0] == 300


@pytest.mark.parametrize("by_gene", [False, True])
@pytest.mark.parametrize("index", [-1, 6])
def test_indices_beyond_the_matrix_are_a_fault_of_it(index: int, by_gene: bool) -> None:
    matrix = (sp.csc_matrix if by_gene else sp.csr_matrix)(np.eye(6, dtype="f4"))
    matrix.indices[3] = index
    genes = pd.DataFrame(index=list("abcdef"))
    refused_everywhere("X: is damaged", **small(gene_expression=matrix, var=genes))
