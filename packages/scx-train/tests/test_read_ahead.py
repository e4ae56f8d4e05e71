"""The bytes of a group are asked for before they are decoded; what comes out does not change."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anndata
import numpy as np
import pytest
import scipy.sparse as sp

import scx_core
from scx_train import TrainingDataset
from scx_train.streams import epoch
from scx_train.streams.epoch import _announced
from scx_train.streams.order import RowRange, ShardGroups, ShardRows
from scx_train.streams.sampling import OrderByLabel, WeightedDraws

MakeFile = Callable[..., Path]
STARTS = np.arange(0, 70_000, 10_000)


class Asked:
    """Stands for a pipeline, and notes what is asked for."""

    def __init__(self) -> None:
        self.ranges: list[tuple[int, int, bool]] = []

    def will_need(self, row_start: int, row_end: int, *, hold: bool) -> None:
        self.ranges.append((row_start, row_end, hold))


def len_of(rows: Any) -> str:
    return "all" if rows is None else f"{len(rows)} rows"


def asked_at_the_start(order: Any, *, first_row: int = 0, reads_ahead: bool = True) -> Asked:
    asked: Any = Asked()
    next(_announced(order, first_row, asked, reads_ahead=reads_ahead))
    return asked


def groups(chosen: Any = None, *, shuffled: bool = True) -> ShardGroups:
    shards = ShardRows(STARTS, chosen)
    return ShardGroups(shards, group_size=2, seed=3, epoch=0, shuffled=shuffled)


def test_the_first_batch_waits_for_its_group_alone() -> None:
    order = groups()
    asked = asked_at_the_start(order)
    first = {(part.start, part.stop, True) for part in order.ranges(0)}
    second = {(part.start, part.stop, False) for part in order.ranges(1)}
    assert set(asked.ranges) == first | second
    assert [hold for *_, hold in asked.ranges] == [True, True, False, False]
    assert [start for start, *_ in asked.ranges[:2]] == sorted(
        part.start for part in order.ranges(0)
    )


def test_later_groups_are_not_waited_for() -> None:
    asked: Any = Asked()
    list(_announced(groups(), 0, asked, reads_ahead=False))
    assert [hold for *_, hold in asked.ranges] == [True, True, False, False, False, False]


def test_resuming_waits_for_the_group_in_which_it_goes_on() -> None:
    order = groups()
    asked: Any = Asked()
    rows = _announced(order, 25_000, asked, reads_ahead=False)
    next(rows)
    assert asked.ranges == []
    next(rows)
    assert {(start, stop) for start, stop, _ in asked.ranges} == {
        (part.start, part.stop) for part in order.ranges(1)
    }
    assert all(hold for *_, hold in asked.ranges)


@pytest.mark.parametrize(
    "order",
    [
        groups(shuffled=False),
        WeightedDraws(ShardRows(STARTS), np.ones(60_000), stream=7),
        OrderByLabel(groups(), np.arange(60_000) % 3),
    ],
    ids=["in file order", "drawn from anywhere", "of one label"],
)
def test_batches_that_do_not_mix_a_group_wait_for_nothing(order: Any) -> None:
    asked = asked_at_the_start(order)
    assert asked.ranges
    assert not any(hold for *_, hold in asked.ranges)


def test_very_large_groups_are_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(epoch, "HELD_ROWS_MAX", 19_999)
    assert not any(hold for *_, hold in asked_at_the_start(groups()).ranges)


def test_shards_of_which_few_rows_are_streamed_are_not_read_as_a_whole() -> None:
    chosen = np.r_[np.arange(0, 200), np.arange(10_000, 10_100), np.arange(20_000, 30_000)]
    order = ShardGroups(ShardRows(STARTS, chosen), group_size=3, seed=3, epoch=0)
    assert sorted(order.ranges(0), key=lambda part: part.start) == [
        RowRange(0, 10_000),
        RowRange(20_000, 30_000),
    ]


@pytest.fixture
def drop(make_file: MakeFile) -> tuple[Path, Callable[[], None]]:
    """A file, and a call that drops it from the page cache where the system can."""
    path = make_file(n_obs=900, n_vars=300, shard_size=100)
    return path, lambda: drop_from_cache(path)


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("layout", ["dense", "csr"])
def test_cold_epochs_are_those_of_a_warm_file(
    drop: tuple[Path, Callable[[], None]], threads: int, layout: Any
) -> None:
    path, drop_now = drop
    options: dict[str, Any] = {"batch_size": 64, "shard_group_size": 3, "layout": layout}
    with TrainingDataset(path, threads=1, **options) as dataset:
        warm = [(batch["cell_indices"].tolist(), dense(batch["X"])) for batch in dataset]
    drop_now()
    with TrainingDataset(path, threads=threads, **options) as dataset:
        cold = [(batch["cell_indices"].tolist(), dense(batch["X"])) for batch in dataset]
    assert [rows for rows, _ in cold] == [rows for rows, _ in warm]
    for (_, values), (_, expected) in zip(cold, warm, strict=True):
        np.testing.assert_array_equal(values, expected)


@pytest.fixture(scope="module")
def many_cells(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Counts of which a few are large."""
    random = np.random.default_rng(4)
    matrix = sp.random(12_000, 300, density=0.25, format="csr", dtype=np.float32, rng=random)
    matrix.data = random.geometric(0.5, size=matrix.nnz).astype(np.float32)
    matrix.data[::97] *= random.integers(1, 400, size=len(matrix.data[::97]))
    path = tmp_path_factory.mktemp("many") / "many.scx"
    scx_core.from_anndata(anndata.AnnData(matrix), path, shard_size=2000)
    return path


