"""Matrices that lie in memory, or behind something that can be sliced by rows, as sources."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from scx_core.sources.base import (
    CsrBlock,
    DenseBlock,
    IndexDtypes,
    IndexWidth,
    MatrixForm,
    MatrixSource,
)

# rows read first from something whose density is unknown, to size the blocks that follow
PROBE_ROWS = 256


@dataclass(frozen=True)
class CsrSource:
    """A CSR matrix in memory; its blocks are views of the caller's arrays, which stay as they are.

    `form` and `index_dtypes` are what the caller held, which may have been CSC.
    """

    matrix: Any
    form: MatrixForm
    index_dtypes: IndexDtypes | None

    @property
    def shape(self) -> tuple[int, int]:
        return cast(tuple[int, int], self.matrix.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        return cast("np.dtype[Any]", self.matrix.dtype)

    def row_blocks(self, block_bytes: int) -> Iterator[CsrBlock]:
        indptr = self.matrix.indptr
        value_bytes = self.matrix.indices.itemsize + self.matrix.data.itemsize
        values_per_block = max(1, block_bytes // value_bytes)
        # a row without values costs its entry in the row pointer
        rows_per_block = max(1, block_bytes // 8)
        start = 0
        while start < self.shape[0]:
            stop = int(np.searchsorted(indptr, int(indptr[start]) + values_per_block, "right")) - 1
            stop = min(max(stop, start + 1), start + rows_per_block, self.shape[0])
            yield csr_block(self.matrix, start, stop)
            start = stop


@dataclass(frozen=True)
class DenseSource:
    """A dense array in memory."""

    array: npt.NDArray[Any]
    form: MatrixForm = "dense"
    index_dtypes: IndexDtypes | None = None

    @property
    def shape(self) -> tuple[int, int]:
        return cast(tuple[int, int], self.array.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.array.dtype

    def row_blocks(self, block_bytes: int) -> Iterator[DenseBlock]:
        n_rows, n_cols = self.shape
        step = max(1, block_bytes // max(1, n_cols * self.array.itemsize))
        for start in range(0, n_rows, step):
            yield DenseBlock(np.ascontiguousarray(self.array[start : start + step]))


@dataclass(frozen=True)
class SlicedSource:
    """Rows that `read(start, stop)` gives as a scipy matrix or an array: views, files, cell orders.

    `chunk_rows` are row counts to read by instead of sizes fitted to `block_bytes`, for stores that
    compute a chunk whole anyway.
    """

    read: Callable[[int, int], Any]
    shape: tuple[int, int]
    dtype: np.dtype[Any]
    form: MatrixForm
    index_dtypes: IndexDtypes | None = None
    chunk_rows: tuple[int, ...] | None = None

    def row_blocks(self, block_bytes: int) -> Iterator[CsrBlock | DenseBlock]:
        if self.chunk_rows is not None:
            stop = 0
            for n_rows in self.chunk_rows:
                start, stop = stop, stop + n_rows
                if n_rows > 0:
                    yield block_of(self.read(start, stop))
            return
        start = 0
        step = self._first_step(block_bytes)
        while start < self.shape[0]:
            stop = min(start + step, self.shape[0])
            block = block_of(self.read(start, stop))
            yield block
            row_bytes = max(1.0, block_nbytes(block) / (stop - start))
            # at most twice the last step: the next rows may be fuller than these
            step = max(1, min(2 * step, int(block_bytes / row_bytes)))
            start = stop

    def _first_step(self, block_bytes: int) -> int:
        row_bytes = max(1, self.shape[1]) * self.dtype.itemsize
        if self.form != "dense":
            row_bytes += max(1, self.shape[1]) * 8
            return max(1, min(PROBE_ROWS, block_bytes // row_bytes))
        return max(1, block_bytes // row_bytes)


def csr_block(matrix: Any, start: int, stop: int) -> CsrBlock:
    """Rows `start` to `stop` of a scipy CSR matrix, without a copy of indices and values."""
    indptr = np.asarray(matrix.indptr[start : stop + 1]).astype(np.int64)
    first, last = int(indptr[0]), int(indptr[-1])
    indices = np.asarray(matrix.indices[first:last])
    if indices.dtype not in (np.dtype(np.int32), np.dtype(np.int64)):
        indices = indices.astype(np.int64)
    values = np.asarray(matrix.data[first:last])
    return CsrBlock(indptr, np.ascontiguousarray(indices), np.ascontiguousarray(values))


def block_of(rows: Any) -> CsrBlock | DenseBlock:
    """What slicing gave, as a block."""
    if hasattr(rows, "tocsr"):
        matrix = rows.tocsr()
        return csr_block(matrix, 0, matrix.shape[0])
    return DenseBlock(np.ascontiguousarray(rows))


def block_nbytes(block: CsrBlock | DenseBlock) -> int:
    """Bytes that a block's arrays take."""
    if isinstance(block, DenseBlock):
        return block.values.nbytes
    return block.indptr.nbytes + block.indices.nbytes + block.values.nbytes


def sparse_form(matrix: Any) -> MatrixForm:
    """Which of the four sparse forms gives `matrix` back most closely."""
    import scipy.sparse as sp

    kind = "matrix" if isinstance(matrix, sp.spmatrix) else "array"
    layout = "csc" if matrix.format == "csc" else "csr"
    return cast(MatrixForm, f"{layout}_{kind}")


def sparse_index_dtypes(matrix: Any) -> IndexDtypes | None:
    """The widths of `indices` and `indptr`, for matrices that have them."""
    if not hasattr(matrix, "indptr"):
        return None
    return index_width(matrix.indices.dtype), index_width(matrix.indptr.dtype)


def index_width(dtype: np.dtype[Any]) -> IndexWidth:
    """The signed integer that scipy would use for `dtype`."""
    return "int32" if dtype == np.int32 else "int64"


def ordered(source_matrix: Any, order: npt.NDArray[np.int64] | None) -> MatrixSource:
    """A source over a scipy matrix or an array in memory, its rows in `order`."""
    import scipy.sparse as sp

    if not sp.issparse(source_matrix):
        array = np.asarray(source_matrix)
        if order is None:
            return DenseSource(array)
        return SlicedSource(
            lambda start, stop: array[order[start:stop]],
            cast(tuple[int, int], array.shape),
            array.dtype,
            "dense",
        )
    form, widths = sparse_form(source_matrix), sparse_index_dtypes(source_matrix)
    csr: Any = cast(Any, source_matrix).tocsr()
    if order is None:
        return CsrSource(csr, form, widths)
    return SlicedSource(
        lambda start, stop: csr[order[start:stop]], csr.shape, csr.dtype, form, widths
    )
