"""ScxDataModule: what it serves, for training with Lightning in one process and in two."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
import textwrap
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch

from published_draws import shuffled, stream_of, words_of
from scx_train import TrainingDataset
from scx_train.lightning import ScxDataModule

N_OBS = 101


def make_obs() -> pd.DataFrame:
    rng = np.random.default_rng(1)
    return pd.DataFrame(
        {
            "donor": pd.Categorical(np.array(["d2", "d1", "d3"])[np.arange(N_OBS) % 3]),
            "kind": np.where(np.arange(N_OBS) % 4 == 0, "Unknown", "known"),
            "lane": np.array([5, 2, 9])[np.arange(N_OBS) % 3],
            "gappy": pd.Categorical([None, *["z", "a"] * 50]),
            "age": rng.normal(40, 10, N_OBS),
            "holes": [np.nan, *[1.0] * 100],
        },
        index=[f"cell{i}" for i in range(N_OBS)],
    )


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import anndata

    import scx_core

    counts = np.random.default_rng(0).poisson(0.7, size=(N_OBS, 12)).astype(np.float32)
    file = tmp_path_factory.mktemp("cells") / "cells.scx"
    scx_core.from_anndata(
        anndata.AnnData(sp.csr_matrix(counts), obs=make_obs()), file, shard_size=8
    )
    return file


def rows(batches: Any) -> list[list[int]]:
    return [batch["cell_indices"].tolist() for batch in batches]


def flat(batches: list[list[int]]) -> list[int]:
    return [row for batch in batches for row in batch]


def test_properties_and_defaults(path: Path) -> None:
    dm = ScxDataModule(path)
    assert (dm.n_obs, dm.n_vars, dm.n_output_genes) == (N_OBS, 12, 12)
    assert (dm.n_train, dm.n_val, dm.n_batch, dm.n_labels) == (N_OBS, 0, 1, 1)
    assert dm.val_dataloader() is None
    loader = dm.train_dataloader()
    assert (loader.batch_size, loader.num_workers) == (None, 0)
    (batch,) = loader
    (expected,) = TrainingDataset(path)
    np.testing.assert_array_equal(batch["X"].numpy(), expected["X"])  # normalised and logged
    assert sorted(batch) == ["X", "batch", "cell_indices", "labels"]
    for key in ("batch", "labels"):
        assert batch[key].dtype == torch.int64
        assert torch.equal(batch[key], torch.zeros(N_OBS, 1, dtype=torch.int64))


def test_options_reach_the_data_set(path: Path) -> None:
    genes = np.array([1, 4, 7])
    dm = ScxDataModule(path, 20, genes, normalize=False, log1p=False, seed=3, obs_columns=["donor"])
    assert (dm.n_vars, dm.n_output_genes) == (12, 3)
    assert list(dm.var_names) == ["1", "4", "7"]
    dataset = TrainingDataset(
        path, 20, hvg_indices=genes, normalize=False, log1p=False, seed=3,
        min_batch=2, tail="merge",
    )  # fmt: skip
    loader = dm.train_dataloader()
    for _ in range(2):
        for batch, expected in zip(loader, dataset, strict=True):
            np.testing.assert_array_equal(batch["X"].numpy(), expected["X"])
            assert batch["cell_indices"].tolist() == expected["cell_indices"].tolist()
            assert batch["obs"]["donor"]["categories"] == ["d1", "d2", "d3"]


def test_a_single_cell_is_never_a_batch_of_training(path: Path) -> None:
    assert [len(batch) for batch in rows(ScxDataModule(path, 50).train_dataloader())] == [50, 51]
    kept = ScxDataModule(path, 50, min_batch=1).train_dataloader()
    assert [len(batch) for batch in rows(kept)] == [50, 50, 1]
    assert len(rows(ScxDataModule(path, 1).train_dataloader())) == N_OBS


def test_labels_of_a_single_cell_warn(path: Path) -> None:
    """There is no batch of the same label that their cell could be merged into."""
    with pytest.warns(UserWarning, match="batch_by='gappy': 1 labels have a single cell") as told:
        dm = ScxDataModule(path, 20, batch_by="gappy")
    assert [warning.filename for warning in told] == [__file__]
    assert min(len(batch) for batch in rows(dm.train_dataloader())) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dm = ScxDataModule(path, 20, batch_by="gappy", min_batch=2, tail="drop")
        assert min(len(batch) for batch in rows(dm.train_dataloader())) == 10
        ScxDataModule(path, 20, batch_by="gappy", rows=np.arange(1, N_OBS))
        ScxDataModule(path, 1, batch_by="gappy")
        ScxDataModule(path, 20, batch_by="donor")


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_training_and_validation_share_no_cell(path: Path, num_workers: int) -> None:
    dm = ScxDataModule(path, 16, train_size=0.7, num_workers=num_workers)
    assert (dm.n_train, dm.n_val) == (71, 30)
    train, val = dm.train_dataloader(), dm.val_dataloader()
    epochs = [flat(rows(train)) for _ in range(2)]
    validated = flat(rows(val))
    assert epochs[0] != epochs[1]
    assert sorted(epochs[0]) == sorted(epochs[1]) == dm.train_idx.tolist()
    assert validated == flat(rows(val)) == dm.val_idx.tolist()
    assert sorted(epochs[0] + validated) == list(range(N_OBS))
    assert flat(rows(dm.inference_dataloader())) == list(range(N_OBS))
    again = ScxDataModule(path, train_size=0.7)
    assert again.val_idx.tolist() == dm.val_idx.tolist()
    assert ScxDataModule(path, train_size=0.7, seed=1).val_idx.tolist() != dm.val_idx.tolist()


@pytest.mark.parametrize("seed", [0, 42, 2**64 - 1])
@pytest.mark.parametrize(("train_size", "n_cells"), [(0.7, N_OBS), (0.55, 100), (0.001, 50)])
def test_the_draw_of_cells_for_validation_is_the_documented_one(
    path: Path, seed: int, train_size: float, n_cells: int
) -> None:
    words = words_of(stream_of(seed, int.from_bytes(b"SCXTRAIN", "big"), 0))
    mixed = shuffled(list(range(N_OBS - n_cells, N_OBS)), words)
    n_train = {0.7: 71, 0.55: 55, 0.001: 1}[train_size]  # of 70.7, 55 and 0.05
    rows = np.arange(N_OBS - n_cells, N_OBS)[::-1]
    dm = ScxDataModule(path, rows=rows, train_size=train_size, seed=seed)
    assert dm.train_idx.tolist() == sorted(mixed[:n_train])
    assert dm.val_idx.tolist() == sorted(mixed[n_train:])


def test_chosen_cells(path: Path) -> None:
    dm = ScxDataModule(path, validation_rows=[5, 3])
    assert dm.val_idx.tolist() == [3, 5]
    assert dm.train_idx.tolist() == [row for row in range(N_OBS) if row not in (3, 5)]
    mask = np.arange(N_OBS) < 10
    dm = ScxDataModule(path, rows=mask, validation_rows=[50, 9])
    assert (dm.train_idx.tolist(), dm.val_idx.tolist()) == (list(range(9)), [9, 50])
    assert dm.n_obs == 11
    dm = ScxDataModule(path, rows=mask, train_size=0.5)
    assert sorted([*dm.train_idx, *dm.val_idx]) == list(range(10))
    assert rows(dm.inference_dataloader(4)) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


@pytest.mark.parametrize("option", ["balance_by", "batch_by"])
def test_how_training_draws_does_not_touch_validation(path: Path, option: str) -> None:
    dm = ScxDataModule(path, 10, train_size=0.7, batch_key="donor", **{option: "donor"})
    for batch in dm.train_dataloader():
        assert set(batch["cell_indices"].tolist()) <= set(dm.train_idx.tolist())
        if option == "batch_by":
            assert len(batch["batch"].unique()) == 1
    assert flat(rows(dm.val_dataloader())) == dm.val_idx.tolist()


def test_training_and_validation_have_one_overdispersion(
    make_file: Callable[..., Path],
) -> None:
    path = make_file(101)
    dm = ScxDataModule(path, pflog=True, train_size=0.5)
    dataset = TrainingDataset(path, pflog=True, shuffle=False)
    (expected,) = dataset
    (batch,) = dm.val_dataloader()
    np.testing.assert_array_equal(batch["X"].numpy(), expected["X"][dm.val_idx])


def test_codes_and_covariates(path: Path) -> None:
    obs = make_obs()
    dm = ScxDataModule(
        path,
        30,
        batch_key="donor",
        labels_key="kind",
        categorical_covariate_keys=["lane", "kind"],
        continuous_covariate_keys=["age"],
    )
    assert dm.batch_labels.tolist() == ["d1", "d2", "d3"]
    assert dm.labels.tolist() == ["known", "Unknown"]  # the label of the unlabeled is the last
    assert dm.labels_.tolist() == obs["kind"].tolist()
    assert (dm.n_batch, dm.n_labels, dm.n_continuous_cov) == (3, 2, 1)
    assert dm.n_cats_per_cov == [3, 2]
    for batch in dm.train_dataloader():
        cells = obs.iloc[batch["cell_indices"].numpy()]
        assert batch["batch"][:, 0].tolist() == cells["donor"].cat.codes.tolist()
        assert batch["labels"][:, 0].tolist() == (cells["kind"] == "Unknown").astype(int).tolist()
        lanes = cells["lane"].astype("category").cat.set_categories([2, 5, 9]).cat.codes
        kinds = cells["kind"].astype("category").cat.set_categories(["Unknown", "known"]).cat.codes
        expected = np.stack([lanes, kinds], axis=1)
        assert batch["extra_categorical_covs"].tolist() == expected.tolist()
        ages = batch["extra_continuous_covs"]
        assert ages.dtype == torch.float32
        np.testing.assert_array_equal(ages[:, 0].numpy(), cells["age"].to_numpy(np.float32))


def test_cells_without_a_label(path: Path) -> None:
    dm = ScxDataModule(path, labels_key="gappy", unlabeled_category="none")
    assert dm.labels.tolist() == ["a", "z", "none"]
    (batch,) = dm.inference_dataloader()
    assert batch["labels"][:3, 0].tolist() == [2, 1, 0]
    dm = ScxDataModule(path, batch_key="gappy", rows=np.arange(1, N_OBS))
    assert dm.n_batch == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"train_size": 0.5, "validation_rows": [1]}, "train_size and validation_rows exclude"),
        ({"train_size": 1.5}, "train_size=1.5 must be above 0 and at most 1"),
        ({"validation_rows": np.ones(N_OBS, bool)}, "no cell is left to train on"),
        ({"validation_rows": [N_OBS]}, "validation_rows holds 101"),
        ({"validation_rows": []}, "validation_rows chooses no cell"),
        ({"batch_key": "gappy"}, "batch_key: obs column 'gappy' has no value for 1 cells"),
        ({"batch_key": "age"}, "batch_key: obs column 'age' holds floats"),
        ({"continuous_covariate_keys": ["donor"]}, "'donor' holds categories"),
        ({"continuous_covariate_keys": ["holes"]}, "'holes' is missing or infinite for 1 cells"),
        ({"labels_key": "kind", "unlabeled_category": None, "num_workers": -1}, "num_workers=-1"),
    ],
)
def test_arguments_are_checked(path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ScxDataModule(path, **options)


def test_names_are_checked(path: Path) -> None:
    with pytest.raises(KeyError, match="colour"):
        ScxDataModule(path, batch_key="colour")
    wrong: dict[str, Any] = {
        "batch_key": ["donor"], "labels_key": 3, "train_size": "0.5", "model_name": 5,
    }  # fmt: skip
    for argument, value in wrong.items():
        with pytest.raises(TypeError, match=re.escape(f"{argument}={value!r} must be a ")):
            ScxDataModule(path, **{argument: value})
    with pytest.raises(TypeError, match="categorical_covariate_keys='lane' must be a list"):
        ScxDataModule(path, categorical_covariate_keys="lane")


def test_a_panel_in_another_order_warns_once(path: Path) -> None:
    with pytest.warns(UserWarning, match="ascending") as caught:
        dm = ScxDataModule(path, hvg_indices=[7, 1], train_size=0.5)
    assert len(caught) == 1
    assert {batch["X"].shape[1] for batch in dm.train_dataloader()} == {2}  # without a warning


TRAINING = """
    import json, sys, warnings
    warnings.simplefilter("ignore")
    import torch
    from lightning.pytorch import LightningModule, Trainer
    from scx_train.lightning import ScxDataModule

    class Model(LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(12, 1)
            self.seen = {"train": [[]], "val": [[]]}

        def training_step(self, batch, _):
            self.seen["train"][-1].append(batch["cell_indices"].tolist())
            return self.layer(batch["X"]).square().mean()

        def validation_step(self, batch, _):
            self.seen["val"][-1].append(batch["cell_indices"].tolist())

        def on_train_epoch_end(self):
            self.seen["train"].append([])
            self.seen["val"].append([])

        def predict_step(self, batch, _):
            return batch["cell_indices"]

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.01)

    def trainer(folder, **options):
        return Trainer(
            accelerator="cpu", logger=False, enable_progress_bar=False, num_sanity_val_steps=0,
            enable_model_summary=False, default_root_dir=folder, **options
        )

    if __name__ == "__main__":
        path, folder, devices, num_workers = sys.argv[1:]
        dm = ScxDataModule(path, 8, train_size=0.8, num_workers=int(num_workers))
        list(dm.train_dataloader())  # epoch 0, and threads in the parent
        model = Model()
        if devices == "2":
            options = {"devices": 2, "strategy": "ddp_fork"}
        else:
            options = {"devices": 1}
        runs = trainer(folder, max_epochs=2, enable_checkpointing=False, **options)

        def dump(self):
            rank = self.global_rank
            with open(f"{folder}/rank{rank}.json", "w") as file:
                json.dump(self.seen, file)

        Model.on_train_end = dump
        runs.fit(model, datamodule=dm)
        if devices == "1":
            found = torch.cat(runs.predict(model, datamodule=dm)).tolist()
            assert found == list(range(101)), found
            runs.save_checkpoint(f"{folder}/last.ckpt")
            other = ScxDataModule(path, 8, train_size=0.8)
            model.seen = {"train": [[]], "val": [[]]}
            trainer(folder, max_epochs=4, enable_checkpointing=False).fit(
                model, datamodule=other, ckpt_path=f"{folder}/last.ckpt"
            )
