"""The h5ad reader against anndata's own: annotations equal, matrices equal, old layouts too."""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anndata
import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from anndata.tests.helpers import assert_equal

from hdf5_samples import (
    STRINGS,
    counts,
    gathered,
    write_bare_h5ad,
    write_frame,
    write_h5ad_06,
    write_h5ad_07,
    write_sparse,
)
from scx_core.sources.h5_compressed import compressed_arrays
from scx_core.sources.h5_matrices import ReadingMeans
from scx_core.sources.h5ad import h5ad_content


@contextmanager
def opened(path: Path, **options: Any) -> Any:
    means = ReadingMeans(1 << 20, path.parent)
    with h5ad_content(path, means, **options) as content:
        yield content


def rebuilt(path: Path, **options: Any) -> anndata.AnnData:
    """An AnnData of what the source gives, its matrices gathered."""
    with opened(path, **options) as content:
        modality = content.modalities[""]
        adata = anndata.AnnData(
            X=None if modality.X is None else in_form(modality.X),
            obs=content.obs,
            var=modality.var,
            layers={name: in_form(layer) for name, layer in modality.layers.items()},
            uns=dict(modality.uns),
            **{name: dict(getattr(modality, name)) for name in ("obsm", "varm", "obsp", "varp")},
        )
        if modality.raw_var is not None:
            raw = anndata.AnnData(
                X=in_form(modality.raw_X), var=modality.raw_var, varm=modality.raw_varm
            )
            raw.obs_names = adata.obs_names
            adata.raw = raw
        return adata


def in_form(source: Any) -> Any:
    dense = gathered(source)
    return dense if source.form == "dense" else getattr(sp, source.form)(dense)


def quietly(function: Any, *arguments: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*arguments)


def read_by_anndata(path: Path) -> anndata.AnnData:
    return quietly(anndata.read_h5ad, path)


def full_adata() -> anndata.AnnData:
    matrix = counts(20, 11)
    adata = anndata.AnnData(
        matrix,
        obs=pd.DataFrame(
            {
                "type": pd.Categorical(["a", "b"] * 10, categories=["b", "a", "unused"]),
                "stage": pd.Categorical([1, 2] * 10, categories=[2, 1], ordered=True),
                "n": pd.array([1, None] * 10, dtype="Int64"),
                "good": pd.array([True, None] * 10, dtype="boolean"),
                "score": np.linspace(0, 1, 20),
            },
            index=[f"cell{i}" for i in range(20)],
        ),
        var=pd.DataFrame(index=[f"gene{j}" for j in range(11)]),
    )
    adata.layers["csc"] = sp.csc_matrix(matrix * 2)
    adata.layers["dense"] = (matrix * 3).toarray().astype(np.float64)
    adata.obsm["X_pca"] = np.arange(40.0).reshape(20, 2)
    adata.obsm["frame"] = pd.DataFrame({"q": range(20)}, index=adata.obs_names)
    adata.varm["loadings"] = np.ones((11, 3), np.float32)
    adata.obsp["graph"] = counts(20, 20, 0.1)
    adata.varp["corr"] = np.eye(11)
    adata.uns["nested"] = {"a": 1, "b": {"c": np.arange(3), "d": "text"}}
    adata.raw = anndata.AnnData(
        counts(20, 15, seed=5), var=pd.DataFrame(index=[f"raw{j}" for j in range(15)])
    )
    return adata


@pytest.mark.parametrize("compression", [None, "gzip", "lzf"])
def test_everything_comes_as_anndata_reads_it(tmp_path: Path, compression: str | None) -> None:
    path = tmp_path / "full.h5ad"
    full_adata().write_h5ad(path, compression=compression)
    assert_equal(rebuilt(path), read_by_anndata(path), exact=True)
    with opened(path) as content:
        modality = content.modalities[""]
        assert modality.X.form == "csr_matrix"
        assert modality.layers["csc"].form == "csc_matrix"
        assert modality.layers["dense"].form == "dense"
        assert modality.X.index_dtypes == ("int32", "int32")


@pytest.mark.parametrize("write", [write_h5ad_06, write_h5ad_07])
def test_old_layouts_come_as_anndata_reads_them(tmp_path: Path, write: Any) -> None:
    path = tmp_path / "old.h5ad"
    matrix = write(path)
    ours = rebuilt(path)
    assert np.array_equal(ours.X.toarray(), matrix.toarray())
    assert_equal(ours, read_by_anndata(path), exact=True)


