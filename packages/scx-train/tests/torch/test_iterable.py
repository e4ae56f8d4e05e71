"""TrainingIterable in DataLoaders: every cell once an epoch, whatever the workers."""

from __future__ import annotations

import itertools
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from torch.utils.data import DataLoader

from scx_train import TrainingDataset
from scx_train.torch import TrainingIterable

MakeFile = Callable[..., Path]

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:This DataLoader will create 3 worker:UserWarning"),
]


def rows(batches: Any) -> list[list[int]]:
    return [batch["cell_indices"].tolist() for batch in batches]


def flat(batches: list[list[int]]) -> list[int]:
    return [row for batch in batches for row in batch]


def loader(iterable: TrainingIterable, **options: Any) -> DataLoader:
    return DataLoader(iterable, batch_size=None, **options)


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, np.ndarray]:
    """64 cells in shards of 8."""
    import anndata

    import scx_core

    counts = np.random.default_rng(0).poisson(0.7, size=(64, 12)).astype(np.float32)
    obs = pd.DataFrame(
        {"kind": pd.Categorical(["a", "b"] * 32), "number": np.arange(64)},
        index=[f"cell{i}" for i in range(64)],
    )
    path = tmp_path_factory.mktemp("cells") / "cells.scx"
    scx_core.from_anndata(anndata.AnnData(sp.csr_matrix(counts), obs=obs), path, shard_size=8)
    return path, counts


@pytest.mark.parametrize(
    ("num_workers", "kept"),
    [(0, False), *itertools.product([1, 2, 3], [False, True])],
)
def test_epochs_are_those_of_the_data_set(
    cells: tuple[Path, np.ndarray], num_workers: int, kept: bool
) -> None:
    path, _ = cells
    # One loader of batches of 10: 7 batches, which no number of workers divides.
    loaded = loader(TrainingIterable(path, 10), num_workers=num_workers, persistent_workers=kept)
    dataset = TrainingDataset(path, 10)
    seen = []
    for _ in range(3):
        epoch = rows(loaded)
        assert len(loaded) == len(epoch) == 7
        assert sorted(flat(epoch)) == list(range(64))
        assert epoch == rows(dataset)
        seen.append(epoch)
    assert seen[0] != seen[1] != seen[2]


def test_one_iterable_in_loaders_of_all_kinds(cells: tuple[Path, np.ndarray]) -> None:
    path, _ = cells
    iterable, dataset = TrainingIterable(path, 10), TrainingDataset(path, 10)
    for num_workers in (2, 0, 3, 1, 0):
        assert rows(loader(iterable, num_workers=num_workers)) == rows(dataset)
    assert iterable.epoch == 5


@pytest.mark.parametrize("num_workers", [0, 2])
def test_an_epoch_that_is_dropped_is_not_repeated(
    cells: tuple[Path, np.ndarray], num_workers: int
) -> None:
    path, _ = cells
    loaded, dataset = (
        loader(TrainingIterable(path, 10), num_workers=num_workers),
        TrainingDataset(path, 10),
    )
    iterator = iter(loaded)
    assert next(iterator)["cell_indices"].tolist() == rows(dataset)[0]
    del iterator
    assert rows(loaded) == rows(dataset)


def test_seeding_torch_before_each_epoch_changes_nothing(cells: tuple[Path, np.ndarray]) -> None:
    path, _ = cells
    loaded, dataset = loader(TrainingIterable(path, 10), num_workers=2), TrainingDataset(path, 10)
    for _ in range(2):
        torch.manual_seed(0)
        assert rows(loaded) == rows(dataset)


