"""Mapping strategies of the cell-load package as the source of plans."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import scx_core
from scx_train import IndexPlanDataset, PairBatch
from scx_train.torch import PlanIterable

strategies = pytest.importorskip("cell_load.mapping_strategies")
perturbation = pytest.importorskip("cell_load.dataset")

COLUMNS = ["gene", "cell_type", "gem_group"]
CONTROL = "non-targeting"


class Screen(NamedTuple):
    """The same cells in both formats, and as numpy has them after normalising."""

    h5ad: Path
    scx: Path
    obs: pd.DataFrame
    expected: np.ndarray[Any, Any]


@pytest.fixture(scope="module")
def screen(tmp_path_factory: pytest.TempPathFactory) -> Screen:
    """Type NK has no controls, batch 3 has none of type B."""
    rng = np.random.default_rng(0)
    n_obs = 600
    obs = pd.DataFrame(
        {
            "gene": rng.choice([CONTROL, "A", "B", "C"], n_obs),
            "cell_type": rng.choice(["T", "B", "NK"], n_obs),
            "gem_group": rng.choice(["1", "2", "3"], n_obs),
        },
        index=[f"cell{i}" for i in range(n_obs)],
    )
    lost = (obs["cell_type"] == "NK") | ((obs["cell_type"] == "B") & (obs["gem_group"] == "3"))
    obs.loc[lost & (obs["gene"] == CONTROL), "gene"] = "A"
    obs = obs.astype("category")
    counts = rng.poisson(1.0, (n_obs, 40)).astype(np.float32)
    folder = tmp_path_factory.mktemp("screen")
    adata = anndata.AnnData(sp.csr_matrix(counts), obs=obs)
    adata.write_h5ad(folder / "screen.h5ad")
    scx_core.from_h5ad(folder / "screen.h5ad", folder / "screen.scx", shard_size=50)
    scaled = counts.astype(np.float64) / counts.sum(axis=1, keepdims=True, dtype=np.float64)
    return Screen(folder / "screen.h5ad", folder / "screen.scx", obs, np.log1p(scaled * 1e4))


def dataset_of(screen: Screen, strategy: Any) -> Any:
    """A data set of cell-load that has told the strategy which cells there are."""
    dataset = perturbation.PerturbationDataset(
        "screen",
        screen.h5ad,
        strategy,
        pert_col="gene",
        cell_type_key="cell_type",
        batch_col="gem_group",
        control_pert=CONTROL,
        output_space="all",
        should_yield_control_cells=False,
    )
    is_control = (screen.obs["gene"] == CONTROL).to_numpy()
    dataset.to_subset_dataset("train", np.flatnonzero(~is_control), np.flatnonzero(is_control))
    return dataset


def plans_of(dataset: Any, batch_size: int) -> Iterator[list[tuple[int, int]]]:
    """Pairs as the strategy gives them, in the numbers that it gives."""
    plan: list[Any] = []
    for row in sorted(dataset.split_perturbed_indices["train"]):
        control = dataset.mapping_strategy.get_control_index(dataset, "train", row)
        if control is not None:
            plan.append((row, np.asarray(control).item()))
        if len(plan) == batch_size:
            yield plan
            plan = []
    if plan:
        yield plan


def check(batches: list[PairBatch], screen: Screen, *, same_batch: bool) -> None:
    pairs = [pair for batch in batches for pair in batch["pairs"]]
    obs = screen.obs
    able = (obs["gene"] != CONTROL) & (obs["cell_type"] != "NK")
    assert sorted(first for first, _ in pairs) == np.flatnonzero(able).tolist()
    for first, second in pairs:
        assert obs["gene"].iloc[second] == CONTROL
        assert obs["cell_type"].iloc[first] == obs["cell_type"].iloc[second]
        if same_batch and (obs["cell_type"].iloc[first], obs["gem_group"].iloc[first]) != (
            "B",
            "3",
        ):
            assert obs["gem_group"].iloc[first] == obs["gem_group"].iloc[second]
    for batch in batches:
        first, second = np.array(batch["pairs"]).T
        np.testing.assert_allclose(batch["X"], screen.expected[first], rtol=2e-6)
        np.testing.assert_allclose(batch["X_paired"], screen.expected[second], rtol=2e-6)
        for side, rows in ((batch["obs"], first), (batch["obs_paired"], second)):
            for name in COLUMNS:
                column: Any = side[name]
                labels = [column["categories"][code] for code in column["codes"]]
                assert labels == obs[name].iloc[rows].tolist()


@pytest.mark.parametrize("use_consecutive_loading", [False, True])
@pytest.mark.parametrize("name", ["RandomMappingStrategy", "BatchMappingStrategy"])
@pytest.mark.parametrize("lookahead", [0, 4])
def test_strategy(screen: Screen, name: str, use_consecutive_loading: bool, lookahead: int) -> None:
    strategy = getattr(strategies, name)(
        random_state=1, use_consecutive_loading=use_consecutive_loading
    )
    cells = dataset_of(screen, strategy)
    with IndexPlanDataset(screen.scx, obs_columns=COLUMNS) as dataset:
        batches = list(dataset.iter_with_plans(plans_of(cells, 64), lookahead=lookahead))
    assert [len(batch["pairs"]) for batch in batches[:-1]] == [64] * (len(batches) - 1)
    check(batches, screen, same_batch=name == "BatchMappingStrategy")


def test_a_strategy_of_ones_own(screen: Screen) -> None:
    class Nearest(strategies.BaseMappingStrategy):  # type: ignore[misc, name-defined]
        """The control of the same type with the closest row number; fails for other types."""

        def register_split_indices(self, dataset, split, perturbed_indices, control_indices):  # type: ignore[no-untyped-def]
            self.controls = control_indices

        def get_control_indices(self, dataset, split, perturbed_idx):  # type: ignore[no-untyped-def]
            return np.array([self.get_control_index(dataset, split, perturbed_idx)])

        def get_control_index(self, dataset, split, perturbed_idx):  # type: ignore[no-untyped-def]
            types = dataset.get_all_cell_type_codes(self.controls)
            own = self.controls[types == dataset.get_cell_type_code(perturbed_idx)]
            return own[np.abs(own - perturbed_idx).argmin()]

    cells = dataset_of(screen, Nearest())
    with IndexPlanDataset(screen.scx, sort_by_shard=False) as dataset:
        batches = dataset.iter_with_plans(plans_of(cells, 8))
        seen = []
        with pytest.raises(RuntimeError, match="plan iterator raised: ValueError") as caught:
            seen.extend(batches)
        assert isinstance(caught.value.__cause__, ValueError)


def test_in_a_loader(screen: Screen) -> None:
    """The strategy draws from its own generator: made anew in each epoch, by its number."""
    from torch.utils.data import DataLoader

    def plans(epoch: int) -> Iterator[list[tuple[int, int]]]:
        strategy = strategies.BatchMappingStrategy(random_state=epoch)
        return plans_of(dataset_of(screen, strategy), 32)

    pairs = PlanIterable(IndexPlanDataset, screen.scx, plans=plans, obs_columns=COLUMNS)
    epochs = []
    for _ in range(2):
        epoch = list(DataLoader(pairs, batch_size=None))
        for batch in epoch:
            batch["pairs"] = [tuple(pair) for pair in batch["pairs"].tolist()]
        check(epoch, screen, same_batch=True)
        epochs.append([pair for batch in epoch for pair in batch["pairs"]])
    assert sorted(epochs[0]) != sorted(epochs[1])
