"""Rows of a matrix with their columns brought to other places, in one native call."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from scx_core.native import binding
from scx_core.native.binding import native
from scx_core.native.matrix import Matrix
from scx_core.native.packing import CsrArrays, packed
from scx_core.native.threads import checked_threads


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
        How many threads decode; 0 for as many as the machine has.
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
    ffi = native().ffi
    table = binding.input_array(places, np.int32, "places", length=matrix.shape[1])
    sources = ffi.new("scx_row_source[]", 1)
    sources[0].matrix = matrix.handle
    sources[0].remap = table
    source_of_row = np.zeros(len(rows), dtype=np.uint32)
    joined = binding.new_struct(
        "scx_joined_rows",
        n_sources=1,
        sources=sources,
        source_of_row=binding.input_array(source_of_row, np.uint32, "source_of_row"),
        rows=binding.input_array(rows, np.int64, "rows"),
        n_rows=len(rows),
    )
    failed = ffi.new("uint64_t *")  # the source at fault, of which there is one
    counts = matrix.row_counts(rows)
    ends = np.cumsum(counts)
    starts = ends - counts
    n_values = int(ends[-1]) if len(rows) else 0
    indices = np.empty(n_values, dtype=np.int32)
    values = np.empty(n_values, dtype=np.float32)
    kept = np.empty(len(rows), dtype=np.int64)
    output = binding.new_struct(
        "scx_joined_output",
        starts=binding.input_array(starts, np.int64, "starts"),
        counts=binding.input_array(counts, np.int64, "counts"),
        indices=binding.output_array(indices, np.int32, "indices"),
        values=binding.output_array(values, np.float32, "values"),
        kept=binding.output_array(kept, np.int64, "kept"),
    )
    options = binding.new_struct("scx_joined_options", threads=checked_threads(threads))
    binding.call("scx_joined_gather", joined, options, output, failed, path=path)
    return packed(starts, kept, indices, values, in_place=True)
