"""Every container holds the same, in the layout that browsers rely on."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import anndata
import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from prepare_reading import (
    CONTAINERS,
    elements,
    listing,
    open_store,
    read,
    same_everywhere,
    written,
)
from prepare_samples import complete, small, var


def test_everything_is_the_same_in_every_container() -> None:
    arguments = complete()
    adata = same_everywhere(**arguments)
    assert (adata.X != sp.csc_matrix(arguments["gene_expression"])).nnz == 0
    assert adata.X.format == "csc" and adata.X.dtype == np.float32
    for name, column in arguments["obs"].items():
        expected = column.astype("category") if name == "text" else column
        pd.testing.assert_series_equal(adata.obs[name], expected, check_index_type=False)
    np.testing.assert_array_equal(
        adata.obsm["velocity_umap"], arguments["vector_fields"]["velocity"]["X_umap"].astype("f4")
    )
    graph = sp.csr_matrix(arguments["connectivities"]).astype("f4")
    assert (adata.obsp["connectivities"] != graph).nnz == 0


@pytest.mark.parametrize("container", CONTAINERS)
def test_bytes_depend_on_the_input_alone(container: str, tmp_path: Path) -> None:
    for threads in (1, 2, 5):
        (tmp_path / f"{threads}").mkdir()
        written(container, f"{threads}/out", threads=threads, **complete())
    first, *others = [
        {name.partition("/")[2]: digest for name, digest in listing(Path(folder)).items()}
        for folder in ("1", "2", "5")
    ]
    assert first and all(other == first for other in others)


@pytest.mark.parametrize("as_form", ["csr", "csc", "coo", "unsorted", "int64", "view", "float64"])
def test_bytes_do_not_depend_on_how_counts_are_held(as_form: str) -> None:
    matrix = small()["gene_expression"]
    same: Any = {
        "csr": lambda: matrix.copy(),
        "csc": matrix.tocsc,
        "coo": matrix.tocoo,
        "unsorted": lambda: matrix[:, ::-1].tocsr()[:, ::-1],
        "int64": lambda: matrix.astype(np.int64),
        "view": lambda: sp.vstack([matrix, matrix]).tocsr()[: matrix.shape[0]],
        "float64": lambda: matrix.astype(np.float64),
    }[as_form]()
    if as_form == "csc":
        same.indptr, same.indices = same.indptr.astype("i8"), same.indices.astype("i8")
    expected = written("h5ad", "a", **small()).read_bytes()
    assert written("h5ad", "b", **small(gene_expression=same)).read_bytes() == expected


def test_chunks_and_filters_of_hdf5() -> None:
    n_cells, n_genes = 70_000, 3
    rng = np.random.default_rng(0)
    dense = (rng.random((n_cells, n_genes)) < 0.4).astype("f4")
    arguments = small(
        obs=pd.DataFrame({"a": rng.random(n_cells)}, index=[f"c{i}" for i in range(n_cells)]),
        var=var("a", "b", "c"),
        embeddings={"X_umap": rng.random((n_cells, 3))},
        gene_expression=sp.csr_matrix(dense),
    )
    with h5py.File(written("h5ad", **arguments)) as file:
        assert file["X/data"].chunks == file["X/indices"].chunks == (2**14,)
        assert file["obs/_index"].chunks == file["obs/a"].chunks == (2**16,)
        assert file["obsm/X_umap"].chunks == (2**16 // 3, 3)
        assert file["var/_index"].chunks == (3,)
        assert not file["X/data"].shuffle and file["X/indices"].shuffle and file["obs/a"].shuffle
        assert file["X/data"].compression_opts == 6
        assert file.id.get_create_plist().get_version()[0] == 3  # the superblock of format 1.10
        np.testing.assert_array_equal(
            sp.csc_matrix(
                (file["X/data"][()], file["X/indices"][()], file["X/indptr"][()]),
                shape=dense.shape,
            ).toarray(),
            dense,
        )
        np.testing.assert_array_equal(
            file["obsm/X_umap"][()], arguments["embeddings"]["X_umap"].astype("f4")
        )


def test_one_value_more_than_a_chunk() -> None:
    n_cells = 2**14 + 1
    arguments = small(
        obs=pd.DataFrame(index=[f"c{i}" for i in range(n_cells)]),
        embeddings={"X_umap": np.zeros((n_cells, 2))},
        var=var("g"),
        gene_expression=sp.csr_matrix(np.arange(1, n_cells + 1, dtype="f4")[:, None]),
    )
    adata = same_everywhere(**arguments)
    np.testing.assert_array_equal(adata.X.data, np.arange(1, n_cells + 1))
    with h5py.File("h5ad.h5ad") as file:
        assert file["X/data"].id.get_num_chunks() == 2


def test_what_opening_reads_comes_first_in_the_file() -> None:
    path = written("h5ad", **complete())

    def start(dataset: Any) -> int:
        if dataset.chunks is None:
            return int(dataset.id.get_offset())
        return min(
            dataset.id.get_chunk_info(number).byte_offset
            for number in range(dataset.id.get_num_chunks())
        )

    with h5py.File(path) as file:
        order = [
            "uns/cellucid/id",
            "var/_index",
            "X/indptr",
            "obs/label/categories",
            "obs/_index",
            "obs/number",
            "obsm/X_umap",
            "obsp/connectivities/data",
            "uns/cellucid/outlierQuantiles/fields/label",
            "X/data",
            "X/indices",
        ]
        starts = [start(file[name]) for name in order]
    assert starts == sorted(starts)
    assert starts[0] >= 2**18  # behind the metadata


def test_zip_has_chunks_first_and_the_whole_description_last() -> None:
    for container, last in (("zip2", ".zmetadata"), ("zip3", "zarr.json")):
        with zipfile.ZipFile(written(container, container, **complete())) as archive:
            entries = archive.infolist()
        names = [entry.filename for entry in entries]
        assert names[-1] == last
        documents = [
            n.rpartition("/")[2] in (".zarray", ".zattrs", ".zgroup", ".zmetadata", "zarr.json")
            for n in names
        ]
        assert documents == sorted(documents)
        assert {entry.compress_type for entry in entries} == {zipfile.ZIP_STORED}
        assert {entry.date_time for entry in entries} == {(1980, 1, 1, 0, 0, 0)}


def test_consolidated_documents_are_those_of_the_store() -> None:
    two, three = written("zarr2", "two", **complete()), written("zarr3", "three", **complete())
    whole = json.loads((two / ".zmetadata").read_text())["metadata"]
    for name, document in whole.items():
        assert json.loads((two / name).read_text()) == document
    whole = json.loads((three / "zarr.json").read_text())["consolidated_metadata"]["metadata"]
    for name, document in whole.items():
        assert json.loads((three / name / "zarr.json").read_text()) == document
    names = {codec["name"] for document in whole.values() for codec in document.get("codecs", [])}
    assert names == {"bytes", "blosc", "gzip", "vlen-utf8"}


def test_elements_are_those_that_anndata_writes() -> None:
    adata = read(written("h5ad", "ours", **complete()))
    with anndata.settings.override(allow_write_nullable_strings=False):
        adata.write_h5ad("theirs.h5ad")
    with open_store(Path("ours.h5ad")) as ours, open_store(Path("theirs.h5ad")) as theirs:
        assert elements(ours) == elements(theirs)


def test_nothing_stored_no_column_one_cell_no_gene() -> None:
    empty = sp.csr_matrix((6, 4))
    assert same_everywhere(**small(gene_expression=empty)).X.nnz == 0
    same_everywhere(**small(gene_expression=sp.csr_matrix((6, 0)), var=var()), overwrite=True)
    same_everywhere(**small(gene_expression=np.zeros((6, 0)), var=var()), overwrite=True)
    one = {
        "obs": pd.DataFrame(index=["a"]),
        "embeddings": {"X_umap": np.ones((1, 2))},
        "gene_expression": np.ones((1, 4)),
    }
    assert same_everywhere(**small(**one), overwrite=True).X.tolist() == [[1, 1, 1, 1]]
    assert same_everywhere(**small(gene_expression=None, var=None), overwrite=True).X is None


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        (np.full((6, 4), 0.1, np.float16), np.float32),
        (np.full((6, 4), 65535, np.uint16), np.float32),
        (np.full((6, 4), 2**24, np.int32), np.float32),
        (np.full((6, 4), 2**24 + 1, np.int32), np.float64),
        (np.full((6, 4), -(2**24) - 1, np.int64), np.float64),
        (np.full((6, 4), 2**24 + 2, np.float32), np.float32),
        (np.full((6, 4), 2.0**24 + 1), np.float64),
        (np.ones((6, 4), bool), np.float32),
        (np.full((6, 4), 0.1), np.float32),
        (np.full((6, 4), 2.0**24 + 1.5), np.float32),
    ],
)
@pytest.mark.parametrize("sparse", [False, True])
def test_values_are_float32_unless_counts_need_more(values: Any, dtype: Any, sparse: bool) -> None:
    if sparse and values.dtype == np.float16:
        pytest.skip("scipy has no sparse matrix of half floats")
    matrix = sp.csr_matrix(values) if sparse else values
    back = same_everywhere(**small(gene_expression=matrix)).X
    assert back.dtype == dtype
    np.testing.assert_array_equal(back.toarray() if sparse else back, values.astype(dtype))
