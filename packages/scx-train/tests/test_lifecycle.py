"""Epochs that end early or overlap, batches that are kept, close and what it leaves."""

from __future__ import annotations

import copy
import gc
import os
import pickle
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scx_train import MultimodalTrainingDataset, TrainingDataset

MakeFile = Callable[..., Path]


def threads_now() -> int:
    return len(os.listdir("/proc/self/task"))


def open_files_now() -> int:
    return len(os.listdir("/proc/self/fd"))


def maps_of(path: Path) -> int:
    return Path("/proc/self/maps").read_text(encoding="utf-8").count(path.name)


def private_mb() -> float:
    """Memory of this process alone, in megabytes."""
    text = Path("/proc/self/smaps_rollup").read_text(encoding="utf-8")
    lines = [line.split() for line in text.splitlines() if line.startswith("Private_Dirty:")]
    return int(lines[0][1]) / 1024


def rows_of(batches: Any) -> list[int]:
    return [int(row) for batch in batches for row in batch["cell_indices"]]


linux_only = pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="counts in /proc")


def test_an_abandoned_epoch_does_not_disturb_the_next(
    make_file: MakeFile, expected_rows: Callable[..., list[int]]
) -> None:
    with TrainingDataset(make_file(101), 8) as dataset:
        for epoch in range(20):
            iterator = iter(dataset)
            seen = rows_of(batch for _, batch in zip(range(epoch % 14), iterator, strict=False))
            del iterator
            expected = expected_rows(101, shard_size=10, group_size=8, seed=42, epoch=epoch)
            assert seen == expected[: len(seen)]


def test_two_epochs_at_the_same_time(
    make_file: MakeFile, expected_rows: Callable[..., list[int]]
) -> None:
    with TrainingDataset(make_file(101), 8) as dataset:
        pairs = list(zip(dataset, dataset, strict=True))
    for epoch, batches in enumerate(zip(*pairs, strict=True)):
        expected = expected_rows(101, shard_size=10, group_size=8, seed=42, epoch=epoch)
        assert rows_of(batches) == expected


