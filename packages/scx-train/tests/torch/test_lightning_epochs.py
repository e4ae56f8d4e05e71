"""Epochs under a trainer: loaders made anew, checkpoints, pairs of loaders, no validation."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("torch")
pytest.importorskip("lightning")
import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.tuner import Tuner
from torch.utils.data import DataLoader

from scx_train import TrainingDataset
from scx_train.lightning import ScxDataModule
from scx_train.torch import TrainingIterable

MakeFile = Callable[..., Path]
Epochs = list[list[list[int]]]

# Those of Lightning itself, of forks, and that a list for validation is empty.
pytestmark = pytest.mark.filterwarnings("ignore")


class Model(LightningModule):
    """Writes down which rows come in which epoch."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(30, 1)
        self.seen: list[tuple[int, Any]] = []

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        parts = batch if isinstance(batch, list) else [batch]
        rows = [part["cell_indices"].tolist() for part in parts]
        self.seen.append((self.current_epoch, rows[0] if len(rows) == 1 else rows))
        return self.layer(parts[0]["X"]).mean()

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        pass

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.01)


def fit(dm: ScxDataModule, folder: Path, ckpt_path: Path | None = None, **options: Any) -> Model:
    model = Model()
    trainer = Trainer(
        accelerator="cpu",
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=folder,
        **{"enable_checkpointing": False, **options},
    )
    trainer.fit(model, datamodule=dm, ckpt_path=ckpt_path)
    return model


@pytest.fixture
def path(make_file: MakeFile) -> Path:
    kinds = np.where(np.arange(101) % 4 == 0, "T", None)
    return make_file(101, obs=pd.DataFrame({"type": pd.Categorical(kinds)}))


def expected(path: Path, n_epochs: int, first: int = 0, **options: Any) -> list[tuple[int, Any]]:
    dataset = TrainingDataset(path, 20, min_batch=2, tail="merge", **options)
    dataset.set_epoch(first)
    return [
        (first + epoch, batch["cell_indices"].tolist())
        for epoch in range(n_epochs)
        for batch in dataset
    ]


@pytest.mark.parametrize("num_workers", [0, 1])
def test_loaders_that_are_made_anew_skip_no_epoch(
    path: Path, tmp_path: Path, num_workers: int
) -> None:
    dm = ScxDataModule(path, 20, num_workers=num_workers)
    model = fit(dm, tmp_path, max_epochs=3, reload_dataloaders_every_n_epochs=1)
    assert model.seen == expected(path, 3)


@pytest.mark.parametrize("num_workers", [0, 1])
def test_a_checkpoint_of_an_epochs_end(path: Path, tmp_path: Path, num_workers: int) -> None:
    options = {"batch_size": 20, "num_workers": num_workers}
    saving = ModelCheckpoint(tmp_path, filename="end")
    fit(
        ScxDataModule(path, **options), tmp_path,
        max_epochs=2, callbacks=[saving], enable_checkpointing=True,
    )  # fmt: skip
    model = fit(ScxDataModule(path, **options), tmp_path, tmp_path / "end.ckpt", max_epochs=4)
    assert model.seen == expected(path, 2, first=2)


@pytest.mark.parametrize("num_workers", [0, 1])
def test_loaders_that_are_made_anew_after_a_checkpoint_skip_no_epoch(
    path: Path, tmp_path: Path, num_workers: int
) -> None:
    options = {"max_epochs": 2, "reload_dataloaders_every_n_epochs": 1}
    saving = ModelCheckpoint(tmp_path, filename="end")
    dm = ScxDataModule(path, 20, num_workers=num_workers)
    fit(dm, tmp_path, callbacks=[saving], enable_checkpointing=True, **options)
    dm = ScxDataModule(path, 20, num_workers=num_workers)
    model = fit(dm, tmp_path, tmp_path / "end.ckpt", **{**options, "max_epochs": 4})
    assert model.seen == expected(path, 2, first=2)


@pytest.mark.parametrize("num_workers", [0, 1])
def test_overfitting_has_the_same_cells_every_epoch(
    path: Path, tmp_path: Path, num_workers: int
) -> None:
    dm = ScxDataModule(path, 20, num_workers=num_workers)
    model = fit(dm, tmp_path, max_epochs=3, overfit_batches=2)
    first = [rows for _, rows in expected(path, 1)[:2]]
    assert model.seen == [(epoch, rows) for epoch in range(3) for rows in first]


@pytest.mark.parametrize(("mode", "size"), [("power", 128), ("binsearch", 128)])
def test_a_batch_size_can_be_looked_for(path: Path, tmp_path: Path, mode: str, size: int) -> None:
    dm = ScxDataModule(path, 2)
    trainer = Trainer(
        accelerator="cpu", logger=False, enable_progress_bar=False, max_epochs=1,
        enable_model_summary=False, default_root_dir=tmp_path,
    )  # fmt: skip
    found = Tuner(trainer).scale_batch_size(
        Model(), datamodule=dm, mode=mode, steps_per_trial=1, margin=0.0
    )
    # doubled until a batch holds all 101 cells
    assert found == dm.batch_size == size
    assert [len(batch["X"]) for batch in dm.train_dataloader()] == [101]
    dm.batch_size = 50
    assert [len(batch["X"]) for batch in dm.train_dataloader()] == [50, 51]
    with pytest.raises(ValueError, match="batch_size=0"):
        dm.batch_size = 0


