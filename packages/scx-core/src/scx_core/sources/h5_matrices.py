"""Matrices in HDF5 as sources for the writer: CSR, CSC and dense."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np

from scx_core.sources.base import (
    CsrBlock,
    DenseBlock,
    IndexDtypes,
    MatrixForm,
)
from scx_core.sources.csc_transpose import Transposition
from scx_core.sources.h5_compressed import (
    CompressedArrays,
    CompressedPiece,
    compressed_arrays,
    is_packed,
    reopened,
    sparse_shape,
)
from scx_core.sources.hdf5 import Dataset, Group, attribute, is_group, native, where
from scx_core.writing._blocks import as_csr


@dataclass(frozen=True)
class ReadingMeans:
    """What a reader may use: memory for turning matrices, and a folder for temporary files."""

    memory_bytes: int
    folder: Path


@dataclass(frozen=True)
class CsrOnDisk:
    """A CSR matrix in HDF5, its row blocks read straight from the file."""

    arrays: CompressedArrays
    index_dtypes: IndexDtypes | None
    form: MatrixForm = "csr_matrix"

    @property
    def shape(self) -> tuple[int, int]:
        return self.arrays.n_majors, self.arrays.n_minors

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.arrays.dtype

    @property
    def n_values(self) -> int:
        """Stored values."""
        return self.arrays.n_values

    def row_blocks(self, block_bytes: int) -> Iterator[CsrBlock]:
        for piece in self.arrays.pieces(block_bytes):
            yield CsrBlock(piece.indptr, piece.indices, piece.values)


@dataclass(frozen=True)
class CscOnDisk:
    """A CSC matrix in HDF5; its rows are put together with temporary files where needed."""

    arrays: CompressedArrays
    means: ReadingMeans
    form: MatrixForm = "csc_matrix"

    @property
    def shape(self) -> tuple[int, int]:
        return self.arrays.n_minors, self.arrays.n_majors

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.arrays.dtype

    @property
    def index_dtypes(self) -> IndexDtypes | None:
        return self.arrays.index_dtypes

    @property
    def n_values(self) -> int:
        """Stored values."""
        return self.arrays.n_values

    def row_blocks(self, block_bytes: int) -> Iterator[CsrBlock]:
        n_rows, n_cols = self.shape
        turning = Transposition(
            n_rows, n_cols, self.dtype, self.means.memory_bytes, self.means.folder
        )
        pieces = self.arrays.pieces(turning.piece_bytes, split_majors=True)
        return turning.blocks(pieces, self.arrays.n_values, block_bytes)


@dataclass(frozen=True)
class DenseOnDisk:
    """A two-dimensional dataset, in the byte order of the file."""

    dataset: Dataset
    means: ReadingMeans
    form: MatrixForm = "dense"
    index_dtypes: IndexDtypes | None = None

    @property
    def shape(self) -> tuple[int, int]:
        return cast("tuple[int, int]", self.dataset.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        return cast("np.dtype[Any]", self.dataset.dtype)

    @property
    def n_values(self) -> int:
        """Values that could be stored."""
        n_rows, n_cols = self.shape
        return n_rows * n_cols

    def row_blocks(self, block_bytes: int) -> Iterator[DenseBlock] | Iterator[CsrBlock]:
        n_cols = self.shape[1]
        row_bytes = max(1, n_cols * self.dtype.itemsize)
        step = max(1, block_bytes // row_bytes)
        if self.dataset.chunks is None:
            return self._row_blocks(self.dataset, step)
        # rows that lie in the same chunks are best read together
        chunk_rows = self.dataset.chunks[0]
        band_bytes = chunk_rows * row_bytes
        if step >= chunk_rows:
            return self._row_blocks(self.dataset, step // chunk_rows * chunk_rows)
        if band_bytes <= self.means.memory_bytes or not is_packed(self.dataset):
            cache_bytes = min(band_bytes, self.means.memory_bytes)
            return self._row_blocks(reopened(self.dataset, cache_bytes), step)
        return self._by_columns(block_bytes)

    def _row_blocks(self, dataset: Dataset, step: int) -> Iterator[DenseBlock]:
        for start in range(0, self.shape[0], step):
            yield DenseBlock(np.ascontiguousarray(dataset[start : start + step]))

    def _by_columns(self, block_bytes: int) -> Iterator[CsrBlock]:
        """Rows put together from bands of columns, for chunks that reach over many rows.

        To read such a matrix by rows, every chunk would be unpacked once for each block of rows.
        """
        turning = Transposition(
            *self.shape,
            self.dtype.newbyteorder("="),
            self.means.memory_bytes,
            self.means.folder,
        )
        tiles = self._tiles(turning.piece_bytes)
        for block in turning.blocks(tiles, self.n_values, block_bytes):
            yield replace(block, values=block.values.astype(self.dtype, copy=False))

    def _tiles(self, tile_bytes: int) -> Iterator[CompressedPiece]:
        """The values that are not zero, by bands of columns as wide as the chunks."""
        n_rows, n_cols = self.shape
        chunk_rows, chunk_cols = self.dataset.chunks
        chunk_bytes = chunk_rows * chunk_cols * self.dtype.itemsize
        row_step = min(n_rows, max(1, tile_bytes // chunk_bytes) * chunk_rows)
        dataset = reopened(self.dataset, chunk_bytes)
        for first_col in range(0, n_cols, chunk_cols):
            columns = slice(first_col, min(n_cols, first_col + chunk_cols))
            for first_row in range(0, n_rows, row_step):
                tile = native(dataset[first_row : first_row + row_step, columns])
                by_column = as_csr(DenseBlock(np.ascontiguousarray(tile.T)))
                yield CompressedPiece(
                    first_col, by_column.indptr, by_column.indices + first_row, by_column.values
                )


OnDisk: TypeAlias = CsrOnDisk | CscOnDisk | DenseOnDisk


def matrix_source(item: Group | Dataset, means: ReadingMeans) -> OnDisk:
    """The matrix of an AnnData in HDF5: a sparse group or a two-dimensional dataset.

    Raises
    ------
    ValueError
        It is something else, or its parts do not fit together; the message names file and path.
    """
    if not is_group(item):
        return _dense_source(cast("Dataset", item), means)
    group = cast("Group", item)
    layout = _sparse_layout(group)
    if layout is None:
        encoding = attribute(group, "encoding-type")
        raise ValueError(
            f"{where(group)} holds no matrix that is known here (encoding-type {encoding!r}); "
            "expected are csr_matrix, csc_matrix and two-dimensional arrays"
        )
    n_rows, n_cols = sparse_shape(group)
    if layout == "csr":
        arrays = compressed_arrays(group, n_rows, n_cols)
        return CsrOnDisk(arrays, arrays.index_dtypes)
    return CscOnDisk(compressed_arrays(group, n_cols, n_rows), means)


def _sparse_layout(group: Group) -> str | None:
    encoding = attribute(group, "encoding-type")
    if encoding in ("csr_matrix", "csc_matrix"):
        return cast(str, encoding)[:3]
    before_encodings = attribute(group, "h5sparse_format")
    return before_encodings if before_encodings in ("csr", "csc") else None


def _dense_source(dataset: Dataset, means: ReadingMeans) -> DenseOnDisk:
    if dataset.shape is None or len(dataset.shape) != 2:
        raise ValueError(f"{where(dataset)} has shape {dataset.shape}; a matrix has two dimensions")
    if dataset.dtype.kind not in "iufbc":
        raise ValueError(f"{where(dataset)} has type {dataset.dtype}; numbers are expected")
    return DenseOnDisk(dataset, means)
