"""Plans that pair each perturbed cell with a control cell of its own stratum.

A stratum is what all `match` columns agree on. The cells of an epoch come in an order that follows
from (seed, epoch) alone: the stream for the tag "SCXPPERM" shuffles the perturbed cells. For cell i
of the file's order (before that shuffle) control number `u * n` of the n in its stratum is taken,
where u is the upper 53 bits of word i of numpy's `PCG64(stream)`, as a fraction, and `stream` is
that for the tag "SCXPCTRL".
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from scx_core._faults import each_of
from scx_core._user_warnings import warn_user
from scx_core.experiment import Experiment
from scx_core.native.pipeline import BATCH_ROWS_MAX, epoch_stream, shuffle
from scx_train import _arguments as arguments
from scx_train.inputs.obs import ObsValues, file_column
from scx_train.inputs.source import open_with_all_rows, source_of
from scx_train.streams.progress import digest

TAG_ORDER = int.from_bytes(b"SCXPPERM", "big")
TAG_CONTROLS = int.from_bytes(b"SCXPCTRL", "big")
LABELS_SHOWN = 10
NO_LABEL = -1

Numbers = npt.NDArray[np.int64]


def paired_plans(
    path: str | os.PathLike[str] | Experiment,
    perturbation_key: str,
    control_label: Any,
    match: Iterable[str] = ("cell_type", "batch"),
    batch_size: int = 1024,
    seed: int = 42,
    *,
    shuffle: bool = True,
    drop_last: bool = False,
    modality: str | None = None,
    rows: npt.ArrayLike | None = None,
    control_rows: npt.ArrayLike | None = None,
) -> PairedPlans:
    """Plans for `IndexPlanDataset`: each perturbed cell with a random control of its own stratum.

    Cells agree in a stratum when they agree in all columns of `match`. A perturbed cell whose
    stratum has no control is left out, with a warning, and never paired with a control from
    elsewhere; `strata_without_control` says which strata these are. Cells without a label in
    `perturbation_key` are neither perturbed nor controls.

    Parameters
    ----------
    path
        The file, or an open `scx_core.Experiment`.
    perturbation_key
        The obs column that says what was done to a cell.
    control_label
        Its label for cells to which nothing was done.
    match
        The obs columns that a perturbed cell and its control agree in, default `cell_type` and
        `batch`; empty for none, so that any control will do. A cell without a label in one of them
        has no stratum, and is left out.
    batch_size
        Pairs in a plan, default 1024; the last one may have fewer.
    seed
        0 to 2**64 - 1, default 42. The same file, seed and epoch give the same plans.
    shuffle
        False for the perturbed cells in the order of the file, default True.
    drop_last
        Leave out a last plan that is not full, default False.
    modality
        Pair the cells of this modality of a multimodal file alone; None (default) for all cells.
        Rows are those of the file in any case, and cells that are marked as deleted never come.
    rows
        Pair these cells alone, perturbed ones and controls: rows of the file or a boolean mask over
        them, as `TrainingDataset` takes them, such as a part of `split`. None (default) for all.
    control_rows
        Take controls from these cells instead of `rows`, which then chooses the perturbed ones
        alone; None (default) for `rows`.

    Raises
    ------
    TypeError, ValueError
        An argument is not valid, no cell has `control_label`, no cell is perturbed, or none that is
        has a control.
    KeyError
        There is no such column or modality; the message lists those there are.

    Warns
    -----
    UserWarning
        Strata with perturbed cells have no control.

    Examples
    --------
    >>> train, test = split("screen.scx", [0.8, 0.2])  # doctest: +SKIP
    >>> plans = paired_plans(
    ...     "screen.scx", "perturbation", "non-targeting", rows=train
    ... )  # doctest: +SKIP
    >>> dataset = IndexPlanDataset("screen.scx")  # doctest: +SKIP
    >>> for epoch in range(3):  # doctest: +SKIP
    ...     plans.set_epoch(epoch)
    ...     for batch in dataset.iter_with_plans(plans):
    ...         loss = step(batch["X"], batch["X_paired"])
    """
    key = arguments.text(perturbation_key, "perturbation_key")
    match_names = arguments.column_names(match, "match")
    batch_size = arguments.whole_number(
        batch_size, "batch_size", lowest=1, highest=BATCH_ROWS_MAX // 2
    )
    seed = arguments.seed(seed)
    shuffled = arguments.flag(shuffle, "shuffle")
    drop_last = arguments.flag(drop_last, "drop_last")
    modality = None if modality is None else arguments.text(modality, "modality")
    columns, is_cell, deleted, where = _read(path, (key, *match_names), modality)
    may_be_perturbed = is_cell & _chosen(rows, "rows", len(is_cell), deleted)
    may_be_control = may_be_perturbed
    if control_rows is not None:
        may_be_control = is_cell & _chosen(control_rows, "control_rows", len(is_cell), deleted)
    labels, names = _numbered(columns[key])
    control = _number_of(control_label, names, key=key, path=where)
    strata = _Strata({name: columns[name] for name in match_names}, len(labels))
    is_control = (labels == control) & strata.known & may_be_control
    is_perturbed = (labels != control) & (labels != NO_LABEL) & may_be_perturbed
    plans = PairedPlans(
        strata,
        is_control=is_control,
        is_perturbed=is_perturbed,
        batch_size=batch_size,
        seed=seed,
        shuffled=shuffled,
        drop_last=drop_last,
    )
    if not is_perturbed.any():
        raise ValueError(
            f"{where}: no cell is perturbed, as all labels of {key!r} are {control_label!r} or gaps"
            + ("" if rows is None else " in rows")
        )
    if plans.n_pairs == 0:
        raise ValueError(
            f"{where}: none of the {plans.n_without_control} perturbed cells has a control "
            f"({key}={control_label!r}) that agrees with it in {list(match_names)}"
        )
    if plans.n_without_control:
        warn_user(
            f"{plans.n_without_control} of {int(is_perturbed.sum())} perturbed cells have no "
            f"control of their own stratum and are left out: {_shown(plans)}",
            UserWarning,
        )
    return plans


class PairedPlans:
    """Plans of (perturbed, control) pairs; each is a list of tuples. `paired_plans` makes it.

    Iterating gives the plans of the current epoch, again and again; `set_epoch` chooses another
    one, with other controls in another order.
    """

    def __init__(
        self,
        strata: _Strata,
        *,
        is_control: npt.NDArray[np.bool_],
        is_perturbed: npt.NDArray[np.bool_],
        batch_size: int,
        seed: int,
        shuffled: bool,
        drop_last: bool,
    ) -> None:
        self._batch_size = batch_size
        self._seed = seed
        self._shuffled = shuffled
        self._drop_last = drop_last
        self._epoch = 0
        controls = np.flatnonzero(is_control)
        order = np.argsort(strata.numbers[controls], kind="stable")
        self._controls = controls[order]
        counts = np.bincount(strata.numbers[controls], minlength=strata.n)
        starts = np.cumsum(counts) - counts
        perturbed = np.flatnonzero(is_perturbed)
        own = strata.numbers[perturbed]
        has_control = strata.known[perturbed] & (counts[own] > 0)
        self._perturbed = perturbed[has_control]
        self._starts = starts[own[has_control]]
        self._counts = counts[own[has_control]]
        lost = perturbed[~has_control]
        self._lost_labels, self._lost_counts = strata.labels_of(lost)
        self._match = strata.names

    def __iter__(self) -> Iterator[list[tuple[int, int]]]:
        return self._plans(self._epoch)

    def __len__(self) -> int:
        """How many plans an epoch has."""
        if self._drop_last:
            return self.n_pairs // self._batch_size
        return -(-self.n_pairs // self._batch_size)

    @property
    def n_pairs(self) -> int:
        """How many perturbed cells have a control."""
        return len(self._perturbed)

    @property
    def n_without_control(self) -> int:
        """How many perturbed cells are left out."""
        return int(self._lost_counts.sum())

    @property
    def strata_without_control(self) -> list[dict[str, Any]]:
        """The strata of the perturbed cells that are left out.

        Each is a dict with the label in each of the `match` columns, None for a gap, and with
        `n_cells`, the number of its perturbed cells.
        """
        rows = zip(self._lost_labels, self._lost_counts.tolist(), strict=True)
        return [
            {**dict(zip(self._match, labels, strict=True)), "n_cells": count}
            for labels, count in rows
        ]

    @property
    def epoch(self) -> int:
        """The epoch whose plans iterating gives."""
        return self._epoch

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch, from 0, for iterators that begin from now on."""
        self._epoch = arguments.epoch(epoch)

    @property
    def digest(self) -> str:
        """Equal for equal plans in every epoch."""
        choices = (self._seed, self._batch_size, self._shuffled, self._drop_last)
        cells = (self._perturbed, self._controls, self._starts, self._counts)
        return digest(repr(choices).encode() + b"".join(part.tobytes() for part in cells))

    def __repr__(self) -> str:
        return (
            f"PairedPlans({self.n_pairs} pairs in {len(self)} plans of {self._batch_size}, "
            f"epoch {self._epoch}; {self.n_without_control} cells without a control)"
        )

    def _plans(self, epoch: int) -> Iterator[list[tuple[int, int]]]:
        def stream(tag: int) -> int:
            return epoch_stream(seed=self._seed, tag=tag, epoch=epoch)

        words = np.random.PCG64(stream(TAG_CONTROLS)).random_raw(self.n_pairs)
        uniform = (words >> np.uint64(11)) * 2.0**-53
        # A product may be rounded up to the number of controls.
        draws = np.minimum((uniform * self._counts).astype(np.int64), self._counts - 1)
        controls = self._controls[self._starts + draws]
        order = np.arange(self.n_pairs, dtype=np.int64)
        if self._shuffled:
            shuffle(order, stream=stream(TAG_ORDER))
        for number in range(len(self)):
            part = order[number * self._batch_size : (number + 1) * self._batch_size]
            first, second = self._perturbed[part], controls[part]
            yield list(zip(first.tolist(), second.tolist(), strict=True))


