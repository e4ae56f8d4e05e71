"""Several iterators, the end of a data set and of its iterators, counters, other processes."""

from __future__ import annotations

import copy
import gc
import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scx_train import IndexPlanBatchIter, IndexPlanDataset

MakeFile = Callable[..., Path]
PLANS = [[(row, 100 - row), (row + 1, row)] for row in range(0, 100, 2)]


def pairs_of(batches: Any) -> list[list[tuple[int, int]]]:
    return [batch["pairs"] for batch in batches]


def tasks() -> int:
    return len(os.listdir("/proc/self/task"))


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def maps_of(path: Path) -> int:
    return Path("/proc/self/maps").read_text(encoding="utf-8").count(path.name)


linux_only = pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="counts in /proc")


@pytest.fixture
def dataset(make_file: MakeFile) -> Iterator[IndexPlanDataset]:
    with IndexPlanDataset(make_file(101), sort_by_shard=False) as dataset:
        yield dataset


@pytest.mark.parametrize("lookahead", [None, 0, 1, 2, 7, 1024])
def test_any_lookahead_gives_the_same(dataset: IndexPlanDataset, lookahead: int | None) -> None:
    assert pairs_of(dataset.iter_with_plans(PLANS, lookahead=lookahead)) == PLANS
    assert pairs_of(dataset.iter_with_plans(iter(PLANS), lookahead)) == PLANS


def test_several_iterators_at_once(dataset: IndexPlanDataset) -> None:
    iterators = [dataset.iter_with_plans(PLANS[start:]) for start in range(4)]
    found: list[Any] = [[], [], [], []]
    for _ in range(len(PLANS) - 3):
        for number, batches in enumerate(iterators):
            found[number].append(next(batches)["pairs"])
    for number, batches in enumerate(iterators):
        assert found[number] + pairs_of(batches) == PLANS[number:]


