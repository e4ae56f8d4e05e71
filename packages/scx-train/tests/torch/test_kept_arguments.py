"""Iterables build data sets later and in workers: from the arguments as they were given."""

from __future__ import annotations

import re
import shutil
import warnings
from pathlib import Path
from typing import Any

import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from torch.utils.data import DataLoader

import scx_core
from scx_train import IndexPlanDataset, TrainingDataset
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


@pytest.mark.parametrize("path", [None, b"cells.scx", [3], {"cells.scx"}])
def test_what_is_no_path_of_several_modalities(path: Any) -> None:
    with pytest.raises(TypeError, match=r"^path(\[0\])? must be a "):
        MultimodalTrainingIterable(path)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize(
    ("kind", "context"),
    [("file", "spawn"), ("files", "fork"), ("module", "fork"), ("plans", "fork")],
)
def test_relative_paths_outlive_the_working_directory(
    files: list[Path], kind: str, context: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(files[0].parent)
    loader: Any
    options: dict[str, Any] = {"batch_size": None, "num_workers": 1}
    if kind == "module":
        module = ScxDataModule("0.scx", 4, num_workers=1, train_size=0.5)
        monkeypatch.chdir(tmp_path)
        assert len(list(module.inference_dataloader())) == 2
        assert [len(batch["X"]) for batch in module.val_dataloader()] == [4]
        return
    if kind == "plans":
        cells = PlanIterable(IndexPlanDataset, "0.scx", plans=[[(0, 1), (2, 3)]])
        monkeypatch.chdir(tmp_path)
        assert len(list(DataLoader(cells, multiprocessing_context=context, **options))) == 1
        return
    path: Any = "0.scx" if kind == "file" else ["0.scx", Path("1.scx")]
    iterable = TrainingIterable(path, batch_size=4)
    monkeypatch.chdir(tmp_path)
    expected = 2 if kind == "file" else 4
    assert len(list(DataLoader(iterable, batch_size=None))) == expected
    loader = DataLoader(iterable, multiprocessing_context=context, **options)
    assert len(list(loader)) == expected
    assert len(iterable) == expected


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("kind", ["file", "files", "module"])
def test_each_warning_comes_once(files: list[Path], kind: str, tmp_path: Path) -> None:
    """However often data sets are built again: for the first epoch, by workers, for `len`."""
    paths = []
    for number in range(2):
        values = sp.csr_matrix(np.full((8, 3), 0.5, dtype=np.float32))
        paths.append(tmp_path / f"{number}.scx")
        scx_core.from_anndata(anndata.AnnData(values), paths[-1], shard_size=2)
    options: dict[str, Any] = {"hvg_indices": [2, 0, 0]}
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", UserWarning)
        if kind == "module":
            module = ScxDataModule(paths[0], 4, train_size=0.5, num_workers=1, **options)
            loaders = [
                module.train_dataloader(), module.val_dataloader(), module.predict_dataloader(),
            ]  # fmt: skip
        else:
            iterable = TrainingIterable(paths[0] if kind == "file" else paths, 4, **options)
            loaders = [
                DataLoader(iterable, batch_size=None, num_workers=num_workers)
                for num_workers in (0, 2)
            ]
        for _ in range(2):
            for loader in loaders:
                for batch in loader:
                    assert batch["X"].shape[1] == 2
    messages = sorted(str(warning.message) for warning in told if warning.category is UserWarning)
    assert len(messages) == 2
    assert "does not hold counts" in messages[0]
    assert "hvg_indices" in messages[1]


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("how", ["replaced", "deleted"])
def test_a_file_that_changes_between_epochs_is_refused(
    files: list[Path], tmp_path: Path, how: str
) -> None:
    """Workers that are started later would read other cells than those of the epochs before."""
    path = Path(shutil.copy(files[0], tmp_path / "changing.scx"))
    iterable = TrainingIterable(path, 2)
    workers = DataLoader(iterable, batch_size=None, num_workers=2)
    module = ScxDataModule(path, 2, train_size=0.5)
    plans = PlanIterable(IndexPlanDataset, path, plans=[[(0, 1)], [(2, 3)]])
    pairs = DataLoader(plans, batch_size=None, num_workers=1)
    before = [[batch["cell_indices"].tolist() for batch in each] for each in (iterable, workers)]
    assert len(list(pairs)) == 2
    if how == "deleted":
        scx_core.mark_deleted(path, [7])
    else:
        with scx_core.open(path) as cells:
            adata = cells.to_anndata()
        adata.X = adata.X * 2
        scx_core.from_anndata(adata, path, shard_size=4, overwrite=True)
    with pytest.raises(
        RuntimeError, match=r"replaced by a file of other content.*TrainingIterable"
    ):
        list(workers)
    with pytest.raises(RuntimeError, match=r"changing.scx was replaced .*data module"):
        module.val_dataloader()
    if how == "deleted":  # rows keep their numbers
        assert len(list(DataLoader(plans, batch_size=None, num_workers=2))) == 2
    else:
        with pytest.raises(RuntimeError, match=r"were replaced .* since the first epoch"):
            list(pairs)
    # What is open goes on with what it opened.
    assert len(list(iterable)) == len(before[0])


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_which_of_several_files_was_replaced_is_said(files: list[Path], tmp_path: Path) -> None:
    paths = [Path(shutil.copy(files[0], tmp_path / f"{number}.scx")) for number in range(4)]
    given = [*paths, paths[2]]  # one of them twice
    dataset = TrainingDataset(given, 2, allow_repeated_files=True)
    dataset.close()
    iterable = TrainingIterable(given, 2, allow_repeated_files=True)
    module = ScxDataModule(given, 2, train_size=0.5, allow_repeated_files=True)

    def refusals(named: str) -> None:
        what = rf"^{re.escape(named)} was replaced by .* this "
        with pytest.raises(RuntimeError, match=what + "data set"):
            iter(dataset)
        with pytest.raises(RuntimeError, match=what + "data module"):
            module.val_dataloader()
        with pytest.raises(RuntimeError, match=re.escape(named) + " was replaced .*Iterable"):
            list(DataLoader(iterable, batch_size=None, num_workers=1))

    scx_core.mark_deleted(paths[2], [7])
    refusals(str(paths[2]))
    scx_core.mark_deleted(paths[1], [7])
    refusals(f"{paths[1]} (and 1 more)")
