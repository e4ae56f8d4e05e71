"""What users have met with the workers of a DataLoader: repeated epochs, and memory of each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from scx_train import TrainingDataset
from scx_train.torch import TrainingIterable

MakeFile = Callable[..., Path]
MB = 2**20

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning"),
]


def rows(batches: Any) -> list[int]:
    return [int(row) for batch in batches for row in batch["cell_indices"]]


@pytest.mark.parametrize("num_workers", [0, 1, 2, 3])
def test_64_rows_in_shards_of_8(
    make_file: MakeFile, expected_rows: Callable[..., list[int]], num_workers: int
) -> None:
    path = make_file(64, shard_size=8)
    # the workers of the second epoch are other processes, with data sets of their own
    loader = DataLoader(TrainingIterable(path, 8), batch_size=None, num_workers=num_workers)
    for epoch in range(2):
        found = rows(loader)
        assert sorted(found) == list(range(64))
        assert found == expected_rows(64, shard_size=8, group_size=8, seed=42, epoch=epoch)


class EveryWorkerTheWholeFile(IterableDataset):  # type: ignore[misc]
    """The wrapper that is often written, and what is wrong with it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __iter__(self) -> Any:
        dataset = TrainingDataset(self.path, 8)
        try:
            yield from dataset
        finally:
            dataset.close()


class EveryWorkerItsShare(EveryWorkerTheWholeFile):
    """The same with what it lacks: the worker's share, and the number of the epoch."""

    epoch = 0

    def __iter__(self) -> Any:
        info = get_worker_info()
        shard, num_shards = (info.id, info.num_workers) if info else (0, 1)
        dataset = TrainingDataset(self.path, 8, shard=shard, num_shards=num_shards)
        dataset.set_epoch(self.epoch)
        try:
            yield from dataset
        finally:
            dataset.close()


def test_a_wrapper_of_ones_own_needs_a_share_and_an_epoch(make_file: MakeFile) -> None:
    path = make_file(64, shard_size=8)
    loader = DataLoader(EveryWorkerTheWholeFile(path), batch_size=None, num_workers=2)
    first = rows(loader)
    assert sorted(first) == sorted([*range(64), *range(64)])  # each cell twice
    assert rows(loader) == first  # and epoch 0 again
    mine = EveryWorkerItsShare(path)
    loader = DataLoader(mine, batch_size=None, num_workers=2)
    with TrainingDataset(path, 8) as dataset:
        for mine.epoch in range(2):
            assert rows(loader) == rows(dataset)


def private_mb(process_id: int) -> float:
    """Memory of a process alone, without the pages of files."""
    text = Path(f"/proc/{process_id}/smaps_rollup").read_text(encoding="utf-8")
    lines = [line.split() for line in text.splitlines() if line.startswith("Private_Dirty:")]
    return int(lines[0][1]) / 1024


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="measures in /proc")
@pytest.mark.parametrize("num_workers", [1, 2, 4])
def test_private_memory_of_workers_together(large_file: Path, num_workers: int) -> None:
    """Each worker takes the budget of a data set, and an interpreter; the map is nobody's own."""
    assert large_file.stat().st_size > 200e6
    options: dict[str, Any] = {"batch_size": 64, "prefetch_batches": 16, "threads": 1}
    options |= {"normalize": False, "log1p": False}
    with TrainingDataset(large_file, **options) as dataset:
        budget = dataset.memory_budget()
    assert budget["mmap_mb"] == large_file.stat().st_size / MB
    assert budget["estimated_mb"] > 80
    loader = DataLoader(
        TrainingIterable(large_file, **options),
        batch_size=None,
        num_workers=num_workers,
        prefetch_factor=1,
    )
    assert len(loader) / num_workers > 16 + 2  # so that a worker fills all of its buffers
    most = 0.0
    batches = iter(loader)
    for number in range(len(loader)):
        next(batches)
        if number % 8 == 7:
            most = max(most, sum(private_mb(worker.pid) for worker in batches._workers))
    said = num_workers * budget["estimated_mb"]
    assert abs(most - said) <= 0.15 * said + 50 * num_workers, (most, said)