def test_columns_of_anndata_06_come_with_their_labels(tmp_path: Path) -> None:
    path = tmp_path / "old.h5ad"
    write_h5ad_06(path)
    ours = rebuilt(path)
    types = ours.obs["louvain"]
    assert types.cat.categories.tolist() == ["B cells", "T cells", "NK"]
    assert types.cat.codes.tolist() == [0, 1, -1, 2, 1]
    assert ours.obs["sex"].tolist() == ["female"] * 5
    assert ours.obs["depth"].tolist() == [1.5, 2.5, 3, 4, 5]
    assert ours.obs_names.tolist() == ["c0", "c1", "c2", "c3", "c4"]
    assert ours.var["chromosome"].tolist() == ["X", "Y", "X"]
    assert ours.var_names.tolist() == ["gä", "gb", "gc"]
    # labels of a column of floats are no labels
    assert list(ours.uns) == ["depth_categories"]
    assert ours.raw.var_names.tolist() == ["gä", "gb", "gc", "gd"]
    assert np.array_equal(ours.raw.X.toarray(), counts(5, 4, 0.5, seed=3).toarray())
    assert np.array_equal(ours.obsm["X_pca"], np.arange(10).reshape(5, 2))


def test_columns_of_raw_of_anndata_06_come_with_their_labels(tmp_path: Path) -> None:
    """They lie in a group of their own; those of uns are of obs and var."""
    path = tmp_path / "old.h5ad"
    write_h5ad_06(path)
    raw_type = np.dtype([("index", "S8"), ("s", "i1"), ("n", "i4"), ("chromosome", "i1")])
    raw_var = np.array(
        [(b"ga", 1, 0, 0), (b"gb", 0, 1, 1), (b"gc", -1, 1, 0), (b"gd", 1, 0, 0)], raw_type
    )
    with h5py.File(path, "r+") as file:
        del file["raw.var"]
        file.create_dataset("raw.var", data=raw_var)
        labels = file.create_group("raw.cat")
        labels.create_dataset("s_categories", data=np.array(["ä", "z"], STRINGS))
    var = rebuilt(path).raw.var
    assert var["s"].cat.categories.tolist() == ["ä", "z"]
    assert var["s"].cat.codes.tolist() == [1, 0, -1, 1]
    assert var["n"].tolist() == [0, 1, 1, 0]
    assert var["chromosome"].tolist() == [0, 1, 0, 0]


def test_columns_of_anndata_07_come_with_their_labels(tmp_path: Path) -> None:
    path = tmp_path / "old.h5ad"
    write_h5ad_07(path)
    ours = rebuilt(path)
    assert ours.obs.index.name == "barcode"
    assert ours.obs["type"].tolist()[:4] == ["B", "T", "T", "B"]
    assert ours.obs["type"].isna().tolist() == [False] * 4 + [True, False]
    assert ours.obs["stage"].cat.ordered
    assert ours.obs["stage"].cat.categories.tolist() == ["early", "mid", "late"]


@pytest.mark.parametrize("layout", ["csr", "csc"])
@pytest.mark.parametrize(
    ("indptr", "indices"),
    [
        ("i4", "i4"),
        ("i8", "i4"),
        ("i8", "i8"),
        ("u8", "u4"),
        ("u8", "u8"),
        (">i4", ">i8"),
        ("i4", "u1"),
    ],
)
def test_index_widths_do_not_matter(tmp_path: Path, layout: str, indptr: str, indices: str) -> None:
    matrix = counts(5, 5, 0.5).asformat(layout)
    path = tmp_path / "a.h5ad"
    write_bare_h5ad(path, matrix, indptr=indptr, indices=indices)
    with opened(path) as content:
        source = content.modalities[""].X
        assert source.dtype == np.float32
        for block_bytes in (1, 50, 10_000):
            assert np.array_equal(gathered(source, block_bytes), matrix.toarray())


