"""The memory budget: what gives way in which order, what it reports, and what is really used."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from scx_train import IndexPlanDataset
from scx_train.plans.budget import DEFAULT_MEMORY_MB, DEFAULT_PLAN_SIZE, PlanDemand, fit_plans
from scx_train.streams.budget import MatrixDemand

MakeFile = Callable[..., Path]
MB = 2**20
KEYS = [
    "cache_bytes",
    "batch_buffer_bytes",
    "lookahead_overhead_bytes",
    "transient_bytes",
    "python_overhead_bytes",
]


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """4,096 genes: 128 pairs are 4 MB."""
    import anndata

    import scx_core

    matrix = sp.random(1500, 4096, density=0.02, format="csr", random_state=1, dtype=np.float32)
    matrix.data = np.ceil(matrix.data * 5)
    path = tmp_path_factory.mktemp("wide") / "wide.scx"
    scx_core.from_anndata(anndata.AnnData(sp.csr_matrix(matrix)), path, shard_size=100)
    return path


def test_report(wide: Path) -> None:
    with IndexPlanDataset(wide, max_plan_size=1024, threads=3) as dataset:
        report = dataset.memory_budget()
        assert dataset.effective_lookahead() == 4 and dataset.effective_cache_shards() == 128
    parts = report["breakdown"]
    assert list(parts) == [*KEYS, "total_bytes"]
    assert parts["total_bytes"] == sum(parts[key] for key in KEYS)
    assert parts["cache_bytes"] == 0
    assert parts["batch_buffer_bytes"] == 2 * 32 * MB  # the one due, and the one in the loop
    assert parts["lookahead_overhead_bytes"] == 3 * 32 * MB
    assert report["estimated_mb"] == parts["total_bytes"] / MB
    del report["breakdown"], report["estimated_mb"]
    assert report == {
        "max_memory_mb": 512,
        "max_plan_size": 1024,
        "cache_shards": 128,
        "effective_cache_shards": 128,
        "shard_decoded_bytes": 0,
        "lookahead": 4,
        "effective_lookahead": 4,
        "max_blocking_threads": 3,
    }  # fmt: skip


@pytest.mark.parametrize(("limit", "expected"), [(170, 4), (150, 3), (110, 2), (70, 1)])
def test_lookahead_gives_way(wide: Path, limit: int, expected: int) -> None:
    options: dict[str, Any] = {"max_plan_size": 1024, "threads": 1, "max_memory_mb": limit}
    with IndexPlanDataset(wide, **options) as dataset:
        assert dataset.effective_lookahead() == expected
        assert dataset.memory_budget()["effective_lookahead"] == expected
        assert dataset.memory_budget()["lookahead"] == 4
        assert dataset.memory_budget()["breakdown"]["total_bytes"] <= limit * MB
        (batch,) = dataset.iter_with_plans([[(0, 1)] * 1024])
        assert batch["X"].shape == (1024, 4096)


def test_lookahead_0_stays_0(wide: Path) -> None:
    with IndexPlanDataset(wide, max_plan_size=1024, lookahead=0, max_memory_mb=70) as dataset:
        assert dataset.effective_lookahead() == 0
        assert len(list(dataset.iter_with_plans([[(0, 1)]] * 3))) == 3


def test_too_little_is_an_error_that_says_what_fits(wide: Path) -> None:
    with pytest.raises(
        RuntimeError, match=r"max_memory_mb=60 is too little.*hvg_indices"
    ) as caught:
        IndexPlanDataset(wide, max_plan_size=1024, threads=1, max_memory_mb=60)
    text = str(caught.value)
    pairs = int(text.split("pass max_plan_size=")[1].split()[0])
    needed = int(text.rsplit("=", 1)[1])
    for options in ({"max_plan_size": pairs, "max_memory_mb": 60}, {"max_memory_mb": needed}):
        IndexPlanDataset(wide, **{"max_plan_size": 1024, "threads": 1, **options}).close()
    for options in (
        {"max_plan_size": pairs + 64, "max_memory_mb": 60},
        {"max_memory_mb": needed - 1},
    ):
        with pytest.raises(RuntimeError, match="too little"):
            IndexPlanDataset(wide, **{"max_plan_size": 1024, "threads": 1, **options})
    with pytest.raises(RuntimeError, match="max_memory_mb=1 is too little"):
        IndexPlanDataset(wide, max_memory_mb=1)


def test_none_stands_for_the_defaults(wide: Path) -> None:
    names = ("cache_shards", "lookahead", "max_plan_size", "max_memory_mb")
    with (
        IndexPlanDataset(wide, threads=1) as left_out,
        IndexPlanDataset(wide, threads=1, **dict.fromkeys(names)) as given,
    ):
        assert given.memory_budget() == left_out.memory_budget()


def test_defaults() -> None:
    import inspect

    defaults = {
        name: parameter.default
        for name, parameter in inspect.signature(IndexPlanDataset).parameters.items()
    }
    assert defaults["cache_shards"] == 128 and defaults["lookahead"] == 4
    assert defaults["max_plan_size"] == 16384 and defaults["max_memory_mb"] == 512
    assert defaults["normalize"] is defaults["log1p"] is defaults["sort_by_shard"] is True
    assert defaults["target_sum"] == 1e4 and defaults["hvg_indices"] is None


def demand(**options: Any) -> PlanDemand:
    given: dict[str, Any] = {
        "max_plan_size": 1000,
        "lookahead": 4,
        "cache_shards": 128,
        "shard_bytes": 0,
        "matrix": MatrixDemand(n_vars=0, n_output_genes=131, mean_values=None),
        "threads": 0,
        "metadata_bytes": 0,
        **options,
    }
    return PlanDemand(**given)


def test_lookahead_before_cache_shards() -> None:
    """One batch is 1 MB, and a decoded shard, where a codec needs the cache, is 1 MB too."""
    full = demand(shard_bytes=MB)
    n_pairs = full.total_bytes / MB
    assert 133 < n_pairs < 135
    seen = []
    for limit in range(140, 3, -1):
        fitted, kept = fit_plans(full, limit)
        assert kept == limit and fitted.total_bytes <= limit * MB
        seen.append((fitted.lookahead, fitted.cache_shards))
        if fitted.cache_shards < 128:
            assert fitted.lookahead == 1
            assert replace(fitted, cache_shards=fitted.cache_shards + 1).total_bytes > limit * MB
    assert seen[0] == (4, 128) and seen[-1] == (1, 1)
    assert sorted(seen, reverse=True) == seen
    with pytest.raises(RuntimeError, match="max_memory_mb=2 is too little"):
        fit_plans(full, 2)


@pytest.mark.parametrize(
    ("n_genes", "limit", "plan_size"),
    [(1000, 512, 16384), (2000, 512, 16384), (3000, 756, 16384), (8000, 2007, 16384)],
)
def test_defaults_grow_with_the_genes(n_genes: int, limit: int, plan_size: int) -> None:
    matrix = MatrixDemand(n_vars=20_000, n_output_genes=n_genes, mean_values=None)
    full = demand(max_plan_size=DEFAULT_PLAN_SIZE, matrix=matrix, threads=2)
    fitted, found = fit_plans(full, DEFAULT_MEMORY_MB)
    assert abs(found - limit) <= 3 and fitted.max_plan_size == plan_size
    assert fitted.total_bytes <= found * MB


def test_the_default_width_shrinks_last() -> None:
    matrix = MatrixDemand(n_vars=60_000, n_output_genes=60_000, mean_values=None)
    full = demand(max_plan_size=DEFAULT_PLAN_SIZE, matrix=matrix, threads=2)
    fitted, limit = fit_plans(full, DEFAULT_MEMORY_MB)
    assert limit == 4096 and fitted.lookahead == 1
    assert 4000 < fitted.max_plan_size < 4500
    with pytest.raises(RuntimeError, match="max_plan_size=16384 pairs of 60000 genes"):
        fit_plans(replace(full, max_plan_size=16384), DEFAULT_MEMORY_MB)
    with pytest.raises(RuntimeError, match="max_memory_mb=512 is too little"):
        fit_plans(full, 512)


MEASURE = """
import json, sys, time
import numpy
from scx_train import IndexPlanDataset

