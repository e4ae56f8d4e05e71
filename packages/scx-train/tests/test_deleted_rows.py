"""Rows that are marked as deleted never come, and the others keep their numbers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import scx_core
from scx_core.experiment._to_mudata import no_columns_pulled
from scx_train import IndexPlanDataset, MultimodalTrainingDataset, TrainingDataset, split

GONE = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 42, 100]  # the first shard is empty then
LIVE = np.setdiff1d(np.arange(101), GONE)


@pytest.fixture
def path(make_file: Callable[..., Path]) -> Path:
    obs = pd.DataFrame(
        {
            "number": np.arange(101),
            "label": pd.Categorical(
                ["gone" if row in GONE else "ab"[row % 2] for row in range(101)]
            ),
        }
    )
    path = make_file(101, obs=obs)
    assert scx_core.mark_deleted(path, GONE) == len(GONE)
    return path


def rows_of(dataset: TrainingDataset) -> list[int]:
    return [int(row) for batch in dataset for row in batch["cell_indices"]]


@pytest.mark.parametrize("shuffle", [True, False])
def test_every_living_cell_once(path: Path, shuffle: bool) -> None:
    dataset = TrainingDataset(path, 16, shuffle=shuffle, obs_columns=["number"], normalize=False)
    assert (dataset.n_obs, dataset.n_obs_physical) == (88, 101)
    assert len(dataset) == 6
    seen = []
    with scx_core.open(path, include_deleted=True) as experiment:
        assert experiment.X is not None
        values = np.log1p(experiment.X.toarray())
    for batch in dataset:
        rows = batch["cell_indices"]
        np.testing.assert_array_equal(batch["obs"]["number"], rows)
        np.testing.assert_allclose(batch["X"], values[rows], rtol=1e-6)
        seen += rows.tolist()
    assert sorted(seen) == LIVE.tolist()
    if not shuffle:
        assert seen == LIVE.tolist()


def test_the_order_is_that_of_a_choice_of_rows(
    path: Path, expected_rows: Callable[..., list[int]]
) -> None:
    dataset = TrainingDataset(path, 16, shard_group_size=3, seed=5)
    wanted = expected_rows(
        101, shard_size=10, group_size=3, seed=5, epoch=0, chosen=set(LIVE.tolist())
    )
    assert rows_of(dataset) == wanted


def test_rows_by_mask_and_by_number(path: Path) -> None:
    mask = np.zeros(101, dtype=bool)
    mask[[3, 42, 50, 60]] = True
    assert rows_of(TrainingDataset(path, rows=mask, shuffle=False)) == [50, 60]
    assert rows_of(TrainingDataset(path, rows=[60, 50], shuffle=False)) == [50, 60]
    with pytest.raises(ValueError, match="rows holds 42, which is marked as deleted"):
        TrainingDataset(path, rows=[50, 42])
    mask[[50, 60]] = False
    with pytest.raises(ValueError, match="no cell"):
        TrainingDataset(path, rows=mask)


def test_split_gives_living_rows(path: Path) -> None:
    parts = split(path, [0.75, 0.25])
    assert sorted(np.concatenate(parts).tolist()) == LIVE.tolist()
    parts = split(path, [0.5, 0.5], stratify="label")
    assert sorted(np.concatenate(parts).tolist()) == LIVE.tolist()
    odd = [int((part % 2).sum()) for part in parts]
    assert abs(odd[0] - odd[1]) <= 1
    parts = split(path, [0.5, 0.5], group="label")  # the label of the deleted is no group
    assert {tuple(np.unique(part % 2)) for part in parts} == {(0,), (1,)}
    assert rows_of(TrainingDataset(path, rows=parts[0]))


def test_weights_and_labels_count_living_cells_alone(path: Path) -> None:
    balanced = TrainingDataset(path, 16, balance_by="label")
    drawn = rows_of(balanced)
    assert len(drawn) == 88 and not set(drawn) & set(GONE)
    weights = np.ones(101)
    weights[GONE] = 1e9
    assert not set(rows_of(TrainingDataset(path, 16, weights=weights))) & set(GONE)
    weights = np.zeros(101)
    weights[GONE] = 1
    with pytest.raises(ValueError, match="0 for all cells"):
        TrainingDataset(path, 16, weights=weights)
    by_label = TrainingDataset(path, 16, batch_by="label")
    labels = [set((batch["cell_indices"] % 2).tolist()) for batch in by_label]
    assert all(len(found) == 1 for found in labels)
    assert sorted(rows_of(by_label)) == LIVE.tolist()


def test_pflog_is_estimated_from_living_cells(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    counts = rng.negative_binomial(2, 0.3, size=(200, 20)).astype(np.float32)
    counts[::3] *= 50
    path, without = tmp_path / "a.scx", tmp_path / "b.scx"
    scx_core.from_anndata(anndata.AnnData(sp.csr_matrix(counts)), path, shard_size=32)
    scx_core.mark_deleted(path, np.arange(0, 200, 3))
    scx_core.compact(path, without)
    alphas = [TrainingDataset(each, pflog=True).pflog_alpha for each in (path, without)]
    assert alphas[0] == pytest.approx(alphas[1], rel=1e-12)


def test_strange_values_of_deleted_cells_do_not_warn(
    make_file: Callable[..., Path], recwarn: pytest.WarningsRecorder
) -> None:
    counts = np.ones((8, 3), dtype=np.float32)
    counts[2] = -0.5
    path = make_file(matrix=sp.csr_matrix(counts), shard_size=4)
    scx_core.mark_deleted(path, [2])
    assert len(rows_of(TrainingDataset(path))) == 7
    assert not [warning for warning in recwarn if issubclass(warning.category, UserWarning)]


def test_a_data_set_goes_on_with_what_it_opened(path: Path) -> None:
    dataset = TrainingDataset(path, 16)
    state = dataset.state_dict()
    scx_core.mark_deleted(path, [50])
    assert 50 in rows_of(dataset)
    dataset.close()
    with pytest.raises(RuntimeError, match="build a new one"):
        iter(dataset)
    anew = TrainingDataset(path, 16)
    assert 50 not in rows_of(anew)
    with pytest.raises(ValueError, match="other content"):
        anew.load_state_dict(state)


def test_cells_of_a_modality(tmp_path: Path) -> None:
    mudata = pytest.importorskip("mudata")
    rng = np.random.default_rng(0)
    parts: dict[str, Any] = {}
    for name, cells in (("a", range(30)), ("b", range(39, 9, -1))):
        part = anndata.AnnData(sp.csr_matrix(rng.poisson(2.0, (30, 4)).astype(np.float32)))
        part.obs_names = [f"cell {cell}" for cell in cells]
        part.var_names = [f"{name}{gene}" for gene in range(4)]
        part.obs["own"] = list(cells)
        part.obsm["own"] = np.array(cells, dtype=float)[:, None]
        parts[name] = part
    with no_columns_pulled():
        mdata = mudata.MuData(parts)
    path = tmp_path / "cells.scx"
    scx_core.from_mudata(mdata, path, shard_size=8)
    scx_core.mark_deleted(path, [0, 12, 35])
    numbers = np.array([int(name.removeprefix("cell ")) for name in mdata.obs_names])
    dataset = TrainingDataset(path, 8, modality="b", obs_columns=["own"], obsm=["own"])
    seen = []
    for batch in dataset:
        rows = batch["cell_indices"]
        np.testing.assert_array_equal(batch["obs"]["own"], numbers[rows])
        np.testing.assert_array_equal(batch["obsm"]["own"][:, 0], numbers[rows])
        seen += rows.tolist()
    measured = np.flatnonzero((numbers >= 10) & (numbers < 40))
    assert sorted(seen) == np.setdiff1d(measured, [0, 12, 35]).tolist()
    both = MultimodalTrainingDataset(path, batch_size=8)
    assert sorted(rows_of(both)) == np.setdiff1d(np.arange(40), [0, 12, 35]).tolist()


def test_plans_that_name_a_deleted_row(path: Path) -> None:
    dataset = IndexPlanDataset(path, normalize=False)
    assert (dataset.n_obs, dataset.n_obs_physical) == (88, 101)
    (batch,) = dataset.iter_with_plans([[(10, 50), (60, 11)]])
    assert sorted(batch["pairs"]) == [(10, 50), (60, 11)]
    with pytest.raises(IndexError, match="has row 42, which is marked as deleted"):
        list(dataset.iter_with_plans([[(10, 42)]]))
