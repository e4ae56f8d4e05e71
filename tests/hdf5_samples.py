"""HDF5 files made by hand for tests of the converters: old layouts, odd widths, foreign kinds."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import anndata
import h5py
import numpy as np
import scanpy
import scipy.sparse as sp

STRINGS = h5py.string_dtype("utf-8")


def gathered(source: Any, block_bytes: int = 1 << 20) -> np.ndarray:
    """All rows of a matrix source as a dense array, put together entry by entry."""
    n_rows, n_cols = source.shape
    dense = np.zeros((n_rows, n_cols), source.dtype)
    row = 0
    for block in source.row_blocks(block_bytes):
        assert block.n_rows >= 1
        assert block.values.dtype == source.dtype
        if hasattr(block, "indptr"):
            assert len(block.indices) == len(block.values) == block.indptr[-1] - block.indptr[0]
            assert block.indptr.dtype == np.int64
            assert block.indices.dtype in (np.int32, np.int64)
            bounds = block.indptr - block.indptr[0]
            for low, high in itertools.pairwise(bounds):
                np.add.at(dense[row], block.indices[low:high], block.values[low:high])
                row += 1
        else:
            dense[row : row + block.n_rows] = block.values
            row += block.n_rows
    assert row == n_rows
    return dense


def counts(n_rows: int, n_cols: int, density: float = 0.3, seed: int = 0) -> sp.csr_matrix:
    """Random counts as float32."""
    rng = np.random.default_rng(seed)
    dense = rng.integers(1, 9, (n_rows, n_cols)) * (rng.random((n_rows, n_cols)) < density)
    return sp.csr_matrix(dense.astype(np.float32))


def write_sparse(
    group: h5py.Group,
    name: str,
    matrix: Any,
    *,
    indptr: Any = None,
    indices: Any = None,
    **dataset_options: Any,
) -> h5py.Group:
    """`matrix` (CSR or CSC) as anndata stores it, with dtypes for its index arrays at will."""
    written = group.create_group(name)
    written.attrs["encoding-type"] = f"{matrix.format}_matrix"
    written.attrs["encoding-version"] = "0.1.0"
    written.attrs["shape"] = matrix.shape
    for key, dtype in (("data", None), ("indices", indices), ("indptr", indptr)):
        array = getattr(matrix, key)
        written.create_dataset(key, data=array.astype(dtype or array.dtype), **dataset_options)
    return written


def write_frame(group: h5py.Group, name: str, index: list[str]) -> None:
    """A table of the present layout with names alone."""
    frame = group.create_group(name)
    frame.attrs["encoding-type"] = "dataframe"
    frame.attrs["encoding-version"] = "0.2.0"
    frame.attrs["_index"] = "_index"
    frame.attrs["column-order"] = np.array([], dtype=object).astype(STRINGS)
    names = frame.create_dataset("_index", data=np.array(index, dtype=object), dtype=STRINGS)
    names.attrs["encoding-type"] = "string-array"
    names.attrs["encoding-version"] = "0.2.0"


def write_bare_h5ad(path: Path, matrix: Any, **sparse_options: Any) -> None:
    """An .h5ad of the present layout with X and names alone."""
    with h5py.File(path, "w") as file:
        file.attrs["encoding-type"] = "anndata"
        file.attrs["encoding-version"] = "0.1.0"
        write_frame(file, "obs", [f"cell{i}" for i in range(matrix.shape[0])])
        write_frame(file, "var", [f"gene{j}" for j in range(matrix.shape[1])])
        if sp.issparse(matrix):
            write_sparse(file, "X", matrix, **sparse_options)
        else:
            dataset = file.create_dataset("X", data=matrix, **sparse_options)
            dataset.attrs["encoding-type"] = "array"
            dataset.attrs["encoding-version"] = "0.2.0"


def write_h5ad_07(path: Path) -> sp.csr_matrix:
    """The layout of anndata 0.7: categories by object reference under `__categories`."""
    matrix = counts(6, 4, 0.6)
    with h5py.File(path, "w") as file:
        x = write_sparse(file, "X", matrix)
        assert x.attrs["encoding-version"] == "0.1.0"
        obs = file.create_group("obs")
        obs.attrs["encoding-type"] = "dataframe"
        obs.attrs["encoding-version"] = "0.1.0"
        obs.attrs["_index"] = "barcode"
        obs.attrs["column-order"] = np.array(["n", "type", "stage"], dtype=object)
        obs.create_dataset("barcode", data=np.array(list("abcdef"), object), dtype=STRINGS)
        obs.create_dataset("n", data=np.arange(6))
        labels = obs.create_group("__categories")
        types = labels.create_dataset("type", data=np.array(["B", "T"], object), dtype=STRINGS)
        types.attrs["ordered"] = False
        stages = labels.create_dataset("stage", data=np.array(["early", "mid", "late"], object))
        stages.attrs["ordered"] = True
        for name, codes, dataset in (
            ("type", [0, 1, 1, 0, -1, 1], types),
            ("stage", [2, 0, 0, 2, 2, 2], stages),
        ):
            column = obs.create_dataset(name, data=np.array(codes, np.int8))
            column.attrs["categories"] = dataset.ref
        var = file.create_group("var")
        var.attrs["encoding-type"] = "dataframe"
        var.attrs["encoding-version"] = "0.1.0"
        var.attrs["_index"] = "_index"
        var.attrs["column-order"] = np.array([], dtype=np.float64)
        var.create_dataset("_index", data=np.array(list("wxyz"), object), dtype=STRINGS)
        file.create_group("obsm").create_dataset("X_pca", data=np.arange(12.0).reshape(6, 2))
        file.create_group("uns").create_dataset("title", data="seven")
    return matrix


def write_h5ad_06(path: Path) -> sp.csr_matrix:
    """The layout before anndata 0.7: tables of records, `h5sparse_format`, labels in uns."""
    matrix = counts(5, 3, 0.6)
    obs_type = np.dtype([("index", "S8"), ("louvain", "i1"), ("sex", "i1"), ("depth", "f4")])
    obs = np.array(
        [
            (b"c0", 0, 0, 1.5),
            (b"c1", 1, 0, 2.5),
            (b"c2", -1, 0, 3),
            (b"c3", 2, 0, 4),
            (b"c4", 1, 0, 5),
        ],
        obs_type,
    )
    var_type = np.dtype([("index", STRINGS), ("chromosome", "i1")])
    var = np.array([("gä", 0), ("gb", 1), ("gc", 0)], var_type)
    raw_var = np.array([("gä",), ("gb",), ("gc",), ("gd",)], np.dtype([("index", STRINGS)]))
    with h5py.File(path, "w") as file:
        for name, stored in (("X", matrix), ("raw.X", counts(5, 4, 0.5, seed=3))):
            group = file.create_group(name)
            group.attrs["h5sparse_format"] = "csr"
            group.attrs["h5sparse_shape"] = stored.shape
            for key in ("data", "indices", "indptr"):
                group.create_dataset(key, data=getattr(stored, key))
        file.create_dataset("obs", data=obs)
        file.create_dataset("var", data=var)
        file.create_dataset("raw.var", data=raw_var)
        components = np.zeros(5, np.dtype([("X_pca", "f4", (2,))]))
        components["X_pca"] = np.arange(10).reshape(5, 2)
        file.create_dataset("obsm", data=components)
        uns = file.create_group("uns")
        uns.create_dataset("louvain_categories", data=np.array([b"B cells", b"T cells", b"NK"]))
        uns.create_dataset("sex_categories", data=np.array([b"female"]))
        uns.create_dataset("chromosome_categories", data=np.array([b"X", b"Y"]))
        uns.create_dataset("depth_categories", data=np.array([b"not", b"codes"]))
    return matrix


def write_10x(
    path: Path,
    matrix: Any,
    *,
    dtype: str = "int32",
    compression: str | None = "gzip",
    without: tuple[str, ...] = (),
    **features: Any,
) -> None:
    """A Cell Ranger 3 file of `matrix` (cells x genes); `features` are further columns."""
    n_cells, n_genes = matrix.shape
    columns: dict[str, Any] = {
        "id": [f"ENSG{j:04d}" for j in range(n_genes)],
        "name": [f"gene{j // 2}" for j in range(n_genes)],
        "feature_type": ["Gene Expression"] * n_genes,
        "genome": ["hg38"] * n_genes,
        **features,
    }
    csr = sp.csr_matrix(matrix)
    with h5py.File(path, "w") as file:
        group = file.create_group("matrix")
        options = {"compression": compression, "chunks": True} if compression else {}
        group.create_dataset("data", data=csr.data.astype(dtype), **options)
        group.create_dataset("indices", data=csr.indices.astype(np.int64), **options)
        group.create_dataset("indptr", data=csr.indptr.astype(np.int64))
        group.create_dataset("shape", data=np.array([n_genes, n_cells], np.int32))
        group.create_dataset(
            "barcodes", data=np.array([f"CELL{i}-1".encode() for i in range(n_cells)])
        )
        table = group.create_group("features")
        table.create_dataset("_all_tag_keys", data=np.array([b"genome"]))
        for name, values in columns.items():
            if name not in without:
                stored = np.array(values)
                table.create_dataset(
                    name, data=stored.astype("S") if stored.dtype.kind == "U" else stored
                )


def write_10x_legacy(path: Path, matrices: dict[str, Any]) -> None:
    """The layout before Cell Ranger 3: a group a genome."""
    with h5py.File(path, "w") as file:
        for genome, matrix in matrices.items():
            csr = sp.csr_matrix(matrix)
            n_cells, n_genes = csr.shape
            group = file.create_group(genome)
            group.create_dataset("data", data=csr.data.astype(np.int32))
            group.create_dataset("indices", data=csr.indices.astype(np.int64))
            group.create_dataset("indptr", data=csr.indptr.astype(np.int64))
            group.create_dataset("shape", data=np.array([n_genes, n_cells], np.int32))
            for name, prefix in (("genes", "ENSG"), ("gene_names", "G")):
                names = [f"{prefix}{genome}{j}".encode() for j in range(n_genes)]
                group.create_dataset(name, data=np.array(names))
            barcodes = [f"{genome}CELL{i}-1".encode() for i in range(n_cells)]
            group.create_dataset("barcodes", data=np.array(barcodes))


def read_10x_h5(path: Path, **options: Any) -> anndata.AnnData:
    """What scanpy makes of a 10x file.

    Its obs has no columns, and their missing names are objects under any pandas; here they are of
    the dtype that names of columns have otherwise.
    """
    adata = scanpy.read_10x_h5(path, **options)
    if len(adata.obs.columns) == 0:
        adata.obs.columns = adata.var.columns[:0]
    return adata
