"""Readers, counters, budget, and the life of a SparseCellSetDataset and its iterators."""

from __future__ import annotations

import gc
import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cell_set_files import MakeCollection, dense_of

import scx_core
from scx_train import SparseCellSetDataset

PREFETCH = {
    "prefetch_tasks_spawned",
    "prefetch_skipped_cache_hit",
    "prefetch_skipped_in_flight",
    "prefetch_skipped_block_index",
    "prefetch_skipped_reader_limit",
}


def test_properties_and_close(make_collection: MakeCollection) -> None:
    files = make_collection([(20, 6, 2), (30, 6, 2)])
    dataset = SparseCellSetDataset(files.paths)
    assert (dataset.n_files, dataset.n_cols, dataset.closed) == (2, 6, False)
    assert repr(dataset) == "SparseCellSetDataset(2 files, 6 genes)"
    plan = files.plan(0, 10)
    iterator = dataset.iter_with_plans([plan] * 3)
    dataset.close()
    dataset.close()
    assert dataset.closed
    assert repr(dataset) == "SparseCellSetDataset(2 files, 6 genes, closed)"
    batches = list(iterator)  # it holds what it needs
    assert len(batches) == 3
    assert iterator.metrics()["cache"]["rows_decoded_directly"] == 30
    for call in (
        lambda: dataset.gather(*plan),
        lambda: dataset.iter_with_plans([plan]),
        lambda: dataset.suggested_cache_shards(plan),
        dataset.cache_metrics,
        dataset.memory_budget,
    ):
        with pytest.raises(RuntimeError, match="closed, which is final"):
            call()


def test_an_empty_plan(make_collection: MakeCollection) -> None:
    files = make_collection([(20, 6, 2)])
    dataset = SparseCellSetDataset(files.paths)
    empty: tuple[Any, ...] = ([], [], [], [0])
    batch = dataset.gather(*empty)
    assert batch["indptr"].tolist() == [0]
    assert dense_of(batch, 6).shape == (0, 6)
    assert list(dataset.iter_with_plans([empty, empty])) == []
    assert dataset.suggested_cache_shards(empty) == 0


