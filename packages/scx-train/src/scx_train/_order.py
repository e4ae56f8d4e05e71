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

Batches are cut from the groups put end to end.

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

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scx_core._pipeline import TAG_ROW_ORDER, TAG_SHARD_ORDER, epoch_stream, shuffle

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True)
class RowRange:
    """Rows `start` to `stop` of the file, the end exclusive."""

    start: int
    stop: int


class ShuffledShardGroups:
    """The rows of one epoch, a group of shards at a time.

    A group is shuffled when it is asked for, so that the first batch of a file of any size waits
    for one group only.

    Parameters
    ----------
    shard_starts
        First row of each shard and, as the last entry, the number of rows.
    group_size
        Shards in a group.
    seed, epoch
        What the order follows from.
    """

    def __init__(self, shard_starts: Rows, *, group_size: int, seed: int, epoch: int) -> None:
        self._starts = shard_starts
        self._group_size = group_size
        self._stream = epoch_stream(seed=seed, tag=TAG_ROW_ORDER, epoch=epoch)
        self._shards = np.arange(len(shard_starts) - 1, dtype=np.int64)
        shuffle(self._shards, stream=epoch_stream(seed=seed, tag=TAG_SHARD_ORDER, epoch=epoch))

    def __len__(self) -> int:
        return -(-len(self._shards) // self._group_size)

    def __iter__(self) -> Iterator[Rows]:
        position = 0
        for group in range(len(self)):
            ranges = self.ranges(group)
            rows = np.concatenate(
                [np.arange(part.start, part.stop, dtype=np.int64) for part in ranges]
            )
            position = shuffle(rows, stream=self._stream, position=position)
            yield rows

    def ranges(self, group: int) -> list[RowRange]:
        """The shards of a group as ranges of rows, in the order of the epoch."""
        first = group * self._group_size
        shards = self._shards[first : first + self._group_size].tolist()
        return [RowRange(int(self._starts[s]), int(self._starts[s + 1])) for s in shards]


def batches(groups: Iterator[Rows], batch_size: int) -> Iterator[Rows]:
    """Cuts groups put end to end into batches; all are full but the last, which is not empty."""
    left: list[Rows] = []
    n_left = 0
    for group in groups:
        left.append(group)
        n_left += len(group)
        if n_left < batch_size:
            continue
        rows = left[0] if len(left) == 1 else np.concatenate(left)
        n_cut = n_left - n_left % batch_size
        for start in range(0, n_cut, batch_size):
            # A copy: a batch that is kept must not keep its whole group.
            yield rows[start : start + batch_size].copy()
        left = [rows[n_cut:]]
        n_left -= n_cut
    if n_left:
        yield np.concatenate(left)
