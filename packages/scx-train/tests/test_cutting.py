"""Which cells make up which batch: tails, chosen rows, file order, ranks and workers."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from scx_train import TrainingDataset

MakeFile = Callable[..., Path]


def batches_of(path: Path, batch_size: int = 8, **options: Any) -> list[list[int]]:
    """One epoch's batches as lists of rows."""
    with TrainingDataset(path, batch_size, **options) as dataset:
        result = [batch["cell_indices"].tolist() for batch in dataset]
        assert len(dataset) == len(result)
    return result


def flat(batches: list[list[int]]) -> list[int]:
    return [row for batch in batches for row in batch]


def test_file_order(make_file: MakeFile) -> None:
    path = make_file(101)
    batches = batches_of(path, shuffle=False, shard_group_size=3)
    assert batches == [list(range(101))[start : start + 8] for start in range(0, 101, 8)]


@pytest.mark.parametrize("n_obs", [16, 17, 18, 19, 3])
@pytest.mark.parametrize("min_batch", [1, 2, 8])
@pytest.mark.parametrize("tail", ["drop", "merge", "keep"])
@pytest.mark.parametrize("drop_last", [False, True])
def test_tails(make_file: MakeFile, n_obs: int, min_batch: int, tail: str, drop_last: bool) -> None:
    rest = n_obs % 8
    sizes = [8] * (n_obs // 8)
    if rest and not drop_last:
        if rest >= min_batch or tail == "keep" or (tail == "merge" and not sizes):
            sizes.append(rest)
        elif tail == "merge":
            sizes[-1] += rest
    path = make_file(n_obs)
    batches = batches_of(path, min_batch=min_batch, tail=tail, drop_last=drop_last, shuffle=False)
    assert [len(batch) for batch in batches] == sizes
    assert flat(batches) == list(range(sum(sizes)))
    shuffled = flat(batches_of(path, min_batch=min_batch, tail=tail, drop_last=drop_last))
    assert shuffled == flat(batches_of(path))[: sum(sizes)]


@pytest.mark.parametrize("kind", ["mask", "indices", "uint8", "descending"])
@pytest.mark.parametrize("group_size", [1, 2, 8])
def test_chosen_rows(
    make_file: MakeFile, expected_rows: Callable[..., list[int]], kind: str, group_size: int
) -> None:
    path = make_file(101)
    mask = np.random.default_rng(3).random(101) < 0.4
    mask[20:40] = False  # two shards without any
    rows: Any = np.flatnonzero(mask)
    if kind == "mask":
        rows = mask
    elif kind == "uint8":
        rows = rows.astype(np.uint8)
    elif kind == "descending":
        rows = rows[::-1]
    batches = batches_of(path, rows=rows, shard_group_size=group_size)
    assert [len(batch) for batch in batches[:-1]] == [8] * (len(batches) - 1)
    assert sorted(flat(batches)) == np.flatnonzero(mask).tolist()
    assert batches_of(path, rows=rows, shuffle=False, batch_size=1000) == [
        np.flatnonzero(mask).tolist()
    ]
    assert flat(batches) == expected_rows(
        101,
        shard_size=10,
        group_size=group_size,
        seed=42,
        epoch=0,
        chosen=set(np.flatnonzero(mask).tolist()),
    )


def test_order_of_chosen_rows_is_the_documented_one(
    make_file: MakeFile, expected_rows: Callable[..., list[int]]
) -> None:
    # The even rows of shards of 10 are the rows of shards of 5, spread out.
    rows = np.arange(0, 100, 2)
    half = expected_rows(50, shard_size=5, group_size=3, seed=9, epoch=0)
    batches = batches_of(make_file(100), rows=rows, shard_group_size=3, seed=9)
    assert flat(batches) == [2 * row for row in half]


def test_all_rows_chosen_are_the_same_as_no_choice(make_file: MakeFile) -> None:
    path = make_file(101)
    assert batches_of(path, rows=np.ones(101, dtype=bool)) == batches_of(path)


def test_n_obs_counts_the_chosen_rows(make_file: MakeFile) -> None:
    with TrainingDataset(make_file(101), rows=[3, 5, 100]) as dataset:
        assert (dataset.n_obs, len(dataset)) == (3, 1)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "no cell"),
        (np.zeros(20, dtype=bool), "no cell"),
        (np.ones(21, dtype=bool), "21 entries for 20 cells"),
        ([[1, 2]], "2 dimensions"),
        ([1.0, 2.0], "float64"),
        (["a"], "whole numbers"),
        ([1, 20], "holds 20, .* 0 to 19"),
        ([1, -1], "holds -1"),
        ([4, 1, 4], "4 more than once"),
        (np.array([9, 4, 1, 9, 4], np.uint64), "4 more than once"),
    ],
)
def test_rows_that_are_refused(make_file: MakeFile, rows: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"rows.*{message}"):
        TrainingDataset(make_file(20), rows=rows)