class _Strata:
    """The stratum of each cell: what all columns say of it."""

    def __init__(self, columns: dict[str, ObsValues], n_obs: int) -> None:
        self.names = tuple(columns)
        self._numbered = [_numbered(column) for column in columns.values()]
        self.known = np.ones(n_obs, dtype=np.bool_)
        self.numbers = np.zeros(n_obs, dtype=np.int64)
        for numbers, labels in self._numbered:
            self.known &= numbers != NO_LABEL
            # Renumbered after each column, so that no product of label counts grows too large.
            combined = self.numbers * (len(labels) + 1) + (numbers + 1)
            self.numbers = np.unique(combined, return_inverse=True)[1].astype(np.int64)

    @property
    def n(self) -> int:
        """How many strata there are, at least 1; those of gaps count."""
        return int(self.numbers.max(initial=0)) + 1

    def labels_of(self, rows: Numbers) -> tuple[list[tuple[Any, ...]], Numbers]:
        """The strata of these cells: the labels of each, and how many of the cells it has."""
        first, counts = np.unique(self.numbers[rows], return_index=True, return_counts=True)[1:]
        cells = rows[first]
        columns = [
            [None if number == NO_LABEL else labels[number] for number in numbers[cells].tolist()]
            for numbers, labels in self._numbered
        ]
        found = list(zip(*columns, strict=True)) if columns else [()] * len(cells)
        return found, counts.astype(np.int64)


