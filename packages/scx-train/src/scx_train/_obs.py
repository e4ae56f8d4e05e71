"""Columns of obs as a training loop wants them: codes with labels, whole numbers, or floats."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import pandas as pd

INT64_MAX = 2**63 - 1


class Categorical(TypedDict):
    """`categories[codes[i]]` is the label of cell i; code -1 says that it has none."""

    codes: npt.NDArray[np.int32]
    categories: list[str]


ObsValues = Categorical | npt.NDArray[np.int64] | npt.NDArray[np.float64]
"""A column, or a batch's part of it."""


def training_column(column: Any, name: str) -> ObsValues:
    """A column as scx_core reads it, in one of the three forms that batches have.

    - A categorical keeps its codes and its categories, unused ones included; labels that are
      numbers or booleans become text.
    - Text becomes a categorical whose labels are sorted.
    - Whole numbers and booleans become int64.
    - Floats, and numbers and booleans with gaps, become float64, NaN in the gaps.

    Raises
    ------
    ValueError
        The column holds something else (such as dates), or whole numbers beyond int64.
    """
    if isinstance(column, dict):
        labels = [str(label) for label in column["categories"]]
        return {"codes": np.ascontiguousarray(column["codes"], np.int32), "categories": labels}
    values = np.asarray(column)
    if values.dtype.kind in "OUT":
        return _text_as_categorical(values, name)
    if values.dtype.kind == "f":
        return values.astype(np.float64)
    if values.dtype.kind in "biu":
        if values.dtype.kind == "u" and values.size and int(values.max()) > INT64_MAX:
            raise ValueError(f"obs column {name!r} holds whole numbers beyond int64")
        return values.astype(np.int64)
    raise ValueError(
        f"obs column {name!r} has dtype {values.dtype}, which batches cannot hold: store it as "
        "numbers or as a categorical"
    )


def _text_as_categorical(values: npt.NDArray[Any], name: str) -> Categorical:
    # A dictionary, since text and gaps have no common order for np.unique.
    numbers: dict[Any, int] = {}
    first_seen = np.fromiter(
        (-1 if value is None else numbers.setdefault(value, len(numbers)) for value in values),
        dtype=np.int32,
        count=len(values),
    )
    strange = next((label for label in numbers if not isinstance(label, str)), None)
    if strange is not None:
        raise ValueError(f"obs column {name!r} mixes text with {strange!r}")
    labels = sorted(numbers)
    # One more place at the end: -1, a gap, finds itself there.
    ranks = np.full(len(labels) + 1, -1, dtype=np.int32)
    for rank, label in enumerate(labels):
        ranks[numbers[label]] = rank
    return {"codes": ranks[first_seen], "categories": labels}


def size_of(column: ObsValues | npt.NDArray[Any]) -> int:
    """Bytes that a column takes, about."""
    if isinstance(column, dict):
        labels = sum(sys.getsizeof(label) + 8 for label in column["categories"])
        return column["codes"].nbytes + labels
    return column.nbytes


def frame_column(series: pd.Series[Any]) -> Any:
    """A pandas column in the form in which scx_core reads one."""
    if hasattr(series, "cat"):
        return {
            "codes": series.cat.codes.to_numpy(np.int32),
            "categories": series.cat.categories.tolist(),
        }
    if series.dtype.kind in "biuf":
        gaps = series.isna().to_numpy().any()
        return series.to_numpy(np.float64, na_value=np.nan) if gaps else np.asarray(series)
    values = series.to_numpy(dtype=object, copy=True)
    values[series.isna().to_numpy()] = None
    return values


def take(column: ObsValues, rows: npt.NDArray[np.int64]) -> ObsValues:
    """The entries of these rows; the list of categories is shared, not copied."""
    if isinstance(column, dict):
        return {"codes": column["codes"][rows], "categories": column["categories"]}
    return column[rows]
