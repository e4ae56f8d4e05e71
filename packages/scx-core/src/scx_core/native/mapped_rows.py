"""Rows of matrices in CSR, in one call: what pipelines make, without one that stays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from scx_core.native import binding
from scx_core.native.binding import CData
from scx_core.native.matrix import Matrix
from scx_core.native.members import Columns, Member
from scx_core.native.packing import CsrArrays
from scx_core.native.pipeline import BATCH_ROWS_MAX, CsrPipeline
from scx_core.native.threads import checked_threads, usable_cpus

VALUES_MAX = np.iinfo(np.int32).max
"""How many values a pipeline counts in a batch."""

# Fewer rows than this are not worth a thread of their own.
_ROWS_PER_THREAD_MIN = 64


def rows_max(n_cols: int) -> int:
    """How many rows of so many columns a pipeline can take at a time, whatever they hold."""
    return min(BATCH_ROWS_MAX, VALUES_MAX // max(1, n_cols))


def gather_rows(
    members: Sequence[Member],
    rows: npt.NDArray[np.int64],
    *,
    changes: CData | None = None,
    threads: int = 0,
) -> CsrArrays:
    """Rows of several matrices, as `CsrPipeline` makes them.

    Parameters
    ----------
    members
        The matrices, put end to end.
    rows
        int64, in any order, repeats allowed.
    changes
        As of `CsrPipeline`.
    threads
        How many threads decode; 0 for as many as the process may use.

    Returns
    -------
    indptr, indices, values
        int64 from 0, int32 ascending in each row, and float32.
    """
    if not len(rows):
        return np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32)
    threads = min(
        checked_threads(threads) or usable_cpus(), max(1, len(rows) // _ROWS_PER_THREAD_MIN)
    )
    step = rows_max(max(member.matrix.info.n_cols for member in members))
    pointers, parts = [np.zeros(1, dtype=np.int64)], []
    with CsrPipeline(members, changes=changes, batches=1, threads=threads) as pipeline:
        pipeline.expect_scattered()
        for start in range(0, len(rows), step):
            pipeline.submit(rows[start : start + step])
            part = pipeline.wait()
            pointers.append(part.indptr[1:].astype(np.int64) + pointers[-1][-1])
            parts.append(part)
    indptr = np.concatenate(pointers)
    if len(parts) == 1:
        return indptr, parts[0].indices, parts[0].values
    indices = np.concatenate([part.indices for part in parts])
    return indptr, indices, np.concatenate([part.values for part in parts])


def gather_mapped(
    matrix: Matrix,
    rows: npt.NDArray[np.int64],
    places: npt.NDArray[np.int32],
    *,
    threads: int = 0,
    path: str | None = None,
) -> CsrArrays:
    """The given rows in CSR, each value at the place of its column.

    Parameters
    ----------
    matrix
        Where the rows are.
    rows
        int64, physical rows in any order, repeats allowed.
    places
        int32, the place of each column of the matrix; negative leaves it out.
    threads
        How many threads decode; 0 for as many as the process may use.
    path
        The file, for messages.

    Returns
    -------
    indptr, indices, values
        int64 from 0, int32 ascending in each row, and float32: clipped at 0, NaN too, and added
        where several columns have one place.

    Raises
    ------
    IndexError
        A row is out of range.
    CorruptFileError
        A row is damaged.
    """
    n_output = int(places.max(initial=0)) + 1
    columns = Columns(matrix.info.n_cols, np.maximum(places, -1), n_output)
    changes = binding.new_struct("scx_row_changes", clips=1)
    return gather_rows([Member(matrix, columns, path)], rows, changes=changes, threads=threads)
