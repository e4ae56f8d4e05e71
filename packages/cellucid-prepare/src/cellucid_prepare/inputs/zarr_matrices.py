"""Matrices of AnnData in Zarr, read in blocks of cells and in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from scx_core.sources.base import CsrBlock, DenseBlock, IndexDtypes, MatrixForm, MatrixSource
from scx_core.sources.csc_transpose import Transposition
from scx_core.sources.h5_compressed import CompressedPiece, as_indices
from scx_core.sources.h5_matrices import ReadingMeans
from scx_core.writing._blocks import as_csr


@dataclass(frozen=True)
class CompressedInZarr:
    """CSR or CSC: a group of `data`, `indices` and `indptr`."""

    group: Any
    shape: tuple[int, int]
    form: MatrixForm
    means: ReadingMeans
    index_dtypes: IndexDtypes | None = None

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the values."""
        dtype: np.dtype[Any] = np.dtype(self.group["data"].dtype)
        return dtype.newbyteorder("=")

    @property
    def n_values(self) -> int:
        """Stored values."""
        return int(self.group["data"].shape[0])

    def row_blocks(self, block_bytes: int) -> Iterator[CsrBlock]:
        """See `MatrixSource`."""
        if self.form == "csr_matrix":
            for piece in self._pieces(block_bytes, split_majors=False):
                yield CsrBlock(piece.indptr, piece.indices, piece.values)
            return
        turning = Transposition(*self.shape, self.dtype, self.means.memory_bytes, self.means.folder)
        pieces = self._pieces(turning.piece_bytes, split_majors=True)
        yield from turning.blocks(pieces, int(self._pointers()[-1]), block_bytes)

    @property
    def gene_pieces(self) -> Callable[[int], Iterator[CompressedPiece]] | None:
        """What gives whole genes, where they are stored so."""
        if self.form != "csc_matrix":
            return None
        return partial(self._pieces, split_majors=False)

    def _pieces(self, piece_bytes: int, *, split_majors: bool) -> Iterator[CompressedPiece]:
        indptr = self._pointers()
        data, indices = self.group["data"], self.group["indices"]
        n_minors = self.shape[1 if self.form == "csr_matrix" else 0]
        size = max(1, piece_bytes // (data.dtype.itemsize + max(4, indices.dtype.itemsize)))
        n_majors, n_values = len(indptr) - 1, int(indptr[-1])
        start, low = 0, 0
        while start < n_majors:
            high = min(n_values, low + size)
            if split_majors and high > low:
                stop = int(np.searchsorted(indptr, high, "left"))
            else:
                stop = max(start + 1, int(np.searchsorted(indptr, high, "right")) - 1)
                # a row without values costs its entry in the row pointer
                stop = min(stop, start + max(1, piece_bytes // 8))
                high = int(indptr[stop])
            yield CompressedPiece(
                start,
                np.clip(indptr[start : stop + 1], low, high) - low,
                self._checked(indices[low:high], n_minors),
                np.asarray(data[low:high], dtype=self.dtype),
            )
            start = stop if high == indptr[stop] else stop - 1
            low = high

    def _checked(self, given: Any, n_minors: int) -> Any:
        indices = as_indices(np.asarray(given))
        if len(indices) and not 0 <= int(indices.min()) <= int(indices.max()) < n_minors:
            raise ValueError(f"{self.group.name}/indices has entries outside of the matrix")
        return indices

    def _pointers(self) -> npt.NDArray[np.int64]:
        indptr = np.asarray(self.group["indptr"][:]).astype(np.int64)
        n_majors = self.shape[0 if self.form == "csr_matrix" else 1]
        n_values = self.group["data"].shape[0]
        if len(indptr) != n_majors + 1 or indptr[0] != 0 or (np.diff(indptr) < 0).any():
            raise ValueError(f"{self.group.name}/indptr is no row pointer of {n_majors} entries")
        if not int(indptr[-1]) <= n_values <= self.group["indices"].shape[0]:
            raise ValueError(f"{self.group.name}: its arrays are not equally long")
        return indptr


@dataclass(frozen=True)
class DenseInZarr:
    """A two-dimensional array."""

    array: Any
    means: ReadingMeans
    form: MatrixForm = "dense"
    index_dtypes: IndexDtypes | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        n_rows, n_cols = self.array.shape
        return int(n_rows), int(n_cols)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the values."""
        dtype: np.dtype[Any] = np.dtype(self.array.dtype)
        return dtype.newbyteorder("=")

    def row_blocks(self, block_bytes: int) -> Iterator[DenseBlock] | Iterator[CsrBlock]:
        """See `MatrixSource`."""
        n_rows, n_cols = self.shape
        row_bytes = max(1, n_cols * self.dtype.itemsize)
        chunk_rows = int(self.array.chunks[0])
        # a band of chunks is decoded whole for each block of its rows
        if chunk_rows * row_bytes > max(block_bytes, self.means.memory_bytes):
            turning = Transposition(
                n_rows, n_cols, self.dtype, self.means.memory_bytes, self.means.folder
            )
            return turning.blocks(self._tiles(turning.piece_bytes), n_rows * n_cols, block_bytes)
        return self._bands(max(1, block_bytes // (chunk_rows * row_bytes)) * chunk_rows)

    def _bands(self, step: int) -> Iterator[DenseBlock]:
        for start in range(0, self.shape[0], step):
            yield DenseBlock(np.ascontiguousarray(self.array[start : start + step], self.dtype))

    def _tiles(self, tile_bytes: int) -> Iterator[CompressedPiece]:
        """The values that are not zero, by bands of columns as wide as the chunks."""
        n_rows, n_cols = self.shape
        chunk_rows, chunk_cols = (int(length) for length in self.array.chunks)
        chunk_bytes = chunk_rows * chunk_cols * self.dtype.itemsize
        row_step = max(1, tile_bytes // chunk_bytes) * chunk_rows
        for first_col in range(0, n_cols, chunk_cols):
            for first_row in range(0, n_rows, row_step):
                tile = self.array[
                    first_row : first_row + row_step, first_col : first_col + chunk_cols
                ]
                block = as_csr(DenseBlock(np.ascontiguousarray(tile.T, self.dtype)))
                yield CompressedPiece(
                    first_col, block.indptr, block.indices + first_row, block.values
                )


def zarr_source(item: Any, means: ReadingMeans) -> MatrixSource:
    """The matrix of an AnnData in Zarr: a sparse group or a two-dimensional array.

    Raises ValueError or TypeError where it is something else.
    """
    if hasattr(item, "chunks"):
        if len(item.shape) != 2:
            raise ValueError(f"{item.name} has shape {item.shape}; a matrix has two dimensions")
        return DenseInZarr(item, means)
    encoding = item.attrs.get("encoding-type")
    shape = item.attrs.get("shape")
    if encoding not in ("csr_matrix", "csc_matrix") or shape is None or len(shape) != 2:
        raise ValueError(
            f"{item.name} holds no matrix that is known here (encoding-type {encoding!r})"
        )
    return CompressedInZarr(item, (int(shape[0]), int(shape[1])), encoding, means)
