"""PlanIterable in DataLoaders: every plan once an epoch, whatever the workers."""

from __future__ import annotations

import gc
import multiprocessing
import pickle
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch.utils.data import DataLoader
from torchdata.stateful_dataloader import StatefulDataLoader

import scx_core
from scx_train import IndexPlanDataset, SparseCellSetDataset, TrainingDataset, paired_plans
from scx_train.torch import PlanIterable

MakeFile = Callable[..., Path]
PLANS = [[(row, (7 * row) % 101), (row + 1, row)] for row in range(0, 100, 3)]

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:This DataLoader will create .* worker:UserWarning"),
]


def pairs_of(batches: Any) -> list[list[tuple[int, int]]]:
    return [[tuple(pair) for pair in batch["pairs"].tolist()] for batch in batches]


def loader(iterable: PlanIterable, **options: Any) -> DataLoader:
    return DataLoader(iterable, batch_size=None, **options)


def drawn(epoch: int) -> Iterator[list[tuple[int, int]]]:
    rng = np.random.default_rng(epoch)
    for _ in range(9):
        yield [tuple(pair) for pair in rng.integers(0, 101, (3, 2)).tolist()]


def test_tensors_that_share_memory(make_file: MakeFile) -> None:
    options: dict[str, Any] = {"obs_columns": ["number"], "sort_by_shard": False}
    path = make_file(101)
    iterable = PlanIterable(IndexPlanDataset, path, plans=PLANS, **options)
    with IndexPlanDataset(path, **options) as dataset:
        for batch, other in zip(iterable, dataset.iter_with_plans(PLANS), strict=True):
            assert batch["X"].dtype == torch.float32 and batch["pairs"].dtype == torch.int64
            assert batch["pairs"].tolist() == [list(pair) for pair in other["pairs"]]
            for key in ("X", "X_paired"):
                np.testing.assert_array_equal(batch[key].numpy(), other[key])  # type: ignore[literal-required]
            assert batch["obs"]["number"].tolist() == batch["pairs"][:, 0].tolist()
            assert batch["obs_paired"]["number"].tolist() == batch["pairs"][:, 1].tolist()
            # both are views of the one buffer that was decoded into
            distance = batch["X_paired"].data_ptr() - batch["X"].data_ptr()
            assert distance == batch["X"].numel() * 4


@pytest.mark.parametrize(
    ("num_workers", "persistent"), [(0, False), (1, False), (2, True), (3, False)]
)
def test_every_plan_once_and_in_order(
    make_file: MakeFile, num_workers: int, persistent: bool
) -> None:
    options: dict[str, Any] = {"sort_by_shard": False}
    iterable = PlanIterable(IndexPlanDataset, make_file(101), plans=PLANS, **options)
    batches = loader(iterable, num_workers=num_workers, persistent_workers=persistent)
    assert len(iterable) == len(PLANS)
    for _ in range(2):
        assert pairs_of(batches) == PLANS


@pytest.mark.parametrize("num_workers", [0, 2])
def test_epochs(make_file: MakeFile, num_workers: int) -> None:
    obs = pd.DataFrame({"target": ["none", "x"] * 50, "batch": 1})
    path = make_file(100, obs=obs)
    plans = paired_plans(path, "target", "none", ["batch"], 8)
    expected = []
    for epoch in range(6):
        plans.set_epoch(epoch)
        expected.append(list(plans))
    for given in (plans, partial(plans_of_epoch, plans)):
        iterable = PlanIterable(IndexPlanDataset, path, plans=given, sort_by_shard=False)
        batches = loader(iterable, num_workers=num_workers, persistent_workers=num_workers > 0)
        assert [pairs_of(batches) for _ in range(3)] == expected[:3]
        assert iterable.epoch == 3
        iterable.set_epoch(5)
        assert pairs_of(batches) == expected[5]


def plans_of_epoch(plans: Any, epoch: int) -> Any:
    plans.set_epoch(epoch)
    return iter(plans)


@pytest.mark.parametrize("world_size", [1, 2, 3])
def test_ranks(make_file: MakeFile, world_size: int) -> None:
    path = make_file(101)
    found = []
    for rank in range(world_size):
        iterable = PlanIterable(
            IndexPlanDataset,
            path,
            plans=drawn,
            rank=rank,
            world_size=world_size,
            sort_by_shard=False,
        )
        found.append(pairs_of(loader(iterable)))
    assert [plan for round_ in zip(*found, strict=True) for plan in round_] == list(drawn(0))[
        : 9 // world_size * world_size
    ]


