"""Columns of obs as scvi-tools trains on them: codes of categories, and float covariates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from scx_train._warn import warn
from scx_train.inputs.file_set import FileSet
from scx_train.inputs.obs import ObsValues, coded_numbers
from scx_train.inputs.source import Source
from scx_train.lightning.scvi_setup import ScviSetup

Rows = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]


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


def _one_category(n_rows: int, category: Any = 0) -> CodedColumn:
    """A column in which all cells are alike."""
    return CodedColumn(np.zeros(n_rows, np.int32), np.array([category]))


def _coded_column(
    values: ObsValues, rows: Rows, *, where: str, unlabeled: str | None = None
) -> CodedColumn:
    """The codes of a column of text, of a categorical or of whole numbers, also with gaps.

    Categories keep their order, also those that no cell has. With `unlabeled`, that category comes
    last, and cells without a value are of it.

    Raises
    ------
    ValueError
        The column has floats that are not whole, or a cell of `rows` has no value.
    """
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


def _as_known(
    column: CodedColumn,
    rows: Rows,
    known: npt.NDArray[Any],
    *,
    where: str,
    extend: bool,
    unlabeled: str | None = None,
) -> CodedColumn:
    """The same column in the codes of a model, by the names of the categories.

    New categories come behind the known ones with `extend`, and `unlabeled` always does.

    Raises
    ------
    ValueError
        A cell of `rows` has a category that the model does not know.
    """
    places: dict[str, int] = {}
    for place, label in enumerate(known):
        for name in _names_of(label):
            places.setdefault(name, place)
    used, counts = np.unique(column.codes[rows], return_counts=True)
    labels = [str(label) for label in column.categories]
    new = {labels[code]: column.categories[code] for code in used if labels[code] not in places}
    new = dict(sorted(new.items(), key=lambda named: named[1]))
    unknown = [] if extend else [label for label in new if label != unlabeled]
    if unknown:
        n_cells = int(sum(counts[[labels[code] in unknown for code in used]]))
        advice = "" if unlabeled is not None else ", or extend_categories=True for scArches"
        raise ValueError(
            f"{where} holds {', '.join(map(repr, unknown[:3]))}{' ...' * (len(unknown) > 3)} for "
            f"{n_cells} cells, which the model of the registry does not know; it knows "
            f"{', '.join(map(repr, map(str, known[:10])))}{' ...' * (len(known) > 10)}: choose "
            f"other cells with rows=...{advice}"
        )
    places.update({label: len(known) + number for number, label in enumerate(new)})
    recoded = np.array([*(places.get(label, -1) for label in labels), -1], dtype=np.int32)
    categories = known if not new else np.array([*known, *new.values()], dtype=object)
    return CodedColumn(recoded[column.codes], categories)


def _names_of(label: Any) -> set[str]:
    """How a column may name a category: whole numbers as text too, booleans as 0 and 1."""
    names = {str(label)}
    if isinstance(label, bool | np.bool_) or (
        isinstance(label, float | np.floating) and float(label).is_integer()
    ):
        names.add(str(int(label)))
    return names


def _numbers(values: ObsValues, rows: Rows, *, where: str, above_0: bool = False) -> Floats:
    """A column of numbers as float32.

    Raises
    ------
    ValueError
        The column is categorical, or a cell of `rows` has a number that is not finite, or with
        `above_0` not above 0.
    """
    if isinstance(values, dict):
        raise ValueError(f"{where} holds categories, but numbers are needed")
    chosen = values[rows]
    n_wrong = int(np.count_nonzero(~np.isfinite(chosen)))
    if n_wrong:
        raise ValueError(f"{where} is missing or infinite for {n_wrong} cells")
    if above_0 and np.any(chosen <= 0):
        raise ValueError(f"{where} is not above 0 for {np.count_nonzero(chosen <= 0)} cells")
    return values.astype(np.float32)


@dataclass(frozen=True)
class ColumnsOfModule:
    """What a model is told of the cells of a data module, beside their counts.

    Attributes
    ----------
    coded
        The columns of "batch" and "labels", and that of "sample" where there is one.
    categorical, continuous
        Those of the covariates, by the names that the model has for them.
    size_factor
        float32, for each row of the file; None without.
    """

    coded: Mapping[str, CodedColumn]
    categorical: Mapping[str, CodedColumn]
    continuous: Mapping[str, Floats]
    size_factor: Floats | None

    @classmethod
    def read(cls, source: Source | FileSet, rows: Rows, setup: ScviSetup) -> ColumnsOfModule:
        """Read the columns, in the codes of the trained model where there is one.

        Raises
        ------
        KeyError
            There is no such column; the message lists those there are.
        ValueError
            A cell of `rows` has no value, or one that a trained model does not know.

        Warns
        -----
        UserWarning
            There is no column of labels, for a model that takes unlabeled cells.
        """
        trained, keys = setup.trained, dict(setup.keys)
        labels_key = keys["labels"]
        no_labels = (
            trained is not None
            and setup.is_semi_supervised
            and labels_key is not None
            and _is_in_no_file(source, labels_key)
        )
        if no_labels:
            warn(
                f"there is no obs column {labels_key!r}: all cells are taken for "
                f"{setup.unlabeled_category!r}",
            )
            keys["labels"] = None
        named = [key for key in (*keys.values(), *setup.categorical, *setup.continuous) if key]
        columns = source.obs_columns(tuple(dict.fromkeys(named)))

        def coded(name: str | None, argument: str, known: npt.NDArray[Any] | None) -> CodedColumn:
            where = f"{argument}: obs column {name!r}"
            unlabeled = setup.unlabeled_category if argument == "labels_key" else None
            if name is not None:
                column = _coded_column(columns[name], rows, where=where, unlabeled=unlabeled)
            elif argument == "labels_key" and no_labels:
                column = _one_category(source.n_obs, setup.unlabeled_category)
            else:
                return _one_category(source.n_obs)
            if known is None:
                return column
            own_labels = argument == "labels_key" and setup.is_semi_supervised
            return _as_known(
                column, rows, known, where=where,
                extend=setup.extend and not own_labels, unlabeled=unlabeled if own_labels else None,
            )  # fmt: skip

        known = {} if trained is None else trained.categories
        covariates: Mapping[str, Any] = dict.fromkeys(setup.categorical)
        numbers = setup.continuous
        if trained is not None:
            covariates, numbers = trained.covariates, trained.continuous
        size_factor = keys["size_factor"]
        return cls(
            coded={
                field: coded(keys[field], f"{field}_key", known.get(field))
                for field in ("batch", "labels", "sample")
                if field != "sample" or keys[field] is not None or field in known
            },
            categorical={
                field: coded(name, "categorical_covariate_keys", of_field)
                for name, (field, of_field) in zip(
                    setup.categorical, covariates.items(), strict=True
                )
            },
            continuous={
                field: _numbers(
                    columns[name], rows, where=f"continuous_covariate_keys: obs column {name!r}"
                )
                for name, field in zip(setup.continuous, numbers, strict=True)
            },
            size_factor=None
            if size_factor is None
            else _numbers(
                columns[size_factor],
                rows,
                where=f"size_factor_key: obs column {size_factor!r}",
                above_0=True,
            ),
        )


def _is_in_no_file(source: Source | FileSet, name: str) -> bool:
    for part in source.parts if isinstance(source, FileSet) else (source,):
        try:
            part.obs_columns((name,))
        except KeyError:
            continue
        return False
    return True


class ScviColumns:
    """Adds what scvi-tools expects to a batch of tensors, from the cells' rows in the file.

    `batch`, `labels` and, where there is one, `sample` are int64 of shape (cells, 1), and
    `size_factor` is float32; `extra_categorical_covs` (int64) and `extra_continuous_covs` (float32)
    have a column for each covariate, and are there if there are any.
    """

    def __init__(self, columns: ColumnsOfModule) -> None:
        # Tensors, since workers that are not forked share their memory.
        self._codes = {
            name: torch.from_numpy(column.codes[:, None]) for name, column in columns.coded.items()
        }
        if columns.categorical:
            codes = [column.codes for column in columns.categorical.values()]
            self._codes["extra_categorical_covs"] = torch.from_numpy(np.stack(codes, axis=1))
        self._numbers = {}
        if columns.continuous:
            numbers = np.stack(list(columns.continuous.values()), axis=1)
            self._numbers["extra_continuous_covs"] = torch.from_numpy(numbers)
        if columns.size_factor is not None:
            self._numbers["size_factor"] = torch.from_numpy(columns.size_factor[:, None])

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        rows = batch["cell_indices"]
        added = {key: codes[rows].long() for key, codes in self._codes.items()}
        added.update({key: numbers[rows] for key, numbers in self._numbers.items()})
        # `measured` is of files, not of cells, as all else is: trainers infer sizes from a batch.
        rest = {
            key: value
            for key, value in batch.items()
            if key != "measured" and (key != "obs" or value)
        }
        return {**rest, **added}
