"""Models of scvi-tools, trained from a file and from the AnnData that it was made of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import scvi
import torch

import scx_core
from scx_train.lightning import ScxDataModule

N_OBS, N_VARS = 600, 100

pytestmark = [
    pytest.mark.filterwarnings(f"ignore:{message}")
    for message in (
        "Your `IterableDataset` has `__len__` defined",
        "The number of training batches",
        "The '.*_dataloader' does not have many workers",
        "`isinstance.treespec, LeafSpec.` is deprecated",
        ".*does not have a `val_dataloader`",
        "Total length of `DataLoader` across ranks is zero",
        "GPU available but not used",
        ".*litlogger",
    )
]


def simulated_cells() -> anndata.AnnData:
    """Three types of cells in two batches: gamma-Poisson counts over a wide range of depths."""
    rng = np.random.default_rng(0)
    kind, batch = rng.integers(0, 3, N_OBS), rng.integers(0, 2, N_OBS)
    profiles = rng.gamma(0.3, 1, (3, N_VARS))
    profiles /= profiles.sum(axis=1, keepdims=True)
    shift = np.stack([np.ones(N_VARS), rng.lognormal(0, 0.3, N_VARS)])
    mean = profiles[kind] * shift[batch] * rng.lognormal(6, 0.4, N_OBS)[:, None]
    counts = rng.poisson(rng.gamma(2, mean / 2)).astype(np.float32)
    obs = pd.DataFrame(
        {
            "batch": pd.Categorical(np.array(["x", "y"])[batch]),
            "kind": pd.Categorical(np.array(["a", "b", "Unknown"])[kind]),
            "sex": pd.Categorical(np.array(["m", "f"])[rng.integers(0, 2, N_OBS)]),
            "age": rng.normal(40, 10, N_OBS),
        },
        index=[f"cell{i}" for i in range(N_OBS)],
    )
    adata = anndata.AnnData(sp.csr_matrix(counts), obs=obs)
    adata.var_names = [f"gene{i}" for i in range(N_VARS)]
    return adata


@pytest.fixture(scope="module")
def adata() -> anndata.AnnData:
    return simulated_cells()


@pytest.fixture(scope="module")
def path(adata: anndata.AnnData, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("cells") / "cells.scx"
    logged = adata.copy()
    logged.layers["logged"] = logged.X.log1p()
    scx_core.from_anndata(logged, file, shard_size=64)
    return file


def counts_of(path: Path, **options: Any) -> ScxDataModule:
    options = {"batch_size": 128, "normalize": False, "log1p": False, **options}
    return ScxDataModule(path, **options)


def train(model: Any, max_epochs: int, **options: Any) -> None:
    model.train(
        max_epochs=max_epochs,
        accelerator="cpu",
        enable_progress_bar=False,
        enable_model_summary=False,
        logger=None,
        **options,
    )


def losses(model: Any, name: str) -> np.ndarray:
    return model.history[name].to_numpy(float).ravel()


KEYS = {"batch_key": "batch", "labels_key": "kind"}


@pytest.fixture(scope="module")
def trained(path: Path) -> tuple[Any, ScxDataModule]:
    dm = counts_of(path, **KEYS, train_size=0.9)
    scvi.settings.seed = 0
    model = scvi.model.SCVI(registry=dm.registry)
    train(model, 5, datamodule=dm, check_val_every_n_epoch=1)
    return model, dm


def test_the_loss_is_that_of_training_from_the_anndata(
    adata: anndata.AnnData, trained: tuple[Any, ScxDataModule]
) -> None:
    model, dm = trained
    source = adata.copy()
    scvi.model.SCVI.setup_anndata(source, **KEYS)
    scvi.settings.seed = 0
    peer = scvi.model.SCVI(source)
    splits = {"external_indexing": [dm.train_idx, dm.val_idx]}
    train(peer, 5, batch_size=128, check_val_every_n_epoch=1, datasplitter_kwargs=splits)
    for name in ("elbo_train", "elbo_validation"):
        ours, theirs = losses(model, name), losses(peer, name)
        assert len(ours) == len(theirs) == 5
        assert np.all(np.diff(ours) < 0)  # it learns
        # Other batches in another order; one epoch changes the loss by 4 %.
        np.testing.assert_allclose(ours, theirs, rtol=0.02)
    assert (model.train_indices == dm.train_idx).all()


def test_results_are_in_file_order_and_those_of_the_anndata(
    adata: anndata.AnnData, trained: tuple[Any, ScxDataModule]
) -> None:
    model, dm = trained
    source = adata.copy()
    scvi.model.SCVI.setup_anndata(source, **KEYS)
    peer = scvi.model.SCVI(source)
    peer.module.load_state_dict(model.module.state_dict())
    peer.module.eval()
    peer.is_trained_ = True
    latent = model.get_latent_representation(dataloader=dm.inference_dataloader())
    np.testing.assert_allclose(latent, peer.get_latent_representation(), rtol=1e-4, atol=1e-5)


def test_batches_are_those_of_scvis_own_loader(adata: anndata.AnnData, path: Path) -> None:
    covariates = {
        "categorical_covariate_keys": ["sex", "kind"],
        "continuous_covariate_keys": ["age"],
    }
    source = adata.copy()
    scvi.model.SCVI.setup_anndata(source, batch_key="batch", **covariates)
    peer = scvi.model.SCVI(source)
    dm = counts_of(path, batch_key="batch", **covariates)
    theirs = list(peer._make_data_loader(source, indices=range(N_OBS), batch_size=128))
    ours = list(dm.inference_dataloader())
    assert len(ours) == len(theirs) == 5
    for our, their in zip(ours, theirs, strict=True):
        for key in ("X", "batch", "labels", "extra_categorical_covs", "extra_continuous_covs"):
            assert torch.equal(our[key], their[key].to(our[key].dtype)), key
    model = scvi.model.SCVI(registry=dm.registry)
    for key, value in peer.summary_stats.items():
        assert model.summary_stats[key] == value, key
    assert [weights.shape for weights in model.module.parameters()] == [
        weights.shape for weights in peer.module.parameters()
    ]
    train(model, 1, datamodule=dm)
    assert np.isfinite(losses(model, "elbo_train")).all()


def semi_supervised(path: Path, **options: Any) -> ScxDataModule:
    return counts_of(path, **KEYS, model_name="SCANVI", **options)


def test_pairs_of_batches(adata: anndata.AnnData, path: Path) -> None:
    dm = semi_supervised(path, train_size=0.9)
    kinds = adata.obs["kind"].to_numpy()
    labeled = np.flatnonzero(kinds != "Unknown")
    for loader, cells in ((dm.train_dataloader(), dm.train_idx), (dm.val_dataloader(), dm.val_idx)):
        pairs = [pair for pair, _, _ in loader]
        everything = torch.cat([pair[0]["cell_indices"] for pair in pairs]).tolist()
        assert sorted(everything) == cells.tolist()
        known = torch.cat([pair[1]["cell_indices"] for pair in pairs]).tolist()
        assert set(known) == set(np.intersect1d(cells, labeled))
        for _, batch in pairs:
            found = dm.labels[batch["labels"].ravel()]
            assert found.tolist() == kinds[batch["cell_indices"]].tolist()
    (first, *_) = dm.inference_dataloader()
    assert isinstance(first, dict)


def accuracy(predicted: np.ndarray, kinds: np.ndarray) -> float:
    """Of the cells that were labeled."""
    known = kinds != "Unknown"
    return float(np.mean(predicted[known] == kinds[known]))


def test_a_model_that_learns_from_labels(adata: anndata.AnnData, path: Path) -> None:
    dm = semi_supervised(path, train_size=0.9)
    scvi.settings.seed = 0
    model = scvi.model.SCANVI(registry=dm.registry, datamodule=dm)
    train(model, 5, datamodule=dm, check_val_every_n_epoch=1)
    source = adata.copy()
    scvi.model.SCANVI.setup_anndata(source, **KEYS, unlabeled_category="Unknown")
    scvi.settings.seed = 0
    peer = scvi.model.SCANVI(source)
    assert model.n_labels == peer.n_labels == 2  # "Unknown" is none
    splits = {"external_indexing": [dm.train_idx, dm.val_idx, np.array([], int)]}
    train(peer, 5, batch_size=128, check_val_every_n_epoch=1, datasplitter_kwargs=splits)
    for name in ("elbo_train", "elbo_validation"):
        ours, theirs = losses(model, name), losses(peer, name)
        assert np.all(np.diff(ours) < 0)  # it learns
        np.testing.assert_allclose(ours, theirs, rtol=0.02)
    ours, theirs = (losses(each, "train_classification_loss") for each in (model, peer))
    assert len(ours) == 5 and ours[-1] < ours[0] / 4 and theirs[-1] < theirs[0] / 4
    kinds = adata.obs["kind"].to_numpy()
    predicted = model.predict(dataloader=dm.inference_dataloader())
    assert accuracy(predicted, kinds) > 0.98
    assert accuracy(peer.predict(), kinds) > 0.98
    assert set(predicted) == {"a", "b"}


def test_a_model_that_learns_from_labels_after_one_that_does_not(
    adata: anndata.AnnData, path: Path, trained: tuple[Any, ScxDataModule]
) -> None:
    pretrained, _ = trained
    dm = semi_supervised(path)
    model = scvi.model.SCANVI.from_scvi_model(
        pretrained, "Unknown", adata=False, registry=dm.registry, datamodule=dm
    )
    train(model, 2, datamodule=dm)
    predicted = model.predict(dataloader=dm.inference_dataloader())
    assert accuracy(predicted, adata.obs["kind"].to_numpy()) > 0.95


@pytest.mark.parametrize(
    ("name", "built_for", "message"),
    [
        ("SCVI", "SCANVI", r"'SCANVI' and gives pairs .* \(VAE\) takes one .* without model_name"),
        (
            "SCANVI",
            "SCVI",
            r"no batches of labeled cells, but .* \(SCANVAE\) .*model_name='SCANVI'",
        ),
    ],
)
def test_a_data_module_for_another_model(
    path: Path, name: str, built_for: str, message: str
) -> None:
    dm = counts_of(path, **KEYS, model_name=built_for, train_size=0.9)
    options = {"datamodule": dm} if name == "SCANVI" else {}
    model = getattr(scvi.model, name)(registry=dm.registry, **options)
    with pytest.raises(RuntimeError, match=message):
        train(model, 1, datamodule=dm)


def test_labels_that_are_not_there(path: Path) -> None:
    with pytest.raises(ValueError, match="model_name='SCANVI' learns from labels"):
        counts_of(path, model_name="SCANVI")
    with pytest.raises(ValueError, match="no cell of training has a label in labels_key='sex'"):
        counts_of(
            path,
            labels_key="sex",
            model_name="SCANVI",
            rows=[0],
            unlabeled_category=counts_of(path, labels_key="sex", rows=[0]).labels_[0],
        )


def test_a_saved_model_of_some_genes(path: Path, tmp_path: Path) -> None:
    dm = counts_of(path, **KEYS, hvg_indices=np.arange(0, N_VARS, 2))
    model = scvi.model.SCVI(registry=dm.registry)
    train(model, 1, datamodule=dm)
    latent = model.get_latent_representation(dataloader=dm.inference_dataloader())
    model.save(str(tmp_path / "model"), save_anndata=False, datamodule=dm.for_saving)
    loaded = scvi.model.SCVI.load(str(tmp_path / "model"), adata=False, accelerator="cpu")
    again = loaded.get_latent_representation(dataloader=dm.inference_dataloader())
    np.testing.assert_array_equal(again, latent)
    assert list(loaded.get_var_names()) == [f"gene{i}" for i in range(0, N_VARS, 2)]


@pytest.mark.parametrize("some_unlabeled", [True, False])
def test_a_saved_model_that_learned_from_labels(
    path: Path, tmp_path: Path, some_unlabeled: bool
) -> None:
    key = "kind" if some_unlabeled else "sex"  # two labels each, and some "Unknown" of kind
    dm = counts_of(path, labels_key=key, model_name="SCANVI")
    model = scvi.model.SCANVI(registry=dm.registry, datamodule=dm)
    train(model, 1, datamodule=dm)
    folder = str(tmp_path / "model")
    model.save(folder, save_anndata=False, datamodule=dm.for_saving)
    loaded = scvi.model.SCANVI.load(folder, adata=False, datamodule=dm, accelerator="cpu")
    for each in ("predict", "get_latent_representation"):
        first, again = (
            getattr(one, each)(dataloader=dm.inference_dataloader()) for one in (model, loaded)
        )
        np.testing.assert_array_equal(again, first)
    assert loaded.n_labels == loaded.module.n_labels == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"normalize": True}, "are normalised, but models of scvi-tools need counts"),
        ({"log1p": True}, "pass normalize=False, log1p=False"),
        ({"source": "layers/logged"}, "holds values such as .*, which are no counts"),
    ],
)
def test_a_model_of_counts_warns_of_other_values(
    path: Path, options: dict[str, Any], message: str
) -> None:
    dm = counts_of(path, **options)
    with pytest.warns(UserWarning, match=message) as caught:
        assert dm.registry["setup_method_name"] == "setup_datamodule"
    assert caught[0].filename == __file__


@pytest.mark.parametrize(
    ("options", "message"),
    [({"layout": "csr"}, "layout='csr', but .* dense"), ({"dtype": "float16"}, "need float32")],
)
def test_batches_that_no_model_takes(path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        counts_of(path, **options).registry  # noqa: B018


def test_what_stands_for_a_manager_of_an_anndata(path: Path) -> None:
    dm = counts_of(path)
    assert not hasattr(dm, "adata_manager")
    with pytest.raises(AttributeError, match=r"SCVI\(registry=dm\.registry\)"):
        scvi.model.SCVI(dm.adata_manager)


def test_the_name_of_pyscx() -> None:
    from pyscx.scx_integrations.scvi import ScxDataModule as published

    assert published is ScxDataModule
