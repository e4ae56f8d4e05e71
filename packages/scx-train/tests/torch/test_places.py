"""Which files, rows and genes batches speak of: data sets and what feeds loaders say the same."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path
from typing import Any

import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import scx_core
from scx_train import (
    IndexPlanDataset,
    MultimodalTrainingDataset,
    SparseCellSetDataset,
    TrainingDataset,
)
from scx_train.lightning import ScxDataModule
from scx_train.torch import MultimodalTrainingIterable, TrainingIterable

GENES = (["a", "b", "c"], ["c", "d", "b"])


def cells(number: int) -> anndata.AnnData:
    adata = anndata.AnnData(
        sp.csr_matrix(np.arange(1, 19 + 3 * number, dtype=np.float32).reshape(-1, 3)),
        var=pd.DataFrame(index=GENES[number]),
    )
    adata.obs["donor"] = f"donor {number}"
    return adata


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("places")
    for number in range(2):
        scx_core.from_anndata(cells(number), folder / f"{number}.scx", shard_size=2)
    return [folder / "0.scx", folder / "1.scx"]


@pytest.fixture(scope="module")
def multimodal_files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    import mudata

    folder = tmp_path_factory.mktemp("places")
    for number in range(2):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            mdata = mudata.MuData({"rna": cells(number), "adt": cells(0)[: 6 + number]})
            scx_core.from_mudata(mdata, folder / f"{number}.scx", shard_size=2)
    return [folder / "0.scx", folder / "1.scx"]


def test_feeds_of_one_matrix_say_what_the_data_set_says(files: list[Path]) -> None:
    options: dict[str, Any] = {"genes": "union", "hvg_indices": [0, 1, 3]}
    with TrainingDataset(files, **options) as dataset:
        assert dataset.row_offsets.tolist() == [0, 6, 13]
        iterable = TrainingIterable(files, **options)
        for other in (
            iterable,
            pickle.loads(pickle.dumps(iterable)),
            ScxDataModule(files, **options),
        ):
            assert other.paths == dataset.paths
            assert other.row_offsets.tolist() == dataset.row_offsets.tolist()
            assert other.var_names.tolist() == dataset.var_names.tolist() == ["a", "b", "d"]
            assert other.gene_matches == dataset.gene_matches
            assert len(other.gene_matches) == 2
    module = ScxDataModule(files, **options)
    for batch in module.predict_dataloader():
        own = batch["cell_indices"].numpy() - module.row_offsets[batch["file_ids"].numpy()]
        assert own.min() >= 0 and own.max() < 7


def test_feeds_of_modalities_say_what_the_data_set_says(multimodal_files: list[Path]) -> None:
    options: dict[str, Any] = {"genes": {"rna": "intersection"}}
    with MultimodalTrainingDataset(multimodal_files, **options) as dataset:
        iterable = MultimodalTrainingIterable(multimodal_files, **options)
        assert iterable.paths == dataset.paths
        assert iterable.row_offsets.tolist() == dataset.row_offsets.tolist() == [0, 6, 13]
        assert iterable.gene_matches == dataset.gene_matches
        names = {name: found.tolist() for name, found in iterable.var_names.items()}
        assert names == {"rna": ["b", "c"], "adt": ["a", "b", "c"]}


def test_names_of_genes_of_pairs(files: list[Path]) -> None:
    with IndexPlanDataset(files[1], hvg_indices=[0, 2]) as dataset:
        assert dataset.var_names.tolist() == ["c", "b"]
    assert dataset.paths == (str(files[1]),)
    with pytest.raises(RuntimeError, match="closed"):
        _ = dataset.var_names


def test_files_of_sets(files: list[Path]) -> None:
    with SparseCellSetDataset(files) as dataset:
        assert dataset.n_files == 2
    assert dataset.paths == tuple(map(str, files))


def test_columns_in_no_order_are_refused(files: list[Path]) -> None:
    for argument in ("categorical_covariate_keys", "continuous_covariate_keys"):
        with pytest.raises(TypeError, match=f"{argument} must be a list .*set, which has no order"):
            ScxDataModule(files[0], **{argument: {"donor"}})
    module = ScxDataModule(files[0], categorical_covariate_keys={"donor": 0}.keys())
    assert module.n_cats_per_cov == [1]
