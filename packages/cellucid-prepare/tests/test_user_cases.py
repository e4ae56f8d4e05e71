"""Columns, matrices and files of which each has broken some converter: right, or refused."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import anndata
import h5py
import mudata
import numpy as np
import old_h5ad
import pandas as pd
import pytest
import scipy.sparse as sp
from prepare_reading import (
    listing,
    read,
    refusal_leaves_nothing,
    refused_everywhere,
    same_everywhere,
    written,
)
from prepare_samples import coordinates, obs, small, var
from test_inputs import IDENTITY

import cellucid_prepare
from cellucid_prepare.layout.chunks import index_dtype

CELLS = [f"cell{number}" for number in range(6)]


def test_categories_that_are_numbers_or_flags_keep_labels_and_order() -> None:
    columns = {
        "whole": pd.Categorical([3_000_000_000, None, 2, 2, 2, None]),
        "real": pd.Categorical([1.8, 1.8, 2.5, 1.8, 2.5, 2.5]),
        "flag": pd.Categorical([True, False, False, True, True, True]),
        "ordered": pd.Categorical(
            ["b", "c", None, "b", "c", "b"], categories=["a", "c", "b"], ordered=True
        ),
    }
    back = same_everywhere(**small(obs=obs(**columns))).obs
    for name, column in columns.items():
        assert back[name].cat.categories.tolist() == column.categories.tolist()
        assert back[name].cat.codes.tolist() == column.codes.tolist()
        assert back[name].cat.ordered == column.ordered
    assert back["whole"].cat.codes.tolist()[1] == -1


def test_labels_of_nullable_types_are_those_of_a_file() -> None:
    columns = {
        "whole": pd.Series([1, 2, None, 2, 1, None], dtype="Int64"),
        "real": pd.Series([1.5, None, 2, 2, 2, 1.5], dtype="Float64"),
        "arrow": pd.Series([3, None, 3, 2**60, 3, 2], dtype="int64[pyarrow]"),
    }
    genes = pd.Series([7, None, 2**60 + 1, 5], dtype="Int64").astype("category")
    table = obs(**{name: column.astype("category").array for name, column in columns.items()})
    back = same_everywhere(
        **small(obs=table, var=var(*"abcd", id=genes.array), var_gene_id_column="id")
    )
    for name, column in columns.items():
        found = back.obs[name]
        assert found.cat.categories.tolist() == sorted(set(column.dropna().tolist()))
        assert found.isna().tolist() == column.isna().tolist()
        assert found.dropna().tolist() == column.dropna().tolist()
    assert back.var["id"].cat.categories.tolist() == [5, 7, 2**60 + 1]
    data = anndata.AnnData(
        small()["gene_expression"], obs=table, var=var(*"abcd", id=genes.array),
        obsm={"X_umap": coordinates()},
    )  # fmt: skip
    some = {"var_gene_id_column": "id", "gene_identifiers": [str(2**60 + 1), "b"], **IDENTITY}
    expected = written("h5ad", "object", data=data, **some)
    assert read(expected).var_names.tolist() == ["c", "b"]


def test_half_floats_become_floats_that_browsers_read() -> None:
    table = obs(a=np.array([0.1, 1, 2, 3, 4, np.nan], "f2"))
    back = same_everywhere(**small(obs=table)).obs
    assert back["a"].dtype == np.float32 and back["a"].iloc[0] == np.float32(np.float16(0.1))


def test_names_of_columns_that_are_numbers() -> None:
    table = pd.DataFrame({7: [1] * 6}, index=CELLS)
    refused_everywhere(r"obs\[7\].*'7'", **small(obs=table))


def test_an_anndata_stays_as_it_is() -> None:
    data = anndata.AnnData(
        sp.csc_matrix(np.eye(6, dtype="i8")),
        obs=obs(a=["x", "x", "y", "y", "x", None], n=pd.array([1, None, 2, 3, 4, 5], "Int64")),
        obsm={"X_umap": coordinates()},
    )
    data.uns.update({"a": None, "b": [{"x": 1}], "c": {}, "d": True})
    before = data.copy()
    written("h5ad", data=data, **IDENTITY)
    pd.testing.assert_frame_equal(data.obs, before.obs)
    assert data.X.dtype == before.X.dtype and data.X.format == "csc"
    assert (data.X != before.X).nnz == 0
    assert data.uns == before.uns
    assert data.obsm["X_umap"].dtype == np.float64


@pytest.mark.parametrize("form", ["csr", "csc"])
@pytest.mark.parametrize("on_disk", [False, True])
def test_matrices_out_of_order_are_sorted_summed_and_cleared(form: str, on_disk: bool) -> None:
    """3 x 2, by column: rows out of order, one that comes twice, a stored zero."""
    matrix: Any = sp.csc_matrix((3, 2), dtype="f4")
    matrix.data = np.array([1, 2, 4, 8, 0], "f4")
    matrix.indices, matrix.indptr = np.array([2, 0, 1, 1, 2]), np.array([0, 2, 5])
    expected = np.array([[2, 0], [0, 12], [1, 0]], "f4")
    if form == "csr":
        # the other way round by hand: scipy would put it in order
        matrix = sp.csr_matrix((2, 3), dtype="f4")
        matrix.data = np.array([1, 2, 4, 8, 0], "f4")
        matrix.indices, matrix.indptr = np.array([2, 0, 1, 1, 2]), np.array([0, 2, 5])
        expected = expected.T
    data = anndata.AnnData(
        matrix, obsm={"X_umap": np.zeros((len(expected), 2))}, var=var(*"abc"[: expected.shape[1]])
    )
    before = [array.copy() for array in (matrix.data, matrix.indices, matrix.indptr)]
    source: Any = data
    if on_disk:
        data.write_h5ad("in.h5ad")
        source = "in.h5ad"
    back = read(written("h5ad", data=source, **IDENTITY)).X
    np.testing.assert_array_equal(back.toarray(), expected)
    assert back.nnz == 3 and back.has_sorted_indices
    for array, old in zip((matrix.data, matrix.indices, matrix.indptr), before, strict=True):
        np.testing.assert_array_equal(array, old)


def test_square_matrices_by_column_are_not_transposed() -> None:
    dense = np.arange(25, dtype="f4").reshape(5, 5)
    data = anndata.AnnData(sp.csc_matrix(dense), obsm={"X_umap": np.zeros((5, 2))})
    data.write_h5ad("in.h5ad")
    for source in (data, "in.h5ad"):
        back = read(written("h5ad", data=source, overwrite=True, **IDENTITY))
        np.testing.assert_array_equal(back.X.toarray(), dense)


def test_the_narrower_integer_is_chosen_while_it_fits() -> None:
    assert index_dtype(2**31 - 1) == np.int32
    assert index_dtype(2**31) == np.int64
    assert index_dtype(0) == np.int32


def test_raw_is_never_paired_with_the_genes_of_x() -> None:
    data = anndata.AnnData(
        np.array([[-1.5, 2.25], [0.5, -3]], "f4"), obsm={"X_umap": np.zeros((2, 2))}, var=var(*"ab")
    )
    raw = anndata.AnnData(sp.csr_matrix(np.arange(6, dtype="f4").reshape(2, 3)), var=var(*"xyz"))
    data.raw = raw
    data.layers["counts"] = np.array([[1, 2], [3, 4]], "f4")
    back = read(written("h5ad", data=data, **IDENTITY))
    np.testing.assert_array_equal(back.X, [[-1.5, 2.25], [0.5, -3]])
    assert back.raw is None and not back.layers and back.var_names.tolist() == ["a", "b"]


def test_all_of_a_velocity_missing_and_one_that_is_too_wide() -> None:
    refused_everywhere(
        "velocity.*6 cells.*12 NaN",
        **small(vector_fields={"velocity": {"X_umap": np.full((6, 2), np.nan)}}),
    )
    refused_everywhere(
        r"velocity.*3 columns.*X_umap.*2",
        **small(vector_fields={"velocity": {"X_umap": coordinates(3)}}),
    )


@pytest.mark.parametrize("n_axes", [1, 2, 3])
def test_a_field_over_an_embedding_that_is_the_latent_space_too(n_axes: int) -> None:
    """A viewer shows X_umap_<n>d by itself; any other latent space it shows only when told."""
    for key, other in ((f"X_umap_{n_axes}d", None), ("X_own", {f"{n_axes}d": "X_own"})):
        arguments = small(
            embeddings={key: coordinates(n_axes), "X_umap": coordinates()},
            vector_fields={"v": {key: coordinates(n_axes)}},
            vector_field_default="v",
            latent_key=key,
            embedding_defaults=other,
        )
        back = same_everywhere(**arguments, force=True)
        assert back.uns["cellucid"]["defaults"]["vectorFieldDefault"] == "v"
    refusal_leaves_nothing("not shown at first", **{**arguments, "embedding_defaults": None})


def test_no_cells() -> None:
    nothing = {
        "obs": pd.DataFrame(index=pd.Index([], dtype=object)),
        "embeddings": {"X_umap": np.zeros((0, 2))},
        "gene_expression": sp.csr_matrix((0, 4)),
    }
    refused_everywhere("no cell", **small(**nothing))


@pytest.mark.parametrize("write", [old_h5ad.write_06, old_h5ad.write_07])
def test_old_files_give_labels_not_codes(write: Any) -> None:
    write(Path("old.h5ad"))
    before = listing(Path())
    back = same_everywhere(data="old.h5ad", **IDENTITY)
    assert listing(Path())["old.h5ad"] == before["old.h5ad"]
    labels = back.obs["kind"]
    assert labels.cat.categories.tolist() == ["B", "NK", "T"]
    assert labels.cat.codes.tolist() == old_h5ad.CODES
    assert back.obs_names.tolist() == old_h5ad.CELLS
    assert back.var_names.tolist() == old_h5ad.GENES
    assert (back.X != old_h5ad.matrix()).nnz == 0
    np.testing.assert_array_equal(back.obsm["X_umap"], np.arange(12).reshape(6, 2))
    faults = [fault.where for fault in cellucid_prepare.check("old.h5ad").faults]
    assert {"X", "uns['cellucid']"} <= set(faults) and len(faults) > 2


def test_a_name_with_a_slash_is_refused_by_its_whole_name() -> None:
    old_h5ad.write_07(Path("old.h5ad"), column="G1/S")
    refusal_leaves_nothing(r"obs\['G1/S'\].*G1_S", data="old.h5ad", **IDENTITY)


@pytest.mark.filterwarnings("ignore")
def test_names_in_a_group_of_their_own_become_a_plain_array() -> None:
    """anndata writes names that may have gaps as a group, which old readers do not open."""
    data = anndata.AnnData(np.ones((2, 2), "f4"), obsm={"X_umap": np.zeros((2, 2))})
    data.obs_names = pd.Index(["a", "b"], dtype="string")
    data.obs["t"] = pd.array(["x", None], dtype="string")
    with anndata.settings.override(allow_write_nullable_strings=True):
        data.write_h5ad("in.h5ad")
    for number, source in enumerate((data, "in.h5ad")):
        with h5py.File(written("h5ad", f"out{number}", data=source, **IDENTITY)) as file:
            assert file["obs/_index"].attrs["encoding-type"] == "string-array"
            assert file["obs/t"].attrs["encoding-type"] == "categorical"
    assert Path("out0.h5ad").read_bytes() == Path("out1.h5ad").read_bytes()


def test_modalities_keep_their_order_and_names_of_numpy() -> None:
    def part(genes: list[str]) -> anndata.AnnData:
        return anndata.AnnData(
            np.ones((3, len(genes)), "f4"),
            obs=pd.DataFrame(index=list("abc")),
            var=pd.DataFrame(index=genes),
            obsm={"X_umap": np.zeros((3, 2))},
        )

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data = mudata.MuData({np.str_("zeta"): part(["g", "h"]), np.str_("alpha"): part(["g"])})
        path = cellucid_prepare.prepare("a.h5mu", format="h5mu", data=data, **IDENTITY)
        back = mudata.read_h5mu(path)
    assert list(back.mod) == ["zeta", "alpha"]
    assert back["alpha"].var_names.tolist() == ["g"] and back["zeta"].n_vars == 2


def test_a_compression_that_the_machine_lacks_is_named() -> None:
    data = anndata.AnnData(np.ones((4, 4), "f4"), obsm={"X_umap": np.zeros((4, 2), "f4")})
    data.write_h5ad("in.h5ad")
    with h5py.File("in.h5ad", "r+") as file:
        del file["X"]
        creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        creation.set_chunk((4, 4))
        # a number that is registered, and no filter of it installed
        creation.set_filter(32026, h5py.h5z.FLAG_OPTIONAL, (0,))
        h5py.h5d.create(
            file.id, b"X", h5py.h5t.IEEE_F32LE, h5py.h5s.create_simple((4, 4)), creation
        )
        file["X"].id.write_direct_chunk((0, 0), b"\0" * 64)
        file["X"].attrs.update({"encoding-type": "array", "encoding-version": "0.2.0"})
    before = listing(Path())
    with pytest.raises(ValueError, match=r"/X is compressed with the HDF5 filter blosc2"):
        written("h5ad", data="in.h5ad", **IDENTITY)
    assert listing(Path()) == before
    assert "packed with blosc2" in str(cellucid_prepare.check("in.h5ad"))


def test_pointers_of_every_width_give_the_same_bytes() -> None:
    counts = small()["gene_expression"]
    anndata.AnnData(counts, obsm={"X_umap": coordinates()}).write_h5ad("in.h5ad")
    expected: bytes | None = None
    for pointers, indices in (("i4", "i4"), ("i8", "i4"), ("i8", "i8"), ("u8", "u4")):
        with h5py.File("in.h5ad", "r+") as file:
            for name, dtype in (("indptr", pointers), ("indices", indices)):
                del file["X"][name]
                file["X"][name] = getattr(counts, name).astype(dtype)
        found = written("h5ad", data="in.h5ad", overwrite=True, **IDENTITY).read_bytes()
        expected = expected or found
        assert found == expected
