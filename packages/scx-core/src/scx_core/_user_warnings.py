"""Warnings about a user's data, shown at the line of the user's code."""

from __future__ import annotations

import sys
import warnings

# What stands between a user's line and the one that warns: our packages, and what calls what it is
# given, in the standard library and in those that train.
SKIPPED = {
    *("scx_core", "scx_train", "scx_tokenize", "cellucid_prepare", "pyscx"),
    *("contextlib", "functools", "threading", "concurrent"),
    *("lightning", "pytorch_lightning", "torch", "scvi"),
}


class ScxWarning(UserWarning):
    """Something about the data that was written, or read, that its owner should know."""


def warn_user(message: str, category: type[UserWarning] = ScxWarning) -> None:
    """Warn of something, at the nearest line that is the user's own."""
    level = 1
    frame = sys._getframe(0)
    while frame.f_back is not None and _is_skipped(frame.f_globals.get("__name__", "")):
        frame = frame.f_back
        level += 1
    warnings.warn(message, category, stacklevel=level)


def _is_skipped(module: str) -> bool:
    return module.partition(".")[0] in SKIPPED
