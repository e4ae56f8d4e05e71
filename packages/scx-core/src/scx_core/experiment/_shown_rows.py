"""Which of the file's rows an experiment shows: all but those that are marked as deleted."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from scx_core.native.container import FileReader

if TYPE_CHECKING:
    import pandas as pd

Rows = npt.NDArray[np.int64]


class ShownRows:
    """The rows of a file, looked up when they are first asked for.

    Parameters
    ----------
    file
        The file.
    include_deleted
        Show the deleted rows too.
    """

    def __init__(self, file: FileReader, *, include_deleted: bool) -> None:
        self._file = file
        self.include_deleted = include_deleted

    @property
    def n_physical(self) -> int:
        """How many rows the file has, deleted ones included."""
        return self._file.info.n_obs

    @property
    def n_shown(self) -> int:
        """How many rows are shown."""
        return self.n_physical if self.selection is None else len(self.selection)

    @cached_property
    def deleted(self) -> Rows:
        """The rows that are marked as deleted, ascending; read-only."""
        rows = self._file.deleted_rows()
        rows.setflags(write=False)
        return rows

    @cached_property
    def live(self) -> Rows | None:
        """The rows that are not, ascending and read-only; None for all."""
        if not len(self.deleted):
            return None
        kept = np.ones(self.n_physical, dtype=np.bool_)
        kept[self.deleted] = False
        rows: Rows = np.flatnonzero(kept).astype(np.int64, copy=False)
        rows.setflags(write=False)
        return rows

    @property
    def selection(self) -> Rows | None:
        """The rows that are shown, ascending; None for all."""
        return None if self.include_deleted else self.live

    def places(self, rows: Rows) -> Rows:
        """Where rows of the file stand among those that are shown; -1 for those that are not."""
        if self.selection is None:
            return rows
        found = np.searchsorted(self.selection, rows)
        found[found == len(self.selection)] = 0
        if not len(self.selection):
            return np.full(len(rows), -1, dtype=np.int64)
        return np.where(self.selection[found] == rows, found, -1)


def pick(value: Any, selection: Rows | None) -> Any:
    """The entries of an array, a sparse matrix or a frame at `selection`; None takes all."""
    if selection is None:
        return value
    if hasattr(value, "iloc"):
        return pick_frame(value, selection)
    if isinstance(value, np.ndarray):
        return value[selection]
    return _same_widths(value[selection], value)


def pick_frame(frame: pd.DataFrame, selection: Rows | None) -> pd.DataFrame:
    """The rows of a frame at `selection`, as a frame of its own; None takes all."""
    return frame if selection is None else frame.iloc[selection].copy()


def pick_pairs(matrix: Any, selection: Rows | None) -> Any:
    """The rows and columns of a square matrix at `selection`, in its own form."""
    if selection is None:
        return matrix
    if isinstance(matrix, np.ndarray):
        return matrix[np.ix_(selection, selection)]
    return _same_widths(matrix[selection][:, selection], matrix)


def _same_widths(part: Any, whole: Any) -> Any:
    # scipy picks the widths of indices anew
    part.indices = part.indices.astype(whole.indices.dtype, copy=False)
    part.indptr = part.indptr.astype(whole.indptr.dtype, copy=False)
    return part
