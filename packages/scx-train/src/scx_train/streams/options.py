"""What both kinds of data sets are told about cells and their order, checked in one place."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from scx_train import _arguments as arguments
from scx_train._arguments import Tail
from scx_train.streams.cutting import Cutting


@dataclass(frozen=True)
class StreamOptions:
    """Which cells come, in which order, in which batches, with which columns.

    Attributes are the arguments of `TrainingDataset` of the same names; `threads` is 0 for None.
    `rows`, `weights`, `balance_by` and `batch_by` can be checked with the file at hand only.
    """

    batch_size: int
    obs_columns: tuple[str, ...]
    obsm: tuple[str, ...]
    shard_group_size: int
    prefetch_batches: int
    seed: int
    threads: int
    shuffle: bool
    drop_last: bool
    min_batch: int
    tail: Tail
    rank: int
    world_size: int
    shard: int
    num_shards: int
    max_memory_mb: int | None
    rows: npt.ArrayLike | None
    weights: npt.ArrayLike | None
    balance_by: str | None
    batch_by: str | None

    @property
    def samples(self) -> bool:
        """Whether an epoch is another one than every cell once, mixed."""
        return any(value is not None for value in (self.weights, self.balance_by, self.batch_by))

    def largest_batch(self, batch_size: int, *, n_rows: int) -> int:
        """The most cells of a batch, with a tail that is merged into it; the same for all ranks."""
        if self.batch_by is None:
            return self.cutting(n_rows=n_rows, batch_size=batch_size).largest_batch
        merges = self.tail == "merge" and not self.drop_last  # each label has a tail of its own
        return batch_size + (min(self.min_batch, batch_size) if merges else 0)

    def cutting(self, *, n_rows: int, batch_size: int) -> Cutting:
        """How an order of `n_rows` cells is cut into batches."""
        return Cutting(
            n_rows=n_rows,
            batch_size=batch_size,
            drop_last=self.drop_last,
            min_batch=self.min_batch,
            tail=self.tail,
            rank=self.rank,
            world_size=self.world_size,
            shard=self.shard,
            num_shards=self.num_shards,
        )


def stream_options(
    *,
    batch_size: int,
    obs_columns: Iterable[str],
    obsm: Iterable[str],
    shard_group_size: int,
    prefetch_batches: int,
    seed: int,
    threads: int | None,
    shuffle: bool,
    drop_last: bool,
    min_batch: int,
    tail: Any,
    rank: int | None,
    world_size: int | None,
    shard: int,
    num_shards: int,
    max_memory_mb: int | None,
    rows: npt.ArrayLike | None,
    weights: npt.ArrayLike | None,
    balance_by: str | None,
    batch_by: str | None,
) -> StreamOptions:
    """Check the arguments.

    Raises
    ------
    TypeError, ValueError
        One is not valid; the message names it and its value.
    """
    cells = arguments.batch_size(batch_size)
    rank, world_size = arguments.rank_and_world_size(rank, world_size)
    shard, num_shards = arguments.place_among(
        shard, num_shards, argument="shard", count_argument="num_shards"
    )
    return StreamOptions(
        batch_size=cells,
        obs_columns=arguments.column_names(obs_columns, "obs_columns"),
        obsm=arguments.column_names(obsm, "obsm", example=("X_pca",)),
        shard_group_size=arguments.shard_group_size(shard_group_size),
        prefetch_batches=arguments.prefetch_batches(prefetch_batches),
        seed=arguments.seed(seed),
        threads=arguments.threads(threads),
        shuffle=arguments.flag(shuffle, "shuffle"),
        drop_last=arguments.flag(drop_last, "drop_last"),
        min_batch=arguments.min_batch(min_batch, batch_size=cells),
        tail=arguments.tail(tail),
        rank=rank,
        world_size=world_size,
        shard=shard,
        num_shards=num_shards,
        max_memory_mb=arguments.max_memory_mb(max_memory_mb),
        rows=rows,
        weights=weights,
        balance_by=balance_by,
        batch_by=batch_by,
    )