"""


def train(tmp_path: Path, path: Path, devices: int, num_workers: int = 0) -> list[dict[str, Any]]:
    script = tmp_path / "training.py"
    script.write_text(textwrap.dedent(TRAINING), encoding="utf-8")
    result = subprocess.run(
        [sys.executable, str(script), str(path), str(tmp_path), str(devices), str(num_workers)],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    files = [tmp_path / f"rank{rank}.json" for rank in range(devices)]
    return [json.loads(file.read_text(encoding="utf-8")) for file in files]


def test_two_processes_have_equal_numbers_of_batches(path: Path, tmp_path: Path) -> None:
    dm = ScxDataModule(path, 8, train_size=0.8)
    seen = train(tmp_path, path, devices=2, num_workers=1)
    for epoch in range(2):
        for part, cells in (("train", dm.train_idx), ("val", dm.val_idx)):
            first, second = (one[part][epoch] for one in seen)
            assert len(first) == len(second) > 0
            assert sorted(flat([*first, *second])) == cells.tolist()
    orders = [one["train"][epoch] for one in seen for epoch in range(2)]
    assert orders[0] != orders[1]
    expected = TrainingDataset(
        path, 8, rows=dm.train_idx, rank=0, world_size=2, min_batch=2, tail="merge"
    )
    expected.set_epoch(1)  # the parent has had epoch 0
    assert orders[:2] == [rows(expected), rows(expected)]


PREDICTING = """
    import sys, warnings
    warnings.simplefilter("ignore")
    import torch
    from training import Model, trainer
    from scx_train.lightning import ScxDataModule

    class Writing(Model):
        def on_predict_start(self):
            self.found = []

        def predict_step(self, batch, _):
            self.found += batch["cell_indices"].tolist()

        def on_predict_end(self):
            with open(f"{folder}/{n_cells}-{self.global_rank}.txt", "w") as file:
                file.write(" ".join(map(str, self.found)))

        def on_validation_start(self):
            self.seen["val"] = [[]]

        def on_validation_end(self):
            with open(f"{folder}/val{n_cells}-{self.global_rank}.txt", "w") as file:
                for batch in self.seen["val"][-1]:
                    print(*batch, file=file)

    if __name__ == "__main__":
        path, folder = sys.argv[1:]
        for n_cells in (17, 1):
            dm = ScxDataModule(path, 8, rows=list(range(n_cells)), tail="keep")
            options = {"devices": 2, "strategy": "ddp_fork", "enable_checkpointing": False}
            trainer(folder, **options).predict(Writing(), datamodule=dm, return_predictions=False)
        n_cells = 17
        dm = ScxDataModule(path, 8, validation_rows=list(range(n_cells)))
        trainer(folder, **options).validate(Writing(), datamodule=dm)
