"""obsp and varp: matrices over pairs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse as sp
from anndata.tests.helpers import assert_equal
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from metadata_arrow import ipc_file
from metadata_samples import NUMPY_DTYPES, assert_same

from scx_core.metadata import decode_pairwise, encode_pairwise
from scx_core.metadata._coordinates import coordinate_dtype

CLASSES = [sp.csr_matrix, sp.csr_array, sp.csc_matrix, sp.csc_array]
SPARSE_DTYPES = ["?", "i1", "u2", "i4", "i8", "f4", "f8", "c8"]


def round_trip(value: Any) -> Any:
    n = value.shape[0]
    result = decode_pairwise(encode_pairwise(value, n), n=n)
    assert type(result) is type(value)
    assert result.dtype == value.dtype
    assert_equal(result, value, exact=True)
    return result


@pytest.mark.parametrize("kind", CLASSES)
@pytest.mark.parametrize("dtype", SPARSE_DTYPES)
@pytest.mark.parametrize("widths", [("i4", "i4"), ("i8", "i4"), ("i4", "i8"), ("i8", "i8")])
def test_sparse(kind: Any, dtype: str, widths: tuple[str, str]) -> None:
    dense = np.array([[0, 1, 0, 2], [0, 0, 0, 0], [3, 0, 4, 0], [0, 5, 0, 0]]).astype(dtype)
    matrix = kind(dense)
    matrix.indices = matrix.indices.astype(widths[0])
    matrix.indptr = matrix.indptr.astype(widths[1])
    assert_same(round_trip(matrix), matrix)


@pytest.mark.parametrize("kind", CLASSES)
@pytest.mark.parametrize("n", [0, 1, 5])
def test_nothing_stored(kind: Any, n: int) -> None:
    assert_same(round_trip(kind((n, n))), kind((n, n)))


@given(st.integers(0, 6), st.data())
def test_dense_keeps_every_bit(n: int, data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(NUMPY_DTYPES))
    matrix = data.draw(hnp.arrays(dtype, (n, n)))
    assert_same(decode_pairwise(encode_pairwise(matrix, n), n=n), matrix)


def test_dense_specials() -> None:
    matrix = np.array([[-0.0, np.nan], [0.0, np.inf]])
    content = encode_pairwise(matrix, 2)
    assert pa.ipc.open_file(content).get_batch(0).num_rows == 3
    assert_same(decode_pairwise(content), matrix)
    assert_same(decode_pairwise(encode_pairwise(matrix.astype(complex), 2)), matrix.astype(complex))


@pytest.mark.parametrize("kind", CLASSES)
def test_stored_zeros_and_repeated_entries_stay(kind: Any) -> None:
    parts = (np.array([1.0, 0.0, 2.0, 1e16]), np.array([0, 0, 1, 2]), np.array([0, 2, 3, 4]))
    matrix = kind(parts, shape=(3, 3))
    assert_same(decode_pairwise(encode_pairwise(matrix, 3), n=3), matrix)


@pytest.mark.parametrize("kind", CLASSES)
def test_unsorted_indices_come_back_sorted(kind: Any) -> None:
    parts = (np.array([1.0, 2, 3, 4, 5]), np.array([2, 0, 2, 1, 0]), np.array([0, 3, 3, 5]))
    matrix = kind(parts, shape=(3, 3))
    before = matrix.copy()
    content = encode_pairwise(matrix, 3)
    assert_same(matrix, before)
    batch = pa.ipc.open_file(content).get_batch(0).to_pydict()
    places = list(zip(batch["row"], batch["col"], strict=True))
    assert places == sorted(places)
    result = decode_pairwise(content, n=3)
    assert result.indices.tolist() == [0, 2, 2, 0, 1]
    assert result.data.tolist() == [2, 1, 3, 5, 4]  # repeated entries in their order
    assert result.has_sorted_indices
    np.testing.assert_array_equal(result.toarray(), matrix.toarray())


def test_layout_in_the_file() -> None:
    matrix = sp.csc_matrix(np.array([[0, 7.5, 0], [0, 0, 0], [1, 2, 0]], dtype="f4"))
    batch = pa.ipc.open_file(encode_pairwise(matrix, 3)).get_batch(0)
    assert batch.schema.names == ["row", "col", "data"]
    assert batch.schema.types == [pa.int32(), pa.int32(), pa.float32()]
    assert batch.to_pydict() == {"row": [0, 2, 2], "col": [1, 0, 1], "data": [7.5, 1.0, 2.0]}
    assert batch.schema.metadata[b"n_rows"] == b"3"
    assert batch.schema.metadata[b"n_cols"] == b"3"


def test_width_of_coordinates() -> None:
    assert coordinate_dtype((2**31 - 1, 3)) == np.int32
    assert coordinate_dtype((2**31, 3)) == np.int64
    assert coordinate_dtype((3, 2**31)) == np.int64


def test_entries_beyond_the_pointers_are_no_entries() -> None:
    matrix = sp.csr_matrix(np.eye(2))
    matrix.data = np.array([1.0, 1.0, 9.0])
    matrix.indices = np.array([0, 1, 1], dtype=np.int32)
    result = decode_pairwise(encode_pairwise(matrix, 2))
    np.testing.assert_array_equal(result.toarray(), np.eye(2))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (sp.coo_matrix(np.eye(2)), "tocsr"),
        (np.ma.masked_array(np.eye(2)), "filled"),
        (np.ones((2, 2, 2)), "ndarray of dtype float64"),
        (np.array([["a", "b"]] * 2), "<U1"),
        (pd.DataFrame(np.eye(2)), "to_numpy"),
        (sp.csr_matrix(np.eye(2), dtype="g"), "float128"),
    ],
)
def test_refusals(value: Any, message: str) -> None:
    with pytest.raises(TypeError, match=rf"^obsp\['k'\] is a .*{message}"):
        encode_pairwise(value, 2, "obsp['k']")


def test_refusals_of_shape() -> None:
    for value in (np.ones((2, 3)), sp.csr_matrix((3, 3))):
        with pytest.raises(ValueError, match=r"^obsp\['k'\] has the shape .*must be \(2, 2\)"):
            encode_pairwise(value, 2, "obsp['k']")


def foreign(**columns: Any) -> bytes:
    return ipc_file(pa.record_batch(columns), metadata={"n_rows": "3", "n_cols": "3"})


def test_files_of_other_writers() -> None:
    dense = np.array([[0, 1.5, 0], [0, 0, 0], [2, 0, 3]])
    result = decode_pairwise(foreign(row=[0, 2, 2], col=[1, 0, 2], data=[1.5, 2.0, 3.0]), n=3)
    assert type(result) is sp.csr_matrix
    np.testing.assert_array_equal(result.toarray(), dense)
    assert result.indices.dtype == np.int32
    shuffled = decode_pairwise(foreign(row=[2, 0, 2], col=[2, 1, 0], data=[3.0, 1.5, 2.0]))
    assert_same(shuffled, result)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"row": [0], "col": [3], "data": [1.0]}, "'col' leaves the range from 0 to 2"),
        ({"row": [-1], "col": [0], "data": [1.0]}, "'row' leaves the range"),
        ({"row": [0.0], "col": [0], "data": [1.0]}, "not whole numbers"),
        ({"row": [None], "col": [0], "data": [1.0]}, "'row' "),
        ({"row": [0], "col": [0], "data": [None]}, "'data' "),
        ({"row": [0], "col": [0]}, "data"),
    ],
)
def test_damaged_coordinates(columns: dict[str, list[Any]], message: str) -> None:
    arrays = {
        name: pa.array(values, type=pa.int32() if values == [None] else None)
        for name, values in columns.items()
    }
    with pytest.raises(ValueError, match=f"obsp cannot be read: .*{message}"):
        decode_pairwise(foreign(**arrays))


@pytest.mark.parametrize(
    "metadata",
    [
        {},
        {"n_rows": "3"},
        {"n_rows": "-3", "n_cols": "3"},
        {"n_rows": "3", "n_cols": "three"},
        {"n_rows": "3", "n_cols": "3", "scx.matrix": '{"version":2}'},
        {"n_rows": "3", "n_cols": "3", "scx.matrix": '{"version":1,"class":"dok_matrix"}'},
        {"n_rows": "3", "n_cols": "3", "scx.matrix": '{"version":1,"dtype":"<f8"}'},
        {"n_rows": "3", "n_cols": "3", "scx.matrix": '{"version":1,"indices":"int8"}'},
    ],
)
def test_damaged_metadata(metadata: dict[str, str]) -> None:
    batch = pa.record_batch({"row": [0], "col": [0], "data": [1]})
    with pytest.raises(ValueError, match="obsp cannot be read"):
        decode_pairwise(ipc_file(batch, metadata=metadata))


def test_absurd_shape_is_refused_before_memory_is_taken() -> None:
    batch = pa.record_batch({"row": [0], "col": [0], "data": [1]})
    content = ipc_file(batch, metadata={"n_rows": str(10**15), "n_cols": str(10**15)})
    with pytest.raises(ValueError, match="shape"):
        decode_pairwise(content, n=3)
    with pytest.raises(ValueError, match="obsp cannot be read"):
        decode_pairwise(content)
