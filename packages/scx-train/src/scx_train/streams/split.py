"""Training, validation and test cells, as rows for `TrainingDataset(rows=...)`."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

import numpy as np
import numpy.typing as npt

from scx_core._faults import Faults
from scx_core.experiment import Experiment
from scx_core.native.pipeline import epoch_stream, shuffle
from scx_train import _arguments as arguments
from scx_train._given import one_path_or_list, refuse_repeated
from scx_train.inputs.joined_files import joined
from scx_train.inputs.obs import ObsValues, file_column
from scx_train.streams.sampling import label_numbers

Rows = npt.NDArray[np.int64]
TAG_SPLIT = int.from_bytes(b"SCXSPLIT", "big")
TAG_TRAIN = int.from_bytes(b"SCXTRAIN", "big")


def split(
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    fractions: Iterable[float],
    *,
    stratify: str | None = None,
    group: str | None = None,
    seed: int = 42,
    allow_repeated_files: bool = False,
) -> list[Rows]:
    """Divide the cells of a file, or of several, at random.

    The same file, fractions and seed give the same parts. The cells of each label are shuffled, and
    each part gets its share of them, rounded down; of the few cells that are left, one each goes to
    the parts that lack most so far. Without `stratify` all cells have one label. With `group`, the
    groups are shuffled, and one after the other goes to the part that lacks most cells.

    Parameters
    ----------
    path
        The file, or a list of files, a folder or a pattern (see `TrainingDataset`), whose cells are
        divided together: a label is one over all of them. Their genes do not matter.
    fractions
        The share of each part, positive, together at most 1; cells beyond that are in no part.
    stratify
        An obs column of labels (categorical, text, whole numbers or booleans, also with gaps): each
        label is in each part by its share of all cells, to within one cell. Cells without a label
        count as one more label.
    group
        An obs column, such as the donor: all cells of a label are in the same part, and the shares
        are met as closely as that allows.
    seed
        0 to 2**64 - 1, default 42.
    allow_repeated_files
        Take a list that has a file twice, as `TrainingDataset` has the argument; default False. A
        cell may then be in two parts.

    Returns
    -------
    For each fraction the rows of its cells: int64, ascending. Those of several files are numbered
    on from one to the next, as `TrainingDataset` with the same list does it. Cells that are marked
    as deleted are in no part.

    Raises
    ------
    TypeError, ValueError
        The fractions are not valid, both columns are given, a column has floats that are not
        whole, or labels in one file and numbers in another, a cell has no group, or a part would be
        empty.
    KeyError
        There is no such column.
    """
    shares = _shares(fractions)
    seed = arguments.seed(seed)
    if stratify is not None and group is not None:
        raise ValueError("pass stratify or group, not both")
    for argument, given in (("stratify", stratify), ("group", group)):
        if given is not None:
            arguments.text(given, argument)
    paths = one_path_or_list(path)
    paths = (paths,) if isinstance(paths, str) else paths
    refuse_repeated(paths, allowed=allow_repeated_files)
    files, faults = [], Faults()
    for each in paths:
        with faults.kept():
            files.append(Experiment(each))
    faults.raise_kept()
    live = _live_rows(files)
    stream = epoch_stream(seed=seed, tag=TAG_SPLIT, epoch=0)
    name = stratify if group is None else group
    if name is None:
        labels = np.zeros(len(live), dtype=np.int64)
    else:
        argument = "stratify" if group is None else "group"
        labels = label_numbers(_column(files, name), name, argument)
    if group is not None:
        without = np.flatnonzero(labels < 0)
        if len(without):
            raise ValueError(
                f"the cell in row {live[without[0]]} has no {group!r}, so it belongs to no group"
            )
        parts = _by_group(labels, shares, stream)
    else:
        parts = _by_label(labels, shares, stream)
    for part, share in zip(parts, shares, strict=True):
        if not len(part):
            raise ValueError(
                f"the part of {share} would have none of the {len(live)} cells"
                + (f" in {len(np.unique(labels))} groups" if group is not None else "")
            )
    return [live[part] for part in parts]


def drawn(cells: Rows, train_size: float, seed: int) -> tuple[Rows, Rows]:
    """A share of these cells, rounded up, and the others; both ascending.

    Raises
    ------
    TypeError, ValueError
        The share is no number above 0 and at most 1.
    """
    train_size = arguments.number(train_size, "train_size")
    if not 0 < train_size <= 1:
        raise ValueError(f"train_size={train_size} must be above 0 and at most 1")
    # Not one more for the rounding of products such as 0.55 * 100.
    n_train = math.ceil(round(train_size * len(cells), 6))
    # No generator of numpy: those may change with its version, and cells for training then
    # be among those for validation.
    shuffled = cells.copy()
    shuffle(shuffled, stream=epoch_stream(seed=seed, tag=TAG_TRAIN, epoch=0))
    return np.sort(shuffled[:n_train]), np.sort(shuffled[n_train:])


def _live_rows(files: list[Experiment]) -> Rows:
    """The rows of the cells that there are, numbered on from file to file."""
    starts = np.cumsum([0, *(file.n_obs_physical for file in files)])
    return np.concatenate(
        [file.live_rows + start for file, start in zip(files, starts, strict=False)]
    )


def _column(files: list[Experiment], name: str) -> ObsValues:
    columns, faults = [], Faults()
    for file in files:
        with faults.kept():
            columns.append(file_column(file, name))
    faults.raise_kept()
    return columns[0] if len(files) == 1 else joined(name, columns, [file.path for file in files])


def _shares(fractions: Any) -> list[float]:
    if isinstance(fractions, str | bytes | Mapping | Set) or not isinstance(fractions, Iterable):
        raise TypeError(f"fractions={fractions!r} must be a list of numbers, such as [0.8, 0.2]")
    shares = [arguments.number(share, "a share in fractions") for share in fractions]
    if not shares:
        raise ValueError("fractions is empty")
    for share in shares:
        if not (math.isfinite(share) and share > 0):
            raise ValueError(f"fractions holds {share}, but each must be positive")
    if sum(shares) > 1 + 1e-9:
        raise ValueError(f"fractions sum to {sum(shares)}, but to at most 1 they must")
    return shares


def _by_label(labels: npt.NDArray[np.int64], shares: list[float], stream: int) -> list[Rows]:
    wanted = _with_spare(shares)
    given = np.zeros(len(wanted), dtype=np.int64)
    parts: list[list[Rows]] = [[] for _ in wanted]
    n_seen = position = 0
    for label in np.unique(labels):
        rows = np.flatnonzero(labels == label).astype(np.int64)
        position = shuffle(rows, stream=stream, position=position)
        n_seen += len(rows)
        # The rounding of sums such as 0.7 + 0.2 + 0.1 must not lose a cell.
        sizes = np.floor(len(rows) * wanted + 1e-6).astype(np.int64)
        behind = np.argsort(-(n_seen * wanted - given - sizes), kind="stable")
        sizes[behind[: len(rows) - int(sizes.sum())]] += 1
        given += sizes
        for part, piece in zip(parts, np.split(rows, np.cumsum(sizes)[:-1]), strict=True):
            part.append(piece)
    return [_sorted(part) for part in parts[: len(shares)]]


def _with_spare(shares: list[float]) -> npt.NDArray[np.float64]:
    """The shares and, as the last, that of the cells which are in no part, if there are any."""
    spare = 1 - sum(shares)
    return np.array(shares if spare < 1e-9 else [*shares, spare])


def _by_group(labels: npt.NDArray[np.int64], shares: list[float], stream: int) -> list[Rows]:
    groups, sizes = np.unique(labels, return_counts=True)
    order = np.arange(len(groups), dtype=np.int64)
    shuffle(order, stream=stream)
    lacking = _with_spare(shares) * len(labels)
    members: list[list[int]] = [[] for _ in lacking]
    for n_done, place in enumerate(order.tolist()):
        empty = [part for part in range(len(shares)) if not members[part]]
        only_empty = 0 < len(groups) - n_done <= len(empty)
        candidates = empty if only_empty else range(len(lacking))
        part = max(candidates, key=lambda part: lacking[part])
        members[part].append(place)
        lacking[part] -= int(sizes[place])
    return [
        np.flatnonzero(np.isin(labels, groups[part])).astype(np.int64)
        for part in members[: len(shares)]
    ]


def _sorted(pieces: list[Rows]) -> Rows:
    return np.sort(np.concatenate(pieces)) if pieces else np.empty(0, dtype=np.int64)
