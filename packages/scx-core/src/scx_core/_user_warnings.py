"""Warnings about a user's data, shown at the line of the user's code."""

from __future__ import annotations

import functools
import sys
import warnings
from pathlib import Path


class ScxWarning(UserWarning):
    """Something about the data that was written, or read, that its owner should know."""


def warn_user(message: str) -> None:
    """Issue an `ScxWarning` that names the nearest line outside this package.

    Conversions begin in several public functions, at different depths.
    """
    # a cached property calls through functools
    passed = (str(Path(__file__).parent), functools.__file__)
    level = 1
    frame = sys._getframe(0)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(passed):
        frame = frame.f_back
        level += 1
    warnings.warn(message, ScxWarning, stacklevel=level)