def test_an_iterable_that_goes_on_with_epoch_0_warns(path: Path, tmp_path: Path) -> None:
    def fit_loader(iterable: TrainingIterable, **options: Any) -> Model:
        model = Model()
        trainer = Trainer(
            accelerator="cpu", logger=False, enable_progress_bar=False, num_sanity_val_steps=0,
            enable_model_summary=False, default_root_dir=tmp_path, max_epochs=options["max_epochs"],
        )  # fmt: skip
        loader = DataLoader(iterable, batch_size=None)
        val = DataLoader(TrainingIterable(path, 20), batch_size=None)
        trainer.fit(model, loader, val, ckpt_path=options.get("ckpt_path"))
        trainer.save_checkpoint(tmp_path / "plain.ckpt")
        return model

    message = "the trainer is in epoch 2, but the batches come in the order of epoch 0 again"
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="the trainer is in epoch")
        fit_loader(TrainingIterable(path, 20), max_epochs=2)
    again = {"ckpt_path": tmp_path / "plain.ckpt", "max_epochs": 3}
    with pytest.warns(UserWarning, match=message):
        fit_loader(TrainingIterable(path, 20), **again)
    iterable = TrainingIterable(path, 20)
    iterable.set_epoch(3)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="the trainer is in epoch")
        model = fit_loader(iterable, **{**again, "max_epochs": 4})
    assert model.seen[0][0] > 0


@pytest.mark.parametrize("steps", [7, 9, 10])
def test_a_checkpoint_within_an_epoch(path: Path, tmp_path: Path, steps: int) -> None:
    saving = ModelCheckpoint(tmp_path, filename="middle", every_n_train_steps=steps)
    dm = ScxDataModule(path, 20)
    model = fit(dm, tmp_path, max_steps=steps, callbacks=[saving], enable_checkpointing=True)
    whole = expected(path, 3)
    assert model.seen == whole[:steps]
    model = fit(ScxDataModule(path, 20), tmp_path, tmp_path / "middle.ckpt", max_epochs=3)
    assert model.seen == whole[steps:]


def test_what_cannot_go_on_within_an_epoch_begins_it_again(path: Path, tmp_path: Path) -> None:
    saving = ModelCheckpoint(tmp_path, filename="middle", every_n_train_steps=7)
    dm = ScxDataModule(path, 20, num_workers=1)
    model = fit(dm, tmp_path, max_steps=7, callbacks=[saving], enable_checkpointing=True)
    assert model.seen == expected(path, 2)[:7]
    for options, reason in (({"num_workers": 1}, "workers"), ({"log1p": False}, "log1p")):
        again = "saved after 2 batches of epoch 1, which is begun again: .*" + reason
        with pytest.warns(UserWarning, match=again):
            model = fit(
                ScxDataModule(path, 20, **options), tmp_path, tmp_path / "middle.ckpt", max_epochs=3
            )
        whole = expected(path, 3)
        assert model.seen == [*whole[5:8], *whole[10:]]  # Lightning counts on within the epoch


def test_cut_epochs_go_on_with_the_next_one(path: Path, tmp_path: Path) -> None:
    saving = ModelCheckpoint(tmp_path, filename="cut")
    options = {"limit_train_batches": 2}
    fit(
        ScxDataModule(path, 20), tmp_path,
        max_epochs=1, callbacks=[saving], enable_checkpointing=True, **options,
    )  # fmt: skip
    model = fit(ScxDataModule(path, 20), tmp_path, tmp_path / "cut.ckpt", max_epochs=3, **options)
    assert model.seen == [expected(path, 3)[place] for place in (5, 6, 10, 11)]


def test_cells_that_come_again_in_pairs_are_mixed_anew(path: Path, tmp_path: Path) -> None:
    dm = ScxDataModule(path, 20, labels_key="type", model_name="SCANVI")
    pairs = [rows for _, rows in fit(dm, tmp_path, max_epochs=2).seen]
    assert [every for every, _ in pairs] == [rows for _, rows in expected(path, 2)]
    own = [rows for _, rows in expected(path, 6, rows=np.arange(0, 101, 4))]  # 2 an epoch
    assert [labeled for _, labeled in pairs] == [*own[:5], *own[6:11]]


def test_without_cells_for_validation_a_trainer_does_not_validate(
    path: Path, tmp_path: Path
) -> None:
    dm = ScxDataModule(path, 20)
    assert dm.val_dataloader() is None
    assert len(fit(dm, tmp_path, max_epochs=1).seen) == 5
