"""Checks of the kernels' arguments; each message names the kernel, the argument and its value."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np
import numpy.typing as npt

from scx_core import _native
from scx_core._csr_rows import whole_numbers

U64_MAX = 2**64 - 1
WIDTH_MAX = 2**31 - 1
VOCABULARY_MAX = 2**31 - 2
THREADS_MAX = 64


def whole_number(value: Any, argument: str, *, who: str, lowest: int, highest: int) -> int:
    """A whole number within bounds, as a Python int.

    Raises
    ------
    TypeError
        It is no whole number; a boolean is none.
    ValueError
        It lies outside of the bounds.
    """
    if isinstance(value, bool | np.bool_):
        raise TypeError(f"{who}: {argument}={value!r} must be a whole number, not a boolean")
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(
            f"{who}: {argument}={value!r} must be a whole number, not {type(value).__name__}"
        ) from None
    if number < lowest:
        raise ValueError(f"{who}: {argument} must be >= {lowest}, but it is {number}")
    if number > highest:
        raise ValueError(f"{who}: {argument} must be <= {highest}, but it is {number}")
    return number


def width(value: Any, argument: str, *, who: str) -> int:
    """Tokens of a row."""
    return whole_number(value, argument, who=who, lowest=1, highest=WIDTH_MAX)


def n_genes_total(value: Any, *, who: str) -> int:
    """Size of a vocabulary."""
    return whole_number(value, "n_genes_total", who=who, lowest=1, highest=VOCABULARY_MAX)


def u64(value: Any, argument: str, *, who: str) -> int:
    """A seed or an identity."""
    return whole_number(value, argument, who=who, lowest=0, highest=U64_MAX)


def threads(value: Any, *, who: str) -> int:
    """Threads to use; 0 stands for None, which is all that the process may use."""
    if value is None:
        return 0
    return whole_number(value, "threads", who=who, lowest=1, highest=THREADS_MAX)


def positive(value: Any, argument: str, *, who: str) -> float:
    """A number that is finite and strictly positive."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{who}: {argument}={value!r} must be a number") from None
    if not (math.isfinite(number) and number > 0):
        raise ValueError(f"{who}: {argument}={number} has to be finite and strictly positive")
    return number


def row_numbers(value: Any, *, n_rows: int, who: str) -> npt.NDArray[np.uint64] | None:
    """The rows' numbers in their file, one for each row; None stays None."""
    if value is None:
        return None
    numbers = whole_numbers(value, np.uint64, "rows", who=who)
    if len(numbers) != n_rows:
        raise ValueError(f"{who}: rows has {len(numbers)} entries for {n_rows} rows")
    return numbers


def pointer(array: npt.NDArray[Any] | None, argument: str) -> Any:
    """What C reads the array through; NULL for None."""
    if array is None:
        return _native.native().ffi.NULL
    return _native.input_array(array, array.dtype, argument)


def output(array: npt.NDArray[Any], argument: str) -> Any:
    """What C writes the array through."""
    return _native.output_array(array, array.dtype, argument)