def test_unsorted_repeated_and_stored_zero_entries_are_handed_on(tmp_path: Path) -> None:
    # rows [3, 1, 2], [1, 1], a stored 0, and none
    matrix = sp.csr_matrix((4, 5), dtype=np.float32)
    matrix.indptr = np.array([0, 3, 5, 6, 6], np.int32)
    matrix.indices = np.array([3, 1, 2, 1, 1, 4], np.int32)
    matrix.data = np.array([1, 2, 3, 4, 5, 0], np.float32)
    path = tmp_path / "a.h5ad"
    write_bare_h5ad(path, matrix)
    with opened(path) as content:
        (block,) = content.modalities[""].X.row_blocks(1000)
    assert block.indices.tolist() == [3, 1, 2, 1, 1, 4]
    assert block.values.tolist() == [1, 2, 3, 4, 5, 0]
    assert block.indptr.tolist() == [0, 3, 5, 6, 6]


@pytest.mark.parametrize("dtype", ["f2", "f8", "u1", "u2", "i8", "u8", "?", ">f4", ">i2"])
@pytest.mark.parametrize("layout", ["csr", "csc", "dense"])
def test_value_types_stay(tmp_path: Path, dtype: str, layout: str) -> None:
    dense = counts(7, 4, 0.5).toarray().astype(dtype)
    path = tmp_path / "a.h5ad"
    if layout == "dense":
        write_bare_h5ad(path, dense)
    else:
        pattern = counts(7, 4, 0.5).asformat(layout)
        with h5py.File(path, "w") as file:
            file.attrs["encoding-type"] = "anndata"
            write_frame(file, "obs", [str(i) for i in range(7)])
            write_frame(file, "var", [str(j) for j in range(4)])
            group = write_sparse(file, "X", pattern)
            del group["data"]
            group.create_dataset("data", data=pattern.data.astype(dtype))
    with opened(path) as content:
        source = content.modalities[""].X
        # numpy keeps the order of bytes that a dense array has in the file, scipy does not
        kept = np.dtype(dtype) if layout == "dense" else np.dtype(dtype).newbyteorder("=")
        assert source.dtype == kept
        assert np.array_equal(gathered(source), dense.astype(source.dtype))


@pytest.mark.parametrize("compression", [None, "gzip"])
@pytest.mark.parametrize("dtype", ["<f4", ">f4"])
@pytest.mark.parametrize("chunks", [(40, 1), (40, 7), (16, 7), (1, 30), (7, 4), (40, 30)])
def test_dense_matrices_in_chunks_of_any_shape(
    tmp_path: Path, chunks: tuple[int, int], compression: str | None, dtype: str
) -> None:
    dense = counts(40, 30).toarray().astype(dtype)
    dense[3, 4] = -0.0
    dense[5, 6] = np.nan
    path = tmp_path / "a.h5ad"
    write_bare_h5ad(path, dense, chunks=chunks, compression=compression)
    for memory_bytes in (1, 500, 1 << 20):
        means = ReadingMeans(memory_bytes, tmp_path)
        with h5ad_content(path, means) as content:
            source = content.modalities[""].X
            assert source.form == "dense"
            for block_bytes in (1, 1000, 10**6):
                ours = gathered(source, block_bytes)
                assert np.array_equal(
                    ours.view(np.uint32)[ours != 0], dense.view(np.uint32)[dense != 0]
                )
                assert np.array_equal(ours, dense, equal_nan=True)
    assert not list(tmp_path.glob(".scx*"))


def test_chunks_over_many_rows_are_unpacked_once(tmp_path: Path) -> None:
    dense = counts(40, 30).toarray()
    path = tmp_path / "a.h5ad"
    write_bare_h5ad(path, dense, chunks=(40, 1), compression="gzip")
    with h5ad_content(path, ReadingMeans(200, tmp_path)) as content:
        blocks = list(content.modalities[""].X.row_blocks(100))
    assert {type(block).__name__ for block in blocks} == {"CsrBlock"}


def test_empty_axes(tmp_path: Path) -> None:
    for shape in ((0, 3), (3, 0), (0, 0)):
        for make in (sp.csr_matrix, sp.csc_matrix, lambda s: np.zeros(s, np.float32)):
            path = tmp_path / "a.h5ad"
            write_bare_h5ad(path, make(shape))
            with opened(path) as content:
                assert gathered(content.modalities[""].X).shape == shape


