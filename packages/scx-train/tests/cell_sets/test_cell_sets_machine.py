"""Random streams of random plans that end anywhere: no wrong row, no thread left, no hang."""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cell_set_files import Collection, MakeCollection, dense_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scx_train import SparseCellSetDataset

SHAPES = [(9, 12, 3), (1, 12, 12), (30, 12, 2)]
PATIENCE = 30.0

cells = st.integers(0, len(SHAPES) - 1).flatmap(
    lambda file: st.tuples(st.just(file), st.integers(0, SHAPES[file][0] - 1), st.integers(-3, 3))
)
plan_lists = st.lists(
    st.tuples(st.lists(cells, max_size=8), st.lists(st.integers(0, 8), max_size=3)), max_size=8
)
FAULTS: dict[str, tuple[type[Exception], Any]] = {
    "a row": (IndexError, ([0], [9], [0], [0, 1])),
    "a file": (IndexError, ([3], [0], [0], [0, 1])),
    "offsets": (ValueError, ([0], [0], [0], [0, 2])),
    "no plan": (TypeError, "text"),
    "raises": (RuntimeError, None),
}


class Boom(Exception):
    """What a generator raises."""


def plan_of(drawn: tuple[list[tuple[int, int, int]], list[int]]) -> tuple[Any, ...]:
    chosen, cuts = drawn
    files, rows, tags = np.array(chosen, dtype=np.int64).reshape(-1, 3).T
    inner = sorted(min(cut, len(chosen)) for cut in cuts)
    return files, rows, tags, np.array([0, *inner, len(chosen)])


def source(plans: list[tuple[Any, ...]], fault: str | None) -> Iterator[Any]:
    for number, plan in enumerate(plans):
        yield [part.tolist() for part in plan] if number % 2 else plan
    if fault == "raises":
        raise Boom
    if fault is not None:
        yield FAULTS[fault][1]


def compare(batch: Any, plan: tuple[Any, ...], files: Collection) -> None:
    np.testing.assert_array_equal(dense_of(batch, 12), files.rows(plan))  # type: ignore[arg-type]
    keys = ("file_ids", "cell_indices", "role_tags", "set_offsets")
    for key, part in zip(keys, plan, strict=True):
        np.testing.assert_array_equal(batch[key], part)


def end(batches: Any, how: str) -> None:
    """Leave a stream before its end."""
    if how == "cycle":
        cycle: list[Any] = [batches]
        cycle.append(cycle)
    elif how != "drop":
        batches.close()
        assert batches.closed
        assert list(batches) == []


def own_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("scx-")]


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="counts in /proc")
def test_random_streams(make_collection: MakeCollection) -> None:
    files = make_collection(SHAPES)

    @settings(
        max_examples=int(os.environ.get("SCX_PLAN_LIVES", "60")),
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(
        drawn=plan_lists,
        n_taken=st.integers(0, 10),
        how=st.sampled_from(["close", "drop", "cycle", "close dataset first"]),
        fault=st.sampled_from([None, *FAULTS]),
        limit=st.sampled_from([None, 1, 2]),
        lookahead=st.integers(0, 5),
        threads=st.integers(1, 3),
    )
    def run(
        drawn: Any,
        n_taken: int,
        how: str,
        fault: str | None,
        limit: int | None,
        lookahead: int,
        threads: int,
    ) -> None:
        plans = [plan_of(each) for each in drawn]
        dataset = SparseCellSetDataset(files.paths, reader_limit=limit, threads=threads)
        batches: Any = dataset.iter_with_plans(source(plans, fault), lookahead=lookahead)
        if how == "close dataset first":
            dataset.close()
        wanted = [plan for plan in plans if len(plan[0])]
        for plan in wanted[:n_taken]:
            compare(next(batches), plan, files)
        if n_taken > len(wanted):
            error = StopIteration if fault is None else FAULTS[fault][0]
            with pytest.raises(error) as caught:
                next(batches)
            if fault == "raises":
                assert isinstance(caught.value.__cause__, Boom)
            assert batches.closed and list(batches) == []
        else:
            end(batches, how)

    before = threads_of_process()
    run()
    deadline = time.monotonic() + PATIENCE
    while own_threads() or threads_of_process() > before:
        gc.collect()
        assert time.monotonic() < deadline, (threads_of_process(), before, own_threads())
        time.sleep(0.005)


def threads_of_process() -> int:
    """Native ones too."""
    return len(os.listdir("/proc/self/task"))
