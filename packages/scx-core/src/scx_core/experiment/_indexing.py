"""Row and column indices as numpy takes them, turned into int64 positions."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Positions: TypeAlias = npt.NDArray[np.int64]


def positions(index: Any, length: int, axis: str) -> Positions:
    """The positions that `index` selects on an axis of `length` entries, in its order.

    Taken are whole numbers (negative ones count from the end), slices, boolean masks and sequences
    or arrays of whole numbers, with repeats. `axis` is what messages call an entry: "row".

    Raises
    ------
    IndexError
        A position beyond the axis, or a mask of another length.
    TypeError
        Something that is no index, such as floats or names.
    """
    if isinstance(index, slice):
        return np.arange(*index.indices(length), dtype=np.int64)
    array = np.asarray(index)
    if array.dtype == np.bool_:
        if array.shape != (length,):
            raise IndexError(
                f"a boolean {axis} mask must have shape ({length},), this one has {array.shape}"
            )
        return np.flatnonzero(array)
    if array.size == 0 and array.ndim == 1:
        return np.empty(0, dtype=np.int64)
    if array.dtype.kind not in "iu":
        raise TypeError(
            f"{axis}s are selected by whole numbers, a slice or a boolean mask, "
            f"not by {_described(index, array)}"
        )
    if array.ndim > 1:
        raise IndexError(f"{axis}s are selected by one axis of numbers, not by {array.ndim}")
    return np.ascontiguousarray(_in_range(np.atleast_1d(array), length, axis))


def _in_range(array: npt.NDArray[Any], length: int, axis: str) -> Positions:
    wrong = (array >= length) | (array < -length if array.dtype.kind == "i" else False)
    if wrong.any():
        first = int(array[np.flatnonzero(wrong)[0]])
        raise IndexError(f"{axis} {first} is out of range for {length} {axis}s")
    selected: Positions = array.astype(np.int64)
    selected[selected < 0] += length
    return selected


def _described(index: Any, array: npt.NDArray[Any]) -> str:
    if array.dtype.kind in "OUST":
        return f"{type(index).__name__} of names: look them up with `obs_names.get_indexer(...)`"
    return f"{type(index).__name__} of {array.dtype}"
