"""What a batch of pairs holds, beside numpy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import scx_core
from scx_train import IndexPlanDataset, TrainingDataset

MakeFile = Callable[..., Path]
N_OBS, N_VARS, SHARD = 101, 30, 10


def counts_of(path: Path) -> np.ndarray[Any, Any]:
    return scx_core.open(path).to_anndata().X.toarray().astype(np.float64)


def normalised(counts: np.ndarray[Any, Any], target_sum: float = 1e4) -> np.ndarray[Any, Any]:
    totals = counts.sum(axis=1, keepdims=True)
    return counts * np.divide(target_sum, totals, out=np.ones_like(totals), where=totals > 0)


def random_plans(n_plans: int, *, seed: int = 0, n_obs: int = N_OBS) -> list[list[tuple[int, int]]]:
    rng = np.random.default_rng(seed)
    return [
        [(int(a), int(b)) for a, b in rng.integers(0, n_obs, (rng.integers(1, 40), 2))]
        for _ in range(n_plans)
    ]


def sorted_by_shard(plan: list[tuple[int, int]]) -> list[tuple[int, int]]:
    return sorted(plan, key=lambda pair: min(pair[0] // SHARD, pair[1] // SHARD))


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("log1p", [True, False])
@pytest.mark.parametrize("panel", [None, [0, 3, 4, 29]])
def test_values(make_file: MakeFile, normalize: bool, log1p: bool, panel: list[int] | None) -> None:
    path = make_file(N_OBS)
    expected = counts_of(path)
    if normalize:
        expected = normalised(expected, 500.0)
    if log1p:
        expected = np.log1p(expected)
    if panel is not None:
        expected = expected[:, panel]
    plans = random_plans(12)
    options: dict[str, Any] = {"normalize": normalize, "log1p": log1p, "target_sum": 500.0}
    with IndexPlanDataset(path, hvg_indices=panel, **options) as dataset:
        batches = list(dataset.iter_with_plans(plans))
        assert dataset.n_output_genes == expected.shape[1]
    assert len(batches) == len(plans)
    for batch, plan in zip(batches, plans, strict=True):
        assert list(batch) == ["X", "X_paired", "pairs", "obs", "obs_paired"]
        assert batch["pairs"] == sorted_by_shard(plan)
        assert type(batch["pairs"]) is list
        assert all(type(pair) is tuple and type(pair[0]) is int for pair in batch["pairs"])
        for key, side in (("X", 0), ("X_paired", 1)):
            values = batch[key]  # type: ignore[literal-required]
            assert values.dtype == np.float32 and values.shape == (len(plan), expected.shape[1])
            assert values.flags.c_contiguous and values.flags.writeable
            rows = [pair[side] for pair in batch["pairs"]]
            np.testing.assert_allclose(values, expected[rows], rtol=1e-6)


def test_defaults_are_those_of_the_training_data_set(make_file: MakeFile) -> None:
    path = make_file(N_OBS)
    with TrainingDataset(path, N_OBS, shuffle=False) as training:
        expected = next(iter(training))["X"]
    with IndexPlanDataset(path) as dataset:
        batch = next(dataset.iter_with_plans([[(row, N_OBS - 1 - row) for row in range(N_OBS)]]))
        order = [pair[0] for pair in batch["pairs"]]
        np.testing.assert_array_equal(batch["X"], expected[order])
        np.testing.assert_array_equal(batch["X_paired"], expected[[N_OBS - 1 - i for i in order]])


def test_plans_in_their_own_order(make_file: MakeFile) -> None:
    plans = random_plans(20, seed=1)
    with IndexPlanDataset(make_file(N_OBS), sort_by_shard=False) as dataset:
        assert [batch["pairs"] for batch in dataset.iter_with_plans(plans)] == plans


def test_pairs_of_equal_shards_keep_their_order(make_file: MakeFile) -> None:
    plan = [(95, 12), (11, 100), (3, 99), (14, 15), (98, 2), (1, 1)]
    with IndexPlanDataset(make_file(N_OBS)) as dataset:
        (batch,) = dataset.iter_with_plans([plan])
    assert batch["pairs"] == [(3, 99), (98, 2), (1, 1), (95, 12), (11, 100), (14, 15)]


def as_zip(plan: list[tuple[int, int]]) -> Any:
    return zip(*zip(*plan, strict=True), strict=True)


@pytest.mark.parametrize(
    "form",
    [
        tuple,
        lambda plan: [list(pair) for pair in plan],
        lambda plan: [np.array(pair) for pair in plan],
        lambda plan: [(np.int64(a), np.uint8(b)) for a, b in plan],
        lambda plan: iter(plan),
        as_zip,
        pd.DataFrame,
        lambda plan: np.asfortranarray(np.array(plan)),
        lambda plan: np.array(plan)[::-1][::-1],
        *(
            lambda plan, dtype=dtype: np.array(plan, dtype=dtype)
            for dtype in ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", ">i4")
        ),
    ],
)
def test_forms_of_a_plan(make_file: MakeFile, form: Callable[[Any], Any]) -> None:
    plans = random_plans(3, seed=2)
    with IndexPlanDataset(make_file(N_OBS)) as dataset:
        expected = list(dataset.iter_with_plans(plans))
        batches = list(dataset.iter_with_plans(form(plan) for plan in plans))
    for batch, other in zip(batches, expected, strict=True):
        assert batch["pairs"] == other["pairs"]
        np.testing.assert_array_equal(batch["X"], other["X"])
        np.testing.assert_array_equal(batch["X_paired"], other["X_paired"])


@pytest.mark.parametrize(
    "empty",
    [[], (), np.empty((0, 2), np.int32), np.empty(0), iter(())],
    ids=["list", "tuple", "int32", "float64", "iterator"],
)
def test_empty_plans_are_skipped(make_file: MakeFile, empty: Any) -> None:
    with IndexPlanDataset(make_file(N_OBS)) as dataset:
        batches = list(dataset.iter_with_plans([empty, [(1, 2)], empty, empty, [(3, 4)], empty]))
        assert [batch["pairs"] for batch in batches] == [[(1, 2)], [(3, 4)]]
        assert list(dataset.iter_with_plans([empty])) == []


def test_a_plan_may_change_once_the_next_is_asked_for(make_file: MakeFile) -> None:
    def plans() -> Iterator[Any]:
        buffer = np.empty((2, 2), dtype=np.int64)
        for row in range(0, 100, 2):
            buffer[:] = [[row, row], [row, row + 1]]
            yield buffer
            buffer[:] = -1

    with IndexPlanDataset(make_file(N_OBS), sort_by_shard=False) as dataset:
        found = [batch["pairs"] for batch in dataset.iter_with_plans(plans())]
    assert found == [[(row, row), (row, row + 1)] for row in range(0, 100, 2)]


def test_obs_of_both_sides(make_file: MakeFile) -> None:
    rng = np.random.default_rng(3)
    types = pd.Categorical.from_codes(rng.integers(-1, 3, N_OBS), ["T", "B", "NK", "unused"])
    obs = pd.DataFrame(
        {
            "number": np.arange(N_OBS),
            "score": rng.random(N_OBS),
            "type": types,
            "name": [f"cell {row % 7}" for row in range(N_OBS)],
        }
    )
    names = ["type", "number", "score", "name"]
    plans = random_plans(5, seed=4)
    with IndexPlanDataset(make_file(N_OBS, obs=obs), obs_columns=names) as dataset:
        for batch in dataset.iter_with_plans(plans):
            for key, side in (("obs", 0), ("obs_paired", 1)):
                rows = [pair[side] for pair in batch["pairs"]]
                part = batch[key]  # type: ignore[literal-required]
                assert list(part) == names
                assert part["number"].dtype == np.int64 and part["number"].tolist() == rows
                assert part["score"].dtype == np.float64
                np.testing.assert_array_equal(part["score"], obs["score"].to_numpy()[rows])
                assert part["type"]["codes"].dtype == np.int32
                np.testing.assert_array_equal(part["type"]["codes"], types.codes[rows])
                assert part["type"]["categories"] == ["T", "B", "NK", "unused"]
                labels = part["name"]["categories"]
                assert [labels[code] for code in part["name"]["codes"]] == [
                    f"cell {row % 7}" for row in rows
                ]


def test_panel_is_sorted_and_said_so(make_file: MakeFile) -> None:
    path = make_file(N_OBS)
    options: dict[str, Any] = {"normalize": False, "log1p": False}
    with pytest.warns(UserWarning, match=r"not ascending and distinct.*np\.unique") as caught:
        dataset = IndexPlanDataset(path, hvg_indices=[7, 2, 2, 5], **options)
    assert caught[0].filename == __file__
    with dataset:
        assert dataset.n_output_genes == 3 and dataset.gene_indices.tolist() == [2, 5, 7]
        (batch,) = dataset.iter_with_plans([[(4, 6)]])
        np.testing.assert_array_equal(batch["X"], counts_of(path)[[4]][:, [2, 5, 7]])


def test_pflog(make_file: MakeFile) -> None:
    path = make_file(N_OBS)
    shifted = np.log1p(4 * 0.5 * counts_of(path))
    expected = (shifted - shifted.mean(axis=1, keepdims=True))[:, [1, 9]]
    options: dict[str, Any] = {"hvg_indices": [1, 9], "pflog": True}
    with IndexPlanDataset(path, pflog_alpha=0.5, **options) as dataset:
        (batch,) = dataset.iter_with_plans([[(50, 60), (70, 0)]])
    np.testing.assert_allclose(batch["X"], expected[[70, 50]], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(batch["X_paired"], expected[[0, 60]], rtol=1e-5, atol=1e-6)
    with (
        TrainingDataset(path, pflog=True) as training,
        IndexPlanDataset(path, pflog=True) as estimated,
    ):
        assert estimated.pflog_alpha == training.pflog_alpha


def test_layers_and_raw(tmp_path: Path) -> None:
    import anndata

    rng = np.random.default_rng(5)
    raw = sp.csr_matrix(rng.poisson(1.0, (40, 12)).astype(np.float32))
    adata = anndata.AnnData(X=raw)
    adata.raw = adata
    adata = adata[:, :5].copy()
    adata.layers["twice"] = adata.X * 2
    path = tmp_path / "layers.scx"
    scx_core.from_anndata(adata, path, shard_size=8)
    for source, matrix in (("layers/twice", 2 * raw[:, :5]), ("raw", raw)):
        options: dict[str, Any] = {"source": source, "normalize": False, "log1p": False}
        with IndexPlanDataset(path, **options) as dataset:
            assert f"[{source}]" in repr(dataset)
            (batch,) = dataset.iter_with_plans([[(1, 30)]])
            np.testing.assert_array_equal(batch["X_paired"], matrix[[30]].toarray())
    with pytest.raises(KeyError, match="twice"):
        IndexPlanDataset(path, source="layers/thrice")


def test_batches_that_are_kept_are_not_overwritten(make_file: MakeFile) -> None:
    matrix = np.repeat(np.arange(1, 501, dtype=np.float32)[:, None], 300, axis=1)
    path = make_file(matrix=matrix, shard_size=50)
    plans = random_plans(60, seed=6, n_obs=500)
    dataset = IndexPlanDataset(path, normalize=False, log1p=False)
    kept = list(dataset.iter_with_plans(plans))
    second_only = [batch["X_paired"][:, ::7] for batch in dataset.iter_with_plans(plans)]
    dataset.close()
    for batch, view in zip(kept, second_only, strict=True):
        first, second = np.array(batch["pairs"]).T + 1
        assert (batch["X"] == first[:, None]).all()
        assert (batch["X_paired"] == second[:, None]).all()
        assert (view == second[:, None]).all()


def test_memory_of_a_batch_is_used_again(make_file: MakeFile) -> None:
    plans = [[(row, row + 1)] * 10 for row in range(100)]
    with IndexPlanDataset(make_file(N_OBS)) as dataset:
        addresses = {batch["X"].ctypes.data for batch in dataset.iter_with_plans(plans)}
    assert len(addresses) <= 4 + 2
