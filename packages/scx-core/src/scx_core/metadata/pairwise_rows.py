"""A graph of obsp, read by ranges of rows without the rest of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ._coordinates import COLUMNS_KEY, ROWS_KEY, axis_length, complete_column
from ._decoding import decoding
from ._ipc import read_batch
from ._values import Values

# entries that are looked at in one step
STEP_ENTRIES = 2**20


class PairwiseRows:
    """The stored entries of a square matrix, by row, then column, as views of its bytes.

    Parameters
    ----------
    buffer
        What `encode_pairwise` gave, or another writer's coordinates.
    n
        The length of the axis.
    where
        What messages call the matrix.

    Raises
    ------
    ValueError
        The bytes hold no such matrix, or coordinates outside of it.
    """

    def __init__(self, buffer: Any, *, n: int, where: str) -> None:
        with decoding(f"{where} cannot be read"):
            batch = read_batch(buffer)
            metadata = batch.schema.metadata or {}
            shape = axis_length(metadata, ROWS_KEY), axis_length(metadata, COLUMNS_KEY)
            if shape != (n, n):
                raise ValueError(f"it is a matrix of shape {shape} where {(n, n)} is expected")
            self._rows = complete_column(batch, "row")
            self._columns = complete_column(batch, "col")
            self._data = complete_column(batch, "data")
            if not _checked(self._rows, self._columns, n):
                order = np.lexsort((self._columns, self._rows))
                self._rows, self._columns = self._rows[order], self._columns[order]
                self._data = self._data[order]

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the values."""
        return self._data.dtype

    def read(self, start: int, stop: int) -> tuple[npt.NDArray[np.int64], Values, Values]:
        """`indptr` from 0, columns and values of the rows from `start` to `stop`."""
        bounds = np.searchsorted(self._rows, np.arange(start, stop + 1))
        first, last = int(bounds[0]), int(bounds[-1])
        indptr = (bounds - first).astype(np.int64, copy=False)
        return indptr, self._columns[first:last], self._data[first:last]


def _checked(rows: Values, columns: Values, n: int) -> bool:
    """Whether the entries are in order; ValueError where a coordinate is none."""
    is_sorted = True
    for start in range(0, len(rows), STEP_ENTRIES):
        # with the first entry of the next step, so that steps are compared as well
        row = rows[start : start + STEP_ENTRIES + 1]
        column = columns[start : start + STEP_ENTRIES + 1]
        for name, values in (("row", row), ("col", column)):
            if values.dtype.kind not in "iu":
                raise ValueError(f"the column {name!r} holds {values.dtype}, not whole numbers")
            if not 0 <= int(values.min()) <= int(values.max()) < n:
                raise ValueError(f"the column {name!r} leaves the range from 0 to {n - 1}")
        same_row = row[1:] == row[:-1]
        ascending = np.where(same_row, column[1:] >= column[:-1], row[1:] > row[:-1])
        is_sorted = is_sorted and bool(ascending.all())
    return is_sorted
