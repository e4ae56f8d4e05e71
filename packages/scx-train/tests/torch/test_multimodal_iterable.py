"""Several modalities in DataLoaders: the batches of the data set as tensors, for any workers."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from scx_train import MultimodalTrainingDataset
from scx_train.torch import MultimodalTrainingIterable

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]


@pytest.mark.parametrize(("num_workers", "method"), [(0, None), (2, "fork"), (1, "spawn")])
def test_batches_are_those_of_the_data_set(
    multimodal: tuple[Any, Path], num_workers: int, method: str | None
) -> None:
    _, path = multimodal
    options: dict[str, Any] = {
        "batch_size": 9,
        "seed": 4,
        "normalize": {"adt": False},
        "hvg_indices": {"rna": [1, 2, 7]},
        "obs_columns": ["adt:note"],
    }
    iterable = MultimodalTrainingIterable(path, ["rna", "adt"], **options)
    assert iterable.n_vars == {"rna": 30, "adt": 8}
    assert iterable.n_output_genes == {"rna": 3, "adt": 8}
    loader = DataLoader(
        iterable, batch_size=None, num_workers=num_workers, multiprocessing_context=method
    )
    with MultimodalTrainingDataset(path, ["rna", "adt"], **options) as dataset:
        assert len(loader) == len(dataset) == 7
        for _ in range(2):
            for found, wanted in zip(loader, dataset, strict=True):
                assert isinstance(wanted, dict)
                for key in ("X", "measured"):
                    assert list(found[key]) == ["rna", "adt"]
                    for name in found[key]:
                        assert isinstance(found[key][name], torch.Tensor)
                        np.testing.assert_array_equal(found[key][name], wanted[key][name])
                np.testing.assert_array_equal(found["cell_indices"], wanted["cell_indices"])
                codes, labels = found["obs"]["adt:note"].values()
                np.testing.assert_array_equal(codes, wanted["obs"]["adt:note"]["codes"])
                assert labels == wanted["obs"]["adt:note"]["categories"]


def test_tuples(multimodal: tuple[Any, Path]) -> None:
    iterable = MultimodalTrainingIterable(multimodal[1], batch_size=60, return_dict=False)
    ((rna, adt, rest),) = iterable
    assert rna.shape == (60, 30) and adt.shape == (60, 8)
    assert rest["measured"]["rna"].dtype == torch.bool
    with pytest.raises(TypeError, match="num_shards is not an option here"):
        MultimodalTrainingIterable(multimodal[1], num_shards=2)
    with pytest.raises(TypeError, match="modalities='rna' must be a list"):
        MultimodalTrainingIterable(multimodal[1], "rna")


@pytest.mark.parametrize(("num_workers", "method"), [(0, None), (2, "fork"), (1, "spawn")])
def test_several_files(multimodal: tuple[Any, Path], num_workers: int, method: str | None) -> None:
    _, path = multimodal
    other = path.with_name("other.scx")
    shutil.copy(path, other)
    options: dict[str, Any] = {
        "batch_size": 9,
        "genes": {"rna": "intersection", "adt": ["protein 3", "protein 0"]},
        "dtype": {"adt": "bfloat16"},
        "obs_columns": ["adt:note"],
    }
    iterable = MultimodalTrainingIterable([path, other], **options)
    assert iterable.n_obs == 120 and iterable.n_output_genes == {"rna": 30, "adt": 2}
    loader = DataLoader(
        iterable, batch_size=None, num_workers=num_workers, multiprocessing_context=method
    )
    options["dtype"] = "float32"
    with MultimodalTrainingDataset([path, other], **options) as dataset:
        for found, wanted in zip(loader, dataset, strict=True):
            assert isinstance(wanted, dict)
            assert found["X"]["adt"].dtype == torch.bfloat16
            expected = torch.from_numpy(wanted["X"]["adt"]).to(torch.bfloat16)
            assert torch.equal(found["X"]["adt"], expected)
            np.testing.assert_array_equal(found["X"]["rna"], wanted["X"]["rna"])
            np.testing.assert_array_equal(found["cell_indices"], wanted["cell_indices"])
            np.testing.assert_array_equal(found["file_ids"], wanted["file_ids"])
            assert found["measured_genes"]["adt"].shape == (2, 2)
            assert found["measured_genes"]["adt"].dtype == torch.bool


def test_an_overdispersion_is_estimated_once(multimodal: tuple[Any, Path]) -> None:
    iterable = MultimodalTrainingIterable(multimodal[1], pflog={"adt": True})
    with MultimodalTrainingDataset(multimodal[1], pflog={"adt": True}) as dataset:
        assert iterable._options["pflog_alpha"] == dataset.pflog_alpha
    (batch,) = iterable
    assert torch.isfinite(batch["X"]["adt"]).all()


def test_going_on(multimodal: tuple[Any, Path]) -> None:
    first = MultimodalTrainingIterable(multimodal[1], batch_size=8)
    batches = iter(first)
    next(batches)
    second = MultimodalTrainingIterable(multimodal[1], batch_size=8)
    second.load_state_dict(first.state_dict())
    for one, two in zip(batches, second, strict=True):
        np.testing.assert_array_equal(one["cell_indices"], two["cell_indices"])
