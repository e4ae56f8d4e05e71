"""Cells of other files through a trained model of scvi-tools, as they go through it as AnnData."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
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
from scx_train.lightning import ScxDataModule, load_model

N_OBS, N_VARS = 400, 60
COVARIATES = {
    "size_factor_key": "size",
    "categorical_covariate_keys": ["sex", "lane"],
    "continuous_covariate_keys": ["age", "score"],
}

pytestmark = [
    pytest.mark.filterwarnings(f"ignore:{message}")
    for message in (
        "Your `IterableDataset` has `__len__` defined",
        "The number of training batches",
        "The '.*_dataloader' does not have many workers",
        "`isinstance.treespec, LeafSpec.` is deprecated",
        ".*does not have a `val_dataloader`",
        "Total length of .* across ranks is zero",
        "Found .* in eval mode at the start of training",
        "GPU available but not used",
        ".*litlogger",
        "You are using the Torch Version of MrVI",
        "MRVI model is being",
        "Category .* has fewer than 3 cells",
    )
]


def cells_of(rng: np.random.Generator, n_obs: int, batches: list[str]) -> anndata.AnnData:
    """Cells of two kinds in these batches; numbers and categories of each follow from nothing."""
    kind = rng.integers(0, 2, n_obs)
    profiles = np.random.default_rng(0).gamma(0.3, 20, (2, N_VARS))
    counts = rng.poisson(profiles[kind]).astype(np.float32)
    obs = pd.DataFrame(
        {
            "batch": pd.Categorical(rng.choice(batches, n_obs), categories=batches),
            "kind": pd.Categorical(np.array(["beta", "alpha"])[kind]),
            "sex": pd.Categorical(rng.choice(["m", "f"], n_obs)),
            "lane": rng.choice([3, 7, 9], n_obs),
            "age": rng.normal(0, 1, n_obs),
            "score": rng.normal(0, 1, n_obs),
            "size": rng.uniform(0.5, 2, n_obs),
        },
        index=[f"cell{row}" for row in range(n_obs)],
    )
    adata = anndata.AnnData(sp.csr_matrix(counts), obs=obs)
    adata.var_names = [f"gene{place}" for place in range(N_VARS)]
    return adata


@pytest.fixture(scope="module")
def old() -> anndata.AnnData:
    return cells_of(np.random.default_rng(1), N_OBS, ["a", "b", "c"])


@pytest.fixture(scope="module")
def new() -> anndata.AnnData:
    """Batches b and c alone, in another order; of the genes 54, in another order, and a new one."""
    rng = np.random.default_rng(2)
    adata = cells_of(rng, 90, ["c", "b"])
    adata.obs["sex"] = adata.obs["sex"].cat.set_categories(["m", "f"])
    adata = adata[:, rng.permutation(N_VARS)[:54]].copy()
    adata.var_names = [*adata.var_names[:53], "another"]
    return adata


@pytest.fixture(scope="module")
def paths(
    old: anndata.AnnData, new: anndata.AnnData, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("files")
    for name, adata in {"old": old, "new": new}.items():
        scx_core.from_anndata(adata, folder / f"{name}.scx", shard_size=32)
    return {name: folder / f"{name}.scx" for name in ("old", "new")}


def counts_of(path: Any, **options: Any) -> ScxDataModule:
    return ScxDataModule(path, 64, normalize=False, log1p=False, **options)


def file_of(adata: anndata.AnnData, path: Path) -> Path:
    scx_core.from_anndata(adata, path, shard_size=32)
    return path


def train(model: Any, **options: Any) -> None:
    model.train(max_epochs=1, accelerator="cpu", enable_progress_bar=False, logger=None, **options)


def padded(adata: anndata.AnnData, peer: Any) -> anndata.AnnData:
    """The same cells with the model's genes, as scvi-tools does it.

    It finds covariates by name, but not where all that differs is the order of the categories:
    pandas holds such unordered categoricals for the same.
    """
    adata = type(peer).prepare_query_anndata(adata.copy(), peer, inplace=False)
    adata.obs["sex"] = adata.obs["sex"].cat.set_categories(["f", "m"])
    return adata


def same_weights(peer: Any, model: Any) -> Any:
    peer.module.load_state_dict(model.module.state_dict())
    peer.module.eval()
    peer.is_trained_ = True
    return peer


@torch.no_grad()
def means(model: Any, batches: Any) -> np.ndarray:
    """The mean of each count: it depends on batches, covariates and size factors."""
    found = []
    for batch in batches:
        inferred = model.module.inference(**model.module._get_inference_input(batch))
        inferred["z"] = inferred["qz"].loc
        inputs = model.module._get_generative_input(batch, inferred)
        found.append(model.module.generative(**inputs)["px"].mean.numpy())
    return np.concatenate(found)


@pytest.fixture(scope="module")
def model(paths: dict[str, Path]) -> Any:
    """One in which every column of a cell changes where the cell lies."""
    scvi.settings.seed = 0
    dm = counts_of(paths["old"], batch_key="batch", labels_key="kind", **COVARIATES)
    model = scvi.model.SCVI(registry=dm.registry, encode_covariates=True)
    train(model, datamodule=dm)
    return model


@pytest.fixture(scope="module")
def peer(old: anndata.AnnData, model: Any) -> Any:
    """The same model, of the AnnData."""
    source = old.copy()
    scvi.model.SCVI.setup_anndata(source, batch_key="batch", labels_key="kind", **COVARIATES)
    return same_weights(scvi.model.SCVI(source, encode_covariates=True), model)


def test_cells_of_another_file(
    new: anndata.AnnData, paths: dict[str, Path], model: Any, peer: Any
) -> None:
    source = padded(new, peer)
    expected = peer.get_latent_representation(source)
    dm = counts_of(paths["new"], registry=model.registry)
    assert list(dm.var_names) == [f"gene{place}" for place in range(N_VARS)]
    assert list(dm.batch_labels) == ["a", "b", "c"]
    assert dm.n_batch == 3
    theirs = list(peer._make_data_loader(source, batch_size=64))
    for our, their in zip(dm.inference_dataloader(), theirs, strict=True):
        for key in ("X", "batch", "labels", "size_factor", "extra_categorical_covs",
                    "extra_continuous_covs"):  # fmt: skip
            assert torch.equal(our[key], their[key].to(our[key].dtype)), key
    found = model.get_latent_representation(dataloader=dm.inference_dataloader())
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    # Codes of its own are other ones, and change the result: the test can fail.
    alone = counts_of(paths["new"], genes=None, batch_key="batch", labels_key="kind", **COVARIATES)
    assert not torch.equal(next(iter(alone.inference_dataloader()))["batch"], theirs[0]["batch"])


def test_the_registry_of_a_model_of_an_anndata(
    new: anndata.AnnData, paths: dict[str, Path], peer: Any
) -> None:
    expected = peer.get_latent_representation(padded(new, peer))
    dm = counts_of(paths["new"], registry=peer.registry)
    found = peer.get_latent_representation(dataloader=dm.inference_dataloader())
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_a_model_that_was_saved_is_loaded_as_it_was(
    paths: dict[str, Path], model: Any, tmp_path: Path
) -> None:
    trained_on = counts_of(paths["old"], registry=model.registry)
    with pytest.warns(UserWarning, match="forgets size_factor_key and more than one of cat"):
        saved = trained_on.for_saving
    model.save(str(tmp_path / "model"), datamodule=saved)
    loaded = load_model(scvi.model.SCVI, tmp_path / "model")
    assert loaded.is_trained
    dm = counts_of(paths["new"], registry=scvi.model.SCVI.load_registry(str(tmp_path / "model")))
    for each in (
        lambda one: one.get_latent_representation(dataloader=dm.inference_dataloader()),
        lambda one: means(one, dm.inference_dataloader()),
    ):
        np.testing.assert_array_equal(each(loaded), each(model))
    assert list(loaded.get_var_names()) == list(model.get_var_names())
    with pytest.raises(ValueError, match="another class than TorchMRVI"):
        load_model(scvi.external.TorchMRVI, tmp_path / "model")


def test_a_model_of_an_anndata_is_not_loaded(peer: Any, tmp_path: Path) -> None:
    peer.save(str(tmp_path / "model"))
    with pytest.raises(ValueError, match=r"not trained from a data module: load it by SCVI\.load"):
        load_model(scvi.model.SCVI, tmp_path / "model")


def test_means_with_size_factors(
    new: anndata.AnnData, paths: dict[str, Path], model: Any, peer: Any
) -> None:
    source = padded(new, peer)
    peer.get_latent_representation(source)  # sets it up
    expected = means(peer, peer._make_data_loader(source, batch_size=64))
    dm = counts_of(paths["new"], registry=model.registry)
    np.testing.assert_allclose(means(model, dm.inference_dataloader()), expected, rtol=1e-3)


@pytest.mark.parametrize("semi_supervised", [False, True])
def test_checkpoints(paths: dict[str, Path], tmp_path: Path, semi_supervised: bool) -> None:
    name = "SCANVI" if semi_supervised else "SCVI"
    dm = counts_of(
        paths["old"], batch_key="batch", labels_key="kind", train_size=0.8, model_name=name
    )
    kind = getattr(scvi.model, name)
    model = kind(registry=dm.registry, **({"datamodule": dm} if semi_supervised else {}))
    with scvi_folder(tmp_path):
        train(model, datamodule=dm, enable_checkpointing=True)
    assert "save" not in vars(model)
    (checkpoint,) = tmp_path.glob("*_validation_loss/epoch=*")
    loaded = load_model(kind, checkpoint)
    assert loaded.is_trained
    first, again = (
        one.get_latent_representation(dataloader=dm.inference_dataloader())
        for one in (model, loaded)
    )
    np.testing.assert_array_equal(again, first)


@contextmanager
def scvi_folder(folder: Path) -> Iterator[None]:
    before = scvi.settings.logging_dir
    scvi.settings.logging_dir = str(folder)
    try:
        yield
    finally:
        scvi.settings.logging_dir = before


@pytest.fixture(scope="module")
def labelled(old: anndata.AnnData, paths: dict[str, Path]) -> Any:
    """A SCANVI model that was trained on labelled cells alone."""
    dm = counts_of(paths["old"], batch_key="batch", labels_key="kind", model_name="SCANVI")
    model = scvi.model.SCANVI(registry=dm.registry, datamodule=dm)
    assert model.n_labels == 2
    train(model, datamodule=dm)
    return model


@pytest.fixture(scope="module")
def partly_labelled(old: anndata.AnnData, tmp_path_factory: pytest.TempPathFactory) -> Any:
    source = old.copy()
    source.obs["kind"] = source.obs["kind"].where(np.arange(N_OBS) % 3 > 0)
    path = file_of(source, tmp_path_factory.mktemp("partly") / "cells.scx")
    dm = counts_of(path, batch_key="batch", labels_key="kind", model_name="SCANVI")
    model = scvi.model.SCANVI(registry=dm.registry, datamodule=dm)
    assert model.n_labels == 2
    train(model, datamodule=dm)
    return model


@pytest.mark.parametrize("given", ["labels", "gaps", "unlabeled", "no column"])
@pytest.mark.parametrize("reference", ["labelled", "partly_labelled"])
def test_labels_are_predicted(
    new: anndata.AnnData,
    old: anndata.AnnData,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    given: str,
    reference: str,
) -> None:
    model = request.getfixturevalue(reference)
    source = old.copy()
    if reference == "partly_labelled":
        kinds = source.obs["kind"].astype(str)
        kinds = kinds.where(np.arange(N_OBS) % 3 > 0, "Unknown")
        source.obs["kind"] = pd.Categorical(kinds, categories=["alpha", "beta", "Unknown"])
    setup = {"batch_key": "batch", "labels_key": "kind", "unlabeled_category": "Unknown"}
    scvi.model.SCANVI.setup_anndata(source, **setup)
    peer = same_weights(scvi.model.SCANVI(source), model)
    cells = new.copy()
    if given == "gaps":
        cells.obs["kind"] = pd.Categorical([None] * cells.n_obs, categories=["alpha"])
    elif given == "unlabeled":
        cells.obs["kind"] = "Unknown"
    elif given == "no column":
        del cells.obs["kind"]
    file = file_of(cells, tmp_path / "new.scx")
    if given == "no column":
        with pytest.warns(UserWarning, match="no obs column 'kind': all cells .* for 'Unknown'"):
            dm = counts_of(file, registry=model.registry)
    else:
        dm = counts_of(file, registry=model.registry)
    cells.obs["kind"] = new.obs["kind"] if given == "labels" else "Unknown"
    theirs = padded(cells, peer)
    found = model.predict(dataloader=dm.inference_dataloader())
    assert found.tolist() == peer.predict(theirs).tolist()
    assert np.mean(found == new.obs["kind"]) > 0.5
    np.testing.assert_allclose(
        model.get_latent_representation(dataloader=dm.inference_dataloader()),
        peer.get_latent_representation(theirs),
        rtol=1e-4, atol=1e-5,
    )  # fmt: skip
    assert set(dm.labels_) == (set(new.obs["kind"]) if given == "labels" else {"Unknown"})


def test_a_model_of_labels_is_loaded_without_a_data_module(
    paths: dict[str, Path], partly_labelled: Any, tmp_path: Path
) -> None:
    dm = counts_of(paths["old"], registry=partly_labelled.registry)  # none of them is unlabelled
    partly_labelled.save(str(tmp_path / "model"), datamodule=dm.for_saving)
    loaded = load_model(scvi.model.SCANVI, tmp_path / "model")
    assert loaded.n_labels == loaded.module.n_labels == 2
    first, again = (
        one.predict(dataloader=dm.inference_dataloader()) for one in (partly_labelled, loaded)
    )
    assert again.tolist() == first.tolist()
    train(loaded, datamodule=dm)  # goes on from there


@pytest.mark.parametrize("is_labelled", [True, False])
@pytest.mark.parametrize("name", ["SCVI", "SCANVI"])
def test_query_data(
    old: anndata.AnnData, new: anndata.AnnData, tmp_path: Path, labelled: Any,
    paths: dict[str, Path], name: str, is_labelled: bool,
) -> None:  # fmt: skip
    """The recipe of the README, beside scvi-tools' own way."""
    kind = getattr(scvi.model, name)
    if name == "SCANVI":
        reference, options = labelled, {"unlabeled_category": "Unknown"}
    else:
        dm = counts_of(paths["old"], batch_key="batch", labels_key="kind")
        reference, options = kind(registry=dm.registry), {}
        train(reference, datamodule=dm)
    cells = new.copy()
    cells.obs["batch"] = cells.obs["batch"].cat.rename_categories({"c": "z"})
    if not is_labelled and name == "SCANVI":
        cells.obs["kind"] = "Unknown"
    dm = counts_of(
        file_of(cells, tmp_path / "new.scx"), registry=reference.registry, extend_categories=True
    )
    assert list(dm.batch_labels) == ["a", "b", "c", "z"]
    query = kind.load_query_data(
        reference_model=reference,
        registry={**dm.registry, "setup_method_name": "setup_anndata"},
        **({"datamodule": dm} if name == "SCANVI" else {}),
    )
    query.registry_ = dm.registry

    source = old.copy()
    kind.setup_anndata(source, batch_key="batch", labels_key="kind", **options)
    peer = kind.load_query_data(
        padded(cells, reference_like := same_weights(kind(source), reference)), reference_like
    )
    ours, theirs = query.module.state_dict(), peer.module.state_dict()
    assert {key: value.shape for key, value in ours.items()} == {
        key: value.shape for key, value in theirs.items()
    }
    learning = {key for key, value in query.module.named_parameters() if value.requires_grad}
    assert learning == {key for key, value in peer.module.named_parameters() if value.requires_grad}
    same_weights(peer, query)
    query.is_trained_ = True
    expected = peer.get_latent_representation()
    found = query.get_latent_representation(dataloader=dm.inference_dataloader())
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    query.is_trained_ = False
    before = {key: value.clone() for key, value in query.module.named_parameters()}
    train(query, datamodule=dm, plan_kwargs={"weight_decay": 0.0})
    changed = {
        key for key, value in query.module.named_parameters() if not torch.equal(value, before[key])
    }
    assert changed and changed <= learning
    query.save(str(tmp_path / "query"), datamodule=dm.for_saving)
    loaded = load_model(kind, tmp_path / "query")
    first, again = (
        one.get_latent_representation(dataloader=dm.inference_dataloader())
        for one in (query, loaded)
    )
    np.testing.assert_array_equal(again, first)


