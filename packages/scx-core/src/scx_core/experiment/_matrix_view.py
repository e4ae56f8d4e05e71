"""A matrix of an open file that looks like a matrix: X, a layer or raw.X."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from scx_core._matrix import Matrix
from scx_core.experiment._indexing import Positions, positions
from scx_core.experiment._memory import (
    GatheredRows,
    as_csr_matrix,
    as_form,
)
from scx_core.sources.base import CsrBlock, IndexDtypes, MatrixForm

if TYPE_CHECKING:
    import scipy.sparse as sp

# values that one step of a selection of columns holds before the columns are picked
COLUMN_STEP_VALUES = 2**24


class MatrixView:
    """Rows of a matrix, decoded from the file as they are asked for.

    `view[rows]` and `view[rows, columns]` give scipy CSR matrices in the order asked for; rows and
    columns are whole numbers, slices, boolean masks or sequences of numbers, with repeats.
    `to_memory()` gives the whole matrix in the form that was written. Calls from several threads
    at once are fine.

    A `MatrixView` is a source of row blocks too, so that files can be written from it.
    """

    def __init__(
        self,
        matrix: Matrix | None,
        *,
        shape: tuple[int, int],
        stored_dtype: np.dtype[Any],
        dtype: np.dtype[Any],
        form: MatrixForm,
        index_dtypes: IndexDtypes | None,
        name: str,
    ) -> None:
        self._matrix = matrix
        self._shape = shape
        self._stored_dtype = stored_dtype
        self._dtype = dtype
        self._form = form
        self._index_dtypes = index_dtypes
        self._name = name

    @property
    def shape(self) -> tuple[int, int]:
        """Rows of the file and columns."""
        return self._shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype that was written; the file may store a wider one."""
        return self._dtype

    @property
    def form(self) -> MatrixForm:
        """How the matrix was held when it was written; `to_memory` gives this form."""
        return self._form

    @property
    def index_dtypes(self) -> IndexDtypes | None:
        """The widths of `indices` and `indptr` that `to_memory` gives; None for a dense matrix."""
        return self._index_dtypes

    @property
    def name(self) -> str:
        """What messages call the matrix, for example `layers['counts']`."""
        return self._name

    @property
    def nnz(self) -> int:
        """How many values the file stores."""
        return 0 if self._matrix is None else self._matrix.nnz

    def __len__(self) -> int:
        return self._shape[0]

    def __repr__(self) -> str:
        n_rows, n_cols = self._shape
        return f"{self._name}: {n_rows} × {n_cols} {self._dtype}, {self.nnz} stored values"

    def __getitem__(self, index: Any) -> sp.csr_matrix:
        if not isinstance(index, tuple):
            return self.gather_rows(index)
        if len(index) != 2:
            raise IndexError(f"a matrix has two axes, not {len(index)}")
        rows = positions(index[0], self._shape[0], "row")
        columns = positions(index[1], self._shape[1], "column")
        if isinstance(index[1], slice) and len(columns) == self._shape[1] and index[1].step in (
            None,
            1,
        ):
            return self._csr(rows)
        return self._columns_of(rows, columns)

    def gather_rows(self, rows: Any, *, threads: int = 0) -> sp.csr_matrix:
        """The given rows as a scipy CSR matrix, in their order, repeats included.

        Parameters
        ----------
        rows
            Whole numbers in any order (negative ones count from the end), a slice or a boolean
            mask.
        threads
            How many threads decode; 0 for as many as the machine has.

        Returns
        -------
        A matrix of `len(rows)` x `n_vars` with ascending columns in each row. Its values have
        `dtype`, except that float16, which scipy has no sparse matrix of, becomes float32.
        """
        return self._csr(positions(rows, self._shape[0], "row"), threads=threads)

    def gather(self, rows: Positions, *, threads: int = 0) -> GatheredRows:
        """Like `gather_rows` for positions that are in range, as plain arrays in `dtype`."""
        if self._matrix is None:
            gathered = GatheredRows.empty(len(rows), self._shape[1], self._stored_dtype)
        else:
            gathered = GatheredRows(
                *self._matrix.gather_csr(rows, threads=threads), n_cols=self._shape[1]
            )
        return gathered.astype(self._dtype)

    def to_memory(self, *, rows: Positions | None = None) -> Any:
        """The matrix, or the given rows of it, in the form, dtype and widths that were written."""
        if rows is None:
            rows = np.arange(self._shape[0], dtype=np.int64)
        return as_form(self.gather(rows), self._form, self._index_dtypes)

    def toarray(self) -> npt.NDArray[Any]:
        """The matrix as a dense array of `dtype`."""
        return cast("npt.NDArray[Any]", as_form(self.to_memory_rows(), "dense", None))

    def to_memory_rows(self) -> GatheredRows:
        """All rows as plain arrays."""
        return self.gather(np.arange(self._shape[0], dtype=np.int64))

    def row_blocks(self, block_bytes: int) -> Iterator[CsrBlock]:
        """All rows in order, in blocks of about `block_bytes`."""
        for start, stop in self.row_ranges(block_bytes):
            rows = self.gather(np.arange(start, stop, dtype=np.int64))
            yield CsrBlock(rows.indptr, rows.indices, rows.values)

    def row_ranges(self, block_bytes: int) -> Iterator[tuple[int, int]]:
        """Ranges of rows whose indices and values take about `block_bytes`, at least a row each."""
        n_rows = self._shape[0]
        if self._matrix is None:
            if n_rows:
                yield 0, n_rows
            return
        value_bytes = 4 + self._stored_dtype.itemsize
        step = 2**16
        for first in range(0, n_rows, step):
            last = min(n_rows, first + step)
            counts = self._matrix.row_counts(np.arange(first, last, dtype=np.int64))
            ends = np.cumsum(counts * value_bytes + 8)
            start = 0
            while start < last - first:
                done = int(ends[start - 1]) if start else 0
                stop = int(np.searchsorted(ends, done + block_bytes, "right"))
                stop = max(stop, start + 1)
                yield first + start, first + stop
                start = stop

    def _csr(self, rows: Positions, *, threads: int = 0) -> sp.csr_matrix:
        return as_csr_matrix(self.gather(rows, threads=threads))

    def _columns_of(self, rows: Positions, columns: Positions) -> sp.csr_matrix:
        import scipy.sparse as sp

        mean_values = self.nnz // max(1, self._shape[0]) + 1
        step = max(1, COLUMN_STEP_VALUES // mean_values)
        parts = [
            self._csr(rows[start : start + step])[:, columns]
            for start in range(0, max(1, len(rows)), step)
        ]
        stacked = parts[0] if len(parts) == 1 else sp.vstack(parts, format="csr")
        stacked.sort_indices()
        return cast("sp.csr_matrix", stacked)
