"""Columns of obs as scvi-tools trains on them: codes of categories, and float covariates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from scx_train.inputs.obs import ObsValues, coded_numbers

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True)
class CodedColumn:
    """A column of categories.

    Attributes
    ----------
    codes
        int32, for each row of the file; what rows hold that are not used does not matter.
    categories
        What the codes stand for: text, or whole numbers.
    """

    codes: npt.NDArray[np.int32]
    categories: npt.NDArray[Any]


def one_category(n_rows: int) -> CodedColumn:
    """What stands for a column that was not named: all cells are alike."""
    return CodedColumn(np.zeros(n_rows, np.int32), np.zeros(1, np.int64))


def coded_column(
    values: ObsValues, rows: Rows, *, argument: str, name: str, unlabeled: str | None = None
) -> CodedColumn:
    """The codes of a column of text, of a categorical or of whole numbers, also with gaps.

    Categories keep their order, also those that no cell has. With `unlabeled`, that category comes
    last, and cells without a value are of it.

    Raises
    ------
    ValueError
        The column has floats that are not whole, or a cell of `rows` has no value.
    """
    where = f"{argument}: obs column {name!r}"
    if isinstance(values, dict):
        codes, categories = values["codes"], np.array(values["categories"], dtype=object)
    else:
        numbers, categories = coded_numbers(values, where)
        codes = numbers.astype(np.int32)
    if unlabeled is not None:
        return _unlabeled_last(codes, categories, rows, unlabeled)
    n_missing = int(np.count_nonzero(codes[rows] < 0))
    if n_missing:
        raise ValueError(f"{where} has no value for {n_missing} cells: choose others with rows=...")
    return CodedColumn(codes, categories)


def _unlabeled_last(
    codes: npt.NDArray[np.int32], categories: npt.NDArray[Any], rows: Rows, unlabeled: str
) -> CodedColumn:
    labels = [str(label) for label in categories]
    others = [label for label in labels if label != unlabeled]
    if len(others) == len(labels) and not np.any(codes[rows] < 0):
        return CodedColumn(codes, categories)
    place = {label: code for code, label in enumerate([*others, unlabeled])}
    # One more entry at the end: -1, no value, finds itself there.
    recoded = np.array([*(place[label] for label in labels), place[unlabeled]], dtype=np.int32)
    return CodedColumn(recoded[codes], np.array([*others, unlabeled], dtype=object))


def covariate(values: ObsValues, rows: Rows, *, name: str) -> npt.NDArray[np.float32]:
    """A column of numbers as float32.

    Raises
    ------
    ValueError
        The column is categorical, or not finite for a cell of `rows`.
    """
    where = f"continuous_covariate_keys: obs column {name!r}"
    if isinstance(values, dict):
        raise ValueError(f"{where} holds categories: name it in categorical_covariate_keys")
    n_wrong = int(np.count_nonzero(~np.isfinite(values[rows])))
    if n_wrong:
        raise ValueError(f"{where} is missing or infinite for {n_wrong} cells")
    return values.astype(np.float32)


class ScviColumns:
    """Adds what scvi-tools expects to a batch of tensors, from the cells' rows in the file.

    `batch` and `labels` are int64 of shape (cells, 1); `extra_categorical_covs` (int64) and
    `extra_continuous_covs` (float32) have a column for each covariate, and are there if there are
    any.
    """

    def __init__(
        self,
        *,
        batch: CodedColumn,
        labels: CodedColumn,
        categorical: Sequence[CodedColumn] = (),
        continuous: Sequence[npt.NDArray[np.float32]] = (),
    ) -> None:
        # Tensors, since workers that are not forked share their memory.
        self._codes = {
            "batch": torch.from_numpy(batch.codes[:, None]),
            "labels": torch.from_numpy(labels.codes[:, None]),
        }
        if categorical:
            stacked = np.stack([column.codes for column in categorical], axis=1)
            self._codes["extra_categorical_covs"] = torch.from_numpy(stacked)
        self._numbers = torch.from_numpy(np.stack(continuous, axis=1)) if continuous else None

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        rows = batch["cell_indices"]
        added = {key: codes[rows].long() for key, codes in self._codes.items()}
        if self._numbers is not None:
            added["extra_continuous_covs"] = self._numbers[rows]
        # `measured` is of files, not of cells, as all else is: trainers infer sizes from a batch.
        rest = {
            key: value
            for key, value in batch.items()
            if key != "measured" and (key != "obs" or value)
        }
        return {**rest, **added}