def own():
    lines = open("/proc/self/smaps_rollup").read().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith(("Private_Dirty:"))) / 1024

path, options, n_pairs = sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3])
with IndexPlanDataset(path, hvg_indices=[0], max_plan_size=1) as small:
    list(small.iter_with_plans([[(0, 1)]] * 8))
before = own()
dataset = IndexPlanDataset(path, **options)
rng = numpy.random.default_rng(0)
plans = (rng.integers(0, 1500, (n_pairs, 2)) for _ in range(12))
most = 0
for batch in dataset.iter_with_plans(plans):
    time.sleep(0.03)
    most = max(most, own())
print(json.dumps([most - before, dataset.memory_budget()["estimated_mb"]]))
"""


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="measures in /proc")
@pytest.mark.parametrize(
    ("options", "n_pairs", "exact"),
    [
        ({"max_plan_size": 1536}, 1536, True),
        ({"max_plan_size": 4096, "max_memory_mb": 300}, 4096, True),
        ({"max_plan_size": 4096, "max_memory_mb": 300, "lookahead": 8}, 300, False),
        ({"max_plan_size": 3072, "lookahead": 0}, 3072, True),
    ],
    ids=["wide", "wide within a limit", "narrower plans", "on demand"],
)
def test_what_is_used_is_what_is_said(
    wide: Path, options: dict[str, Any], n_pairs: int, exact: bool
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, str(wide), json.dumps(options), str(n_pairs)],
        check=True,
        capture_output=True,
        text=True,
    )
    used, said = json.loads(done.stdout)
    assert used <= 1.15 * said + 50, (used, said)
    if exact:
        assert used >= 0.85 * said - 50, (used, said)
