"""Rows of a batch moved together."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from scx_core.native import binding

CsrArrays: TypeAlias = tuple[npt.NDArray[np.int64], npt.NDArray[np.int32], npt.NDArray[np.float32]]
"""indptr, indices and data."""


def packed(
    starts: npt.NDArray[np.int64],
    counts: npt.NDArray[np.int64],
    indices: npt.NDArray[np.int32],
    data: npt.NDArray[np.float32],
    *,
    in_place: bool,
) -> CsrArrays:
    """Rows of `counts` entries that begin at `starts`, one after the other without gaps.

    `in_place` moves them within the arrays, which needs `starts` that ascend, and gives the front
    of these; where less than half is left, a copy of it.
    """
    indptr = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=indptr[1:])
    total = int(indptr[-1])
    if in_place and total == len(indices):
        return indptr, indices, data
    new_indices = indices if in_place else np.empty(total, dtype=np.int32)
    new_data = data if in_place else np.empty(total, dtype=np.float32)
    binding.call(
        "scx_pack_rows",
        binding.input_array(starts, np.int64, "starts"),
        binding.input_array(counts, np.int64, "counts"),
        len(counts),
        binding.input_array(indices, np.int32, "indices"),
        binding.input_array(data, np.float32, "data"),
        len(indices),
        binding.output_array(new_indices, np.int32, "indices"),
        binding.output_array(new_data, np.float32, "data"),
        len(new_indices),
    )
    new_indices, new_data = new_indices[:total], new_data[:total]
    if in_place and 2 * total < len(indices):
        return indptr, new_indices.copy(), new_data.copy()
    return indptr, new_indices, new_data
