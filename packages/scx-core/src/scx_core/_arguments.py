"""Checks of numbers that users give, for all packages; each names the argument and its value."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

U64_MAX = 2**64 - 1
FLOAT32_MAX = float(np.finfo(np.float32).max)


def whole_number(
    value: Any, argument: str, *, lowest: int, highest: int | None = None, who: str = ""
) -> int:
    """A whole number within bounds, as a Python int.

    Parameters
    ----------
    value
        What was given.
    argument
        What messages call it.
    lowest, highest
        The bounds, which belong to it; None for no upper one.
    who
        What messages begin with, such as the name of a function; empty (default) for nothing.

    Raises
    ------
    TypeError
        It is no whole number; a boolean is none.
    ValueError
        It lies outside of the bounds.
    """
    prefix = f"{who}: " if who else ""
    if isinstance(value, bool | np.bool_):
        raise TypeError(f"{prefix}{argument}={value!r} must be a whole number, not a boolean")
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(
            f"{prefix}{argument}={value!r} must be a whole number, not {type(value).__name__}"
        ) from None
    if number < lowest:
        raise ValueError(f"{prefix}{argument} must be >= {lowest}, but {argument}={number}")
    if highest is not None and number > highest:
        raise ValueError(f"{prefix}{argument} must be <= {highest}, but {argument}={number}")
    return number


def positive(value: Any, argument: str, *, who: str = "") -> float:
    """A number above 0 that values are scaled by, as a Python float.

    It is no larger than the largest float32, which results are. The parameters and errors are those
    of `whole_number`.
    """
    prefix = f"{who}: " if who else ""
    try:
        if isinstance(value, bool | np.bool_ | str | bytes):
            raise TypeError
        number = float(value)
    except OverflowError:  # an int that no float holds
        number = math.inf
    except (TypeError, ValueError):
        raise TypeError(f"{prefix}{argument}={value!r} must be a number") from None
    if not (math.isfinite(number) and number > 0):
        raise ValueError(f"{prefix}{argument}={number} must be finite and strictly positive")
    if number > FLOAT32_MAX:
        raise ValueError(
            f"{prefix}{argument}={number} is too large for float32, whose largest number is "
            f"{FLOAT32_MAX:.7g}"
        )
    return number
