"""Some rows and columns of a matrix that is read in blocks, and dask arrays cut by genes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from scx_core.sources.anndata_memory import matrix_source
from scx_core.sources.base import CsrBlock, DenseBlock, IndexDtypes, MatrixForm, MatrixSource
from scx_core.sources.csc_transpose import Transposition
from scx_core.sources.derived import DerivedSource
from scx_core.sources.h5_compressed import CompressedPiece, as_indices
from scx_core.sources.h5_matrices import ReadingMeans
from scx_core.sources.reordered_rows import ReorderedRows

Places = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Selected(DerivedSource):
    """Ascending rows, and any distinct columns, of another matrix."""

    rows: Places
    columns: Places

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return len(self.rows), len(self.columns)

    @property
    def index_dtypes(self) -> IndexDtypes | None:
        """Nobody asked for the widths of a part."""
        return None

    @property
    def n_values(self) -> int:
        """At most so many values are stored."""
        for name in ("n_values", "nnz"):
            if hasattr(self.source, name):
                return int(getattr(self.source, name))
        return self.shape[0] * self.shape[1]

    def row_blocks(self, block_bytes: int) -> Iterator[CsrBlock | DenseBlock]:
        """See `MatrixSource`."""
        number = np.full(self.source.shape[1], -1, np.int32)
        number[self.columns] = np.arange(len(self.columns))
        row = 0
        for block in self.source.row_blocks(block_bytes):
            first, last = np.searchsorted(self.rows, (row, row + block.n_rows))
            chosen = self.rows[first:last] - row
            row += block.n_rows
            if not len(chosen):
                continue
            if isinstance(block, DenseBlock):
                yield DenseBlock(np.ascontiguousarray(block.values[chosen][:, self.columns]))
            else:
                yield _chosen(block, chosen, number)


def _chosen(block: CsrBlock, rows: Places, number: npt.NDArray[np.int32]) -> CsrBlock:
    counts, places = block.value_places(rows)
    indices = number[block.indices[places]]
    kept = indices >= 0
    before = np.concatenate(([0], np.cumsum(kept)))
    indptr = before[np.concatenate(([0], np.cumsum(counts)))].astype(np.int64)
    return CsrBlock(indptr, indices[kept], block.values[places][kept])


def selected(
    source: MatrixSource, rows: Places, columns: Places, means: ReadingMeans
) -> MatrixSource | None:
    """These rows and columns of `source`, in their order; None where one is taken twice."""
    order = np.argsort(rows, kind="stable")
    ascending = rows[order]
    if (np.diff(ascending) == 0).any() or len(np.unique(columns)) != len(columns):
        return None
    some = Selected(source, ascending, columns)
    if np.array_equal(ascending, rows):
        return some
    return reordered(some, np.argsort(order), means)


def reordered(source: MatrixSource, order: Places, means: ReadingMeans) -> MatrixSource:
    """`source` with its rows in `order`, sorted by way of temporary files where it is large."""
    n_rows, n_cols = source.shape
    all_of_it = source
    if not hasattr(source, "n_values"):
        all_of_it = Selected(source, np.arange(n_rows), np.arange(n_cols))
    return ReorderedRows(cast(Any, all_of_it), order, means)


@dataclass(frozen=True)
class DaskByColumns:
    """A dask array whose chunks hold some genes of all cells, as those of a lazy CSC matrix do."""

    array: Any
    means: ReadingMeans
    form: MatrixForm = "csc_matrix"
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
        return dtype

    def row_blocks(self, block_bytes: int) -> Iterator[CsrBlock]:
        """See `MatrixSource`."""
        turning = Transposition(*self.shape, self.dtype, self.means.memory_bytes, self.means.folder)
        # how many values there are is not known before all are computed: temporary files it is
        return turning.blocks(
            self.gene_pieces(block_bytes), turning.values_at_most + 1, block_bytes
        )

    def gene_pieces(self, piece_bytes: int) -> Iterator[CompressedPiece]:
        """Whole genes, by the chunks of the array whatever their size."""
        import scipy.sparse as sp

        start = 0
        for width in self.array.chunks[1]:
            part: Any = sp.csc_matrix(self.array[:, start : start + width].compute())
            indices = as_indices(part.indices)
            yield CompressedPiece(start, part.indptr.astype(np.int64), indices, part.data)
            del part
            start += int(width)


def dask_source(matrix: Any, where: str, means: ReadingMeans) -> MatrixSource:
    """A source over a dask array, by rows or by columns as its chunks lie."""
    import scipy.sparse as sp

    is_sparse = sp.issparse(matrix._meta)
    if is_sparse and matrix.ndim == 2 and len(matrix.chunks[1]) > 1 and len(matrix.chunks[0]) == 1:
        return DaskByColumns(matrix, means)
    return matrix_source(matrix, where)
