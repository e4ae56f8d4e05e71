"""A batch in CSR as the kernels on batches take it: checked, and converted once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from scx_core.native import binding
from scx_core.native.binding import CData

_ID_MAX = 2**31 - 1


@dataclass(frozen=True)
class CsrRows:
    """A batch whose arrays have the kernels' dtypes.

    The gene ids are not checked to ascend, and `indptr` is not checked to fit: the kernels do.
    """

    indptr: npt.NDArray[np.int64]
    indices: npt.NDArray[np.int32]
    data: npt.NDArray[np.float32]

    @property
    def n_rows(self) -> int:
        """How many rows the batch has."""
        return len(self.indptr) - 1

    def pointer(self) -> CData:
        """The `scx_csr_rows` of it. Who passes it on keeps this object."""
        return binding.new_struct(
            "scx_csr_rows",
            indptr=binding.input_array(self.indptr, np.int64, "indptr"),
            indices=binding.input_array(self.indices, np.int32, "indices"),
            values=binding.input_array(self.data, np.float32, "data"),
            n_rows=self.n_rows,
            n_values=len(self.indices),
        )


def csr_rows(indptr: Any, indices: Any, data: Any, *, who: str) -> CsrRows:
    """The batch that three sequences of numbers describe.

    Parameters
    ----------
    indptr
        One-dimensional whole numbers of any width, one more than rows, from 0.
    indices
        One-dimensional whole numbers of any width: gene ids.
    data
        One-dimensional numbers, as many as `indices`; rounded to float32.
    who
        What begins the messages.

    Raises
    ------
    TypeError
        An array does not hold numbers of the right kind.
    ValueError
        An array has another shape, or an id does not fit into 32 bits.
    """
    pointers = whole_numbers(indptr, np.int64, "indptr", who=who)
    if len(pointers) == 0:
        raise ValueError(f"{who}: indptr is empty, but it has one entry more than there are rows")
    ids = vector(indices, "indices", who=who)
    if ids.dtype.kind not in "iu" and ids.size:
        raise _wrong_kind(who, "indices", ids, "whole numbers")
    values = numbers(data, "data", who=who)
    if len(ids) != len(values):
        raise ValueError(
            f"{who}: indices has {len(ids)} entries and data has {len(values)}, but both have one "
            "for each stored value"
        )
    if ids.size and ids.dtype.itemsize >= 4 and ids.dtype != np.int32:
        for wrong in (int(ids.min()), int(ids.max())):
            if not -_ID_MAX <= wrong <= _ID_MAX:
                place = int(np.flatnonzero(ids == wrong)[0])
                row = int(np.searchsorted(pointers, place, side="right")) - 1
                raise ValueError(
                    f"{who}: row {row} holds gene id {wrong}, which is outside the vocabulary: "
                    f"gene ids go from 0 to {_ID_MAX}"
                )
    return CsrRows(pointers, np.ascontiguousarray(ids, dtype=np.int32), values)


def numbers(value: Any, argument: str, *, who: str) -> npt.NDArray[np.float32]:
    """A one-dimensional array of numbers as float32, C-contiguous."""
    array = vector(value, argument, who=who)
    if array.dtype.kind not in "biuf":
        raise _wrong_kind(who, argument, array, "numbers")
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(array, dtype=np.float32)


def whole_numbers(value: Any, dtype: npt.DTypeLike, argument: str, *, who: str) -> npt.NDArray[Any]:
    """A one-dimensional array of whole numbers as `dtype`, C-contiguous; each has to fit."""
    array = vector(value, argument, who=who)
    wanted = np.dtype(dtype)
    exact = array.dtype.kind in "iu"
    if array.dtype.kind in "fO" and isinstance(value, list | tuple):
        # Of whole numbers some of which are beyond int64 numpy makes floats, which are not exact.
        exact = all(isinstance(one, int | np.integer) for one in value)
        array = np.array([int(one) for one in value], dtype=np.object_) if exact else array
    if not exact and array.size:
        raise _wrong_kind(who, argument, array, "whole numbers")
    if array.size and not np.can_cast(array.dtype, wanted):
        limits = np.iinfo(wanted)
        for wrong in (int(array.min()), int(array.max())):
            if not limits.min <= wrong <= limits.max:
                raise ValueError(
                    f"{who}: {argument} holds {wrong}, but its values go from {limits.min} to "
                    f"{limits.max}"
                )
    return np.ascontiguousarray(array, dtype=wanted)


def vector(value: Any, argument: str, *, who: str) -> npt.NDArray[Any]:
    """A one-dimensional array."""
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(
            f"{who}: {argument} is a masked array, whose mask would have no effect: fill what is "
            "masked first, as with .filled(0)"
        )
    array = np.asarray(value)
    if array.ndim != 1:
        raise ValueError(
            f"{who}: {argument} has {array.ndim} dimensions, but it is one-dimensional"
        )
    return array


def _wrong_kind(who: str, argument: str, array: npt.NDArray[Any], kind: str) -> TypeError:
    return TypeError(f"{who}: {argument} has dtype {array.dtype}, but {kind} are needed")