def drop_from_cache(path: Path) -> None:
    """Drop a file from the page cache where the system can."""
    if hasattr(os, "posix_fadvise"):
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"hvg_indices": list(range(1, 300, 3))},
        {"hvg_indices": list(range(150)), "dtype": "float16", "normalize": False},
        {"hvg_indices": list(range(1, 300, 2)), "pflog": True, "pflog_alpha": 0.2},
        {"rank": 1, "world_size": 3},
        {"drop_last": True, "rows": np.arange(0, 12_000, 2)},
    ],
    ids=lambda options: ",".join(options) or "plain",
)
def test_batches_from_a_cold_cache_are_those_of_a_warm_file(
    many_cells: Path, options: dict[str, Any]
) -> None:
    options = {"batch_size": 500, "threads": 2, **options}
    with TrainingDataset(many_cells, **options) as dataset:
        warm = [(batch["cell_indices"].tolist(), batch["X"]) for batch in dataset]
    for _ in range(3):
        drop_from_cache(many_cells)
        with TrainingDataset(many_cells, **options) as dataset:
            cold = [(batch["cell_indices"].tolist(), batch["X"]) for batch in dataset]
        assert [rows for rows, _ in cold] == [rows for rows, _ in warm]
        for (_, values), (_, expected) in zip(cold, warm, strict=True):
            np.testing.assert_array_equal(values, expected)


def test_several_files_and_modalities_from_a_cold_cache(many_cells: Path) -> None:
    def epoch_of() -> list[Any]:
        with TrainingDataset(
            [many_cells, many_cells], 700, threads=2, allow_repeated_files=True
        ) as dataset:
            return [(batch["cell_indices"].tolist(), batch["X"]) for batch in dataset]

    warm = epoch_of()
    drop_from_cache(many_cells)
    for (rows, values), (expected_rows, expected) in zip(epoch_of(), warm, strict=True):
        assert rows == expected_rows
        np.testing.assert_array_equal(values, expected)


def dense(values: Any) -> Any:
    return values if isinstance(values, np.ndarray) else values.toarray()


def test_cold_epochs_can_be_left_at_once(drop: tuple[Path, Callable[[], None]]) -> None:
    path, drop_now = drop
    for _ in range(20):
        drop_now()
        with TrainingDataset(path, batch_size=64, threads=2) as dataset:
            iter(dataset)  # left before its first batch
            next(iter(dataset))
