"""Files that are cut while an epoch or a gather reads them."""

from __future__ import annotations

import os
from pathlib import Path

import anndata
import numpy as np
import pytest
import scipy.sparse as sp

import scx_core
from scx_core._errors import FileBusyError
from scx_train import SparseCellSetDataset, TrainingDataset

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows lets nobody cut a mapped file")


@pytest.fixture
def paths(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / f"{number}.scx" for number in range(2)]
    for seed, path in enumerate(paths):
        values = np.random.default_rng(seed).poisson(1.0, (2000, 100)).astype(np.float32)
        scx_core.from_anndata(anndata.AnnData(sp.csr_matrix(values)), path, shard_size=250)
    return paths


@pytest.mark.parametrize("n_files", [1, 2])
@pytest.mark.parametrize("hidden", [False, True])
def test_an_epoch(paths: list[Path], n_files: int, *, hidden: bool) -> None:
    dataset = TrainingDataset(paths[:n_files], batch_size=32, seed=0)
    epoch = iter(dataset)
    next(epoch)
    name = last = paths[n_files - 1]
    if hidden:  # nothing but the pages themselves tell
        last = last.rename(last.with_suffix(".hidden"))
    os.truncate(last, last.stat().st_size // 3)
    with pytest.raises(FileBusyError, match=f"{name.name}.*was cut or overwritten"):
        list(epoch)
    with pytest.raises(FileBusyError, match=name.name):
        list(dataset)


@pytest.mark.parametrize("hidden", [False, True])
def test_sets_of_cells(paths: list[Path], *, hidden: bool) -> None:
    dataset = SparseCellSetDataset(paths)
    plan = ([0, 0, 1], [1, 2, 3], [0, 0, 0], [0, 3])
    assert dataset.gather(*plan)["indptr"].tolist()[0] == 0
    last = paths[1]
    if hidden:
        last = last.rename(last.with_suffix(".hidden"))
    os.truncate(last, 0)
    with pytest.raises(FileBusyError, match=r"1\.scx"):
        dataset.gather(*plan)
