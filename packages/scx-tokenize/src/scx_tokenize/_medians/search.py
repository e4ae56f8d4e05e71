"""Exact medians of many columns of positive numbers that are seen several times, a part at a time.

A positive float32 read as a whole number of 31 bits keeps its order. So the values of each gene are
sorted like mail: the first pass counts them by their uppermost bits, and what is in the middle lies
in one of these buckets. The next pass looks at the values of that bucket alone and counts them by
the bits that follow. When all bits are through, they are the value in the middle itself. What is in
memory is the counts: genes x buckets, however many cells there are.

With an even number of values two are in the middle, which may part on the way: a gene then has two
buckets to look into, a *slot* each.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

VALUE_BITS = 31
# More bits make tables that are slow to fill and to sum up, to save one pass of three.
BITS_AT_MOST = 11
# Fewer would mean a dozen passes; the memory that four take is small.
BITS_AT_LEAST = 4
# Most that are counted in one cell of the table.
COUNT_BYTES = 4
COUNT_MAX = 2**32 - 1
# Rows of the table that are summed up at a time, in bytes.
SUMMED_BYTES = 2**25

NO_SLOT = -1
NO_PREFIX = 2**32 - 1  # larger than any prefix, as these have 31 bits at most


@dataclass(frozen=True)
class PassPlan:
    """How many bits each pass looks at; they add up to 31.

    `table_bytes` is what the counts take at most.
    """

    bits: tuple[int, ...]
    table_bytes: int


def plan_passes(n_genes: int, memory_bytes: int) -> PassPlan:
    """The fewest passes whose counts fit into memory; three at least.

    In the first pass each gene has one slot, later it may have two.

    Raises
    ------
    ValueError
        Not even small steps fit.
    """
    for n_passes in range(-(-VALUE_BITS // BITS_AT_MOST), VALUE_BITS // BITS_AT_LEAST + 1):
        share, rest = divmod(VALUE_BITS, n_passes)
        bits = tuple(share + (number < rest) for number in range(n_passes))
        sizes = [
            max(1, n_genes) * (1 if number == 0 else 2) * COUNT_BYTES << each
            for number, each in enumerate(bits)
        ]
        if max(sizes) <= memory_bytes:
            return PassPlan(bits, max(sizes))
    raise ValueError(
        f"memory_budget={memory_bytes} is too small for {n_genes} genes: at least "
        f"{max(sizes)} bytes are needed"
    )


@dataclass(frozen=True)
class TableEntries:
    """Counts that are not 0: their places in the table, each once, and how many values in all."""

    places: npt.NDArray[np.int64]
    counts: npt.NDArray[np.uint32]
    n_seen: int


class MedianSearch:
    """The medians of the values of `n_genes` genes.

    Each pass calls `count` for every value there is, in any order, and then `end_pass`. Values may
    be counted elsewhere, in parts: with searches that are `emptied`, whose `entries` are added.
    """

    def __init__(self, n_genes: int, plan: PassPlan) -> None:
        self._plan = plan
        self._pass = 0
        self._n_seen = self._n_first = 0
        self._bits_done = 0
        self._slot = np.arange(n_genes, dtype=np.int64)
        self._prefix = np.zeros(n_genes, dtype=np.uint32)
        self._second_slot = np.full(n_genes, NO_SLOT, dtype=np.int64)
        self._second_prefix = np.full(n_genes, NO_PREFIX, dtype=np.uint32)
        # how many of the values of its slot are below the one in the middle
        self._below = np.zeros((2, n_genes), dtype=np.int64)
        self._n_slots = n_genes
        self._table: npt.NDArray[np.uint32] | None = None
        self.n_values = np.zeros(n_genes, dtype=np.int64)

    @property
    def table_bytes(self) -> int:
        """What the counts take now."""
        return self._counts().nbytes

    @property
    def is_first_pass(self) -> bool:
        """Whether no pass is through."""
        return self._pass == 0

    @property
    def done(self) -> bool:
        """Whether no pass is left."""
        return self._pass == len(self._plan.bits)

    def count(self, genes: npt.NDArray[np.int32], bits: npt.NDArray[np.uint32]) -> None:
        """Take in values: their genes, and the values' own bits."""
        self._n_seen += len(genes)
        if self._pass == 0:
            self._add(genes.astype(np.int64), bits)
            return
        prefixes = bits >> np.uint32(VALUE_BITS - self._bits_done)
        for slot, prefix in self._wanted():
            here = np.flatnonzero(prefixes == prefix[genes])
            self._add(slot[genes[here]], bits[here])

    def emptied(self) -> MedianSearch:
        """A search in the same pass that has seen nothing in it, for counting elsewhere.

        It is small until it is counted with.
        """
        other = copy.copy(self)
        other._table = None
        other._n_seen = 0
        return other

    def entries(self) -> TableEntries:
        """What was counted in this pass."""
        flat = self._counts().reshape(-1)
        places = np.flatnonzero(flat)
        return TableEntries(places, flat[places], self._n_seen)

    def add_entries(self, entries: TableEntries) -> None:
        """Take in what was counted elsewhere in this pass."""
        self._counts().reshape(-1)[entries.places] += entries.counts
        self._n_seen += entries.n_seen

    def end_pass(self) -> None:
        """Find the bucket of each median.

        Raises
        ------
        RuntimeError
            The values were not those of the pass before.
        """
        step = self._plan.bits[self._pass]
        if self._pass == 0:
            self.n_values = self._table_sums()
            self._n_first = self._n_seen
            self._below = np.stack([(self.n_values - 1) // 2, self.n_values // 2])
        if self._n_seen != self._n_first:
            raise RuntimeError(
                f"pass {self._pass + 1} saw {self._n_seen} values and the first one "
                f"{self._n_first}: an input was changed meanwhile"
            )
        seen = np.flatnonzero(self.n_values)
        lower = self._descend(self._slot[seen], self._below[0, seen])
        split = self._second_slot[seen] != NO_SLOT
        upper_slot = np.where(split, self._second_slot[seen], self._slot[seen])
        upper = self._descend(upper_slot, self._below[1, seen])
        first = self._prefix[seen] << np.uint32(step) | lower[0]
        second_before = np.where(split, self._second_prefix[seen], self._prefix[seen])
        second = second_before << np.uint32(step) | upper[0]
        self._below[:, seen] = lower[1], upper[1]
        self._give_slots(seen, first, second)
        self._bits_done += step
        self._pass += 1
        self._table = None
        self._n_seen = 0

    def medians(self) -> npt.NDArray[np.float64]:
        """The median of each gene, exact in float64; NaN where there is no value."""
        assert self.done
        middle = [self._prefix, np.where(self._second_slot < 0, self._prefix, self._second_prefix)]
        low, high = (bits.astype(np.uint32).view(np.float32).astype(np.float64) for bits in middle)
        return np.where(self.n_values > 0, (low + high) / 2, np.nan)

    # ---- inside ----

    def _counts(self) -> npt.NDArray[np.uint32]:
        """The table of the present pass: a row for each slot, a column for each bucket."""
        if self._table is None:
            buckets = 1 << self._plan.bits[self._pass]
            self._table = np.zeros((self._n_slots, buckets), dtype=np.uint32)
        return self._table

    def _wanted(self) -> list[tuple[npt.NDArray[np.int64], npt.NDArray[np.uint32]]]:
        wanted = [(self._slot, self._prefix)]
        if (self._second_slot != NO_SLOT).any():
            wanted.append((self._second_slot, self._second_prefix))
        return wanted

    def _add(self, slots: npt.NDArray[np.int64], bits: npt.NDArray[np.uint32]) -> None:
        step = self._plan.bits[self._pass]
        rest = VALUE_BITS - self._bits_done - step
        places = slots << step
        places |= (bits >> np.uint32(rest) & np.uint32((1 << step) - 1)).astype(np.int64)
        # numpy is five times as fast with an array of the table's dtype as with a number
        np.add.at(self._counts().reshape(-1), places, np.ones(len(places), dtype=np.uint32))

    def _table_sums(self) -> npt.NDArray[np.int64]:
        table = self._counts()
        sums = np.empty(len(table), dtype=np.int64)
        for rows in self._row_pieces(len(sums)):
            sums[rows] = table[rows].sum(axis=1, dtype=np.int64)
        return sums

    def _descend(
        self, slots: npt.NDArray[np.int64], below: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
        """For each slot the bucket of the value with `below` ones below it, and how many of these
        are in the bucket itself."""
        table = self._counts()
        buckets = np.empty(len(slots), dtype=np.uint32)
        left = np.empty(len(slots), dtype=np.int64)
        for part in self._row_pieces(len(slots)):
            counted = table[slots[part]].cumsum(axis=1, dtype=np.int64)
            wanted = below[part, None]
            found = (counted <= wanted).sum(axis=1)
            if (found == counted.shape[1]).any():
                raise RuntimeError("an input was changed while it was read")
            buckets[part] = found
            before = np.take_along_axis(counted, np.maximum(found - 1, 0)[:, None], axis=1)[:, 0]
            left[part] = wanted[:, 0] - np.where(found > 0, before, 0)
        return buckets, left

    def _row_pieces(self, n_rows: int) -> list[slice]:
        step = max(1, (SUMMED_BYTES // 8) >> self._plan.bits[self._pass])
        return [slice(start, start + step) for start in range(0, n_rows, step)]

    def _give_slots(
        self,
        genes: npt.NDArray[np.intp],
        first: npt.NDArray[np.uint32],
        second: npt.NDArray[np.uint32],
    ) -> None:
        self._slot[:] = NO_SLOT
        self._second_slot[:] = NO_SLOT
        self._prefix[:] = NO_PREFIX
        self._second_prefix[:] = NO_PREFIX
        self._slot[genes] = np.arange(len(genes))
        self._prefix[genes] = first
        parted = first != second
        self._second_slot[genes[parted]] = len(genes) + np.arange(int(parted.sum()))
        self._second_prefix[genes[parted]] = second[parted]
        self._n_slots = len(genes) + int(parted.sum())
