"""The dtypes of matrices: which the file stores as they are, and as what it stores the others."""

from __future__ import annotations

from typing import Any

import numpy as np

# the numbers of scx.h (SCX_U8, ...)
VALUE_TYPES: dict[str, int] = {
    "uint8": 0,
    "uint16": 1,
    "uint32": 2,
    "float32": 3,
    "float16": 4,
    "float64": 64,
    "int32": 65,
    "int64": 66,
    "uint64": 67,
}
DTYPES: dict[int, np.dtype[Any]] = {number: np.dtype(name) for name, number in VALUE_TYPES.items()}

# dtypes without a value type of their own, and one that holds each of their values
WIDENED: dict[str, str] = {"bool": "uint8", "int8": "int32", "int16": "int32"}


def stored_dtype(dtype: np.dtype[Any]) -> np.dtype[Any] | None:
    """The dtype that values of `dtype` have in the file; None when it cannot hold them exactly."""
    name = dtype.newbyteorder("=").name
    name = WIDENED.get(name, name)
    return np.dtype(name) if name in VALUE_TYPES else None


def value_type(dtype: np.dtype[Any]) -> int:
    """The number of a stored dtype."""
    return VALUE_TYPES[dtype.name]


def dtype_of(number: int) -> np.dtype[Any] | None:
    """The dtype of a number in a file; None for a number that this version does not know."""
    return DTYPES.get(number)
