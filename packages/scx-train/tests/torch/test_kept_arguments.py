"""Iterables build data sets later and in workers: from the arguments as they were given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from torch.utils.data import DataLoader

import scx_core
from scx_train import IndexPlanDataset
from scx_train.lightning import ScxDataModule
from scx_train.torch import MultimodalTrainingIterable, PlanIterable, TrainingIterable


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("kept")
    for number in range(2):
        adata = anndata.AnnData(
            sp.csr_matrix(np.arange(1, 25, dtype=np.float32).reshape(8, 3)),
            obs=pd.DataFrame({"age": np.arange(8)}, index=[f"cell{row}" for row in range(8)]),
            var=pd.DataFrame(index=["a", "b", "c"]),
        )
        scx_core.from_anndata(adata, folder / f"{number}.scx", shard_size=2)
    return [folder / "0.scx", folder / "1.scx"]


def batches(iterable: Any, num_workers: int) -> list[Any]:
    return list(DataLoader(iterable, batch_size=None, num_workers=num_workers))


@pytest.mark.parametrize("num_workers", [0, 2])
def test_iterators_serve_every_data_set(files: list[Path], num_workers: int) -> None:
    iterable = TrainingIterable(
        iter(files),  # type: ignore[arg-type]
        batch_size=4,
        obs_columns=(name for name in ["age"]),
        genes=map(str, ["c", "a"]),
    )
    for batch in batches(iterable, num_workers):
        assert list(batch["obs"]) == ["age"]
        assert batch["X"].shape == (4, 2)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_arguments_that_change_afterwards(files: list[Path], num_workers: int) -> None:
    paths, rows, weights = list(files), np.arange(6), np.ones(16)
    columns, genes = ["age"], ["c", "a"]
    chosen = TrainingIterable(paths, rows=rows, obs_columns=columns, genes=genes)
    drawn = TrainingIterable(paths, weights=weights, batch_size=4)
    before = [batch["cell_indices"].tolist() for batch in batches(drawn, num_workers)]
    paths.clear()
    rows += 8
    weights[:] = 0
    weights[3] = 1
    columns.clear()
    genes.append("b")
    (batch,) = batches(chosen, num_workers)
    assert sorted(batch["cell_indices"].tolist()) == list(range(6))
    assert list(batch["obs"]) == ["age"]
    assert batch["X"].shape == (6, 2)
    drawn.set_epoch(0)
    assert [b["cell_indices"].tolist() for b in batches(drawn, num_workers)] == before


def test_arguments_of_a_data_module(files: list[Path]) -> None:
    panel = [0, 2]
    module = ScxDataModule(
        files[0], 4, panel, normalize=False, log1p=False, obsm=iter([]), obs_columns=iter(["age"])
    )
    panel.append(1)
    for batch in [*module.train_dataloader(), *module.inference_dataloader()]:
        assert batch["X"].shape == (4, 2)
        assert list(batch["obs"]) == ["age"]


def test_arguments_of_plans(files: list[Path]) -> None:
    panel, columns = np.array([0, 2]), iter(["age"])
    pairs = PlanIterable(
        IndexPlanDataset, files[0], plans=[[(0, 1)]], hvg_indices=panel, obs_columns=columns
    )
    panel[:] = 1
    for num_workers in (0, 1, 1):
        (batch,) = batches(pairs, num_workers)
        assert batch["X"].shape == (1, 2)
        assert list(batch["obs"]) == ["age"]


@pytest.mark.parametrize("path", [None, b"cells.scx", [3], {"cells.scx"}, np.array("cells.scx")])
def test_what_is_no_path(path: Any) -> None:
    with pytest.raises(TypeError, match=r"^path(\[0\])? must be a "):
        TrainingIterable(path)


def test_several_files_where_one_is_taken(files: list[Path]) -> None:
    with pytest.raises(TypeError, match=r"path must be a str or os.PathLike, one file, not list"):
        MultimodalTrainingIterable(files)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"scx_path must be a str or os.PathLike, one file, not"):
        ScxDataModule(files)  # type: ignore[arg-type]