@pytest.mark.parametrize("n_obs", [64, 65, 66, 67, 90, 95, 3, 7])
@pytest.mark.parametrize("world_size", [1, 2, 3, 5])
@pytest.mark.parametrize("tail", ["drop", "merge"])
def test_ranks_share_the_cells(make_file: MakeFile, n_obs: int, world_size: int, tail: str) -> None:
    path = make_file(n_obs)
    whole = flat(batches_of(path))
    ranks = [
        batches_of(path, rank=rank, world_size=world_size, tail=tail) for rank in range(world_size)
    ]
    assert len({len(batches) for batches in ranks}) == 1
    n_rounds, n_tail = divmod(n_obs, 8 * world_size)
    seen = [row for batches in ranks for row in flat(batches)]
    assert len(seen) == len(set(seen))
    lost = n_tail if n_tail < world_size and (tail == "drop" or n_rounds == 0) else 0
    assert sorted(seen) == sorted(whole[: n_obs - lost])
    # the batches of all ranks, one of each in turn, are the order of one process
    for number in range(n_rounds - 1):
        start = number * 8 * world_size
        together = [row for batches in ranks for row in batches[number]]
        assert together == whole[start : start + 8 * world_size]
    if n_tail >= world_size:
        pieces = [batches[-1] for batches in ranks]
        assert [row for piece in pieces for row in piece] == whole[n_obs - n_tail :]
        assert max(map(len, pieces)) - min(map(len, pieces)) <= 1


def test_a_short_piece_of_the_tail_counts_for_min_batch(make_file: MakeFile) -> None:
    path = make_file(16 + 5)  # pieces of 2 and 3 cells
    for min_batch, n_batches in [(2, 2), (3, 1)]:
        for rank in range(2):
            options = {"rank": rank, "world_size": 2, "min_batch": min_batch}
            assert len(batches_of(path, **options)) == n_batches
            merged = batches_of(path, tail="merge", **options)
            assert sum(map(len, merged)) == 8 + (2, 3)[rank]


@pytest.mark.parametrize("world_size", [1, 2])
@pytest.mark.parametrize("num_shards", [1, 2, 3, 20])
def test_workers_in_turn_give_the_batches_of_their_rank(
    make_file: MakeFile, world_size: int, num_shards: int
) -> None:
    path = make_file(101)
    for rank in range(world_size):
        ranks: dict[str, Any] = {"rank": rank, "world_size": world_size}
        whole = batches_of(path, **ranks)
        workers = [
            batches_of(path, shard=shard, num_shards=num_shards, **ranks)
            for shard in range(num_shards)
        ]
        dealt: list[list[int]] = []
        for number in range(max(map(len, workers))):
            dealt += [worker[number] for worker in workers if number < len(worker)]
        assert dealt == whole


def test_rank_of_torch_distributed(make_file: MakeFile, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make_file(101)
    module = SimpleNamespace(
        is_available=lambda: True,
        is_initialized=lambda: True,
        get_rank=lambda: 1,
        get_world_size=lambda: 2,
    )
    monkeypatch.setitem(sys.modules, "torch.distributed", module)
    assert batches_of(path) == batches_of(path, rank=1, world_size=2)
    assert batches_of(path, rank=0, world_size=1) != batches_of(path)
    module.is_initialized = lambda: False
    assert batches_of(path) == batches_of(path, rank=0, world_size=1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rank": 0}, "both or neither"),
        ({"world_size": 2}, "both or neither"),
        ({"rank": 2, "world_size": 2}, "rank must be <= 1, but rank=2"),
        ({"rank": -1, "world_size": 2}, "rank=-1"),
        ({"rank": 0, "world_size": 0}, "world_size=0"),
    ],
)
def test_ranks_that_are_refused(make_file: MakeFile, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TrainingDataset(make_file(5), **options)
