"""How the order of an epoch is cut into batches, and which of them one process gets.

The order is cut into rounds of `world_size * batch_size` cells. In each round rank 0 gets the first
`batch_size` cells, rank 1 the next, and so on. What is left at the end, the tail, is shorter than a
round; it is divided among the ranks in pieces as equal as possible: of T cells, rank r gets those
from `r * T // world_size` to `(r + 1) * T // world_size`. So all ranks have the same number of
batches, and no cell comes twice.

The tail is a batch of its own when its shortest piece has at least `min_batch` cells. A shorter
one is dropped, merged into the batch before it, or kept all the same. Pieces of no cell at all are
never batches: with more ranks than cells left, up to `world_size - 1` cells are dropped unless they
are merged. `drop_last` drops every tail.

The workers of a loader share the batches of their rank: of `num_shards` workers, worker `shard`
gets batches `shard`, `shard + num_shards`, ... A loader that asks its workers in turn thus gives
the batches of one without workers, in the same order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from scx_train._arguments import Tail
from scx_train.streams.order import Rows, RowStream

Span = tuple[int, int]


@dataclass(frozen=True)
class Cutting:
    """The batches of one process, as stretches of the order.

    Attributes
    ----------
    n_rows
        Cells of the order.
    batch_size, min_batch, tail, drop_last
        What a batch is.
    rank, world_size
        Which process of how many.
    shard, num_shards
        Which worker of that process, of how many.
    """

    n_rows: int
    batch_size: int
    drop_last: bool = False
    min_batch: int = 1
    tail: Tail = "drop"
    rank: int = 0
    world_size: int = 1
    shard: int = 0
    num_shards: int = 1

    @property
    def n_rank_batches(self) -> int:
        """How many batches the rank has, over all of its workers; the same for every rank."""
        return self._n_rounds + (self._tail_use == "own")

    def __len__(self) -> int:
        """How many batches the worker has."""
        return len(range(self.shard, self.n_rank_batches, self.num_shards))

    @property
    def largest_batch(self) -> int:
        """The most cells that a batch has, over all ranks and workers; more than there may be."""
        merged = -(-self._n_tail // self.world_size) if self._tail_use == "merged" else 0
        return self.batch_size + merged

    def spans(self, batch: int) -> list[Span]:
        """Which stretches of the order the worker's batch `batch` consists of, ascending."""
        number = self.shard + batch * self.num_shards
        if number >= self._n_rounds:
            return [self._tail_piece]
        start = (number * self.world_size + self.rank) * self.batch_size
        body = (start, start + self.batch_size)
        if number == self._n_rounds - 1 and self._tail_use == "merged":
            return [body, self._tail_piece]
        return [body]

    def batches(self, order: RowStream, first: int) -> Iterator[Rows]:
        """The rows of the worker's batches from number `first` on."""
        for batch in range(first, len(self)):
            yield order.read(self.spans(batch))

    @property
    def _n_rounds(self) -> int:
        return self.n_rows // (self.world_size * self.batch_size)

    @property
    def _n_tail(self) -> int:
        return self.n_rows % (self.world_size * self.batch_size)

    @property
    def _tail_piece(self) -> Span:
        start = self.n_rows - self._n_tail
        begin, end = (rank * self._n_tail // self.world_size for rank in (self.rank, self.rank + 1))
        return start + begin, start + end

    @property
    def _tail_use(self) -> Literal["own", "merged", "none"]:
        if self.drop_last or self._n_tail == 0:
            return "none"
        shortest = self._n_tail // self.world_size
        if shortest >= self.min_batch:
            return "own"
        if self.tail == "merge" and self._n_rounds > 0:
            return "merged"
        if self.tail == "drop" or shortest == 0:
            return "none"
        return "own"
