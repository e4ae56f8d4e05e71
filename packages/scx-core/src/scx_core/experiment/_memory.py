"""Gathered rows as scipy matrices and dense arrays, bit for bit.

scipy's own conversions add values up, which turns -0.0 into 0.0, and have no float16; dense arrays
are therefore filled by assignment.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from scx_core.sources.base import IndexDtypes, MatrixForm

if TYPE_CHECKING:
    import scipy.sparse as sp

# rows of a dense result that are filled by one assignment, as a bound on its temporaries
FILL_VALUES = 2**24
INT32_MAX = 2**31 - 1


@dataclass(frozen=True)
class GatheredRows:
    """Rows in canonical CSR: `indptr` int64 from 0, `indices` int32 ascending in each row."""

    indptr: npt.NDArray[np.int64]
    indices: npt.NDArray[np.int32]
    values: npt.NDArray[Any]
    n_cols: int

    @classmethod
    def empty(cls, n_rows: int, n_cols: int, dtype: np.dtype[Any]) -> GatheredRows:
        """Rows without a stored value."""
        no_indices: npt.NDArray[np.int32] = np.empty(0, dtype=np.int32)
        return cls(
            np.zeros(n_rows + 1, dtype=np.int64), no_indices, np.empty(0, dtype=dtype), n_cols
        )

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return len(self.indptr) - 1, self.n_cols

    def astype(self, dtype: np.dtype[Any]) -> GatheredRows:
        """The same rows with values of `dtype`."""
        if self.values.dtype == dtype:
            return self
        return GatheredRows(self.indptr, self.indices, self.values.astype(dtype), self.n_cols)


def as_csr_matrix(rows: GatheredRows) -> sp.csr_matrix:
    """The rows as a scipy CSR matrix without a copy; float16 as float32."""
    import scipy.sparse as sp

    matrix = sp.csr_matrix(_triple(rows), shape=rows.shape, copy=False)
    matrix.has_canonical_format = True
    return matrix


def as_form(rows: GatheredRows, form: MatrixForm, index_dtypes: IndexDtypes | None) -> Any:
    """The rows as a matrix or array of the given form, with the given widths of its indices."""
    import scipy.sparse as sp

    if form == "dense":
        return as_dense(rows)
    constructor = sp.csr_matrix if form.endswith("matrix") else sp.csr_array
    matrix: Any = constructor(_triple(rows), shape=rows.shape, copy=False)
    matrix.has_canonical_format = True
    if form.startswith("csc"):
        matrix = matrix.tocsc()
    _set_widths(matrix, index_dtypes or ("int32", "int32"))
    return matrix


def as_dense(rows: GatheredRows) -> npt.NDArray[Any]:
    """The rows as a C-contiguous array, zero where nothing is stored."""
    n_rows = rows.shape[0]
    dense: npt.NDArray[Any] = np.zeros(rows.shape, dtype=rows.values.dtype)
    start = 0
    while start < n_rows:
        limit = int(rows.indptr[start]) + FILL_VALUES
        stop = max(start + 1, int(np.searchsorted(rows.indptr, limit, "right")) - 1)
        stop = min(stop, n_rows)
        first, last = int(rows.indptr[start]), int(rows.indptr[stop])
        row_numbers = np.repeat(np.arange(start, stop), np.diff(rows.indptr[start : stop + 1]))
        dense[row_numbers, rows.indices[first:last]] = rows.values[first:last]
        start = stop
    return dense


def _triple(rows: GatheredRows) -> tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]:
    """What scipy's constructors take; of one width, for otherwise they widen by a copy."""
    indptr: npt.NDArray[Any] = rows.indptr
    if int(indptr[-1]) <= INT32_MAX:
        indptr = indptr.astype(np.int32)
    return _scipy_values(rows.values), rows.indices, indptr


def _scipy_values(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if values.dtype == np.float16:
        return values.astype(np.float32)
    # scipy's matrices hold the machine's byte order only
    return values.astype(values.dtype.newbyteorder("="), copy=False)


def _set_widths(matrix: Any, index_dtypes: IndexDtypes) -> None:
    indices, indptr = (np.dtype(name) for name in index_dtypes)
    if matrix.nnz > INT32_MAX:
        indptr = np.dtype(np.int64)
    matrix.indices = matrix.indices.astype(indices, copy=False)
    matrix.indptr = matrix.indptr.astype(indptr, copy=False)