def test_samples_of_mrvi(old: anndata.AnnData, new: anndata.AnnData, tmp_path: Path) -> None:
    old, new = old.copy(), new.copy()
    new = new[:, [name for name in new.var_names if name != "another"]].copy()
    for cells in (old, new):
        cells.obs["sample"] = "s" + cells.obs["lane"].astype(str)
    new = new[new.obs["sample"] != "s3"].copy()
    dm = counts_of(
        file_of(old, tmp_path / "old.scx"), sample_key="sample", batch_key="batch",
        model_name="TorchMRVI",
    )  # fmt: skip
    assert dm.n_samples == 3
    model = scvi.external.MRVI(registry=dm.registry)
    train(model, datamodule=dm)
    source = old.copy()
    scvi.external.MRVI.setup_anndata(source, sample_key="sample", batch_key="batch")
    peer = scvi.external.MRVI(source)
    assert model.summary_stats.n_sample == peer.summary_stats.n_sample == 3
    assert model.n_obs_per_sample.tolist() == peer.n_obs_per_sample.tolist()
    same_weights(peer, model)
    other = counts_of(file_of(new, tmp_path / "new.scx"), registry=model.registry)
    found = model.get_latent_representation(dataloader=other.inference_dataloader(), give_z=True)
    theirs = padded(new, peer)
    theirs.obs["_indices"] = np.arange(theirs.n_obs)
    expected = peer.get_latent_representation(theirs, give_z=True)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    model.save(str(tmp_path / "model"), datamodule=dm.for_saving)
    loaded = load_model(scvi.external.TorchMRVI, tmp_path / "model")
    again = loaded.get_latent_representation(dataloader=other.inference_dataloader(), give_z=True)
    np.testing.assert_array_equal(again, found)


