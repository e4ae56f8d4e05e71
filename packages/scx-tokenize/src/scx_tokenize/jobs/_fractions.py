"""Values that are no counts, where a model takes counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from scx_core._user_warnings import warn_user

from ._cells import FIRST_ROWS, Cells, H5adCells


def any_fractions(values: npt.NDArray[Any]) -> bool:
    """Whether any of the positive values is no whole number."""
    if values.dtype.kind not in "fc":
        return False
    odd = np.rint(values) != values  # also NaN, which is no number at all
    return bool(odd.any()) and bool((values[odd] > 0).any())


def first_fractions(cells: Cells, *, is_in_rows: bool) -> bool:
    """Whether the first cells have such values: what can be told before any work is done."""
    positions = np.arange(min(len(cells.rows), FIRST_ROWS), dtype=np.int64)
    if not len(positions):
        return False
    if is_in_rows:
        return any_fractions(cells.gather(positions, None, len(cells.var()), threads=1)[2])
    assert isinstance(cells, H5adCells)
    return any_fractions(cells.first_values())


def warn_of_fractions(odd: Sequence[str], source: str, what: str) -> None:
    """Warn where counts are needed and files, those of the paths `odd`, hold something else."""
    if odd:
        more = f" and {len(odd) - 1} more" if len(odd) > 1 else ""
        warn_user(
            f"{odd[0]}{more}: {source} holds values that are no whole numbers, but {what} "
            "raw counts; another matrix is chosen with source, such as 'raw' or 'layers/counts'"
        )
