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
            f"not by {_described(index, array, axis)}"
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


def _described(index: Any, array: npt.NDArray[Any], axis: str) -> str:
    kind = type(index).__name__
    if array.ndim == 0:
        found = f"{kind} {index!r}" if isinstance(index, str) else kind
        is_text = isinstance(index, str)
    else:
        is_text = array.dtype.kind in "UST" or any(isinstance(entry, str) for entry in array.flat)
        found = f"{kind} of {'names' if is_text else array.dtype}"
    if not is_text:
        return found
    frame = "obs" if axis == "row" else "var"
    return f"{found}: find their places first, with `{frame}.index.get_indexer(names)`"
