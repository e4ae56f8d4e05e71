"""Which cells are decoded before their batches are due, while the bytes of their group arrive.

The first batch of a shuffled group takes rows from everywhere in it, so that it waits for all of
its bytes. Where these come from the disk, threads decode what has arrived meanwhile and keep what
batches take of it, in the file's order and within a bound. What comes out is the same.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scx_train.streams.cutting import Cutting
from scx_train.streams.order import Rows, ShardGroups


@dataclass(frozen=True)
class EarlyDecoding:
    """What the pipeline of an epoch may decode early.

    Attributes
    ----------
    cutting
        The batches of this process and worker.
    first
        The first of them that is read.
    max_bytes
        Memory for the results.
    """

    cutting: Cutting
    first: int
    max_bytes: int

    def rows(self, order: ShardGroups, group: int, shuffled: Rows, start: int) -> Rows:
        """The cells of a group that batches of this process take, ascending.

        Left out are those whose bytes are not read with the group, and those of a short last batch.

        Parameters
        ----------
        order
            The order of the epoch.
        group
            A number in it.
        shuffled
            The rows of the group in that order.
        start
            The place of the first of them.
        """
        read = order.rows_read(group)
        cutting, first = self.cutting, self.first
        if cutting.world_size == cutting.num_shards == 1 and first * cutting.batch_size <= start:
            return read
        taken = cutting.takes(np.arange(start, start + len(shuffled), dtype=np.int64), first)
        own = np.sort(shuffled[taken])
        return own if len(read) == len(shuffled) else np.intersect1d(own, read)
