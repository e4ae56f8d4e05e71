"""Epochs other than "every cell once, mixed": draws by weight, and batches of one label each.

Draws: the cells lie end to end, each as long as its weight. An epoch draws as many as there are
cells, with replacement: draw number i is the cell at `u * total`, where u is the upper 53 bits of
word i of numpy's `PCG64(stream)`, as a fraction, and `stream` is that of the epoch for the tag
"SCXDRAWS".

Batches of one label: the cells of the usual order are put together by label, the labels in their
order, each cut on its own as `scx_train.streams.cutting` says, its tail included. The batches of
all labels are then shuffled with the stream for the tag "SCXBATCH", the same for all ranks, so that
these have the same label at the same step.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from scx_core.native.pipeline import shuffle
from scx_train.inputs.obs import ObsValues, coded_numbers
from scx_train.streams.cutting import Cutting, Span
from scx_train.streams.order import EpochOrder, RowRange, Rows, RowStream, ShardRows

TAG_DRAWS = int.from_bytes(b"SCXDRAWS", "big")
TAG_BATCHES = int.from_bytes(b"SCXBATCH", "big")
DRAWS_PER_STEP = 65_536
# For each cell: its weight or label, and the sums or the order of an epoch.
SAMPLING_BYTES = 32


class WeightedDraws:
    """Draws of one epoch; each step is a group.

    Parameters
    ----------
    shards
        The cells.
    weights
        The weight of each; one is positive.
    stream
        What the draws follow from.
    """

    def __init__(self, shards: ShardRows, weights: npt.NDArray[np.float64], *, stream: int) -> None:
        self._shards = shards
        self._rows = shards.all_rows()
        # Divided by a power of two, which changes no draw, so that no sum is beyond float64.
        exponent = np.frexp(weights.max(initial=0.0))[1]
        self._ends = np.cumsum(np.ldexp(weights, -exponent))
        self._stream = stream

    def __len__(self) -> int:
        return -(-len(self._rows) // DRAWS_PER_STEP)

    def __iter__(self) -> Iterator[Rows]:
        words = np.random.PCG64(self._stream)
        # A product may be rounded up to the total, where no cell begins.
        last = int(np.searchsorted(self._ends, self._ends[-1], side="left"))
        for start in range(0, len(self._rows), DRAWS_PER_STEP):
            count = min(DRAWS_PER_STEP, len(self._rows) - start)
            uniform = (words.random_raw(count) >> np.uint64(11)) * 2.0**-53
            places = np.searchsorted(self._ends, uniform * self._ends[-1], side="right")
            yield self._rows[np.minimum(places, last)]

    def ranges(self, group: int) -> list[RowRange]:
        """All shards for the first step, since draws lie anywhere; none for the others."""
        if group > 0:
            return []
        return [self._shards.range(shard) for shard in range(len(self._shards))]


class OrderByLabel:
    """A usual order, put together by label; one group."""

    def __init__(self, order: EpochOrder, labels: npt.NDArray[np.int64]) -> None:
        self._order = order
        self._labels = labels

    def __len__(self) -> int:
        return 1

    def __iter__(self) -> Iterator[Rows]:
        rows = np.concatenate(list(self._order))
        yield rows[np.argsort(self._labels[rows], kind="stable")]

    def ranges(self, group: int) -> list[RowRange]:
        """All shards: a label's cells lie anywhere."""
        return [part for number in range(len(self._order)) for part in self._order.ranges(number)]


@dataclass(frozen=True)
class CuttingByLabel:
    """The batches of one process, each of one label.

    Attributes
    ----------
    base
        How the cells of each label are cut; its `n_rows` does not matter.
    counts
        Cells of each label.
    stream
        What the order of the batches follows from; None for label after label.
    """

    base: Cutting
    counts: tuple[int, ...]
    stream: int | None = None

    def __len__(self) -> int:
        n_batches = sum(part.n_rank_batches for part in self._parts)
        return len(range(self.base.shard, n_batches, self.base.num_shards))

    def batches(self, order: RowStream, first: int) -> Iterator[Rows]:
        """The rows of the worker's batches from number `first` on."""
        for spans in self._all_spans()[first:]:
            yield order.read(spans)

    def spans(self, batch: int) -> list[Span]:
        """The whole order: it is read at once."""
        return [(0, sum(self.counts))]

    @property
    def _parts(self) -> list[Cutting]:
        # Workers share the batches after these are shuffled.
        return [replace(self.base, n_rows=n, shard=0, num_shards=1) for n in self.counts]

    def _all_spans(self) -> list[list[Span]]:
        found: list[list[Span]] = []
        offset = 0
        for part in self._parts:
            for batch in range(len(part)):
                found.append([(offset + a, offset + b) for a, b in part.spans(batch)])
            offset += part.n_rows
        numbers = np.arange(len(found), dtype=np.int64)
        if self.stream is not None:
            shuffle(numbers, stream=self.stream)
        own = numbers[self.base.shard :: self.base.num_shards]
        return [found[number] for number in own.tolist()]


def label_numbers(column: ObsValues, name: str, argument: str) -> npt.NDArray[np.int64]:
    """A number for each row by its label, -1 where it has none.

    Raises
    ------
    ValueError
        The column has floats that are not whole numbers.
    """
    if isinstance(column, dict):
        return column["codes"].astype(np.int64)
    return coded_numbers(column, f"{argument}: obs column {name!r}")[0]


def of_single_cells(column: ObsValues, rows: Rows, name: str) -> str:
    """What to warn of where labels of `batch_by` have one of these cells alone; empty if none."""
    labels = label_numbers(column, name, "batch_by")[rows]
    n_single = np.count_nonzero(np.unique(labels, return_counts=True)[1] == 1)
    if n_single == 0:
        return ""
    return (
        f"batch_by={name!r}: {n_single} labels have a single cell to train on, and so a batch of "
        "one, with which batch normalisation cannot be trained: leave them out with rows=..., or "
        "pass min_batch=2, tail='drop'"
    )


def balancing_weights(labels: npt.NDArray[np.int64], rows: Rows) -> npt.NDArray[np.float64]:
    """Weights of the cells that make every label equally likely; 0 for those without a label."""
    own = labels[rows]
    counts = np.bincount(own[own >= 0], minlength=1)
    return np.where(own >= 0, 1.0 / np.maximum(counts[own], 1), 0.0)


def checked_weights(value: Any, *, n_obs: int, rows: Rows) -> npt.NDArray[np.float64]:
    """The weights of the cells, out of those of all rows of the file.

    Raises
    ------
    ValueError
        There is not one for each row, one is negative or not finite, or all of the cells' are 0.
    """
    try:
        if np.ma.is_masked(value) or np.asarray(value).dtype.kind not in "biufO":
            raise TypeError
        weights = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(
            f"weights must be a list or an array of a number for each of the {n_obs} rows, but "
            f"{type(value).__name__} was given, or entries that are no numbers"
        ) from None
    if weights.shape != (n_obs,):
        raise ValueError(f"weights has shape {weights.shape}, but there are {n_obs} rows")
    wrong = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if wrong.size:
        raise ValueError(f"weights holds {weights[wrong[0]]} for row {wrong[0]}: it must be >= 0")
    own: npt.NDArray[np.float64] = weights[rows]
    if len(rows) and not own.any():
        raise ValueError("weights are 0 for all cells")
    return own
