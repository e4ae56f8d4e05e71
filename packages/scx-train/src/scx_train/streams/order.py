"""The order of an epoch: shards first, then the rows of each group of shards.

The order follows from the shards of the file, the seed, the epoch and the group size, and from
nothing else. Anybody can compute it again:

1. `stream(tag) = m(m(m(seed) ^ tag) ^ epoch)`, where `m` is SplitMix64 and `tag` is "SCXSHRD1" for
   the order of the shards and "SCXROW_2" for that of the rows, read as a big-endian number.
2. Behind each stream is a generator of 32-bit words: ChaCha with 8 rounds, a 64-bit block counter
   from 0, nonce 0, and as key eight steps of PCG32 from the stream.
3. A draw below `n` multiplies the next word by `n` and takes the upper half of the 64 bits. The
   word is thrown away when the lower half exceeds `(n << leading_zeros(n)) - 1`, the shift being
   that which moves the highest bit of the 32-bit `n` to the top. Every value is equally likely.
4. A shuffle goes from the last place down to the second and swaps place `i` with a draw below
   `i + 1` (Fisher-Yates).
5. The shard numbers 0, 1, ... are shuffled and cut into groups of `shard_group_size`, the last of
   which may be smaller.
6. Group by group, the rows of its shards, in that order and ascending within a shard, are
   shuffled. One generator serves all groups of the epoch, one after the other.

Where only some rows are streamed, shards without any of them are left out before step 5, the others
are numbered anew, and step 6 takes the chosen rows. Without a shuffle the groups hold the rows in
the order of the file. Batches are cut from the groups put end to end, as
`scx_train.streams.cutting` says.

How far a group mixes, on a file sorted by a label of two values with 16 shards for each, in batches
of 256: the standard deviation of a label's share over the batches of five epochs, and how many of
the batches hold less than a quarter of one label.

=========================  =====  =====  =====  =====  =====  =====  ===========
shard_group_size               1      2      4      8     16     32  permutation
standard deviation          0.50   0.35   0.25   0.17   0.08   0.03         0.03
below a quarter            100 %   50 %   39 %   15 %    0 %    0 %          0 %
=========================  =====  =====  =====  =====  =====  =====  ===========
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from scx_core.native.pipeline import TAG_ROW_ORDER, TAG_SHARD_ORDER, epoch_stream, shuffle

Rows = npt.NDArray[np.int64]
# Shards of which a smaller share of the rows is streamed are not read as a whole: 30 MB take a disk
# about as long as a few hundred single rows.
SHARE_READ_AHEAD = 1 / 64


@dataclass(frozen=True)
class RowRange:
    """Rows `start` to `stop` of the file, the end exclusive."""

    start: int
    stop: int


class EpochOrder(Protocol):
    """All cells of one epoch in their order, a group at a time."""

    def __len__(self) -> int:
        """How many groups there are."""
        ...

    def __iter__(self) -> Iterator[Rows]:
        """The rows of each group."""
        ...

    def ranges(self, group: int) -> list[RowRange]:
        """Which stretches of the file a group reads."""
        ...


class ShardRows:
    """The cells that a data set streams, by shard.

    Parameters
    ----------
    shard_starts
        First row of each shard and, as the last entry, the number of rows.
    chosen
        Ascending distinct rows; None for all. Shards without any of them take no part in an epoch.
    """

    def __init__(self, shard_starts: Rows, chosen: Rows | None = None) -> None:
        self._chosen = chosen
        self._starts, self._stops = shard_starts[:-1], shard_starts[1:]
        self._places = self._starts if chosen is None else np.searchsorted(chosen, shard_starts)
        if chosen is not None:
            used = np.flatnonzero(np.diff(self._places))
            self._starts, self._stops = self._starts[used], self._stops[used]
            self._places, self._ends = self._places[:-1][used], self._places[1:][used]
        else:
            self._ends = self._stops

    def __len__(self) -> int:
        """How many shards hold any of the cells."""
        return len(self._starts)

    @property
    def n_rows(self) -> int:
        """How many cells there are."""
        return int((self._ends - self._places).sum())

    def largest_group(self, group_size: int) -> int:
        """The most rows that `group_size` shards can have."""
        return int(np.sort(self._ends - self._places)[-group_size:].sum())

    @property
    def chosen_bytes(self) -> int:
        """What the choice of rows takes."""
        return 0 if self._chosen is None else self._chosen.nbytes

    def all_rows(self) -> Rows:
        """The cells, ascending."""
        return np.arange(self.n_rows, dtype=np.int64) if self._chosen is None else self._chosen

    def rows(self, shard: int) -> Rows:
        """The cells of a shard, ascending."""
        place, end = int(self._places[shard]), int(self._ends[shard])
        if self._chosen is None:
            return np.arange(place, end, dtype=np.int64)
        return self._chosen[place:end]

    def share(self, shard: int) -> float:
        """How many of a shard's rows are streamed."""
        n_rows = int(self._stops[shard] - self._starts[shard])
        return int(self._ends[shard] - self._places[shard]) / n_rows if n_rows else 0.0

    @property
    def has_sparse_shards(self) -> bool:
        """Whether of any shard fewer rows are streamed than it is worth reading as a whole for."""
        n_chosen, n_rows = self._ends - self._places, self._stops - self._starts
        return bool((n_chosen < SHARE_READ_AHEAD * n_rows).any())

    def range(self, shard: int) -> RowRange:
        """Where a shard lies in the file."""
        return RowRange(int(self._starts[shard]), int(self._stops[shard]))


