"""torchdata's StatefulDataLoader, and state_dict without it: exactly the batches that follow."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
from torch.utils.data import DataLoader
from torchdata.stateful_dataloader import StatefulDataLoader

from scx_train import TrainingDataset
from scx_train.torch import TrainingIterable

MakeFile = Callable[..., Path]

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:'set_vital' is deprecated:UserWarning"),  # torchdata does
]


def rows(batches: Any) -> list[list[int]]:
    return [batch["cell_indices"].tolist() for batch in batches]


def expected_epochs(path: Path, n_epochs: int, batch_size: int = 10) -> list[list[list[int]]]:
    dataset = TrainingDataset(path, batch_size)
    return [rows(dataset) for _ in range(n_epochs)]


@pytest.mark.parametrize("kept", [False, True], ids=["started anew", "kept"])
@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("received", [0, 1, 4, 10, 11])
def test_a_stateful_loader_goes_on(
    make_file: MakeFile, num_workers: int, received: int, kept: bool
) -> None:
    path = make_file(101)
    options = {
        "batch_size": None,
        "num_workers": num_workers,
        "persistent_workers": kept and num_workers > 0,
    }
    expected = expected_epochs(path, 3)
    loader = StatefulDataLoader(TrainingIterable(path, 10), **options)
    assert rows(loader) == expected[0]
    iterator = iter(loader)
    assert [rows([next(iterator)])[0] for _ in range(received)] == expected[1][:received]
    state = loader.state_dict()
    del iterator, loader

    other = StatefulDataLoader(TrainingIterable(path, 10), **options)
    other.load_state_dict(state)
    assert rows(other) == expected[1][received:]
    assert rows(other) == expected[2]


@pytest.mark.parametrize("before", [0, 1, 8, 11])
def test_an_epoch_that_was_left_early_does_not_count(make_file: MakeFile, before: int) -> None:
    path = make_file(101)
    expected = expected_epochs(path, 2)[1]
    for num_workers in (0, 2):
        options = {"batch_size": None, "num_workers": num_workers}
        loader = StatefulDataLoader(TrainingIterable(path, 10), **options)
        left = iter(loader)
        for _ in range(before):
            next(left)
        iterator = iter(loader)
        assert rows([next(iterator), next(iterator)]) == expected[:2]
        other = StatefulDataLoader(TrainingIterable(path, 10), **options)
        other.load_state_dict(loader.state_dict())
        assert rows(other) == expected[2:]


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_stateful_loader_of_each_rank_goes_on(make_file: MakeFile, num_workers: int) -> None:
    path = make_file(104)
    options: dict[str, Any] = {"batch_size": None, "num_workers": num_workers}
    seen: list[int] = []
    for rank in range(2):
        place = {"rank": rank, "world_size": 2}
        dataset = TrainingDataset(path, 10, **place)
        first, second = rows(dataset), rows(dataset)
        loader = StatefulDataLoader(TrainingIterable(path, 10, **place), **options)
        iterator = iter(loader)
        assert [rows([next(iterator)])[0] for _ in range(3)] == first[:3]
        state = loader.state_dict()
        del iterator, loader

        other = StatefulDataLoader(TrainingIterable(path, 10, **place), **options)
        other.load_state_dict(state)
        assert rows(other) == first[3:]
        assert rows(other) == second
        seen += [row for batch in first for row in batch]
    assert sorted(seen) == list(range(104))


def test_a_state_at_the_end_of_an_epoch(make_file: MakeFile) -> None:
    path = make_file(101)
    expected = expected_epochs(path, 3)
    for num_workers in (0, 2):
        options = {"batch_size": None, "num_workers": num_workers}
        loader = StatefulDataLoader(TrainingIterable(path, 10), **options)
        assert rows(loader) == expected[0]
        other = StatefulDataLoader(TrainingIterable(path, 10), **options)
        other.load_state_dict(loader.state_dict())
        # torchdata begins the next epoch at once or after one that is empty, as its workers do.
        left = rows(other) or rows(other)
        assert left == expected[1]


@pytest.mark.parametrize("received", [0, 3, 11])
def test_without_a_loader(make_file: MakeFile, received: int) -> None:
    path = make_file(101)
    expected = expected_epochs(path, 3)
    iterable = TrainingIterable(path, 10)
    assert iterable.state_dict()["epoch"] == 0
    assert rows(iterable) == expected[0]
    iterator = iter(iterable)
    for _ in range(received):
        next(iterator)
    state = json.loads(json.dumps(iterable.state_dict()))
    assert (state["epoch"], state["batch"]) == (1, received)

    other = TrainingIterable(path, 10)
    other.load_state_dict(state)
    assert other.epoch == 1
    assert other.state_dict() == state
    other.set_epoch(1)  # a trainer says so at the beginning of each epoch
    assert rows(DataLoader(other, batch_size=None)) == expected[1][received:]
    assert rows(other) == expected[2]


def test_the_beginning_of_an_epoch_can_be_loaded_for_workers(make_file: MakeFile) -> None:
    path = make_file(101)
    expected = expected_epochs(path, 3)
    iterable = TrainingIterable(path, 10)
    assert rows(DataLoader(iterable, batch_size=None, num_workers=2)) == expected[0]
    with pytest.warns(UserWarning, match="not counted: .* beginning of epoch 1. .*Stateful"):
        state = iterable.state_dict()
    assert (state["epoch"], state["batch"]) == (1, 0)
    other = TrainingIterable(path, 10)
    other.load_state_dict(state)
    loader = DataLoader(other, batch_size=None, num_workers=2)
    assert [rows(loader), rows(loader)] == expected[1:]


def test_workers_after_an_epoch_without_them_are_not_counted(make_file: MakeFile) -> None:
    iterable = TrainingIterable(make_file(101), 10)
    rows(iterable)
    assert iterable.state_dict()["batch"] == 11
    next(iter(DataLoader(iterable, batch_size=None, num_workers=1)))
    with pytest.warns(UserWarning, match="beginning of epoch 2"):
        state = iterable.state_dict()
    assert (state["epoch"], state["batch"]) == (2, 0)


def test_a_place_within_an_epoch_is_not_for_workers(make_file: MakeFile) -> None:
    path = make_file(101)
    iterable = TrainingIterable(path, 10)
    next(iter(iterable))
    iterable.load_state_dict(iterable.state_dict())
    loader = DataLoader(iterable, batch_size=None, num_workers=1)
    with pytest.raises(RuntimeError, match="StatefulDataLoader, or num_workers=0"):
        next(iter(loader))
    iterable.set_epoch(2)  # which gives up that place
    assert rows(loader) == expected_epochs(path, 3)[2]


def test_a_state_of_other_batches_is_refused(make_file: MakeFile) -> None:
    path = make_file(101)
    state = TrainingIterable(path, 10).state_dict()
    with pytest.raises(ValueError, match="batch_size=10"):
        TrainingIterable(path, 20).load_state_dict(state)
    with pytest.raises(ValueError, match="hvg_indices names other genes here"):
        TrainingIterable(path, 10, hvg_indices=[1, 2]).load_state_dict(state)
    with pytest.raises(TypeError, match="state is int"):
        TrainingIterable(path, 10).load_state_dict(5)  # type: ignore[arg-type]