def _chosen(
    rows: npt.ArrayLike | None, argument: str, n_obs: int, deleted: Numbers
) -> npt.NDArray[np.bool_]:
    """A mask of the rows that an argument chooses."""
    chosen = arguments.row_selection(rows, n_obs=n_obs, deleted=deleted, argument=argument)
    mask = np.full(n_obs, chosen is None)
    if chosen is not None:
        mask[chosen] = True
    return mask


def _read(
    path: str | os.PathLike[str] | Experiment, names: tuple[str, ...], modality: str | None
) -> tuple[dict[str, ObsValues], npt.NDArray[np.bool_], Numbers, str]:
    """Columns with an entry for each row of the file; which are cells, which deleted; the file."""
    given = isinstance(path, Experiment)
    experiment = path.with_deleted() if isinstance(path, Experiment) else open_with_all_rows(path)
    try:
        is_cell = np.ones(experiment.n_obs_physical, dtype=np.bool_)
        is_cell[experiment.deleted_rows] = False
        if modality is None:
            columns = each_of(names, partial(file_column, experiment))
        else:
            source = source_of(experiment, experiment.modality(modality), "X")
            columns = source.obs_columns(names)
            if source.rows is not None:
                is_cell[np.setdiff1d(np.arange(source.n_obs), source.rows)] = False
        return columns, is_cell, experiment.deleted_rows, experiment.path
    finally:
        if not given:
            experiment.close()


def _numbered(column: ObsValues) -> tuple[Numbers, list[Any]]:
    """The number of each cell's label, `NO_LABEL` for a gap, and the labels."""
    if isinstance(column, dict):
        return column["codes"].astype(np.int64), list(column["categories"])
    labels, numbers = np.unique(column, return_inverse=True)
    numbers = numbers.astype(np.int64)
    if labels.dtype.kind == "f" and labels.size and np.isnan(labels[-1]):
        labels = labels[:-1]
        numbers[numbers == len(labels)] = NO_LABEL
    return numbers, labels.tolist()


def _number_of(label: Any, labels: list[Any], *, key: str, path: str) -> int:
    if label in labels:
        return labels.index(label)
    shown = ", ".join(repr(known) for known in labels[:LABELS_SHOWN])
    more = f" and {len(labels) - LABELS_SHOWN} more" if len(labels) > LABELS_SHOWN else ""
    raise ValueError(
        f"control_label={label!r} is no label of obs column {key!r} of {path}: it has "
        f"{shown or 'none'}{more}"
    )


def _shown(plans: PairedPlans) -> str:
    strata = plans.strata_without_control
    parts = [
        ", ".join(f"{name}={value!r}" for name, value in stratum.items() if name != "n_cells")
        + f" ({stratum['n_cells']} cells)"
        for stratum in strata[:LABELS_SHOWN]
    ]
    if len(strata) > LABELS_SHOWN:
        parts.append(f"and {len(strata) - LABELS_SHOWN} more (strata_without_control has them all)")
    return "; ".join(parts)