def test_iterators_in_threads(dataset: IndexPlanDataset) -> None:
    results: list[Any] = []

    def run() -> None:
        for _ in range(4):
            results.append(pairs_of(dataset.iter_with_plans(PLANS)))

    workers = [threading.Thread(target=run) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert results == [PLANS] * 12


def test_iterators_outlive_the_data_set(make_file: MakeFile) -> None:
    path = make_file(101)
    options: dict[str, Any] = {"sort_by_shard": False, "obs_columns": ["number"]}
    with IndexPlanDataset(path, **options) as dataset:
        begun, fresh = (dataset.iter_with_plans(PLANS) for _ in range(2))
        first = next(begun)
    path.unlink()
    del dataset
    gc.collect()
    assert [first["pairs"], *pairs_of(begun)] == PLANS
    for batch, plan in zip(fresh, PLANS, strict=True):
        assert batch["obs"]["number"].tolist() == [pair[0] for pair in plan]  # type: ignore[union-attr]


def test_close_is_final(make_file: MakeFile) -> None:
    dataset = IndexPlanDataset(make_file(101))
    assert not dataset.closed
    batches = dataset.iter_with_plans(PLANS)
    dataset.close()
    dataset.close()
    assert dataset.closed and "closed" in repr(dataset)
    calls: list[Callable[[], Any]] = [
        lambda: dataset.iter_with_plans(PLANS),
        dataset.effective_cache_shards,
        dataset.effective_lookahead,
        lambda: dataset.suggested_cache_shards(PLANS[0]),
        dataset.memory_budget,
        dataset.cache_metrics,
    ]
    for call in calls:
        with pytest.raises(RuntimeError, match="closed, which is final: build a new one"):
            call()
    assert len(list(batches)) == len(PLANS)
    assert batches.metrics()["cache"]["rows_decoded_directly"] == 4 * len(PLANS)


def test_names(dataset: IndexPlanDataset, make_file: MakeFile) -> None:
    assert "101 cells × 30 genes" in repr(dataset)
    with IndexPlanDataset(make_file(101, name="two.scx"), hvg_indices=[1, 2]) as narrow:
        assert "2 of 30 genes" in repr(narrow)
        assert (narrow.n_obs, narrow.n_vars, narrow.n_output_genes) == (101, 30, 2)
    broken = object.__new__(IndexPlanDataset)
    assert "not built" in repr(broken) and broken.closed
    assert isinstance(dataset.iter_with_plans([]), IndexPlanBatchIter)


@linux_only
def test_nothing_is_left_of_early_exits(make_file: MakeFile) -> None:
    path = make_file(101)
    before = tasks(), open_files()
    rng = np.random.default_rng(0)
    for _ in range(30):
        dataset = IndexPlanDataset(path, threads=2)
        batches = dataset.iter_with_plans(PLANS)
        for _ in range(int(rng.integers(0, 60))):
            next(batches, None)
        if rng.random() < 0.5:
            dataset.close()
        del dataset, batches
    gc.collect()
    assert (tasks(), open_files()) == before
    assert maps_of(path) == 0


@linux_only
def test_a_data_set_holds_no_threads(make_file: MakeFile) -> None:
    before = tasks()
    with IndexPlanDataset(make_file(101)) as dataset:
        assert tasks() == before
        assert len(list(dataset.iter_with_plans(PLANS))) == len(PLANS)
        assert tasks() == before


def test_counters(dataset: IndexPlanDataset) -> None:
    keys = {
        "hits", "misses", "evictions", "bytes_inserted", "peak_bytes_in_cache",
        "full_shard_groups", "block_index_groups", "row_group_hits", "row_group_misses",
        "row_group_evictions", "row_group_bytes_inserted", "row_group_duplicate_waiters",
        "reuse_admissions", "admitted_group_bytes", "rejected_group_bytes",
    }  # fmt: skip
    prefetch_keys = {
        "prefetch_tasks_spawned", "prefetch_skipped_cache_hit", "prefetch_skipped_in_flight",
        "prefetch_skipped_block_index", "prefetch_skipped_reader_limit",
    }  # fmt: skip
    first, second = dataset.iter_with_plans(PLANS), dataset.iter_with_plans(PLANS[:3], lookahead=0)
    assert len(list(first)) == 50 and len(list(second)) == 3
    for batches, ahead in ((first, True), (second, False)):
        metrics = batches.metrics()
        assert set(metrics) == {"cache", "prefetch"}
        assert metrics["cache"] == dataset.cache_metrics()
        assert prefetch_keys <= set(metrics["prefetch"])
        assert all(metrics["prefetch"][key] == 0 for key in prefetch_keys)
        assert (metrics["prefetch"]["plans_decoded_ahead"] > 0) == ahead
    cache = dataset.cache_metrics()
    assert keys <= set(cache) and not any(key.startswith("reader_") for key in cache)
    assert all(cache[key] == 0 for key in keys)
    assert cache["rows_decoded_directly"] == 2 * 2 * (50 + 3)


def test_suggested_cache_shards(dataset: IndexPlanDataset) -> None:
    for plan, expected in (
        ([], 0),
        ([(0, 9)], 1),
        ([(0, 10)], 2),
        ([(0, 10), (19, 100), (99, 1)], 4),
        (np.array([[row, row] for row in range(101)], dtype=np.uint8), 11),
    ):
        assert dataset.suggested_cache_shards(plan) == expected
        # a plan that can be gone through only once
        assert dataset.suggested_cache_shards(iter(plan)) == expected
    with pytest.raises(IndexError, match="row 101"):
        dataset.suggested_cache_shards([(0, 101)])


def test_it_is_not_sent_or_copied(dataset: IndexPlanDataset) -> None:
    for value in (dataset, dataset.iter_with_plans(PLANS)):
        for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(RuntimeError, match="num_workers=0"):
                attempt(value)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_process_is_told_what_to_do(dataset: IndexPlanDataset) -> None:
    batches = dataset.iter_with_plans(PLANS)
    first = next(batches)
    child = os.fork()
    if child == 0:
        code = 0
        for call in (lambda: dataset.iter_with_plans(PLANS), lambda: next(batches)):
            try:
                call()
                code = 1
            except RuntimeError as error:
                code = code or (0 if "num_workers=0" in str(error) else 2)
        assert not dataset.closed
        repr(dataset)
        batches.close()
        dataset.close()
        os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert [first["pairs"], *pairs_of(batches)] == PLANS


SCRIPT = """
import os, signal, sys, threading, time
from scx_train import IndexPlanDataset

path, how = sys.argv[1:]
dataset = IndexPlanDataset(path)

def endless():
    while True:
        yield [(1, 2)] * 5

def stuck():
    yield [(1, 2)]
    threading.Event().wait()

def late():
    time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGINT)

batches = dataset.iter_with_plans(endless() if how == "exit" else stuck())
next(batches)
if how == "interrupt":
    threading.Thread(target=late, daemon=True).start()
    try:
        next(batches)
    except KeyboardInterrupt:
        print("interrupted")
print("end")
"""


@pytest.mark.parametrize("how", ["exit", "stuck", "interrupt"])
def test_the_interpreter_ends(make_file: MakeFile, how: str) -> None:
    """With an iterator that runs, or with a generator that never comes back; after a Ctrl-C."""
    start = time.monotonic()
    result = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(make_file(101)), how],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    expected = "interrupted\nend\n" if how == "interrupt" else "end\n"
    assert (result.returncode, result.stdout, result.stderr) == (0, expected, "")
    assert time.monotonic() - start < 50