def test_null_raw_null_x_and_nullable_strings_of_newer_files(tmp_path: Path) -> None:
    path = tmp_path / "a.h5ad"
    write_bare_h5ad(path, counts(2, 2))
    with h5py.File(path, "a") as file:
        del file["X"], file["obs"]["_index"]
        for name in ("X", "raw"):
            null = file.create_dataset(name, data=h5py.Empty("f"))
            null.attrs["encoding-type"] = "null"
            null.attrs["encoding-version"] = "0.1.0"
        index = file["obs"].create_group("_index")
        index.attrs["encoding-type"] = "nullable-string-array"
        index.attrs["encoding-version"] = "0.1.0"
        values = index.create_dataset("values", data=np.array(["k", "l"], object), dtype=STRINGS)
        mask = index.create_dataset("mask", data=np.array([False, False]))
        values.attrs["encoding-type"] = "string-array"
        mask.attrs["encoding-type"] = "array"
        for dataset in (values, mask):
            dataset.attrs["encoding-version"] = "0.2.0"
    with opened(path) as content:
        modality = content.modalities[""]
        assert modality.X is None and modality.raw_X is None and modality.raw_var is None
        assert content.obs.index.tolist() == ["k", "l"]


def test_layers_can_be_chosen(tmp_path: Path) -> None:
    path = tmp_path / "full.h5ad"
    full_adata().write_h5ad(path)
    with opened(path, layers=["dense"]) as content:
        assert list(content.modalities[""].layers) == ["dense"]
    with opened(path, layers=[]) as content:
        assert content.modalities[""].layers == {}
    words = r"no layer 'counts'; there are \['csc', 'dense'\]"
    with pytest.raises(KeyError, match=words), opened(path, layers=["counts"]):
        pass


def test_other_elements_are_named(tmp_path: Path) -> None:
    path = tmp_path / "a.h5ad"
    write_bare_h5ad(path, counts(2, 2))
    with h5py.File(path, "a") as file:
        file.create_dataset("notes", data=1)
    words = "holds 'notes', which AnnData does not know"
    with pytest.warns(UserWarning, match=words), opened(path):
        pass


def test_graphs_that_lay_in_uns_are_found_beside_those_in_obsp(tmp_path: Path) -> None:
    path = tmp_path / "a.h5ad"
    full_adata().write_h5ad(path)
    with h5py.File(path, "a") as file:
        neighbors = file["uns"].create_group("neighbors")
        neighbors.attrs["encoding-type"] = "dict"
        neighbors.attrs["encoding-version"] = "0.1.0"
        write_sparse(neighbors, "distances", counts(20, 20, 0.2))
    ours, expected = (quietly(read, path) for read in (rebuilt, read_by_anndata))
    assert sorted(ours.obsp) == ["distances", "graph"]
    assert_equal(ours, expected, exact=True)


def test_a_component_of_the_wrong_length_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.h5ad"
    full_adata().write_h5ad(path)
    with h5py.File(path, "a") as file:
        del file["obsm/X_pca"]
        short = file["obsm"].create_dataset("X_pca", data=np.ones((19, 2)))
        short.attrs["encoding-type"] = "array"
        short.attrs["encoding-version"] = "0.2.0"
    with opened(path) as content, pytest.raises(ValueError, match=r"a\.h5ad: /obsm/X_pca is no"):
        content.modalities[""].obsm["X_pca"]


def split_pieces(arrays: Any) -> Any:
    return arrays.pieces(16, first_major=1, split_majors=True)


def test_values_beyond_the_reach_of_32_bits(tmp_path: Path) -> None:
    # arrays of 2^31 values and more, of which only the last chunk was ever written
    before = 2**31 + 3
    path = tmp_path / "a.h5ad"
    with h5py.File(path, "w") as file:
        group = file.create_group("X")
        group.create_dataset("indptr", data=np.array([0, before, before + 2, before + 5]))
        for name, dtype, last in (
            ("data", "f4", [1.5, 2, 3, 4, 5]),
            ("indices", "i4", [0, 2, 0, 1, 2]),
        ):
            dataset = group.create_dataset(name, (before + 5,), dtype, chunks=(1 << 16,))
            dataset[before:] = last
        assert file.id.get_filesize() < 2 << 20
        arrays = compressed_arrays(group, 3, 3)
        parts = [piece.values.tolist() for piece in split_pieces(arrays)]
        assert parts == [[1.5, 2], [3, 4], [5]]
        first, second = arrays.pieces(20, first_major=1)
        assert (first.indptr.tolist(), second.indptr.tolist()) == ([0, 2], [0, 3])
        assert (first.indices.tolist(), second.indices.tolist()) == ([0, 2], [0, 1, 2])
        assert (first.values.tolist(), second.values.tolist()) == ([1.5, 2], [3, 4, 5])
