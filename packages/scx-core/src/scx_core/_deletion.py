"""Rows that are marked as deleted: they stay in the file, and readers leave them out."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from scx_core._errors import FileBusyError
from scx_core.native.container import FileReader, FileWriter

Rows = npt.NDArray[np.int64]

BUSY_SECONDS_MAX = 30.0
BUSY_SECONDS_STEP = 0.02


def mark_deleted(path: str | os.PathLike[str], rows: npt.ArrayLike) -> int:
    """Mark rows of a .scx file as deleted, in addition to those that are already.

    The rows stay where they are, and so do the numbers of all others; readers leave the deleted
    ones out: `Experiment`, exports, data sets. `compact` writes a file without them. Whoever has
    the file open goes on seeing them.

    A few bytes are appended to the file, whatever its size. Whenever the process or the machine
    stops, the file holds either the old state or the new one. Others that change the file at the
    same time wait for one another.

    Parameters
    ----------
    path
        The file.
    rows
        Rows of the file, as `Experiment.live_rows` and the `cell_indices` of batches number them:
        whole numbers of any integer dtype in any order, repeats allowed, or a boolean mask over
        all rows of the file, deleted ones included.

    Returns
    -------
    How many rows are deleted now that were not before. Where it is 0 nothing was written.

    Raises
    ------
    IndexError
        A row is out of range, or a mask has another length.
    TypeError
        `rows` holds something else.
    CorruptFileError
        The file is damaged.
    TimeoutError
        Others were changing the file for half a minute.
    OSError
        The file cannot be written to, for example because the disk is full.

    Examples
    --------
    >>> import anndata, numpy, scx_core
    >>> scx_core.from_anndata(anndata.AnnData(numpy.eye(3)), "eye.scx", overwrite=True)
    >>> scx_core.mark_deleted("eye.scx", [1])
    1
    >>> scx_core.read("eye.scx").obs_names.tolist()
    ['0', '2']
    """
    give_up_at = time.monotonic() + BUSY_SECONDS_MAX
    while True:
        try:
            with FileWriter.change(path, note="mark_deleted") as writer:
                return _mark(writer, rows)
        except FileBusyError:
            if time.monotonic() > give_up_at:
                raise
            time.sleep(BUSY_SECONDS_STEP)


def _mark(writer: FileWriter, rows: Any) -> int:
    with FileReader(writer.path) as file:  # nobody else changes it meanwhile
        wanted = checked_rows(rows, file.info.n_obs)
        before = file.deleted_rows()
        after = np.union1d(before, wanted)
        ends = file.row_range_ends()
    n_new = len(after) - len(before)
    if n_new:
        writer.set_deleted(list(_bitmaps(after, ends)))
        writer.finish()
    else:
        writer.close()
    return n_new


def _bitmaps(rows: Rows, ends: Rows) -> Iterator[tuple[int, bytes]]:
    """For each range that has any of the rows: its number and a bitmap of them."""
    from pyroaring import BitMap

    stops = np.searchsorted(rows, ends).tolist()
    first_row = start = 0
    for number, (end, stop) in enumerate(zip(ends.tolist(), stops, strict=True)):
        if stop > start:
            bitmap = BitMap((rows[start:stop] - first_row).astype(np.uint32))
            bitmap.run_optimize()
            yield number, bitmap.serialize()
        first_row, start = end, stop


def checked_rows(rows: Any, n_rows: int) -> Rows:
    """Rows of a file as int64, in any order; see `mark_deleted` for what is taken and refused."""
    array = np.asarray(rows)
    if array.ndim != 1:
        raise TypeError(f"rows must be a list of rows, not a value of {array.ndim} dimensions")
    if array.dtype == np.bool_:
        if len(array) != n_rows:
            raise IndexError(
                f"rows is a mask of {len(array)} entries, but the file has {n_rows} rows, deleted "
                "ones included; `experiment.live_rows[mask]` are the rows of a mask over obs"
            )
        return np.flatnonzero(array).astype(np.int64, copy=False)
    if not array.size:
        return np.empty(0, dtype=np.int64)
    if array.dtype.kind not in "iu":
        raise TypeError(
            f"rows must be whole numbers or a boolean mask, not values of dtype {array.dtype}"
        )
    lowest, highest = int(array.min()), int(array.max())
    if lowest < 0 or highest >= n_rows:
        wrong = lowest if lowest < 0 else highest
        raise IndexError(f"row {wrong} is out of range for a file of {n_rows} rows")
    return array.astype(np.int64, copy=False)