def changed(adata: anndata.AnnData, column: str, values: Any) -> anndata.AnnData:
    adata = adata.copy()
    adata.obs[column] = values
    return adata


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("batch", "z", r"batch_key: obs column 'batch' holds 'z' for 90 cells, which the model .* "
         r"knows 'a', 'b', 'c': .* extend_categories=True"),
        ("kind", "gamma", "labels_key: obs column 'kind' holds 'gamma'"),
        ("lane", 4, "categorical_covariate_keys: obs column 'lane' holds '4' .* knows '3', '7'"),
        ("age", np.nan, "continuous_covariate_keys: obs column 'age' is missing or infinite"),
        ("size", 0.0, "size_factor_key: obs column 'size' is not above 0 for 90 cells"),
    ],
)  # fmt: skip
def test_what_the_model_does_not_know(
    new: anndata.AnnData, model: Any, tmp_path: Path, column: str, value: Any, message: str
) -> None:
    path = file_of(changed(new, column, value), tmp_path / "new.scx")
    with pytest.raises(ValueError, match=message):
        counts_of(path, registry=model.registry)


def test_a_new_label_is_never_learned_by_a_model_of_labels(
    new: anndata.AnnData, labelled: Any, tmp_path: Path
) -> None:
    path = file_of(changed(new, "kind", "gamma"), tmp_path / "new.scx")
    for extend in (False, True):
        with pytest.raises(ValueError, match="holds 'gamma' for 90 cells") as caught:
            counts_of(path, registry=labelled.registry, extend_categories=extend)
        assert "extend_categories" not in str(caught.value)


