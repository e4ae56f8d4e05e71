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

from scx_core.native import binding
from scx_core.native.csr_rows import CsrRows
from scx_tokenize import _arguments as arguments

VALUE_BITS = 31
# More bits make tables that are slow to fill and to sum up, to save one pass of three.
BITS_AT_MOST = 11
# Fewer would mean a dozen passes; the memory that four take is small.
BITS_AT_LEAST = 4
# Most that are counted in one cell of the table.
COUNT_BYTES = 4
COUNT_MAX = 2**32 - 1
# Buckets that are summed up before one is looked for: their sums tell which of them to look into.
SUMMED_BUCKETS = 64

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

    Each pass calls `count` for all values that there are, in any order, and then `end_pass`. Values
    may be counted elsewhere, in parts: with searches that are `emptied`, whose `entries` are added.
    """

    def __init__(self, n_genes: int, plan: PassPlan) -> None:
        self._plan = plan
        self._pass = 0
        self._n_seen = self._n_first = 0
        self._bits_done = 0
        self._slot = np.arange(n_genes, dtype=np.int32)
        self._prefix = np.zeros(n_genes, dtype=np.uint32)
        self._second_slot = np.full(n_genes, NO_SLOT, dtype=np.int32)
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

    def count(
        self,
        rows: CsrRows,
        factors: npt.NDArray[np.float64],
        *,
        totals: npt.NDArray[np.float64] | None = None,
        threads: int | None = None,
    ) -> None:
        """Take in the values of some rows.

        Parameters
        ----------
        rows
            Values before they are normalised, and genes, strictly ascending in each row.
        factors
            float64; what each row's values are multiplied with, before they are rounded to float32.
            Those that are then not positive do not count.
        totals
            float64, one for each gene: where the values themselves are added; None for nowhere.
        threads
            As of `medians`.
        """
        has_second = bool((self._second_slot != NO_SLOT).any())
        counts = binding.new_struct(
            "scx_value_counts",
            threads=threads or 0,
            factors=arguments.pointer(factors, "factors"),
            n_genes=len(self._slot),
            slots=arguments.pointer(self._slot, "slots"),
            prefixes=arguments.pointer(self._prefix, "prefixes"),
            second_slots=arguments.pointer(
                self._second_slot if has_second else None, "second_slots"
            ),
            second_prefixes=arguments.pointer(self._second_prefix, "second_prefixes"),
            bits_done=self._bits_done,
            bits=self._plan.bits[self._pass],
            table=arguments.output(self._counts().reshape(-1), "table"),
            n_slots=self._n_slots,
            totals=binding.native().ffi.NULL
            if totals is None
            else arguments.output(totals, "totals"),
        )
        n_values = binding.native().ffi.new("uint64_t *")
        binding.call("scx_values_count", rows.pointer(), counts, n_values)
        self._n_seen += int(n_values[0])

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
        groups = self._group_sums()
        if self._pass == 0:
            self.n_values = groups.sum(axis=0, dtype=np.int64)
            self._n_first = self._n_seen
            self._below = np.stack([(self.n_values - 1) // 2, self.n_values // 2])
        if self._n_seen != self._n_first:
            raise RuntimeError(
                f"pass {self._pass + 1} saw {self._n_seen} values and the first one "
                f"{self._n_first}: an input was changed meanwhile"
            )
        seen = np.flatnonzero(self.n_values)
        before = np.stack([self._prefix[seen]] * 2)
        buckets, below = self._descend(groups, self._slot[seen], self._below[:, seen])
        parted = np.flatnonzero(self._second_slot[seen] != NO_SLOT)
        if len(parted):
            upper = seen[parted]
            before[1, parted] = self._second_prefix[upper]
            (buckets[1, parted],), (below[1, parted],) = self._descend(
                groups, self._second_slot[upper], self._below[1:, upper]
            )
        self._below[:, seen] = below
        first, second = before << np.uint32(step) | buckets
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
        """The table of the present pass: a row for each bucket, a column for each slot."""
        if self._table is None:
            buckets = 1 << self._plan.bits[self._pass]
            self._table = np.zeros((buckets, self._n_slots), dtype=np.uint32)
        return self._table

    def _group_sums(self) -> npt.NDArray[np.uint32]:
        """The table with as many buckets to a row as are looked into at once."""
        table = self._counts()
        step = min(SUMMED_BUCKETS, len(table))
        by_group = table.reshape(len(table) // step, step, self._n_slots)
        # sums are numbers of cells, which fit
        sums: npt.NDArray[np.uint32] = by_group.sum(axis=1, dtype=np.uint32)
        return sums

    def _descend(
        self,
        groups: npt.NDArray[np.uint32],
        slots: npt.NDArray[np.int32],
        below: npt.NDArray[np.int64],
    ) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
        """In each slot the buckets of the values with `below` ones below them, of shape (values,
        slots), and how many of these are in the bucket itself.

        Of a value that is in another slot the bucket is the last one.
        """
        table = self._counts()
        step = len(table) // len(groups)
        buckets = np.empty(below.shape, dtype=np.uint32)
        left = np.empty(below.shape, dtype=np.int64)
        sums = groups[:, slots]
        for rank, wanted in enumerate(below):
            group, left_in_group, is_there = _place_in(sums, wanted)
            if rank == 0 and not is_there.all():
                raise RuntimeError("an input was changed while it was read")
            counts = table[group * step + np.arange(step)[:, None], slots]
            place, left[rank], _ = _place_in(counts, left_in_group)
            buckets[rank] = group * step + place
        return buckets, left

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


def _place_in(
    counts: npt.NDArray[np.uint32], wanted: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """In each column the row of the value with `wanted` ones below it, the last one where there is
    no such value; how many of these are in that row, and whether it is there."""
    counted = counts.cumsum(axis=0, dtype=np.uint32)
    found = (counted <= wanted.astype(np.uint32)).sum(axis=0)
    is_there = found < len(counted)
    found = np.minimum(found, len(counted) - 1)
    fewer = counted[np.maximum(found - 1, 0), np.arange(len(found))].astype(np.int64)
    return found, wanted - np.where(found > 0, fewer, 0), is_there