class ShardGroups:
    """The rows of one epoch, a group of shards at a time.

    A group is shuffled when it is asked for, so that the first batch of a file of any size waits
    for one group only.

    Parameters
    ----------
    shards
        The cells.
    group_size
        Shards in a group.
    seed, epoch
        What the order follows from.
    shuffled
        False for the order of the file.
    """

    def __init__(
        self, shards: ShardRows, *, group_size: int, seed: int, epoch: int, shuffled: bool = True
    ) -> None:
        self._shards = shards
        self._group_size = group_size
        self._shuffled = shuffled
        self._stream = epoch_stream(seed=seed, tag=TAG_ROW_ORDER, epoch=epoch)
        self._order = np.arange(len(shards), dtype=np.int64)
        if shuffled:
            stream = epoch_stream(seed=seed, tag=TAG_SHARD_ORDER, epoch=epoch)
            shuffle(self._order, stream=stream)

    def __len__(self) -> int:
        return -(-len(self._order) // self._group_size)

    def __iter__(self) -> Iterator[Rows]:
        position = 0
        for group in range(len(self)):
            rows = np.concatenate([self._shards.rows(shard) for shard in self._members(group)])
            if self._shuffled:
                position = shuffle(rows, stream=self._stream, position=position)
            yield rows

    @property
    def shuffled(self) -> bool:
        """Whether the rows of a group are mixed."""
        return self._shuffled

    @property
    def leaves_shards_out(self) -> bool:
        """Whether `ranges` leaves any shard out."""
        return self._shards.has_sparse_shards

    def ranges(self, group: int) -> list[RowRange]:
        """The shards of a group as ranges of rows, in the order of the epoch.

        Those of which few rows are streamed are left out: reading all of them takes longer.
        """
        return [self._shards.range(shard) for shard in self._read_as_a_whole(group)]

    def _read_as_a_whole(self, group: int) -> list[int]:
        members = self._members(group)
        return [shard for shard in members if self._shards.share(shard) >= SHARE_READ_AHEAD]

    def _members(self, group: int) -> Sequence[int]:
        first = group * self._group_size
        members: list[int] = self._order[first : first + self._group_size].tolist()
        return members


class RowStream:
    """Groups put end to end, read from the front to the back."""

    def __init__(self, groups: Iterator[Rows]) -> None:
        self._groups = groups
        self._held: list[Rows] = []
        self._start = 0
        self._stop = 0

    def read(self, spans: Sequence[tuple[int, int]]) -> Rows:
        """The rows of these stretches of the order, which all lie behind those read before."""
        # Always a copy: a batch that is kept must not keep its whole group.
        return np.concatenate([piece for span in spans for piece in self._pieces(*span)])

    def _pieces(self, start: int, stop: int) -> Iterator[Rows]:
        assert self._start <= start <= stop
        while self._stop < stop:
            group = next(self._groups)
            self._held.append(group)
            self._stop += len(group)
            self._forget(start)
        self._forget(start)
        first = self._start
        for held in self._held:
            yield held[max(0, start - first) : max(0, stop - first)]
            first += len(held)

    def _forget(self, start: int) -> None:
        while self._held and self._start + len(self._held[0]) <= start:
            self._start += len(self._held.pop(0))
