"""PlanIterable over a SparseCellSetDataset: each plan once, with and without workers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from scx_train import SparseCellSetDataset
from scx_train.torch import PlanIterable

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:This DataLoader will create .* worker:UserWarning"),
]


def plans() -> list[tuple[Any, ...]]:
    """Sets of rows of both files; the tag of each row is the number of its plan."""
    rng = np.random.default_rng(5)
    result = []
    for number in range(23):
        n_rows = int(rng.integers(1, 9))
        files, rows = rng.integers(0, 2, n_rows), rng.integers(0, 101, n_rows)
        cut = int(rng.integers(0, n_rows + 1))
        result.append((files, rows, np.full(n_rows, number), np.array([0, cut, n_rows])))
    return result


@pytest.mark.parametrize(
    ("num_workers", "method"), [(0, None), (2, "fork"), (1, "spawn"), (1, "forkserver")]
)
def test_every_plan_once_an_epoch_and_in_order(
    make_file: Callable[..., Path], num_workers: int, method: str | None
) -> None:
    path = make_file(101)
    paths = [str(path), str(path)]
    given = plans()
    with SparseCellSetDataset(paths) as dataset:
        expected: list[Any] = [dataset.gather(*plan) for plan in given]
    iterable = PlanIterable(SparseCellSetDataset, paths, plans=given)
    batches: Any = DataLoader(
        iterable, batch_size=None, num_workers=num_workers, multiprocessing_context=method
    )
    for _ in range(2):
        found = list(batches)
        assert [int(batch["role_tags"][0]) for batch in found] == list(range(len(given)))
        for batch, wanted in zip(found, expected, strict=True):
            assert batch.keys() == wanted.keys()
            # of tuples the DataLoader makes lists
            assert tuple(batch.pop("shape")) == wanted["shape"]
            for name, array in wanted.items():
                if name == "shape":
                    continue
                assert isinstance(batch[name], torch.Tensor)
                assert batch[name].numpy().dtype == array.dtype
                np.testing.assert_array_equal(batch[name].numpy(), array)
