"""Codes of categorical columns: which of them name no label."""

from __future__ import annotations

from typing import Any

import numpy as np


def codes_problem(codes: Any, n_labels: int) -> str | None:
    """Which codes lie outside of the labels, as the end of a message; None where none does.

    `codes` are whole numbers by row; -1 stands for a gap.
    """
    values = np.asarray(codes)
    bad = np.flatnonzero((values < -1) | (values >= n_labels))
    if not len(bad):
        return None
    codes_are = "code names none" if len(bad) == 1 else "codes name none"
    return (
        f"{len(bad):,} {codes_are} of its {n_labels:,} labels (categories), the first is "
        f"{values[bad[0]]} in row {bad[0]}"
    )