def test_what_is_refused(make_file: MakeFile) -> None:
    path = make_file(20)
    with pytest.raises(TypeError, match="each worker builds its own"):
        PlanIterable(IndexPlanDataset(path), plans=[])  # type: ignore[arg-type]
    for plans in (iter(PLANS), (plan for plan in PLANS), None):
        with pytest.raises(TypeError, match="a function of the epoch"):
            PlanIterable(IndexPlanDataset, path, plans=plans)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="belong together"):
        PlanIterable(IndexPlanDataset, path, plans=[], rank=0)
    with pytest.raises(TypeError, match="no len"):
        len(PlanIterable(IndexPlanDataset, path, plans=drawn))


@pytest.mark.parametrize(
    ("dataset", "options", "message"),
    [
        (TrainingDataset, {}, "TrainingDataset is a class .* IndexPlanDataset"),
        (dict, {}, "dict is a class"),
        (partial(TrainingDataset, batch_size=8), {}, "TrainingDataset is a class"),
        (IndexPlanDataset, {"hvg_index": [1]}, "IndexPlanDataset cannot .*'hvg_index'"),
        (partial(IndexPlanDataset, "other.scx"), {}, "IndexPlanDataset cannot be built"),
        (IndexPlanDataset, {"lookahead": 1.5}, "lookahead=1.5"),
    ],
)
def test_what_would_fail_in_every_worker(
    dataset: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(TypeError, match=message):
        PlanIterable(dataset, "cells.scx", plans=PLANS, **options)


def test_functions_are_looked_at_by_what_they_give(make_file: MakeFile) -> None:
    iterable = PlanIterable(lambda path: TrainingDataset(path), make_file(5), plans=PLANS)
    with pytest.raises(TypeError, match="dataset gave TrainingDataset, whose batches do not"):
        iter(iterable)


def test_errors_come_through(make_file: MakeFile) -> None:
    iterable = PlanIterable(IndexPlanDataset, make_file(20), plans=[[(0, 1)], [(0, 20)]])
    for num_workers in (0, 1):
        with pytest.raises(IndexError, match="row 20"):
            pairs_of(loader(iterable, num_workers=num_workers))


@pytest.mark.parametrize("batch_size", [None, 4])
def test_a_data_set_itself_is_refused_with_the_way(
    make_file: MakeFile, batch_size: int | None
) -> None:
    path = make_file(20)
    for dataset in (IndexPlanDataset(path), SparseCellSetDataset([path])):
        assert dataset
        with pytest.raises(TypeError, match=r"PlanIterable\(.*Dataset, ..., plans=plans\)"):
            list(DataLoader(dataset, batch_size=batch_size))
        with pytest.raises(TypeError, match=r"iter_with_plans\(plans\)"):
            list(dataset)


def test_an_epoch_that_is_left_early_leaves_no_thread(make_file: MakeFile) -> None:
    iterable = PlanIterable(IndexPlanDataset, make_file(101), plans=PLANS)
    for _ in range(3):
        for _batch in iterable:
            break
    gc.collect()  # a traceback may have held the iterator
    deadline = time.monotonic() + 30  # the thread ends when it notices
    while [t for t in threading.enumerate() if t.name == "scx-plans"]:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_it_can_be_sent(make_file: MakeFile) -> None:
    iterable = PlanIterable(IndexPlanDataset, make_file(101), plans=PLANS, sort_by_shard=False)
    next(iter(iterable))
    assert pairs_of(pickle.loads(pickle.dumps(iterable))) == PLANS


def waiting(epoch: int) -> Iterator[list[tuple[int, int]]]:
    """Plans of another length in each epoch, some of them empty."""
    for number, plan in enumerate(drawn(epoch)):
        if number % 4 == 1:
            yield []
        yield plan[: 1 + (epoch + number) % 3]


def plans_for(kind: str, path: Path) -> tuple[Any, Callable[[int], Any]]:
    """Plans, and those of each epoch."""
    if kind == "list":
        return PLANS, lambda epoch: PLANS
    if kind == "function":
        return waiting, lambda epoch: [plan for plan in waiting(epoch) if plan]
    plans = paired_plans(path, "target", "none", ["batch"], 8)
    return plans, lambda epoch: list(plans_of_epoch(plans, epoch))


@pytest.mark.filterwarnings("ignore:'set_vital' is deprecated:UserWarning")  # torchdata does
@pytest.mark.parametrize("received", [0, 1, 4])
@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("kind", ["list", "paired_plans", "function"])
def test_a_stateful_loader_goes_on(
    make_file: MakeFile, kind: str, num_workers: int, received: int
) -> None:
    obs = pd.DataFrame({"target": ["none", "x"] * 51, "batch": 1})
    path = make_file(102, obs=obs)
    plans, of_epoch = plans_for(kind, path)
    expected = [of_epoch(epoch) for epoch in range(3)]

    def stateful() -> StatefulDataLoader:
        iterable = PlanIterable(IndexPlanDataset, path, plans=plans, sort_by_shard=False)
        return StatefulDataLoader(iterable, batch_size=None, num_workers=num_workers)

    batches = stateful()
    assert pairs_of(batches) == expected[0]
    iterator = iter(batches)
    assert pairs_of(next(iterator) for _ in range(received)) == expected[1][:received]
    state = batches.state_dict()
    del iterator, batches
    other = stateful()
    other.load_state_dict(state)
    assert pairs_of(other) == expected[1][received:]
    assert pairs_of(other) == expected[2]


def test_states_of_each_rank(make_file: MakeFile) -> None:
    path = make_file(101)
    for rank in range(2):
        options: dict[str, Any] = {
            "plans": PLANS, "rank": rank, "world_size": 2, "sort_by_shard": False,
        }  # fmt: skip
        iterable = PlanIterable(IndexPlanDataset, path, **options)
        iterator = iter(iterable)
        assert pairs_of(next(iterator) for _ in range(3)) == PLANS[rank:6:2]
        other = PlanIterable(IndexPlanDataset, path, **options)
        other.load_state_dict(iterable.state_dict())
        assert pairs_of(other) == PLANS[rank + 6 :: 2]
        assert pairs_of(other) == PLANS[rank::2]


def test_a_state_of_other_plans_is_refused(make_file: MakeFile) -> None:
    obs = pd.DataFrame({"target": ["none", "x"] * 50, "batch": 1})
    path = make_file(100, obs=obs)

    def state(plans: Any) -> Any:
        return PlanIterable(IndexPlanDataset, path, plans=plans).state_dict()

    iterable = PlanIterable(IndexPlanDataset, path, plans=PLANS)
    for others in (PLANS[:-1], [*PLANS[:-1], [(5, 5)]], drawn):
        with pytest.raises(ValueError, match="plans are others here"):
            iterable.load_state_dict(state(others))
    pairs = PlanIterable(
        IndexPlanDataset, path, plans=paired_plans(path, "target", "none", ["batch"], 8)
    )
    with pytest.raises(ValueError, match="plans are others here"):
        pairs.load_state_dict(state(paired_plans(path, "target", "none", ["batch"], 8, seed=1)))
    pairs.load_state_dict(state(paired_plans(path, "target", "none", ["batch"], 8)))


def test_a_state_of_plans_that_differ_in_the_middle(make_file: MakeFile) -> None:
    path = make_file(101)
    middle = [*PLANS[:5], [(5, 5)], *PLANS[6:]]
    as_arrays = [np.array(plan, dtype=np.int32) for plan in PLANS]
    iterable = PlanIterable(IndexPlanDataset, path, plans=PLANS)
    with pytest.raises(ValueError, match="plans are others here"):
        iterable.load_state_dict(PlanIterable(IndexPlanDataset, path, plans=middle).state_dict())
    iterable.load_state_dict(PlanIterable(IndexPlanDataset, path, plans=as_arrays).state_dict())


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"normalize": False}, "normalize=False"),
        ({"target_sum": 100.0}, "target_sum=100.0"),
        ({"hvg_indices": [1, 2]}, "hvg_indices names other genes"),
        ({"sort_by_shard": False}, "sort_by_shard=False"),
    ],
)
def test_a_state_of_other_options_is_refused(
    make_file: MakeFile, options: dict[str, Any], text: str
) -> None:
    path = make_file(101)
    state = PlanIterable(IndexPlanDataset, path, plans=PLANS, **options).state_dict()
    with pytest.raises(ValueError, match=text):
        PlanIterable(IndexPlanDataset, path, plans=PLANS).load_state_dict(state)
    # what batches do not follow from may differ
    same = PlanIterable(IndexPlanDataset, path, plans=PLANS, threads=1, lookahead=2, **options)
    same.load_state_dict(state)


