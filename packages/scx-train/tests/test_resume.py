"""Epoch numbers, and going on in the middle of an epoch with exactly the batches that followed."""

from __future__ import annotations

import itertools
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scx_train import TrainingDataset

MakeFile = Callable[..., Path]


def signature(batch: Any) -> tuple[bytes, bytes]:
    return batch["cell_indices"].tobytes(), batch["X"].tobytes()


def with_layer(path: Path) -> Path:
    import scx_core

    with scx_core.open(path) as experiment:
        adata = experiment.to_anndata()
    adata.layers["twice"] = adata.X * 2
    scx_core.from_anndata(adata, path, shard_size=10, overwrite=True)
    return path


def epochs_of(dataset: TrainingDataset, count: int) -> list[list[tuple[bytes, bytes]]]:
    return [[signature(batch) for batch in dataset] for _ in range(count)]


def test_epoch_counts_up_and_can_be_set(make_file: MakeFile) -> None:
    path = make_file(101)
    with TrainingDataset(path, 8) as dataset, TrainingDataset(path, 8) as other:
        assert dataset.epoch == 0
        first, second, third = epochs_of(dataset, 3)
        assert dataset.epoch == 3
        other.set_epoch(2)
        assert other.epoch == 2
        assert epochs_of(other, 1) == [third]
        assert other.epoch == 3
        other.set_epoch(0)
        assert epochs_of(other, 2) == [first, second]
        with pytest.raises(ValueError, match="epoch=-1"):
            other.set_epoch(-1)


@pytest.mark.parametrize("n_received", [0, 1, 5, 12, 13])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"shuffle": False},
        {"rank": 1, "world_size": 2},
        {"shard": 1, "num_shards": 2},
        {"rows": np.arange(0, 101, 3)},
        {"min_batch": 8, "tail": "merge"},
        {"shard_group_size": 1},
    ],
)
@pytest.mark.parametrize("prefetch_batches", [1, 6])
def test_going_on_in_the_middle(
    make_file: MakeFile, n_received: int, options: dict[str, Any], prefetch_batches: int
) -> None:
    path = make_file(101)
    with TrainingDataset(path, 8, prefetch_batches=prefetch_batches, **options) as dataset:
        n_received = min(n_received, len(dataset))
        first = epochs_of(dataset, 1)
        iterator = iter(dataset)
        for _ in itertools.islice(iterator, n_received):
            pass
        state = json.loads(json.dumps(dataset.state_dict()))
        rest = [[signature(batch) for batch in iterator], *epochs_of(dataset, 2)]
        finished = dataset.state_dict()
    with TrainingDataset(path, 8, **options) as fresh:
        fresh.load_state_dict(state)
        assert fresh.epoch == 1
        assert pickle.loads(pickle.dumps(fresh.state_dict())) == state
        assert epochs_of(fresh, 3) == rest
        assert fresh.state_dict() == finished
        assert (finished["epoch"], finished["batch"]) == (4, 0)
        fresh.set_epoch(0)
        assert epochs_of(fresh, 1) == first


def test_state_of_one_rank_serves_all(make_file: MakeFile) -> None:
    path = make_file(101)
    states, rests = [], []
    for rank in range(2):
        with TrainingDataset(path, 8, rank=rank, world_size=2) as dataset:
            iterator = iter(dataset)
            next(iterator)
            states.append(dataset.state_dict())
            rests.append([signature(batch) for batch in iterator])
    assert states[0] == states[1]
    with TrainingDataset(path, 8, rank=1, world_size=2) as dataset:
        dataset.load_state_dict(states[0])
        assert epochs_of(dataset, 1) == [rests[1]]


def test_setting_the_loaded_epoch_keeps_the_place(make_file: MakeFile) -> None:
    path = make_file(101)
    with TrainingDataset(path, 8) as dataset:
        iterator = iter(dataset)
        next(iterator)
        state = dataset.state_dict()
        dataset.load_state_dict(state)
        dataset.set_epoch(0)
        assert epochs_of(dataset, 1) == [[signature(batch) for batch in iterator]]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"seed": 1}, "saved with seed=42, but this data set has seed=1"),
        ({"batch_size": 9}, "batch_size"),
        ({"rows": [1, 2, 3]}, "another data set: rows are others here"),
        ({"weights": np.ones(101)}, "another data set: weights are others here"),
        ({"balance_by": "number"}, "saved with balance_by=None"),
        ({"batch_by": "number"}, "saved with batch_by=None"),
        ({"source": "layers/twice"}, "saved with matrix='X'"),
        ({"hvg_indices": [0, 3]}, "another data set: hvg_indices names other genes here"),
        ({"normalize": False}, "saved with normalize=True, but this data set has normalize=False"),
        ({"log1p": False}, "saved with log1p=True"),
        ({"target_sum": 1e6}, "saved with target_sum=10000.0"),
        ({"pflog": True, "pflog_alpha": 0.5}, "saved with pflog=False"),
        ({"layout": "csr"}, "saved with layout='dense'"),
        ({"dtype": "float16"}, "saved with dtype='float32'"),
        ({"shuffle": False}, "shuffle"),
        ({"shard_group_size": 2}, "shard_group_size"),
        ({"rank": 0, "world_size": 2}, "world_size"),
        ({"num_shards": 2}, "num_shards"),
        ({"drop_last": True}, "drop_last"),
        ({"min_batch": 2}, "min_batch"),
        ({"tail": "keep"}, "tail"),
    ],
)
def test_states_of_other_batches_are_refused(
    make_file: MakeFile, options: dict[str, Any], named: str
) -> None:
    path = with_layer(make_file(101))
    with TrainingDataset(path, **{"batch_size": 8}) as dataset:
        state = dataset.state_dict()
    with (
        TrainingDataset(path, **{"batch_size": 8, **options}) as other,
        pytest.raises(ValueError, match=named),
    ):
        other.load_state_dict(state)