def test_epochs_in_two_threads(make_file: MakeFile) -> None:
    with TrainingDataset(make_file(301), 8) as dataset:
        results: list[list[int]] = []

        def run() -> None:
            for _ in range(5):
                results.append(rows_of(dataset))

        workers = [threading.Thread(target=run) for _ in range(3)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    assert len(results) == 15
    assert all(sorted(rows) == list(range(301)) for rows in results)


def test_several_threads_share_the_batches_of_an_epoch(make_file: MakeFile) -> None:
    """Each batch goes to one of them, with values and rows that belong together."""
    matrix = np.repeat(np.arange(1, 301, dtype=np.float32)[:, None], 5, axis=1)
    path = make_file(matrix=matrix, shard_size=50)
    with TrainingDataset(path, 2, prefetch_batches=2, normalize=False, log1p=False) as dataset:
        for _ in range(3):
            batches = iter(dataset)
            taken: list[Any] = []
            errors: list[BaseException] = []

            def run(batches: Any = batches, taken: Any = taken, errors: Any = errors) -> None:
                try:
                    taken.extend(batches)
                except BaseException as error:
                    errors.append(error)

            workers = [threading.Thread(target=run) for _ in range(4)]
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join(60)
            assert errors == []
            assert sorted(rows_of(taken)) == list(range(300))
            for batch in taken:
                assert (batch["X"] == batch["cell_indices"][:, None] + 1).all()
            assert dataset.state_dict()["batch"] == 0  # that of the next epoch


def test_ending_an_epoch_while_another_thread_waits_for_it(
    make_file: MakeFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    from scx_core.native import pipeline as _pipeline

    native = _pipeline.native()
    waiting = threading.Event()

    class NeverReady:
        def __getattr__(self, name: str) -> Any:
            return getattr(native.lib, name)

        def scx_pipeline_wait(self, _pipeline: Any, timeout_ms: int, *_: Any) -> int:
            waiting.set()
            time.sleep(timeout_ms / 1000)
            return 12  # SCX_TIMEOUT

    class Library:
        ffi, lib = native.ffi, NeverReady()

    path = make_file(50)
    for end, expected in (("epoch", []), ("data set", ["closed while this epoch was running"])):
        with TrainingDataset(path, 8) as dataset:
            batches: Any = iter(dataset)
            taken: list[Any] = []
            errors: list[str] = []

            def run(batches: Any = batches, taken: Any = taken, errors: Any = errors) -> None:
                try:
                    taken.extend(batches)
                except RuntimeError as raised:
                    errors.append(str(raised))

            waiting.clear()
            with monkeypatch.context() as patched:
                patched.setattr(_pipeline, "native", Library)
                worker = threading.Thread(target=run)
                worker.start()
                assert waiting.wait(60)
                (batches if end == "epoch" else dataset).close()
                worker.join(60)
            assert not worker.is_alive() and taken == []
            assert len(errors) == len(expected)
            assert all(text in error for text, error in zip(expected, errors, strict=True))
            assert sorted(rows_of(dataset)) == list(range(50))


def test_an_epoch_under_way_is_not_sent_or_copied(make_file: MakeFile) -> None:
    with TrainingDataset(make_file(20), 8) as dataset:
        batches = iter(dataset)
        for send in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(RuntimeError, match="num_workers=0"):
                send(batches)
        assert len(list(batches)) == 3


def test_an_iterator_that_has_ended_stays_ended(make_file: MakeFile) -> None:
    with TrainingDataset(make_file(20), 8) as dataset:
        iterator = iter(dataset)
        assert len(list(iterator)) == 3
        assert list(iterator) == []


def test_an_epoch_outlives_its_data_set(make_file: MakeFile) -> None:
    iterator = iter(TrainingDataset(make_file(50), 8))
    gc.collect()
    assert sorted(rows_of(iterator)) == list(range(50))


def test_batches_that_are_kept_are_not_overwritten(make_file: MakeFile) -> None:
    matrix = np.repeat(np.arange(1, 501, dtype=np.float32)[:, None], 300, axis=1)
    path = make_file(matrix=matrix, shard_size=50)
    dataset = TrainingDataset(path, 8, normalize=False, log1p=False)
    kept = [batch for _ in range(3) for batch in dataset]
    views = [batch["X"][1:, ::7] for batch in dataset]  # a view keeps the memory too
    dataset.close()
    del dataset
    gc.collect()
    for batch in kept:
        expected = np.repeat(batch["cell_indices"][:, None] + 1, 300, axis=1)
        np.testing.assert_array_equal(batch["X"], expected)
    for view in views:
        assert (view == view[:, :1]).all()


def test_memory_of_a_batch_is_used_again_when_it_is_let_go(make_file: MakeFile) -> None:
    with TrainingDataset(make_file(500, 200, shard_size=50), 10) as dataset:
        addresses = [batch["X"].__array_interface__["data"][0] for batch in dataset]
        assert len(addresses) == 50
        assert len(set(addresses)) <= 4 + 2


def test_batches_can_be_written_to(make_file: MakeFile) -> None:
    with TrainingDataset(make_file(20), 8) as dataset:
        for batch in dataset:
            batch["X"] += 1
            assert batch["X"].flags.aligned and batch["X"].flags.c_contiguous
            assert batch["X"].ctypes.data % 64 == 0


# One batch is half a megabyte, so that a leak of one in each of fifty epochs would show beside what
# the allocator keeps for itself.
BATCH_ROWS, WIDE = 64, 2000
NOISE_MB = 10


@linux_only
def test_early_exits_leak_nothing(make_file: MakeFile) -> None:
    path = make_file(2000, WIDE, shard_size=100)
    before_threads, before_files = threads_now(), open_files_now()
    rng = np.random.default_rng(5)
    with TrainingDataset(path, BATCH_ROWS, threads=3) as dataset:

        def leave_early() -> None:
            for _, _batch in zip(range(int(rng.integers(0, 30))), dataset, strict=False):
                pass

        for _ in range(10):
            leave_early()
        settled = private_mb()
        assert threads_now() <= before_threads + 4
        for _ in range(50):
            leave_early()
        assert threads_now() <= before_threads + 4
        assert open_files_now() == before_files
        assert private_mb() < settled + NOISE_MB
    assert threads_now() == before_threads


@linux_only
def test_data_sets_that_are_dropped_leave_nothing(make_file: MakeFile) -> None:
    path = make_file(500, WIDE, shard_size=50)
    before_threads, before_files = threads_now(), open_files_now()

    def use_and_drop(count: int) -> None:
        for number in range(count):
            dataset = TrainingDataset(path, BATCH_ROWS, threads=2, obs_columns=["number"])
            iterator = iter(dataset)
            next(iterator)
            if number % 3 == 0:
                dataset.close()
            elif number % 3 == 1:
                del iterator

    # the allocator's own stock grows with the first ones and then stays
    use_and_drop(200)
    gc.collect()
    settled = private_mb()
    use_and_drop(60)
    gc.collect()
    assert threads_now() == before_threads
    assert open_files_now() == before_files
    assert maps_of(path) == 0
    assert private_mb() < settled + NOISE_MB


@linux_only
def test_threads_end_before_their_file_goes_in_a_cycle_of_garbage(make_file: MakeFile) -> None:
    # A garbage collection finalises a cycle in any order: the file must not be the first.
    path = make_file(2000, WIDE, shard_size=100)
    for _ in range(10):
        dataset: Any = TrainingDataset(path, BATCH_ROWS, threads=4)
        iterator: Any = iter(dataset)
        next(iterator)
        shelf = iterator._shelf
        cycle: list[Any] = [dataset, iterator, shelf, shelf._open_pipeline, iterator._pipeline]
        cycle.append(cycle)
        dataset.cycle = iterator.cycle = cycle
        del dataset, iterator, shelf, cycle
        gc.collect()
    assert maps_of(path) == 0


@linux_only
def test_no_thread_before_the_first_epoch_and_none_after_close(make_file: MakeFile) -> None:
    path = make_file(50)
    before = threads_now()
    dataset = TrainingDataset(path, 8, threads=4)
    assert threads_now() == before
    iterator = iter(dataset)
    next(iterator)
    assert threads_now() >= before + 4
    dataset.close()
    assert threads_now() == before
    assert maps_of(path) == 0


def test_close_is_not_final(make_file: MakeFile, expected_rows: Callable[..., list[int]]) -> None:
    dataset = TrainingDataset(make_file(101), 8)
    assert not dataset.closed
    list(dataset)
    for _ in range(2):
        dataset.close()
        assert dataset.closed
    assert len(dataset) == 13 and dataset.n_obs == 101
    expected = expected_rows(101, shard_size=10, group_size=8, seed=42, epoch=1)
    assert rows_of(dataset) == expected
    assert not dataset.closed
    dataset.close()


@pytest.mark.parametrize("kind", [TrainingDataset, MultimodalTrainingDataset])
def test_what_was_never_built_has_a_repr(kind: type[TrainingDataset]) -> None:
    broken = object.__new__(kind)
    assert repr(broken) == f"{kind.__name__}(not built)" and broken.closed


def test_closing_ends_a_running_epoch_with_an_error(make_file: MakeFile) -> None:
    dataset = TrainingDataset(make_file(101), 8)
    iterator = iter(dataset)
    next(iterator)
    dataset.close()
    with pytest.raises(RuntimeError, match="closed while this epoch was running"):
        next(iterator)
    assert list(iterator) == []
    assert len(list(dataset)) == 13
    dataset.close()


def test_closing_from_another_thread(make_file: MakeFile) -> None:
    dataset = TrainingDataset(make_file(2000, 200), 4)
    started = threading.Event()
    errors: list[BaseException] = []

    def run() -> None:
        try:
            for _ in range(1000):
                for _batch in dataset:
                    started.set()
        except RuntimeError as error:
            errors.append(error)

    # An epoch that begins after the close opens the data set again, so close until it ends.
    worker = threading.Thread(target=run)
    worker.start()
    assert started.wait(60)
    while worker.is_alive():
        dataset.close()
        worker.join(0.01)
    assert len(errors) == 1
    dataset.close()


def test_a_file_that_was_replaced_is_refused_after_close(make_file: MakeFile) -> None:
    path = make_file(50)
    dataset = TrainingDataset(path, 8)
    list(dataset)
    other = make_file(matrix=np.eye(50, 30, dtype=np.float32), name="other.scx")
    os.replace(other, path)
    assert len(list(dataset)) == 7  # still open: the old content
    dataset.close()
    with pytest.raises(RuntimeError, match="other content"):
        iter(dataset)
    assert dataset.closed


def test_an_error_in_the_loop_leaves_the_data_set_usable(make_file: MakeFile) -> None:
    with TrainingDataset(make_file(50), 8) as dataset:
        try:
            for _ in dataset:
                raise ZeroDivisionError
        except ZeroDivisionError:
            pass
        assert len(list(dataset)) == 7


def test_an_epoch_that_cannot_begin_leaves_no_trace(
    make_file: MakeFile,
    expected_rows: Callable[..., list[int]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: Any) -> None:
        raise RuntimeError("the system refused to start a thread")

    with TrainingDataset(make_file(101), 8) as dataset:
        with monkeypatch.context() as patched:
            patched.setattr("scx_core.native.pipeline.DensePipeline.submit", refuse)
            with pytest.raises(RuntimeError, match="refused to start"):
                iter(dataset)
        expected = expected_rows(101, shard_size=10, group_size=8, seed=42, epoch=0)
        assert rows_of(dataset) == expected
