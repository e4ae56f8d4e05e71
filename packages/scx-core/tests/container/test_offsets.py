"""The C ABI, called as C would: offsets that do not fit are refused before anything is written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anndata
import numpy as np
import pytest
import scipy.sparse as sp

import scx_core
from scx_core.native import binding
from scx_core.native.container import FileReader
from scx_core.native.matrix import Matrix

CSR_SHARD = 4
INT64 = np.iinfo(np.int64)
ROWS = np.array([0, 1, 2, 1], dtype=np.int64)
COUNTS = [2, 0, 3, 0]
FITTING = [0, 2, 2, 5, 5]
WRONG = [
    [1, 3, 3, 6, 6],  # begins late
    [-1, 1, 1, 4, 4],
    [0, 2, 2, 4, 4],  # ends early
    [0, 2, 2, 6, 6],
    [0, 2, 1, 5, 5],  # descends
    [0, 5, 2, 5, 5],
    [0, 2, 2, 5, 0],
    [0, -3, -3, 0, 0],
    [0, INT64.min, INT64.max, 0, 0],
    [0, INT64.max, INT64.min, 0, 0],
    [0, 0, 0, 0, 0],
]


@pytest.fixture
def matrix(tmp_path: Path) -> Iterator[Matrix]:
    """Rows of two, no and three values."""
    values = sp.csr_matrix(np.array([[1, 2, 0, 0], [0, 0, 0, 0], [0, 3, 4, 5]], np.float32))
    scx_core.from_anndata(anndata.AnnData(values), tmp_path / "a.scx")
    with FileReader(tmp_path / "a.scx") as reader:
        yield Matrix(reader, section_type=CSR_SHARD, name="X")


def pointer(array: np.ndarray | None, kind: str) -> Any:
    ffi = binding.native().ffi
    return ffi.NULL if array is None else ffi.cast(kind, array.ctypes.data)


@pytest.mark.parametrize("indptr", [FITTING, *WRONG])
@pytest.mark.parametrize("with_outputs", [False, True])
def test_gather_csr(matrix: Matrix, indptr: list[int], *, with_outputs: bool) -> None:
    ffi, lib = binding.native().ffi, binding.native().lib
    offsets = np.array(indptr, dtype=np.int64)
    indices = np.full(6, -7, dtype=np.int32)
    values = np.full(6, -7, dtype=np.float32)
    error = ffi.new("scx_error *")
    status = lib.scx_matrix_gather_csr(
        matrix.handle,
        pointer(ROWS, "int64_t *"),
        len(ROWS),
        pointer(offsets, "int64_t *"),
        pointer(indices if with_outputs else None, "int32_t *"),
        lib.SCX_F32,
        pointer(values if with_outputs else None, "void *"),
        1,
        error,
    )
    if indptr == FITTING and with_outputs:
        assert status == lib.SCX_OK
        assert indices.tolist() == [0, 1, 1, 2, 3, -7]
        assert values.tolist() == [1, 2, 3, 4, 5, -7]
        return
    assert status == lib.SCX_BAD_ARGUMENT
    assert b"indptr" in ffi.string(error.message) or b"NULL" in ffi.string(error.message)
    assert set(indices.tolist()) == set(values.tolist()) == {-7}


@pytest.mark.parametrize("n_rows", [2**64 - 1, 2**63])
def test_a_number_of_rows_that_no_indptr_has(n_rows: int) -> None:
    ffi, lib = binding.native().ffi, binding.native().lib
    offsets = np.zeros(2, dtype=np.int64)
    if n_rows == 2**63:
        offsets[0] = 1  # found before anything beyond is looked at
    rows = binding.new_struct(
        "scx_csr_rows", indptr=pointer(offsets, "int64_t *"), n_rows=n_rows, n_values=0
    )
    total = np.full(1, -7.0)
    error = ffi.new("scx_error *")
    status = lib.scx_tokens_library_size(rows, pointer(total, "double *"), 1, error)
    assert status == lib.SCX_BAD_ARGUMENT
    assert b"indptr" in ffi.string(error.message)
    assert total[0] == -7