def test_cells_that_the_model_does_not_know_may_be_left_out(
    new: anndata.AnnData, model: Any, tmp_path: Path
) -> None:
    batch = new.obs["batch"].astype(str)
    batch[:40] = "z"
    path = file_of(changed(new, "batch", batch), tmp_path / "new.scx")
    dm = counts_of(path, registry=model.registry, rows=np.arange(40, 90))
    (found,) = dm.inference_dataloader()
    assert dm.batch_labels[found["batch"].ravel()].tolist() == batch[40:].tolist()


@pytest.mark.parametrize("column", ["batch", "sex", "age", "size", "kind"])
def test_columns_that_a_file_lacks(
    new: anndata.AnnData, model: Any, tmp_path: Path, column: str
) -> None:
    cells = new.copy()
    del cells.obs[column]
    path = file_of(cells, tmp_path / "new.scx")
    with pytest.raises(KeyError, match=f"obs has no column '{column}'"):
        counts_of(path, registry=model.registry)


def test_columns_of_other_names(
    new: anndata.AnnData, paths: dict[str, Path], model: Any, tmp_path: Path
) -> None:
    named = {"batch": "donor", "kind": "type", "sex": "gender", "lane": "track", "age": "years"}
    cells = new.copy()
    cells.obs = cells.obs.rename(columns=named)
    path = file_of(cells, tmp_path / "new.scx")
    dm = counts_of(
        path, registry=model.registry, batch_key="donor", labels_key="type",
        categorical_covariate_keys=["gender", "track"],
        continuous_covariate_keys=["years", "score"],
    )  # fmt: skip
    same = counts_of(paths["new"], registry=model.registry)
    for our, expected in zip(dm.inference_dataloader(), same.inference_dataloader(), strict=True):
        assert our.keys() == expected.keys()
        for key in our:
            assert torch.equal(our[key], expected[key]), key
    with pytest.raises(ValueError, match=r"names 1 obs columns, but .* 2: name .* sex, lane"):
        counts_of(path, registry=model.registry, categorical_covariate_keys=["gender"])