def test_hard_negatives_with_a_rendezvous(dataset: IndexPlanDataset) -> None:
    """Each plan pairs a cell with the one that the batch before found most alike."""
    answers: list[int] = []
    answered = threading.Semaphore(0)

    def plans() -> Iterator[list[tuple[int, int]]]:
        candidates = list(range(1, 101))
        for _ in range(20):
            yield [(0, row) for row in candidates[:30]]
            assert answered.acquire(timeout=30)
            candidates.remove(answers[-1])

    for lookahead in (0, 1, 4):
        answers.clear()
        for batch in dataset.iter_with_plans(plans(), lookahead=lookahead):
            distance = ((batch["X"] - batch["X_paired"]) ** 2).sum(axis=1)
            answers.append(batch["pairs"][int(distance.argmin())][1])
            answered.release()
        assert len(set(answers)) == 20


def test_a_writer_replaces_the_file_of_running_plans(make_file: MakeFile) -> None:
    path = make_file(matrix=np.full((64, 5), 3, dtype=np.float32), shard_size=8)
    other = make_file(matrix=np.full((64, 5), 4, dtype=np.float32), name="other.scx")
    plans = [[(row, 63 - row)] for row in range(20)]
    with IndexPlanDataset(path, normalize=False, log1p=False) as dataset:
        batches = dataset.iter_with_plans(plans, lookahead=2)
        found = [next(batches)]
        os.replace(other, path)
        found += [*batches, *dataset.iter_with_plans(plans)]
    assert all((batch["X"] == 3).all() and (batch["X_paired"] == 3).all() for batch in found)
    with IndexPlanDataset(path, normalize=False, log1p=False) as dataset:
        assert all((batch["X"] == 4).all() for batch in dataset.iter_with_plans(plans))


@pytest.mark.parametrize("count", [10_000, 100_000])
def test_what_comes_before_the_first_batch_does_not_grow(
    dataset: IndexPlanDataset, count: int
) -> None:
    asked = []

    def plans() -> Iterator[list[tuple[int, int]]]:
        for number in range(count):
            asked.append(number)
            yield [(number % 101, 3)]

    with dataset.iter_with_plans(plans(), lookahead=4) as batches:
        next(batches)
        assert len(asked) <= 1 + 4
