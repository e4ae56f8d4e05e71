"""Order and values of whole epochs for every combination of transforms.

The order is that of the loops in conftest.py, the values are those of numpy in float64, and of
scanpy where it has the transform.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anndata
import numpy as np
import numpy.typing as npt
import pytest
import scipy.sparse as sp

import scx_core
from scx_train import TrainingDataset

N_OBS, N_VARS, SHARD_SIZE = 101, 30, 10
TRANSFORMS: dict[str, dict[str, Any]] = {
    "counts": {"normalize": False, "log1p": False},
    "log1p": {"normalize": False, "log1p": True},
    "normalize": {"normalize": True, "log1p": False},
    "normalize and log1p": {"normalize": True, "log1p": True},
    "normalize to 100": {"normalize": True, "log1p": False, "target_sum": 100.0},
    "normalize to 100 and log1p": {"normalize": True, "log1p": True, "target_sum": 100.0},
    "pflog": {"pflog": True, "pflog_alpha": 0.7},
    "pflog before all": {"pflog": True, "pflog_alpha": 0.7, "normalize": False, "log1p": True},
    "pflog estimated": {"pflog": True},
}


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, npt.NDArray[np.float64]]:
    rng = np.random.default_rng(3)
    counts = rng.negative_binomial(1.5, 0.4, size=(N_OBS, N_VARS)).astype(np.float32)
    counts[rng.random(N_OBS) < 0.05] = 0
    path = tmp_path_factory.mktemp("cells") / "cells.scx"
    scx_core.from_anndata(anndata.AnnData(sp.csr_matrix(counts)), path, shard_size=SHARD_SIZE)
    return path, counts.astype(np.float64)


def by_numpy(counts: npt.NDArray[np.float64], options: dict[str, Any]) -> Any:
    if options.get("pflog"):
        alpha = options.get("pflog_alpha")
        if alpha is None:
            mean, variance = counts.mean(axis=0), counts.var(axis=0, ddof=1)
            alpha = np.sum(mean**2 * (variance - mean)) / np.sum(mean**4)
        logs = np.log1p(4 * alpha * counts)
        return logs - logs.mean(axis=1, keepdims=True)
    values = counts
    if options["normalize"]:
        totals = counts.sum(axis=1, keepdims=True)
        values = values * options.get("target_sum", 1e4) / np.where(totals > 0, totals, 1)
    return np.log1p(values) if options["log1p"] else values


def by_scanpy(counts: npt.NDArray[np.float64], options: dict[str, Any]) -> Any:
    import scanpy as sc

    adata = anndata.AnnData(sp.csr_matrix(counts.astype(np.float32)))
    if options["normalize"]:
        sc.pp.normalize_total(adata, target_sum=options.get("target_sum", 1e4))
    if options["log1p"]:
        sc.pp.log1p(adata)
    return adata.X.toarray()


@pytest.mark.filterwarnings("ignore:Some cells have zero counts")
@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("panel", [None, [0, 4, 5, 29]], ids=["all genes", "panel"])
@pytest.mark.parametrize("layout", ["dense", "csr"])
@pytest.mark.parametrize("group_size", [1, 3])
def test_epochs(
    cells: tuple[Path, npt.NDArray[np.float64]],
    expected_rows: Callable[..., list[int]],
    transform: str,
    panel: list[int] | None,
    layout: str,
    group_size: int,
) -> None:
    path, counts = cells
    options = TRANSFORMS[transform]
    pflog = options.get("pflog", False)
    more: dict[str, Any] = {"layout": layout, "hvg_indices": panel, "seed": 11}
    if pflog and layout == "csr":
        with pytest.raises(ValueError, match="exclude each other"):
            TrainingDataset(path, 8, **options, **more)
        return
    columns = slice(None) if panel is None else panel
    wanted = by_numpy(counts, options)[:, columns]
    if not pflog:
        np.testing.assert_allclose(by_scanpy(counts, options)[:, columns], wanted, rtol=2e-6)
    with TrainingDataset(
        path, 8, shard_group_size=group_size, threads=2, **options, **more
    ) as dataset:
        for epoch in range(2):
            rows: list[int] = []
            for batch in dataset:
                x = batch["X"].toarray() if layout == "csr" else batch["X"]
                assert x.dtype == np.float32
                at = batch["cell_indices"]
                np.testing.assert_allclose(x, wanted[at], rtol=1e-6, atol=1e-6 if pflog else 0)
                rows += at.tolist()
            order = {"shard_size": SHARD_SIZE, "group_size": group_size, "seed": 11}
            assert rows == expected_rows(N_OBS, epoch=epoch, **order)