@pytest.mark.parametrize("opened", [False, True])
def test_a_state_of_other_files_is_refused(
    make_file: MakeFile, tmp_path: Path, *, opened: bool
) -> None:
    path = make_file(101)
    iterable = PlanIterable(IndexPlanDataset, path, plans=PLANS, sort_by_shard=False)
    iterator = iter(iterable)
    next(iterator)
    state = iterable.state_dict()
    with scx_core.open(path) as experiment:
        adata = experiment.to_anndata()
    adata.X = adata.X * 2
    scx_core.from_anndata(adata, tmp_path / "other.scx")
    other = PlanIterable(IndexPlanDataset, tmp_path / "other.scx", plans=PLANS, sort_by_shard=False)
    if opened:
        next(iter(other))
        with pytest.raises(ValueError, match="path names other files here"):
            other.load_state_dict(state)
    else:
        other.load_state_dict(state)
        with pytest.raises(RuntimeError, match="were replaced by others of other content"):
            next(iter(other))


SCRIPT = """
    import multiprocessing, sys
    from torch.utils.data import DataLoader, IterableDataset
    from scx_train import IndexPlanDataset
    from scx_train.torch import PlanIterable

    PLANS = [[(row, (7 * row) % 101), (row + 1, row)] for row in range(0, 100, 3)]

    class BuiltInTheParent(IterableDataset):
        def __init__(self, dataset):
            self.dataset = dataset

        def __iter__(self):
            return self.dataset.iter_with_plans(PLANS)

    def outcome(iterable, num_workers):
        context = method if num_workers else None
        batches = DataLoader(iterable, batch_size=None, num_workers=num_workers,
                             multiprocessing_context=context, timeout=60 if num_workers else 0)
        return [[tuple(int(i) for i in pair) for pair in batch["pairs"]] for batch in batches]

    if __name__ == "__main__":
        path, method = sys.argv[1:]
        if method == "forkserver":
            multiprocessing.set_forkserver_preload(["torch", "scx_train"])
        dataset = IndexPlanDataset(path, sort_by_shard=False)
        running = dataset.iter_with_plans(PLANS)
        next(running)  # threads in the parent
        iterable = PlanIterable(IndexPlanDataset, path, plans=PLANS, sort_by_shard=False)
        # others than forked ones load torch anew, which takes seconds
        for num_workers in (0, 1, 2) if method == "fork" else (2,):
            assert outcome(iterable, num_workers) == PLANS
        assert outcome(BuiltInTheParent(dataset), 0) == PLANS
        try:
            outcome(BuiltInTheParent(dataset), 1)
        except RuntimeError as error:
            assert "num_workers=0" in str(error), error
        else:
            raise AssertionError("the parent's data set was used in a worker")
        assert len(list(running)) == len(PLANS) - 1
        print("done")
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_start_methods(make_file: MakeFile, tmp_path: Path, method: str) -> None:
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"no {method} here")
    script = tmp_path / "workers.py"
    script.write_text(textwrap.dedent(SCRIPT), encoding="utf-8")
    result = subprocess.run(
        [sys.executable, "-W", "ignore", str(script), str(make_file(101)), method],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert (result.returncode, result.stdout) == (0, "done\n"), result.stderr


def record_warnings(path: Path, _worker: int) -> None:
    """Have a worker write what it warns of into a file."""

    def show(message: Any, *_: Any, **__: Any) -> None:
        with path.open("a", encoding="utf-8") as file:
            file.write(f"{message}\n")

    warnings.simplefilter("always", UserWarning)
    warnings.showwarning = show


@pytest.mark.parametrize("num_workers", [0, 1, 2])
def test_each_warning_comes_once_whatever_the_workers(
    make_file: MakeFile, tmp_path: Path, num_workers: int
) -> None:
    path = make_file(matrix=np.full((40, 5), 0.5, dtype=np.float32))
    plans = [[(row, row + 1)] for row in range(6)]
    options: dict[str, Any] = {"hvg_indices": [2, 0], "scatter_block_index": True}
    iterable = PlanIterable(IndexPlanDataset, path, plans=plans, **options)
    log = tmp_path / "warnings.txt"
    with warnings.catch_warnings():
        if num_workers == 0:
            record_warnings(log, 0)
        batches = loader(
            iterable, num_workers=num_workers, worker_init_fn=partial(record_warnings, log)
        )
        for _ in range(3):
            assert len(list(batches)) == 6
        assert len(list(loader(pickle.loads(pickle.dumps(iterable))))) == 6  # told already
    messages = sorted(log.read_text(encoding="utf-8").splitlines())
    assert len(messages) == 3
    assert "does not hold counts" in messages[0]
    assert "hvg_indices" in messages[1]
    assert "scatter_block_index" in messages[2]
