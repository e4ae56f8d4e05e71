"""Columns of obs as a training loop wants them: codes with labels, whole numbers, or floats."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np
import numpy.typing as npt

from scx_core._errors import CorruptFileError, NameNotFoundError

if TYPE_CHECKING:
    import pandas as pd

    from scx_core.experiment import Experiment

INT64_MAX = 2**63 - 1
EXACT_IN_FLOAT64 = 2**53


class Categorical(TypedDict):
    """`categories[codes[i]]` is the label of cell i; code -1 says that it has none."""

    codes: npt.NDArray[np.int32]
    categories: list[str]


ObsValues = Categorical | npt.NDArray[np.int64] | npt.NDArray[np.float64]
"""A column, or a batch's part of it."""


def file_column(experiment: Experiment, name: str) -> ObsValues:
    """A column of a file's obs, as `training_column` gives it; errors name the file.

    Raises
    ------
    KeyError
        There is no such column; the message lists those there are.
    ValueError
        It holds what batches cannot.
    """
    with naming(experiment.path):
        try:
            column = experiment.obs_column(name)
        except OverflowError:
            raise _too_large_beside_gaps(name) from None
        return training_column(column, name)


@contextmanager
def naming(path: str) -> Iterator[None]:
    """In it errors about an argument name the file that they are about."""
    try:
        yield
    except KeyError as error:
        message = str(error.args[0])
        raise NameNotFoundError(message if path in message else f"{path}: {message}") from None
    except CorruptFileError:
        raise  # knows its file
    except ValueError as error:
        message = str(error)
        raise ValueError(message if path in message else f"{path}: {message}") from None


def _too_large_beside_gaps(name: str) -> ValueError:
    return ValueError(
        f"obs column {name!r} has gaps and whole numbers beyond 2**53, which floats beside NaN "
        "cannot hold: store it as a categorical"
    )


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


def numbers(value: Any, what: str) -> npt.NDArray[Any]:
    """An entry of obsm, if it is an array of numbers; ValueError for anything else."""
    if not isinstance(value, np.ndarray):
        raise ValueError(f"{what} is a {type(value).__name__}, but batches hold arrays of numbers")
    if value.dtype.kind not in "fiub":
        raise ValueError(f"{what} has dtype {value.dtype}, but batches hold arrays of numbers")
    return value


def farthest_from_0(values: npt.NDArray[Any]) -> int:
    """The largest size of whole numbers; 0 for numbers of other kinds."""
    if values.dtype.kind not in "iu" or not values.size:
        return 0
    return max(int(values.max()), -int(values.min()))


def size_of(column: ObsValues | npt.NDArray[Any]) -> int:
    """Bytes that a column takes, about."""
    if isinstance(column, dict):
        labels = sum(sys.getsizeof(label) + 8 for label in column["categories"])
        return column["codes"].nbytes + labels
    return column.nbytes


def coded_numbers(
    column: npt.NDArray[np.int64] | npt.NDArray[np.float64], what: str
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Numbers as labels: a code for each cell, -1 for a gap, and the whole numbers, ascending.

    Whole numbers and booleans with gaps are floats in a column, so that floats count where all are
    whole or NaN.

    Raises
    ------
    ValueError
        There are others, or some beyond 2**53; the message begins with `what` the column is.
    """
    known = ~np.isnan(column)
    given = column[known]
    if column.dtype.kind == "f":
        wrong = given[(given != np.floor(given)) | (np.abs(given) > EXACT_IN_FLOAT64)]
        if wrong.size:
            raise ValueError(
                f"{what} holds floats such as {wrong[0]:.6g}, but labels are needed: store it as "
                "text, as whole numbers or as a categorical"
            )
    whole, inverse = np.unique(given.astype(np.int64), return_inverse=True)
    codes = np.full(len(column), -1, dtype=np.int64)
    codes[known] = inverse
    return codes, whole


def frame_column(series: pd.Series[Any]) -> Any:
    """A pandas column in the form in which scx_core reads one.

    Raises
    ------
    ValueError
        It has gaps, and whole numbers that a float cannot hold.
    """
    if hasattr(series, "cat"):
        return {
            "codes": series.cat.codes.to_numpy(np.int32),
            "categories": series.cat.categories.tolist(),
        }
    if series.dtype.kind in "biuf":
        if not series.isna().to_numpy().any():
            return np.asarray(series)
        known = series.dropna()
        whole = known.to_numpy(f"{series.dtype.kind}8") if series.dtype.kind in "iu" else None
        if whole is not None and farthest_from_0(whole) > EXACT_IN_FLOAT64:
            raise _too_large_beside_gaps(str(series.name))
        return series.to_numpy(np.float64, na_value=np.nan)
    if series.dtype.kind in "mM":
        return np.asarray(series)
    values = series.to_numpy(dtype=object, copy=True)
    values[series.isna().to_numpy()] = None
    return values


def take(column: ObsValues, rows: npt.NDArray[np.int64]) -> ObsValues:
    """The entries of these rows; the list of categories is shared, not copied."""
    if isinstance(column, dict):
        return {"codes": column["codes"][rows], "categories": column["categories"]}
    return column[rows]
