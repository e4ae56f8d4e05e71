"""Random lives of data sets and iterators: no wrong row, no leak, no hang."""

from __future__ import annotations

import gc
import os
import queue
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from scx_train import IndexPlanDataset

N_OBS, N_VARS = 67, 5
PATIENCE = 30.0

pairs = st.tuples(st.integers(0, N_OBS - 1), st.integers(0, N_OBS - 1))
plan_lists = st.lists(st.lists(pairs, max_size=6), max_size=12)
FAULTS = ("raises", "out of range", "no plan", None, None, None)


class Boom(Exception):
    """What a generator raises."""


class Run:
    """An iterator, and what it still has to give."""

    def __init__(self, dataset: IndexPlanDataset, plans: list[Any], fault: str | None, kind: str):
        self.expected = [plan for plan in plans if plan]
        self.fault = fault
        # A rendezvous: the generator waits for a word about each batch.
        self.feedback: queue.Queue[bool] | None = queue.Queue() if kind == "feedback" else None
        self.batches: Any = dataset.iter_with_plans(
            source(plans, fault, kind, self.feedback), lookahead=[None, 0, 1, 3][len(plans) % 4]
        )

    def step(self) -> bool:
        """Take one batch and compare it; False at the end."""
        if not self.expected:
            self.end()
            return False
        batch = next(self.batches)
        assert batch["pairs"] == self.expected.pop(0)
        first, second = np.array(batch["pairs"]).T
        np.testing.assert_array_equal(batch["X"], values(first))
        np.testing.assert_array_equal(batch["X_paired"], values(second))
        np.testing.assert_array_equal(batch["obs"]["number"], first)
        if self.feedback is not None:
            self.feedback.put(True)
        return True

    def end(self) -> None:
        error = {
            None: StopIteration, "raises": RuntimeError, "out of range": IndexError,
            "no plan": TypeError,
        }[self.fault]  # fmt: skip
        with pytest.raises(error) as caught:
            next(self.batches)
        if self.fault == "raises":
            assert isinstance(caught.value.__cause__, Boom)
        assert list(self.batches) == []
        self.fault = None

    def let_go(self) -> None:
        """Whoever leaves a rendezvous says so."""
        if self.feedback is not None:
            self.feedback.put(False)
        self.batches = None


def values(rows: Any) -> Any:
    return (rows[:, None] + 1) * np.arange(1, N_VARS + 1, dtype=np.float32)


def source(plans: list[Any], fault: str | None, kind: str, feedback: Any) -> Any:
    wrong = {"out of range": [[(0, N_OBS)]], "no plan": ["text"]}.get(fault or "", [])
    if kind == "list" and fault != "raises":
        return [*plans, *wrong]

    def generator() -> Iterator[Any]:
        for number, plan in enumerate(plans):
            yield np.array(plan, dtype=np.int32) if number % 2 else tuple(plan)
            if feedback is not None and plan and not feedback.get(timeout=PATIENCE):
                return
        yield from wrong
        if fault == "raises":
            raise Boom

    return generator()


def counts() -> tuple[int, int]:
    """Threads of the process, native ones too, and open files."""
    return len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd"))


class Lives(RuleBasedStateMachine):
    """Data sets that are built and closed, iterators that are left anywhere."""

    path: Path
    datasets = Bundle("datasets")
    runs = Bundle("runs")

    @initialize()
    def begin(self) -> None:
        self.before = counts()
        self.n_open = 0
        self.living: list[Run] = []

    @rule(target=datasets)
    def build(self) -> Any:
        self.n_open += 1
        return IndexPlanDataset(
            self.path, obs_columns=["number"], normalize=False, log1p=False, sort_by_shard=False,
            threads=2,
        )  # fmt: skip

    @rule(
        target=runs,
        dataset=datasets,
        plans=plan_lists,
        fault=st.sampled_from(FAULTS),
        kind=st.sampled_from(["list", "generator", "feedback"]),
    )
    def iterate(self, dataset: Any, plans: Any, fault: str | None, kind: str) -> Any:
        if dataset.closed:
            with pytest.raises(RuntimeError, match="closed"):
                dataset.iter_with_plans(plans)
            return multiple()
        run = Run(dataset, plans, fault, kind)
        self.living.append(run)
        return run

    @rule(run=runs, n=st.integers(1, 5))
    def take(self, run: Run, n: int) -> None:
        for _ in range(n):
            if run.batches is None or not run.step():
                break

    @rule(run=consumes(runs))
    def finish(self, run: Run) -> None:
        while run.batches is not None and run.step():
            pass
        run.let_go()

    @rule(run=consumes(runs))
    def drop(self, run: Run) -> None:
        run.let_go()

    @rule(run=consumes(runs))
    def close(self, run: Run) -> None:
        if run.feedback is not None:
            run.feedback.put(False)
        run.batches.close()
        assert list(run.batches) == []
        run.batches = None

    @rule(run=consumes(runs))
    def become_garbage(self, run: Run) -> None:
        cycle: list[Any] = [run.batches]
        cycle.append(cycle)
        run.let_go()
        del cycle
        gc.collect()

    @rule(dataset=datasets)
    def close_dataset(self, dataset: Any) -> None:
        dataset.close()
        assert dataset.closed and "closed" in repr(dataset)

    @invariant()
    def names_never_fail(self) -> None:
        assert all(run.batches is None or repr(run.batches) for run in getattr(self, "living", []))

    def teardown(self) -> None:
        for run in getattr(self, "living", []):
            run.let_go()
        self.living = []
        self.bundles.clear()
        self.names_to_values.clear()
        if not hasattr(self, "before"):
            return
        deadline = time.monotonic() + PATIENCE
        while counts() > self.before or plan_threads():
            gc.collect()
            assert time.monotonic() < deadline, (counts(), self.before, threading.enumerate())
            time.sleep(0.005)


def plan_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "scx-plans"]


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="counts in /proc")
def test_random_lives(make_file: Callable[..., Path]) -> None:
    matrix = sp.csr_matrix(values(np.arange(N_OBS)))

    class OnThisFile(Lives):
        path = make_file(matrix=matrix, shard_size=10)

    examples = int(os.environ.get("SCX_PLAN_LIVES", "40"))
    run_state_machine_as_test(
        OnThisFile,
        settings=settings(
            max_examples=examples,
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
