"""ScxDataModule over several files: their cells, labels and genes as those of one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch

import scx_core
from scx_train import TrainingDataset, split
from scx_train.lightning import ScxDataModule

SIZES = (30, 41)
N_OBS = sum(SIZES)


@pytest.fixture(scope="module")
def cells() -> pd.DataFrame:
    rng = np.random.default_rng(2)
    donors = [rng.choice(["d2", "d1"], SIZES[0]), rng.choice(["d3", "d1"], SIZES[1])]
    return pd.DataFrame(
        {
            "donor": np.concatenate(donors),
            "plate": np.repeat([4, 7], SIZES),
            "age": rng.normal(40, 10, N_OBS),
        },
        index=[f"cell{row}" for row in range(N_OBS)],
    )


@pytest.fixture(scope="module")
def files(cells: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The second one lacks gene "a", has "e" besides, and another order."""
    folder = tmp_path_factory.mktemp("files")
    rng = np.random.default_rng(1)
    paths, start = [], 0
    for number, genes in enumerate([["a", "b", "c", "d"], ["d", "c", "b", "e"]]):
        size = SIZES[number]
        counts = rng.poisson(2, size=(size, 4)).astype(np.float32)
        obs = cells.iloc[start : start + size].copy()
        obs["donor"] = pd.Categorical(obs["donor"])
        adata = anndata.AnnData(sp.csr_matrix(counts), obs=obs, var=pd.DataFrame(index=genes))
        paths.append(folder / f"{number}.scx")
        scx_core.from_anndata(adata, paths[-1], shard_size=8)
        start += size
    return paths


def module_of(files: Any, **options: Any) -> ScxDataModule:
    return ScxDataModule(files, 16, normalize=False, log1p=False, **options)


def together(loader: Any) -> dict[str, torch.Tensor]:
    batches = list(loader)
    return {key: torch.cat([batch[key] for batch in batches]) for key in batches[0]}


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_cells_labels_and_genes(files: list[Path], cells: pd.DataFrame, num_workers: int) -> None:
    dm = module_of(
        files, genes="intersection", batch_key="donor", labels_key="plate",
        continuous_covariate_keys=["age"], num_workers=num_workers,
    )  # fmt: skip
    assert (dm.n_obs, dm.n_train, dm.n_vars) == (N_OBS, N_OBS, 3)
    assert list(dm.var_names) == ["b", "c", "d"]
    assert sorted(dm.batch_labels) == ["d1", "d2", "d3"]
    assert list(dm.labels) == [4, 7]
    with TrainingDataset(files, N_OBS, genes="intersection", shuffle=False, log1p=False,
                         normalize=False) as dataset:  # fmt: skip
        (expected,) = dataset
    found = together(dm.inference_dataloader())
    np.testing.assert_array_equal(found["X"], expected["X"])
    np.testing.assert_array_equal(found["cell_indices"], np.arange(N_OBS))
    np.testing.assert_array_equal(found["file_ids"], np.repeat([0, 1], SIZES))
    assert list(dm.batch_labels[found["batch"].ravel()]) == cells["donor"].tolist()
    assert list(dm.labels[found["labels"].ravel()]) == cells["plate"].tolist()
    np.testing.assert_allclose(found["extra_continuous_covs"].ravel(), cells["age"], rtol=1e-6)
    for _ in range(2):
        trained = together(dm.train_dataloader())
        order = torch.argsort(trained["cell_indices"])
        np.testing.assert_array_equal(trained["cell_indices"][order], np.arange(N_OBS))
        np.testing.assert_array_equal(trained["X"][order], expected["X"])


def test_every_entry_of_a_batch_has_a_row_for_each_cell(files: list[Path]) -> None:
    """Lightning takes the size of a batch from them; what is of files is a property."""
    dm = module_of(files, genes="union")
    batch = next(iter(dm.train_dataloader()))
    assert {len(value) for value in batch.values()} == {len(batch["X"])}
    expected = [[True] * 4 + [False], [False, True, True, True, True]]
    assert dm.measured.tolist() == expected
    assert list(dm.var_names) == ["a", "b", "c", "d", "e"]


def test_rows_are_those_of_all_files(files: list[Path], cells: pd.DataFrame) -> None:
    train, validation = split(files, [0.7, 0.3], group="donor", seed=1)
    dm = module_of(files, genes="intersection", rows=train, validation_rows=validation)
    assert together(dm.val_dataloader())["cell_indices"].tolist() == validation.tolist()
    assert sorted(together(dm.train_dataloader())["cell_indices"].tolist()) == train.tolist()
    donors = cells["donor"].to_numpy()
    assert not set(donors[dm.train_idx]) & set(donors[dm.val_idx])


def test_other_genes_are_refused(files: list[Path]) -> None:
    with pytest.raises(ValueError, match="genes"):
        module_of(files)
    with pytest.raises(ValueError, match="genes and gene_key match the genes of several files"):
        module_of(files[0], genes="union")
    with pytest.raises(TypeError, match=r"scx_path\[1\]"):
        module_of([files[0], 3])


def test_a_pattern_and_a_source_for_each_file(files: list[Path]) -> None:
    pattern = files[0].parent / "*.scx"
    assert module_of(pattern, genes="union").paths == tuple(map(str, sorted(files)))
    module = module_of(pattern, genes="union", source=["X"] * len(files))
    assert together(module.predict_dataloader())["X"].equal(
        together(module_of(sorted(files), genes="union").predict_dataloader())["X"]
    )
    with pytest.raises(ValueError, match=r"0\.scx twice"):
        module_of([pattern, files[0]])
    with pytest.raises(KeyError, match=r"no layer 'x'.*\n.*no layer 'x'"):
        module_of(pattern, source="layers/x")


def test_one_file_in_a_list(files: list[Path]) -> None:
    """Serves the same cells in the same order as the file alone."""
    alone, listed = (module_of(given) for given in (files[0], files[:1]))
    one, other = (together(dm.train_dataloader()) for dm in (alone, listed))
    assert torch.equal(one["X"], other["X"])
    assert torch.equal(one["cell_indices"], other["cell_indices"])
