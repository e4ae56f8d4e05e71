"""Orders that take rows from anywhere ask for the bytes of all shards, once, when they begin."""

from __future__ import annotations

import numpy as np

from scx_train.streams.order import RowRange, ShardGroups, ShardRows
from scx_train.streams.sampling import DRAWS_PER_STEP, OrderByLabel, WeightedDraws

STARTS = np.array([0, 40_000, 80_000, 100_000])
ALL = [RowRange(0, 40_000), RowRange(40_000, 80_000), RowRange(80_000, 100_000)]


def test_draws_ask_for_all_shards_at_their_first_step() -> None:
    shards = ShardRows(STARTS)
    draws = WeightedDraws(shards, np.ones(100_000), stream=7)
    assert len(draws) == -(-100_000 // DRAWS_PER_STEP) == 2
    assert draws.ranges(0) == ALL
    assert draws.ranges(1) == []


def test_draws_ask_for_no_shard_without_cells() -> None:
    shards = ShardRows(STARTS, np.array([5, 99_000]))
    assert WeightedDraws(shards, np.ones(2), stream=7).ranges(0) == [ALL[0], ALL[2]]


def test_batches_of_one_label_ask_for_all_shards() -> None:
    order = ShardGroups(ShardRows(STARTS), group_size=2, seed=1, epoch=0)
    by_label = OrderByLabel(order, np.arange(100_000) % 3)
    assert len(by_label) == 1
    assert sorted(by_label.ranges(0), key=lambda part: part.start) == ALL