def test_suggested_cache_shards(make_collection: MakeCollection) -> None:
    files = make_collection([(20, 6, 2), (30, 6, 2)], shard_size=7)
    dataset = SparseCellSetDataset(files.paths)
    plan = files.plan(5, 25)
    expected = {(file, row // 7) for file, row in zip(plan[0], plan[1], strict=True)}
    assert dataset.suggested_cache_shards(plan) == len(expected)


def test_counters_of_the_readers(make_collection: MakeCollection) -> None:
    files = make_collection([(5, 6, 2)] * 6)
    keys = ("reader_opens", "reader_evictions", "reader_resident", "reader_hwm")

    def readers(dataset: SparseCellSetDataset) -> tuple[int, ...]:
        metrics = dataset.cache_metrics()
        return tuple(metrics[key] for key in keys)

    unlimited = SparseCellSetDataset(files.paths)
    assert readers(unlimited) == (6, 0, 6, 6)
    unlimited.gather(*files.plan(0, 30))
    assert readers(unlimited) == (6, 0, 6, 6)

    limited = SparseCellSetDataset(files.paths, reader_limit=2)
    assert readers(limited) == (2, 0, 2, 2)  # what it was handed, not the look at each file
    limited.gather([1], [0], [0], [0, 1])
    assert readers(limited) == (2, 0, 2, 2)
    limited.gather([0], [0], [0], [0, 1])  # now used after file 1
    limited.gather([4], [0], [0], [0, 1])
    assert readers(limited) == (3, 1, 2, 2)
    limited.gather([0], [0], [0], [0, 1])  # file 1 was the one to go
    assert readers(limited) == (3, 1, 2, 2)
    plan = files.plan(0, 40)
    batch = limited.gather(*plan)  # all six files, one after the other
    np.testing.assert_array_equal(dense_of(batch, 6), files.rows(plan))
    assert readers(limited)[2:] == (2, 2)


def test_plans_wider_than_the_limit_are_not_decoded_ahead(make_collection: MakeCollection) -> None:
    files = make_collection([(5, 6, 2)] * 4)
    dataset = SparseCellSetDataset(files.paths, reader_limit=2)
    narrow: tuple[Any, ...] = ([0, 1], [0, 1], [0, 0], [0, 2])
    wide: tuple[Any, ...] = ([0, 1, 2], [0, 1, 1], [0, 0, 0], [0, 3])
    iterator = dataset.iter_with_plans([narrow, wide, narrow, wide])
    for batch, plan in zip(iterator, [narrow, wide, narrow, wide], strict=True):
        np.testing.assert_array_equal(dense_of(batch, 6), files.rows(plan))  # type: ignore[arg-type]
    prefetch = iterator.metrics()["prefetch"]
    assert prefetch["prefetch_skipped_reader_limit"] == 2
    assert set(prefetch) >= PREFETCH
    assert "prefetch_skipped_reader_limit" not in dataset.cache_metrics()
    free = SparseCellSetDataset(files.paths).iter_with_plans([wide])
    list(free)
    assert free.metrics()["prefetch"]["prefetch_skipped_reader_limit"] == 0


def test_a_file_that_was_replaced_is_refused_when_it_is_opened_again(
    make_collection: MakeCollection,
) -> None:
    files = make_collection([(5, 6, 2)] * 3)
    other = make_collection([(9, 6, 2)], prefix="other")
    dataset = SparseCellSetDataset(files.paths, reader_limit=1)
    os.replace(other.paths[0], files.paths[2])
    with pytest.raises(ValueError, match=r"2\.scx: it was replaced by another file"):
        dataset.gather([2], [0], [0], [0, 1])
    dataset.gather([1], [0], [0], [0, 1])


def test_a_file_of_the_same_shape_and_genes_but_other_values_is_refused_too(
    make_collection: MakeCollection, tmp_path: Path
) -> None:
    files = make_collection([(5, 6, 2)] * 3)
    other = tmp_path / "other.scx"
    with scx_core.open(files.paths[2]) as experiment:
        scx_core.from_anndata(experiment.to_anndata()[::-1].copy(), other)
    dataset = SparseCellSetDataset(files.paths, reader_limit=1)
    os.replace(other, files.paths[2])
    with pytest.raises(ValueError, match=r"2\.scx: it was replaced .* which has other values"):
        dataset.gather([2], [0], [0], [0, 1])
    with pytest.raises(ValueError, match="which has other values"):
        list(dataset.iter_with_plans([([2], [0], [0], [0, 1])]))


def test_rows_may_be_marked_as_deleted_while_files_open_and_close(
    make_collection: MakeCollection,
) -> None:
    files = make_collection([(5, 6, 2)] * 3)
    dataset = SparseCellSetDataset(files.paths, reader_limit=1)
    scx_core.mark_deleted(files.paths[2], [0])
    batch = dataset.gather([2], [3], [0], [0, 1])
    np.testing.assert_array_equal(dense_of(batch, 6), files.dense[2][[3]])


def test_idle_counters_and_metrics(make_collection: MakeCollection) -> None:
    files = make_collection([(20, 6, 2), (30, 6, 2)])
    dataset = SparseCellSetDataset(files.paths)
    iterator = dataset.iter_with_plans([files.plan(i, 10) for i in range(5)], lookahead=3)
    list(iterator)
    metrics = dataset.cache_metrics()
    assert iterator.metrics()["cache"] == metrics
    assert metrics.pop("rows_decoded_directly") == 50
    for key in ("reader_opens", "reader_evictions", "reader_resident", "reader_hwm"):
        del metrics[key]
    assert {
        "hits",
        "misses",
        "evictions",
        "bytes_inserted",
        "peak_bytes_in_cache",
        "full_shard_groups",
        "block_index_groups",
        "row_group_hits",
        "row_group_misses",
        "row_group_evictions",
        "row_group_bytes_inserted",
        "row_group_duplicate_waiters",
        "reuse_admissions",
        "admitted_group_bytes",
        "rejected_group_bytes",
    } <= set(metrics)
    assert set(metrics.values()) == {0}
    fresh = dataset.iter_with_plans([], lookahead=0)
    assert set(fresh.metrics()["prefetch"].values()) == {0}


def test_memory_budget(make_collection: MakeCollection) -> None:
    files = make_collection([(20, 6, 2), (30, 6, 5)])
    plain = SparseCellSetDataset(files.paths).memory_budget()
    breakdown = plain.pop("breakdown")
    assert set(breakdown) == {
        "cache_bytes",
        "batch_buffer_bytes",
        "lookahead_overhead_bytes",
        "transient_bytes",
        "python_overhead_bytes",
        "total_bytes",
    }
    assert breakdown["total_bytes"] == breakdown["python_overhead_bytes"] > 0
    assert plain == {
        "max_memory_mb": 512,
        "cache_shards": 128,
        "effective_cache_shards": 128,
        "shard_decoded_bytes": 0,
        "max_plan_rows": None,
        "mean_nnz_per_row": (20 * 2 + 30 * 5) / 50,
        "max_blocking_threads": plain["max_blocking_threads"],
        "reader_limit": None,
        "budget_exceeded": False,
    }
    declared = SparseCellSetDataset(files.paths, max_plan_rows=1000, reader_limit=3)
    budget = declared.memory_budget()
    batch = int(1000 * 3.8 * 9 / 8) * 8 + 1001 * 8
    assert budget["breakdown"]["batch_buffer_bytes"] == batch
    assert budget["breakdown"]["transient_bytes"] == batch  # more than one file
    assert (budget["max_plan_rows"], budget["reader_limit"]) == (1000, 3)
    single = SparseCellSetDataset(files.paths[:1], max_plan_rows=1000).memory_budget()
    assert single["breakdown"]["transient_bytes"] == 0
    tight = SparseCellSetDataset(files.paths, max_plan_rows=10**6, max_memory_mb=1)
    assert tight.memory_budget()["budget_exceeded"]
    assert len(tight.gather([0], [0], [0], [0, 1])["indptr"]) == 2


def test_errors_of_the_generator_come_in_their_place(make_collection: MakeCollection) -> None:
    files = make_collection([(20, 6, 2)])
    dataset = SparseCellSetDataset(files.paths)

    def plans() -> Iterator[Any]:
        yield files.plan(0, 3)
        raise LookupError("no more")

    iterator = dataset.iter_with_plans(plans())
    next(iterator)
    with pytest.raises(RuntimeError, match="plan iterator raised: LookupError: no more") as caught:
        next(iterator)
    assert isinstance(caught.value.__cause__, LookupError)


def test_a_generator_may_wait_for_the_batch_before(make_collection: MakeCollection) -> None:
    files = make_collection([(20, 6, 2)])
    dataset = SparseCellSetDataset(files.paths)
    answered = threading.Semaphore(0)
    seen: list[int] = []

    def plans() -> Iterator[Any]:
        row = 0
        for _ in range(10):
            yield ([0], [row], [0], [0, 1])
            assert answered.acquire(timeout=30)
            row = (seen[-1] + 3) % 20

    for batch in dataset.iter_with_plans(plans(), lookahead=4):
        seen.append(int(batch["cell_indices"][0]))
        answered.release()
    assert seen == [(3 * i) % 20 for i in range(10)]


def _gather_in_child(dataset: SparseCellSetDataset, queue: Any) -> None:
    try:
        dataset.gather([0], [0], [0], [0, 1])
    except RuntimeError as error:
        queue.put(str(error))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_another_process_is_refused(make_collection: MakeCollection) -> None:
    files = make_collection([(20, 6, 2)])
    dataset = SparseCellSetDataset(files.paths)
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    child = context.Process(target=_gather_in_child, args=(dataset, queue))
    child.start()
    child.join(60)
    assert "num_workers=0" in queue.get()
    with pytest.raises(RuntimeError, match="cannot be sent to another process"):
        pickle.dumps(dataset)


def test_abandoned_iterators_end_their_threads(make_collection: MakeCollection) -> None:
    files = make_collection([(20, 6, 2)])
    dataset = SparseCellSetDataset(files.paths)
    before = threading.active_count()
    for _ in range(5):
        iterator = dataset.iter_with_plans([files.plan(i, 10) for i in range(20)])
        next(iterator)
        del iterator
    gc.collect()
    deadline = time.monotonic() + 20
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() == before


MEMORY = """
import gc, sys
import numpy as np
from scx_train import SparseCellSetDataset

def private():
    gc.collect()
    lines = open("/proc/self/smaps_rollup").read().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_Dirty"))

paths = sys.argv[1:]
dataset = SparseCellSetDataset(paths, cache_shards=2, reader_limit=4)
rng = np.random.default_rng(0)
after = []
for _ in range(3):
    for turn in range(6):
        plans = []
        for _ in range(12):
            files = np.repeat(rng.integers(0, len(paths), 3), 20)
            plans.append((files, rng.integers(0, 60, 60), files * 0, [0, 20, 40, 60]))
        iterator = dataset.iter_with_plans(plans)
        for number, batch in enumerate(iterator):
            if turn % 2 and number == 4:
                break  # abandoned, without close
    del iterator, batch
    after.append(private())
print(*after, len(open("/proc/self/maps").readlines()))
"""


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="reads /proc")
def test_memory_after_the_third_pass_is_that_after_the_first(
    make_collection: MakeCollection,
) -> None:
    """50 small files, a cache of 2 shards and 4 readers, half of the iterators abandoned."""
    files = make_collection([(60, 200, 40)] * 50, shard_size=16)
    result = subprocess.run(
        [sys.executable, "-c", MEMORY, *files.paths],
        capture_output=True,
        text=True,
        check=True,
        timeout=200,
    )
    first, _, third, _ = map(int, result.stdout.split())
    assert third <= first + 2048  # kB: an arena of the allocator, at most


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="reads /proc")
def test_many_files_take_no_descriptors(make_collection: MakeCollection) -> None:
    files = make_collection([(4, 6, 2)])
    paths = files.paths * 1500
    before = len(os.listdir("/proc/self/fd"))
    dataset = SparseCellSetDataset(paths)
    assert len(os.listdir("/proc/self/fd")) <= before + 2
    ids = np.arange(1500)
    batch = dataset.gather(ids, ids % 4, ids * 0, [0, 1500])
    np.testing.assert_array_equal(dense_of(batch, 6), files.dense[0][ids % 4])
    assert len(os.listdir("/proc/self/fd")) <= before + 2