def test_labels_that_are_numbers_or_text(old: anndata.AnnData, tmp_path: Path) -> None:
    """Batches 3, 7 and 9 as whole numbers, a categorical of numbers, text, with a gap as floats."""
    lanes = old.obs["lane"]
    dm = counts_of(file_of(old, tmp_path / "old.scx"), batch_key="lane")
    assert dm.batch_labels.tolist() == [3, 7, 9]
    few = old[(lanes > 3).to_numpy()].copy()
    for number, values in enumerate(
        [few.obs["lane"], few.obs["lane"].astype("category"), few.obs["lane"].astype(str)]
    ):
        path = file_of(changed(few, "lane", values), tmp_path / f"{number}.scx")
        other = counts_of(path, registry=dm.registry)
        codes = torch.cat([batch["batch"] for batch in other.inference_dataloader()])
        assert other.batch_labels[codes.ravel()].tolist() == few.obs["lane"].tolist()
    new_lanes = changed(few, "lane", few.obs["lane"].replace({7: 11}))
    path = file_of(new_lanes, tmp_path / "more.scx")
    extended = counts_of(path, registry=dm.registry, extend_categories=True)
    assert extended.batch_labels.tolist() == [3, 7, 9, 11]


def test_booleans(old: anndata.AnnData, tmp_path: Path) -> None:
    given = np.arange(N_OBS) % 2 > 0
    source = changed(old, "treated", given)
    scvi.model.SCVI.setup_anndata(source, batch_key="treated")
    registry = scvi.model.SCVI(source).registry
    for number, values in enumerate([given[1:], pd.Categorical(given[1:])]):
        path = file_of(changed(old[1:], "treated", values), tmp_path / f"{number}.scx")
        codes = [b["batch"] for b in counts_of(path, registry=registry).inference_dataloader()]
        assert torch.cat(codes).ravel().tolist() == given[1:].astype(int).tolist()