@pytest.mark.parametrize("kept", [False, True], ids=["started anew", "kept"])
def test_set_epoch_reaches_workers(cells: tuple[Path, np.ndarray], kept: bool) -> None:
    path, _ = cells
    iterable, dataset = TrainingIterable(path, 10), TrainingDataset(path, 10)
    expected = [rows(dataset) for _ in range(6)]
    loaded = loader(iterable, num_workers=2, persistent_workers=kept)
    assert rows(loaded) == expected[0]
    iterable.set_epoch(4)
    assert iterable.epoch == 4
    assert [rows(loaded), rows(loaded)] == expected[4:]
    iterable.set_epoch(0)
    assert rows(loaded) == expected[0]
    for wrong in (-1, 2**30 + 1):
        with pytest.raises(ValueError, match=r"epoch must be (<= 1073741824|>= 0), but epoch="):
            iterable.set_epoch(wrong)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_values_and_columns(cells: tuple[Path, np.ndarray], num_workers: int) -> None:
    path, counts = cells
    genes = np.array([1, 4, 7])
    iterable = TrainingIterable(
        path, 10, hvg_indices=genes, obs_columns=["kind", "number"], target_sum=100.0
    )
    assert (iterable.n_obs, iterable.n_vars, iterable.n_output_genes) == (64, 12, 3)
    assert iterable.effective_batch_size == 10
    totals = counts.sum(axis=1, keepdims=True)
    expected = np.log1p(counts / np.where(totals == 0, 1, totals) * 100.0)[:, genes]
    for batch in loader(iterable, num_workers=num_workers):
        index = batch["cell_indices"].numpy()
        assert batch["X"].dtype == torch.float32
        assert batch["cell_indices"].dtype == torch.int64
        np.testing.assert_allclose(batch["X"].numpy(), expected[index], rtol=2e-6)
        kind = batch["obs"]["kind"]
        assert kind["categories"] == ["a", "b"]
        assert kind["codes"].dtype == torch.int32
        assert kind["codes"].tolist() == (index % 2).tolist()
        assert batch["obs"]["number"].tolist() == index.tolist()


