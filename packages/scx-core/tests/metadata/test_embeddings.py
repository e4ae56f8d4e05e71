"""obsm and varm: arrays, sparse matrices, frames."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse as sp
from anndata import AnnData
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from metadata_arrow import ipc_file
from metadata_samples import NUMPY_DTYPES, assert_same, sample_frame
from metadata_strategies import sparse_matrices

from scx_core.metadata import decode_embedding, encode_embedding


def round_trip(value: Any) -> None:
    n_rows = value.shape[0]
    result = decode_embedding(encode_embedding(value, n_rows), n_rows=n_rows)
    assert_same(result, value)
    if isinstance(value, np.ndarray):
        assert result.flags.writeable
        assert result.flags.c_contiguous


@pytest.mark.parametrize("dtype", NUMPY_DTYPES)
@pytest.mark.parametrize("shape", [(5, 3), (5, 1), (5, 0), (0, 3), (5,), (5, 2, 3), (1500, 2)])
def test_dense(dtype: str, shape: tuple[int, ...]) -> None:
    values = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    round_trip(values)
    round_trip(np.asfortranarray(values))
    round_trip(values[::-1])


@given(
    hnp.arrays(st.sampled_from(NUMPY_DTYPES), hnp.array_shapes(min_dims=1, max_dims=4, min_side=0))
)
def test_dense_bits(values: np.ndarray) -> None:
    round_trip(np.ascontiguousarray(values))


def test_one_arrow_column_for_each_component() -> None:
    values = np.arange(6, dtype="f4").reshape(3, 2)
    batch = pa.ipc.open_file(encode_embedding(values, 3)).get_batch(0)
    assert batch.schema.names == ["0", "1"]
    assert set(batch.schema.types) == {pa.float32()}
    assert batch.column(1).to_pylist() == [1.0, 3.0, 5.0]


def test_text() -> None:
    round_trip(np.array([["a", "bb"], ["", "ü"]]))
    round_trip(np.array([["a", "bb"], ["", "ü"]], dtype=object))
    round_trip(np.array(["a", "bb"], dtype="U40"))
    round_trip(np.array(["x" * 5000, ""]))
    round_trip(np.empty((0, 2), dtype=object))


def test_frames() -> None:
    round_trip(sample_frame())
    result = decode_embedding(encode_embedding(sample_frame(), 3))
    result.iloc[0, 0] = True
    assert result.iloc[0, 0]


@given(sparse_matrices())
def test_sparse(matrix: Any) -> None:
    round_trip(matrix)


def test_views_of_anndata_are_plain_arrays() -> None:
    values = np.arange(8.0).reshape(4, 2)
    adata = AnnData(np.ones((4, 1), dtype="f4"), obsm={"d": values, "s": sp.csr_matrix(values)})[
        [2, 0]
    ]
    assert_same(decode_embedding(encode_embedding(adata.obsm["d"], 2)), values[[2, 0]])
    sparse = decode_embedding(encode_embedding(adata.obsm["s"], 2))
    assert_same(sparse, sp.csr_matrix(values)[[2, 0]])


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.ma.masked_array(np.ones((2, 2))), "MaskedArray of dtype float64.*filled"),
        (sp.coo_matrix(np.eye(2)), "coo_matrix.*tocsr"),
        (np.zeros(2, dtype=[("a", "i4")]), r"dtype \[\('a', '<i4'\)\]"),
        (np.zeros((2, 2), dtype="M8[ns]"), "datetime64"),
        (np.zeros((2, 2), dtype="g"), "float128"),
        (np.zeros((2, 2), dtype="U2000"), "<U2000"),
        (np.array([["a", None]] * 2, dtype=object), "dtype object"),
        ([[1, 2], [3, 4]], "is a list"),
        (pd.Series([1, 2]), "Series.*to_numpy"),
    ],
)
def test_refusals(value: Any, message: str) -> None:
    with pytest.raises(TypeError, match=rf"^obsm\['k'\] is a {message}|{message}"):
        encode_embedding(value, 2, "obsm['k']")


def test_refusals_of_shape_and_text() -> None:
    for value in (np.ones((3, 2)), sp.csr_matrix((3, 2)), pd.DataFrame(index=range(3))):
        with pytest.raises(ValueError, match=r"^obsm\['k'\] has 3 rows; it must have 2"):
            encode_embedding(value, 2, "obsm['k']")
    with pytest.raises(ValueError, match=r"^obsm\['k'\] holds .* surrogate"):
        encode_embedding(np.array([["\ud800"]]), 1, "obsm['k']")
    with pytest.raises(TypeError, match=r"^obsm\['k'\]\['x'\] mixes"):
        encode_embedding(pd.DataFrame({"x": [1, "a"]}), 2, "obsm['k']")


def test_a_sparse_matrix_that_contradicts_itself_is_refused() -> None:
    matrix = sp.csr_matrix(np.eye(3))
    matrix.indices = np.array([0, 1, 7], dtype=np.int32)
    with pytest.raises(ValueError, match=r"^obsm\['k'\] cannot be stored: an index of it"):
        encode_embedding(matrix, 3, "obsm['k']")
    matrix = sp.csr_matrix(np.eye(3))
    matrix.indptr = np.array([0, 2, 1, 3], dtype=np.int32)
    with pytest.raises(ValueError, match="pointers"):
        encode_embedding(matrix, 3)


def test_another_number_of_rows_than_known() -> None:
    for value in (np.ones((3, 2)), sp.csr_matrix((3, 2)), pd.DataFrame(index=list("abc"))):
        content = encode_embedding(value, 3)
        with pytest.raises(ValueError, match="obsm cannot be read"):
            decode_embedding(content, n_rows=2)


def test_files_of_other_writers() -> None:
    values = np.arange(6, dtype="f4").reshape(3, 2)
    plain = ipc_file(pa.record_batch({"X_0": values[:, 0], "X_1": values[:, 1]}))
    assert_same(decode_embedding(plain, n_rows=3), values)
    df = pd.DataFrame({"a": [1, 2]}, index=["x", "y"])
    assert_same(decode_embedding(ipc_file(pa.RecordBatch.from_pandas(df))), df)
    mixed = ipc_file(pa.record_batch({"a": [1], "b": [1.5]}))
    with pytest.raises(ValueError, match="components of dtype float64 in an array of dtype int64"):
        decode_embedding(mixed)
    gaps = ipc_file(pa.record_batch({"a": [1, None]}))
    with pytest.raises(ValueError, match="has gaps"):
        decode_embedding(gaps)


@pytest.mark.parametrize(
    "details",
    [
        '{"version":2}',
        '{"version":1,"shape":[2,3],"dtype":"<i8"}',
        '{"version":1,"shape":[3,2],"dtype":"<i8"}',
        '{"version":1,"shape":[2,-2],"dtype":"<i8"}',
        '{"version":1,"shape":[],"dtype":"<i8"}',
        '{"version":1,"shape":"ab","dtype":"<i8"}',
        '{"version":1,"shape":[2,2],"dtype":"<f8"}',
        '{"version":1,"shape":[2,2],"dtype":"O"}',
        '{"version":1,"shape":[2,2],"dtype":"<i8,<i8"}',
        '{"version":1,"shape":[2,2],"dtype":"nonsense"}',
    ],
)
def test_details_that_contradict_the_columns(details: str) -> None:
    batch = pa.record_batch({"0": [1, 2], "1": [3, 4]})
    with pytest.raises(ValueError, match="obsm cannot be read"):
        decode_embedding(ipc_file(batch, metadata={"scx.embedding": details}))


def test_absurd_width_of_text() -> None:
    batch = pa.record_batch({"0": ["a"]})
    details = '{"version":1,"shape":[1,1],"dtype":"<U400000000"}'
    with pytest.raises(ValueError, match="obsm cannot be read"):
        decode_embedding(ipc_file(batch, metadata={"scx.embedding": details}))
