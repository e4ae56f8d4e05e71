"""What users have met with epochs, ranks and tails, in the numbers they met it with."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from scx_train import TrainingDataset

MakeFile = Callable[..., Path]
ExpectedRows = Callable[..., list[int]]


def rows(dataset: TrainingDataset) -> list[list[int]]:
    return [batch["cell_indices"].tolist() for batch in dataset]


def flat(batches: list[list[int]]) -> list[int]:
    return [row for batch in batches for row in batch]


@pytest.mark.parametrize("num_shards", [1, 2, 3])
def test_64_rows_in_shards_of_8_rebuilt_for_the_second_epoch(
    make_file: MakeFile, expected_rows: ExpectedRows, num_shards: int
) -> None:
    path = make_file(64, shard_size=8)
    for epoch in range(2):
        parts = []
        for shard in range(num_shards):
            # a new data set each time, as in a worker that was started for this epoch
            with TrainingDataset(path, 8, shard=shard, num_shards=num_shards) as dataset:
                dataset.set_epoch(epoch)
                parts.append(rows(dataset))
        turns = itertools.chain.from_iterable(itertools.zip_longest(*parts, fillvalue=[]))
        wanted = expected_rows(64, shard_size=8, group_size=8, seed=42, epoch=epoch)
        assert flat(list(turns)) == wanted
        assert sorted(wanted) == list(range(64))


@pytest.mark.parametrize(
    ("n_obs", "n_shards"), [(101, 11), (30, 3)], ids=["101 rows, shards of 10", "3 shards"]
)
@pytest.mark.parametrize("drop_last", [False, True])
def test_four_ranks_with_batches_of_8(
    make_file: MakeFile, n_obs: int, n_shards: int, drop_last: bool
) -> None:
    path = make_file(n_obs, shard_size=10)
    assert -(-n_obs // 10) == n_shards
    seen, counts = [], set()
    for rank in range(4):
        with TrainingDataset(path, 8, rank=rank, world_size=4, drop_last=drop_last) as dataset:
            batches = rows(dataset)
            assert len(dataset) == len(batches)
            assert all(0 < len(batch) <= 8 for batch in batches)
            counts.add(len(batches))
            seen += flat(batches)
    n_rounds, n_tail = divmod(n_obs, 4 * 8)
    assert counts == {n_rounds if drop_last else n_rounds + (n_tail >= 4)}
    assert len(seen) == len(set(seen)) == (n_obs - n_tail if drop_last else n_obs)


@pytest.mark.parametrize("left", [0, 1, 7], ids=["nothing", "one", "all but one"])
@pytest.mark.parametrize("inner", [0, 1, 7])
@pytest.mark.parametrize("drop_last", [False, True])
def test_rows_that_a_batch_of_8_leaves_over(
    make_file: MakeFile, left: int, inner: int, drop_last: bool
) -> None:
    # Groups of two shards of 16 + inner rows leave 2 * inner, or of one leave inner; the file
    # leaves `left` at its end.
    shard_size = 16 + inner
    n_obs = 4 * shard_size
    n_obs += (left - n_obs) % 8
    path = make_file(n_obs, shard_size=shard_size)
    for group_size in (1, 2):
        with TrainingDataset(path, 8, shard_group_size=group_size, drop_last=drop_last) as dataset:
            for _ in range(2):
                batches = rows(dataset)
                sizes = [len(batch) for batch in batches]
                tail = [left] if left and not drop_last else []
                assert sizes == [8] * (n_obs // 8) + tail
                assert len(dataset) == len(sizes)
                assert len(set(flat(batches))) == n_obs - (left if drop_last else 0)


def test_how_a_file_sorted_by_a_label_is_mixed(make_file: MakeFile) -> None:
    """The table of `scx_train.streams.order`: labels in two halves of 16 shards, batches of 256."""
    shard_size, n_obs = 256, 32 * 256
    labels = np.repeat([0, 1], n_obs // 2)
    path = make_file(
        matrix=sp.csr_matrix((n_obs, 1), dtype=np.float32),
        obs=pd.DataFrame({"label": labels}),
        shard_size=shard_size,
    )

    def spread(orders: list[np.ndarray]) -> float:
        return float(np.std([labels[order].reshape(-1, 256).mean(axis=1) for order in orders]))

    found = {}
    for group_size in (1, 2, 8, 16):
        with TrainingDataset(path, 256, shard_group_size=group_size) as dataset:
            orders = [np.array(flat(rows(dataset))) for _ in range(5)]
        found[group_size] = spread(orders)
    rng = np.random.default_rng(0)
    permuted = spread([rng.permutation(n_obs) for _ in range(5)])
    assert permuted == pytest.approx(0.5 / np.sqrt(256), rel=0.15)
    documented = {1: 0.50, 2: 0.35, 8: 0.17, 16: 0.08}
    for group_size, wanted in documented.items():
        assert found[group_size] == pytest.approx(wanted, abs=0.04)
    assert found[1] > found[2] > found[8] > found[16] > permuted


def test_a_batch_of_one_cell(make_file: MakeFile) -> None:
    with TrainingDataset(make_file(17, 30), batch_size=1) as dataset:
        batches = list(dataset)
    assert [batch["X"].shape for batch in batches] == [(1, 30)] * 17
    assert sorted(int(batch["cell_indices"][0]) for batch in batches) == list(range(17))