def test_few_genes_warn_and_none_are_refused(
    new: anndata.AnnData, model: Any, tmp_path: Path
) -> None:
    few = file_of(new[:, :20].copy(), tmp_path / "few.scx")
    with pytest.warns(UserWarning, match=r"has 20 of the 60 genes of the model") as caught:
        dm = counts_of(few, registry=model.registry)
    assert caught[0].filename == __file__
    (found, *_) = dm.inference_dataloader()
    assert found["X"].shape[1] == N_VARS
    measured = [name in set(new.var_names[:20]) for name in dm.var_names]
    assert dm.measured.tolist() == [measured]
    assert not found["X"][:, ~torch.tensor(measured)].any()
    other = new.copy()
    other.var_names = [f"other{place}" for place in range(other.n_vars)]
    with pytest.raises(ValueError, match=r"none of the genes .* look like gene0, gene1, gene2"):
        counts_of(file_of(other, tmp_path / "other.scx"), registry=model.registry)


@pytest.mark.filterwarnings("ignore:Variable names are not unique")
def test_genes_that_come_twice_need_the_same_order(old: anndata.AnnData, tmp_path: Path) -> None:
    source = old.copy()
    source.var_names = ["gene0", *source.var_names[:-1]]
    path = file_of(source, tmp_path / "old.scx")
    registry = counts_of(path, batch_key="batch").registry
    (same, *_) = counts_of(path, registry=registry).inference_dataloader()
    np.testing.assert_array_equal(same["X"], source.X[:64].toarray())
    other = file_of(source[:, ::-1].copy(), tmp_path / "other.scx")
    with pytest.raises(ValueError, match="has gene 'gene0' more than once"):
        counts_of(other, registry=registry)