def test_states_of_other_files_and_weights_are_refused(make_file: MakeFile) -> None:
    path, copy = make_file(101), make_file(101, name="copy.scx")
    other = make_file(101, matrix=np.ones((101, 30)), name="other.scx")
    with TrainingDataset([path, other], 8, weights=np.ones(202)) as dataset:
        state = dataset.state_dict()
    with TrainingDataset([copy, other], 8, weights=np.ones(202)) as same:
        same.load_state_dict(state)
    for files, weights, named in [
        ([other, path], np.ones(202), "path names other files here"),
        ([path, other], np.arange(202), "weights are others here"),
    ]:
        with (
            TrainingDataset(files, 8, weights=weights) as wrong,
            pytest.raises(ValueError, match=named),
        ):
            wrong.load_state_dict(state)


def test_states_of_other_overdispersions_are_refused(make_file: MakeFile) -> None:
    path = make_file(101)
    with TrainingDataset(path, 8, pflog=True) as dataset:
        state = json.loads(json.dumps(dataset.state_dict()))
        estimate = dataset.pflog_alpha
    assert estimate is not None
    with TrainingDataset(path, 8, pflog=True, pflog_alpha=estimate * (1 + 1e-15)) as same:
        same.load_state_dict(state)
    with (
        TrainingDataset(path, 8, pflog=True, pflog_alpha=estimate * 1.001) as other,
        pytest.raises(ValueError, match=r"saved with pflog_alpha=[0-9.]+, but"),
    ):
        other.load_state_dict(state)


@pytest.mark.parametrize(
    ("options", "others"),
    [
        ({}, {"hvg_indices": np.arange(30)}),
        ({"normalize": False}, {"normalize": False, "target_sum": 5.0}),
        ({}, {"pflog": False, "pflog_alpha": 0.5}),
        ({"pflog": True}, {"pflog": True, "normalize": False, "log1p": False}),
        ({}, {"obs_columns": ["number"], "threads": 1, "prefetch_batches": 2}),
    ],
    ids=["all genes", "no target", "no PFlog", "PFlog alone", "what X does not depend on"],
)
def test_states_of_equal_batches_are_taken(
    make_file: MakeFile, options: dict[str, Any], others: dict[str, Any]
) -> None:
    path = make_file(101)
    with TrainingDataset(path, 8, **options) as dataset:
        iterator = iter(dataset)
        next(iterator)
        state = dataset.state_dict()
        with TrainingDataset(path, 8, **others) as other:
            other.load_state_dict(state)
            assert epochs_of(other, 1) == [[signature(batch) for batch in iterator]]


def test_states_of_other_common_genes_are_refused(make_file: MakeFile) -> None:
    wide = make_file(50, 30, name="wide.scx")
    narrow = make_file(50, 20, name="narrow.scx")
    with TrainingDataset([wide, narrow], 8, genes="intersection") as dataset:
        state = dataset.state_dict()
        names = dataset.var_names.tolist()
    with TrainingDataset([wide, narrow], 8, genes=names) as same:
        same.load_state_dict(state)
    for genes in ("union", names[::-1], names[:-1]):
        with (
            TrainingDataset([wide, narrow], 8, genes=genes) as other,
            pytest.raises(ValueError, match="genes that the files have in common are others here"),
        ):
            other.load_state_dict(state)


def test_states_that_are_none(make_file: MakeFile) -> None:
    with TrainingDataset(make_file(101), 8) as dataset:
        state = dataset.state_dict()
        with pytest.raises(TypeError, match="list"):
            dataset.load_state_dict([])  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="lacks 'version'"):
            dataset.load_state_dict({})
        with pytest.raises(ValueError, match="version 9"):
            dataset.load_state_dict({**state, "version": 9})
        with pytest.raises(ValueError, match="batch 14 of epoch 0, but an epoch has 13"):
            dataset.load_state_dict({**state, "batch": 14})
        wrong: list[tuple[type[Exception], dict[str, Any], str]] = [
            (TypeError, {"batch": 1.5}, "batch of the state=1.5"),
            (TypeError, {"epoch": None}, "epoch of the state=None"),
            (ValueError, {"epoch": -1}, "epoch of the state must be >= 0"),
            (ValueError, {"epoch": 2**70}, "epoch of the state must be <="),
            (TypeError, {"settings": None}, "settings of type NoneType"),
        ]
        for error, part, message in wrong:
            with pytest.raises(error, match=message):
                dataset.load_state_dict({**state, **part})
        assert dataset.state_dict() == state