def test_tensors_share_the_memory_of_the_batch(
    cells: tuple[Path, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    from scx_train.streams import epoch

    path, _ = cells
    given: list[Any] = []
    original = epoch.EpochIterator.__next__

    def remember(self: Any) -> Any:
        given.append(original(self))
        return given[-1]

    monkeypatch.setattr(epoch.EpochIterator, "__next__", remember)
    for batch in loader(TrainingIterable(path, 10)):
        for key in ("X", "cell_indices"):
            assert batch[key].data_ptr() == given[-1][key].ctypes.data


def test_batches_can_be_pinned(
    cells: tuple[Path, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What torch does with a batch for `pin_memory=True`, without the device that it needs."""
    from torch.utils.data._utils.pin_memory import pin_memory

    path, _ = cells
    pinned: list[int] = []

    def pin(tensor: torch.Tensor, *_: Any) -> torch.Tensor:
        pinned.append(tensor.data_ptr())
        return tensor.clone()

    monkeypatch.setattr(torch.Tensor, "pin_memory", pin)
    batch = next(iter(TrainingIterable(path, 10, obs_columns=["kind", "number"])))
    result = pin_memory(batch)
    tensors = [
        batch["X"],
        batch["cell_indices"],
        batch["obs"]["kind"]["codes"],
        batch["obs"]["number"],
    ]
    assert sorted(pinned) == sorted(tensor.data_ptr() for tensor in tensors)
    assert torch.equal(result["X"], batch["X"])
    assert result["obs"]["kind"]["categories"] == ["a", "b"]


def test_arguments_are_checked_where_it_is_built(cells: tuple[Path, np.ndarray]) -> None:
    path, _ = cells
    with pytest.raises(ValueError, match="batch_size=0"):
        TrainingIterable(path, 0)
    with pytest.raises(KeyError, match="colour"):
        TrainingIterable(path, obs_columns=["colour"])
    with pytest.raises(TypeError, match="unknown"):
        TrainingIterable(path, unknown=1)
    with pytest.raises(OSError, match=r"missing\.scx"):
        TrainingIterable("missing.scx")
    for name in ("shard", "num_shards"):
        with pytest.raises(TypeError, match=f"{name} is not an option here"):
            TrainingIterable(path, **{name: 1})


def test_a_panel_in_another_order_warns_once(cells: tuple[Path, np.ndarray]) -> None:
    path, _ = cells
    with pytest.warns(UserWarning, match="ascending") as caught:
        iterable = TrainingIterable(path, hvg_indices=[7, 1])
    assert len(caught) == 1
    assert [batch["X"].shape[1] for batch in loader(iterable)] == [2]


@pytest.mark.parametrize("num_workers", [0, 2])
def test_ranks_share_the_cells(cells: tuple[Path, np.ndarray], num_workers: int) -> None:
    path, _ = cells
    seen = []
    for rank in range(3):
        iterable = TrainingIterable(path, 5, rank=rank, world_size=3)
        epochs = [rows(loader(iterable, num_workers=num_workers)) for _ in range(2)]
        dataset = TrainingDataset(path, 5, rank=rank, world_size=3)
        assert epochs == [rows(dataset), rows(dataset)]
        assert [len(epoch) for epoch in epochs] == [len(iterable)] * 2
        seen.append(flat(epochs[1]))
    assert [len(flat_rows) for flat_rows in seen] == [21, 21, 22]
    assert sorted(flat(seen)) == list(range(64))


def test_a_pickled_copy_goes_on_by_itself(cells: tuple[Path, np.ndarray]) -> None:
    path, _ = cells
    iterable, dataset = TrainingIterable(path, 10), TrainingDataset(path, 10)
    expected = [rows(dataset) for _ in range(3)]
    assert rows(iterable) == expected[0]
    sent = pickle.dumps(iterable)
    assert len(sent) < 50_000
    copied = pickle.loads(sent)
    assert rows(loader(copied, num_workers=2)) == expected[1]
    assert rows(copied) == expected[2]
    assert rows(iterable) == expected[1]


# torch's own code puts the tensors of a worker together without saying so.
@pytest.mark.filterwarnings("ignore:Sparse invariant checks are implicitly disabled:UserWarning")
@pytest.mark.parametrize("num_workers", [0, 2])
def test_sparse_batches(cells: tuple[Path, np.ndarray], num_workers: int) -> None:
    path, _ = cells
    sparse = loader(TrainingIterable(path, 10, layout="csr"), num_workers=num_workers)
    for ours, dense in zip(sparse, TrainingDataset(path, 10), strict=True):
        assert ours["X"].layout == torch.sparse_csr
        np.testing.assert_array_equal(ours["X"].to_dense().numpy(), dense["X"])


def test_an_estimate_is_made_once(make_file: MakeFile) -> None:
    path = make_file(101)
    dataset = TrainingDataset(path, 10, pflog=True)
    iterable = TrainingIterable(path, 10, pflog=True)
    assert iterable._options["pflog_alpha"] == dataset.pflog_alpha
    for ours, expected in zip(iterable, dataset, strict=True):
        np.testing.assert_array_equal(ours["X"].numpy(), expected["X"])


def test_sparse_tensors() -> None:
    from scx_train.torch.batch import to_tensors

    matrix = sp.random(6, 9, density=0.3, format="csr", dtype=np.float32, random_state=0)
    tensor = to_tensors({"X": matrix})["X"]
    assert tensor.layout == torch.sparse_csr
    assert tensor.values().data_ptr() == matrix.data.ctypes.data
    np.testing.assert_array_equal(tensor.to_dense().numpy(), matrix.toarray())


def test_arrays_that_cannot_be_written_to_are_copied() -> None:
    from scx_train.torch.batch import to_tensors

    array = np.arange(3.0)
    array.flags.writeable = False
    tensor = to_tensors(array)
    tensor[0] = 5
    assert array[0] == 0


def test_without_torch_the_message_says_what_to_install() -> None:
    code = "import sys; sys.modules['torch'] = None; import scx_train.torch"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stderr.splitlines()[-1] == (
        'ModuleNotFoundError: scx_train.torch needs torch: python -m pip install "scx-train[torch]"'
    )