def test_several_files(
    old: anndata.AnnData, new: anndata.AnnData, paths: dict[str, Path], model: Any
) -> None:
    dm = counts_of([paths["new"], paths["old"]], registry=model.registry)
    batches = list(dm.inference_dataloader())
    codes = torch.cat([batch["batch"] for batch in batches]).ravel()
    expected = [*new.obs["batch"], *old.obs["batch"]]
    assert dm.batch_labels[codes].tolist() == expected
    assert torch.cat([batch["file_ids"] for batch in batches]).sum() == N_OBS


def test_the_matrix_is_that_of_the_model(old: anndata.AnnData, tmp_path: Path) -> None:
    cells = old.copy()
    cells.layers["counts"] = cells.X.copy()
    cells.X = cells.X.log1p()
    cells.var["id"] = [f"id{place}" for place in range(N_VARS)]
    path = file_of(cells, tmp_path / "old.scx")
    dm = counts_of([path], source="layers/counts", gene_key="id", batch_key="batch")
    registry = dm.registry
    turned = file_of(cells[:, ::-1].copy(), tmp_path / "turned.scx")
    other = counts_of(turned, registry=registry)
    assert list(other.var_names) == list(cells.var["id"])
    (found, *_) = other.inference_dataloader()
    np.testing.assert_array_equal(found["X"], old.X[:64].toarray())
    with pytest.warns(UserWarning, match="which are no counts"):
        counts_of(path, registry=registry, source="X")


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"hvg_indices": [0]}, ValueError, "genes are those of registry: leave hvg_indices out"),
        ({"genes": "union"}, ValueError, "leave genes out"),
        ({"sample_key": "lane"}, ValueError, "trained without sample_key: leave it out"),
        ({"layout": "csr"}, ValueError, "need dense batches"),
        ({"registry": {"a": 1}}, TypeError, r"pass registry=model\.registry"),
        ({"registry": None, "extend_categories": True}, ValueError, "goes with the registry"),
    ],
)
def test_arguments_that_do_not_fit(
    paths: dict[str, Path], model: Any, options: dict[str, Any], error: Any, message: str
) -> None:
    with pytest.raises(error, match=message):
        counts_of(paths["new"], **{"registry": model.registry, **options})


@pytest.mark.filterwarnings("ignore:We recommend using setup_mudata")
def test_a_model_that_reads_more_is_refused(old: anndata.AnnData, paths: dict[str, Path]) -> None:
    source = old.copy()
    source.obsm["proteins"] = np.ones((N_OBS, 3))
    scvi.model.TOTALVI.setup_anndata(source, protein_expression_obsm_key="proteins")
    registry = scvi.model.TOTALVI(source).registry
    with pytest.raises(ValueError, match="a TOTALVI model, which reads proteins"):
        counts_of(paths["new"], registry=registry)


def test_values_that_are_no_counts_warn(paths: dict[str, Path], model: Any) -> None:
    with pytest.warns(UserWarning, match="are normalised, but models") as caught:
        ScxDataModule(paths["new"], registry=model.registry)
    assert caught[0].filename == __file__
