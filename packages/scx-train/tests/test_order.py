"""Which cell comes when: every row once, a new order each epoch, the documented shuffle."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from scx_train import TrainingDataset

MakeFile = Callable[..., Path]


def epoch_rows(dataset: TrainingDataset) -> list[int]:
    return [int(row) for batch in dataset for row in batch["cell_indices"]]


def test_the_reference_generator_gives_the_published_draws(
    random_words: Callable[[int], Iterator[int]], mix: Callable[[int], int]
) -> None:
    stream = mix(1)
    for value in (int.from_bytes(b"SCXTKSMP", "big"), 2, 0):
        stream = mix(stream ^ value)
    words = random_words(stream)
    draws = []
    for _ in range(12):
        low, high = next(words), next(words)
        uniform = ((high << 32 | low) >> 11) * 2.0**-53
        draws.append(3 if uniform < 0.5 else 8)
    assert draws == [3, 8, 8, 8, 3, 8, 3, 8, 3, 8, 3, 3]


@pytest.mark.parametrize(
    ("n_obs", "shard_size", "group_size"),
    [(101, 10, 8), (101, 10, 1), (101, 10, 3), (64, 8, 2), (1, 10, 8), (30, 100, 8), (2, 1, 1)],
)
@pytest.mark.parametrize("seed", [0, 42, 2**64 - 1])
def test_order_equals_the_documented_shuffle(
    make_file: MakeFile,
    expected_rows: Callable[..., list[int]],
    n_obs: int,
    shard_size: int,
    group_size: int,
    seed: int,
) -> None:
    path = make_file(n_obs, shard_size=shard_size)
    with TrainingDataset(path, 8, shard_group_size=group_size, seed=seed) as dataset:
        for epoch in range(3):
            expected = expected_rows(
                n_obs, shard_size=shard_size, group_size=group_size, seed=seed, epoch=epoch
            )
            assert epoch_rows(dataset) == expected


def test_every_row_once_in_a_new_order_each_epoch(make_file: MakeFile) -> None:
    with TrainingDataset(make_file(101), 8) as dataset:
        epochs = [epoch_rows(dataset) for _ in range(5)]
    for rows in epochs:
        assert sorted(rows) == list(range(101))
    assert len({tuple(rows) for rows in epochs}) == 5


def test_seeds_that_a_sum_would_alias_differ(make_file: MakeFile) -> None:
    path = make_file(101)
    golden = 0x9E3779B97F4A7C15
    with TrainingDataset(path, 8, seed=7) as one, TrainingDataset(path, 8, seed=7 + golden) as two:
        epoch_rows(one)
        assert epoch_rows(one) != epoch_rows(two)


def test_order_and_values_do_not_depend_on_threads_or_batches_ahead(make_file: MakeFile) -> None:
    path = make_file(333, 50, shard_size=16)
    results = []
    for threads, prefetch_batches in [(1, 1), (2, 4), (5, 2), (64, 16), (None, 4)]:
        with TrainingDataset(
            path, 32, threads=threads, prefetch_batches=prefetch_batches
        ) as dataset:
            results.append(
                [(batch["X"].tobytes(), batch["cell_indices"].tobytes()) for batch in dataset]
            )
    assert all(result == results[0] for result in results)


@pytest.mark.parametrize("batch_size", [1, 7, 8, 100])
def test_batch_size_only_cuts_the_order(make_file: MakeFile, batch_size: int) -> None:
    path = make_file(101)
    with TrainingDataset(path, 10) as ten, TrainingDataset(path, batch_size) as other:
        assert epoch_rows(ten) == epoch_rows(other)


@pytest.mark.parametrize("n_obs", [0, 1, 7, 8, 9, 15, 16, 17, 80, 81, 87, 88])
@pytest.mark.parametrize("group_size", [1, 2, 8])
def test_all_batches_are_full_but_the_last(
    make_file: MakeFile, n_obs: int, group_size: int
) -> None:
    # Shards of 10 end in the middle of batches of 8 everywhere.
    with TrainingDataset(make_file(n_obs), 8, shard_group_size=group_size) as dataset:
        sizes = [len(batch["X"]) for batch in dataset]
        assert len(dataset) == len(sizes)
    full, rest = divmod(n_obs, 8)
    assert sizes == [8] * full + [rest] * (rest > 0)


def test_batch_of_one_cell_keeps_two_dimensions(make_file: MakeFile) -> None:
    with TrainingDataset(make_file(5, 30), 1) as dataset:
        for batch in dataset:
            assert batch["X"].shape == (1, 30)
            assert batch["cell_indices"].shape == (1,)


def test_a_batch_larger_than_the_file_is_the_file(make_file: MakeFile) -> None:
    with TrainingDataset(make_file(5), 1000) as dataset:
        (batch,) = dataset
        assert sorted(batch["cell_indices"]) == [0, 1, 2, 3, 4]


def test_rows_and_values_and_obs_belong_together(make_file: MakeFile) -> None:
    matrix = np.repeat(np.arange(1, 102, dtype=np.float32)[:, None], 4, axis=1)
    path = make_file(matrix=matrix)
    with TrainingDataset(path, 8, obs_columns=["number"], normalize=False, log1p=False) as dataset:
        for batch in dataset:
            rows = batch["cell_indices"]
            assert rows.dtype == np.int64
            np.testing.assert_array_equal(batch["obs"]["number"], rows)
            np.testing.assert_array_equal(batch["X"], np.repeat(rows[:, None] + 1, 4, axis=1))


@pytest.mark.parametrize(
    ("group_size", "lowest", "highest"),
    [(1, 0.49, 0.51), (2, 0.31, 0.39), (8, 0.13, 0.21), (16, 0.05, 0.11), (32, 0.02, 0.05)],
)
def test_how_far_a_group_mixes_a_file_sorted_by_a_label(
    expected_rows: Callable[..., list[int]], group_size: int, lowest: float, highest: float
) -> None:
    # the table in scx_train.streams.order, on fewer cells; the tests above show that these are it
    shard_size, n_obs = 128, 32 * 128
    shares = []
    for epoch in range(8):
        rows = expected_rows(
            n_obs, shard_size=shard_size, group_size=group_size, seed=42, epoch=epoch
        )
        labels = np.array(rows) >= n_obs // 2
        shares.append(labels.reshape(-1, shard_size // 2).mean(axis=1))
    spread = np.std(np.concatenate(shares))
    binomial = 0.5 / np.sqrt(shard_size // 2)
    assert lowest <= np.sqrt(max(0, spread**2 - binomial**2) + 0.03**2) <= highest