"""


def test_two_processes_predict_and_validate_every_cell_once(path: Path, tmp_path: Path) -> None:
    (tmp_path / "training.py").write_text(textwrap.dedent(TRAINING), encoding="utf-8")
    script = tmp_path / "predicting.py"
    script.write_text(textwrap.dedent(PREDICTING), encoding="utf-8")
    result = subprocess.run(
        [sys.executable, str(script), str(path), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert result.returncode == 0, result.stderr

    def written(name: str) -> list[str]:
        files = [tmp_path / f"{name}-{rank}.txt" for rank in (0, 1)]
        # a process without cells has nothing to predict, and Lightning does not begin
        return [file.read_text(encoding="utf-8") if file.exists() else "" for file in files]

    assert " ".join(written("17")).split() == [str(row) for row in range(17)]
    assert " ".join(written("1")).split() == ["0"]
    batches = [[line.split() for line in text.splitlines()] for text in written("val17")]
    # 8 cells for each, of which the tail of 1 is merged into the batch before it
    assert [[len(batch) for batch in of_rank] for of_rank in batches] == [[8], [9]]
    found = [int(row) for of_rank in batches for batch in of_rank for row in batch]
    assert sorted(found) == list(range(17))


def test_training_goes_on_with_the_epoch_of_a_checkpoint(path: Path, tmp_path: Path) -> None:
    (seen,) = train(tmp_path, path, devices=1)
    dm = ScxDataModule(path, 8, train_size=0.8)
    expected = TrainingDataset(path, 8, rows=dm.train_idx, min_batch=2, tail="merge")
    expected.set_epoch(2)
    assert seen["train"][:2] == [rows(expected), rows(expected)]
    assert flat(seen["val"][0]) == dm.val_idx.tolist()


def test_without_lightning_the_message_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("lightning.pytorch", "pytorch_lightning"):
        monkeypatch.setitem(sys.modules, name, None)  # as if it were not installed
    for name in ("scx_train.lightning", "scx_train.lightning.data_module"):
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ModuleNotFoundError) as raised:
        importlib.import_module("scx_train.lightning")
    assert str(raised.value) == (
        'scx_train.lightning needs Lightning: python -m pip install "scx-train[lightning]"'
    )


def test_pytorch_lightning_will_do(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytorch_lightning = pytest.importorskip("pytorch_lightning")
    monkeypatch.setitem(sys.modules, "lightning.pytorch", None)  # as if it were not installed
    for name in ("scx_train.lightning", "scx_train.lightning.data_module"):
        monkeypatch.setattr(name, sys.modules[name])  # what the import sets is put back later
        monkeypatch.delitem(sys.modules, name)
    module = importlib.import_module("scx_train.lightning")
    dm = module.ScxDataModule(path, 8)
    assert isinstance(dm, pytorch_lightning.LightningDataModule)
    assert not isinstance(dm, ScxDataModule)
    assert len(rows(dm.train_dataloader())) == 13
