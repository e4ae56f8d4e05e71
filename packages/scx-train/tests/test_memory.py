"""The memory budget: what gives way in which order, what it reports, and what is really used."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from scx_train import TrainingDataset

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
    """60,000 genes."""
    import anndata

    import scx_core

    matrix = sp.random(1500, 60_000, density=0.005, format="csr", random_state=1, dtype=np.float32)
    matrix.data = np.ceil(matrix.data * 5)
    path = tmp_path_factory.mktemp("wide") / "wide.scx"
    scx_core.from_anndata(anndata.AnnData(sp.csr_matrix(matrix)), path, shard_size=100)
    return path


def settings(dataset: TrainingDataset) -> tuple[int, int, int]:
    budget = dataset.memory_budget()
    return budget["prefetch_batches"], budget["shard_group_size"], budget["batch_size"]


def test_report(wide: Path) -> None:
    with TrainingDataset(wide, 256, threads=2) as dataset:
        report = dataset.memory_budget()
    parts = report["breakdown"]
    assert list(parts) == [*KEYS, "total_bytes"]
    assert parts["total_bytes"] == sum(parts[key] for key in KEYS)
    # four ahead, the one received, the one that the loop holds: each 58.6 MB, in huge pages 60 MB
    assert parts["batch_buffer_bytes"] == 6 * 60 * MB
    assert report["estimated_mb"] == parts["total_bytes"] / MB
    assert report["mmap_mb"] == wide.stat().st_size / MB
    assert report["max_memory_mb"] == 512
    assert report["budget_exceeded"] is False
    assert set(report) == {
        "breakdown", "shard_group_size", "prefetch_batches", "batch_size", "max_memory_mb",
        "estimated_mb", "mmap_mb", "budget_exceeded",
    }  # fmt: skip


def test_without_a_limit_it_adapts(wide: Path) -> None:
    for batch_size, limit in [(64, 512), (1024, 1500)]:
        with TrainingDataset(wide, batch_size, threads=1) as dataset:
            assert settings(dataset) == (4, 8, batch_size)
            found = dataset.memory_budget()["max_memory_mb"]
            assert abs(found - limit) < 100 and found >= 512
    # 16,384 cells of 60,000 genes are 3.7 GB: more than the most, 4096 MB, takes
    with pytest.warns(UserWarning, match="4096 cells instead of batch_size=16384, .*=4096: raise"):
        dataset = TrainingDataset(wide, 16_384, threads=1)
    with dataset:
        assert dataset.memory_budget()["max_memory_mb"] == 4096
        assert settings(dataset) == (2, 1, 4096)
        assert dataset.effective_batch_size == 4096
        assert not dataset.budget_exceeded


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        (400, (4, 8, 256)),
        (320, (3, 8, 256)),
        (260, (2, 8, 256)),
        (200, (2, 1, 128)),
        (100, (2, 1, 64)),
    ],
)
def test_what_gives_way_first(wide: Path, limit: int, expected: tuple[int, int, int]) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        dataset = TrainingDataset(wide, 256, threads=1, max_memory_mb=limit)
    told = [f"batches have {expected[2]} cells instead of batch_size=256"]
    assert [str(one.message).split(",")[0] for one in caught] == told * (expected[2] < 256)
    assert all(one.filename == __file__ for one in caught)
    with dataset:
        assert settings(dataset) == expected
        assert dataset.effective_batch_size == expected[2]
        assert dataset.memory_budget()["estimated_mb"] <= limit
        assert len(dataset) == -(-1500 // expected[2])
        assert len(next(iter(dataset))["X"]) == expected[2]


def test_a_limit_that_cannot_be_met_warns(wide: Path) -> None:
    with pytest.warns(UserWarning, match=r"max_memory_mb=20 is too little: .* MB") as caught:
        dataset = TrainingDataset(wide, 256, max_memory_mb=20)
    assert caught[0].filename == __file__
    with dataset:
        assert settings(dataset) == (2, 1, 64)
        assert dataset.budget_exceeded
        assert dataset.memory_budget()["budget_exceeded"] is True


def test_settings_below_the_least_stay(wide: Path) -> None:
    with pytest.warns(UserWarning, match="too little"):
        dataset = TrainingDataset(wide, 48, prefetch_batches=1, max_memory_mb=1)
    with dataset:
        assert settings(dataset) == (1, 1, 48)


@pytest.mark.filterwarnings("ignore:batches have 64 cells instead")
def test_the_order_does_not_depend_on_the_limit(wide: Path) -> None:
    orders = []
    for limit in (None, 260, 100):
        with TrainingDataset(wide, 256, max_memory_mb=limit, hvg_indices=None) as dataset:
            orders.append([row for batch in dataset for row in batch["cell_indices"].tolist()])
    assert orders[0] == orders[1] == orders[2]


@pytest.mark.parametrize("n_obs", [64, 65, 95])
@pytest.mark.parametrize("world_size", [1, 3])
@pytest.mark.parametrize("options", [{}, {"drop_last": True}, {"batch_by": "label"}])
def test_a_merged_tail_counts(
    make_file: MakeFile, n_obs: int, world_size: int, options: dict[str, Any]
) -> None:
    path = make_file(n_obs, 30, obs=pd.DataFrame({"label": np.arange(n_obs) % 2}))
    sizes, said = [16], set()
    for rank in range(world_size):
        place = {"rank": rank, "world_size": world_size}
        with TrainingDataset(path, 16, min_batch=15, tail="merge", **place, **options) as dataset:
            sizes += [len(batch["X"]) for batch in dataset]
            said.add(dataset.memory_budget()["breakdown"]["batch_buffer_bytes"])
    (buffers,) = said  # the same for all ranks, whose batches have to be of one size
    largest = 16 + 15 if "batch_by" in options else max(sizes)
    assert buffers == 6 * 4 * 30 * largest
    assert max(sizes) <= largest


MEASURE = """
import json, sys, threading, time
import numpy, scipy.sparse
from scx_train import TrainingDataset

def own():
    lines = open("/proc/self/smaps_rollup").read().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith(("Private_Dirty:"))) / 1024

path, options = sys.argv[1], json.loads(sys.argv[2])
TrainingDataset(path, 1, hvg_indices=[0]).close()
before = own()
dataset = TrainingDataset(path, **options)
most = 0
for epoch in range(int(sys.argv[3])):
    for number, batch in enumerate(dataset):
        time.sleep(0.01)
        most = max(most, own())
print(json.dumps([most - before, dataset.memory_budget()["estimated_mb"]]))
"""


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="measures in /proc")
@pytest.mark.parametrize(
    ("options", "n_epochs"),
    [
        ({"batch_size": 128, "prefetch_batches": 8}, 2),
        ({"batch_size": 256, "max_memory_mb": 260}, 2),
        ({"batch_size": 128, "prefetch_batches": 8, "layout": "csr"}, 2),
        ({"batch_size": 100, "hvg_indices": list(range(0, 60_000, 30))}, 2),
        # three batches of 200 cells and one of 398
        (
            {
                "batch_size": 200,
                "rows": list(range(998)),
                "min_batch": 200,
                "tail": "merge",
                "prefetch_batches": 1,
            },
            12,
        ),
    ],
    ids=["wide", "wide within a limit", "wide csr", "narrow", "wide with a merged tail"],
)
def test_what_is_used_is_what_is_said(wide: Path, options: dict[str, Any], n_epochs: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, str(wide), json.dumps(options), str(n_epochs)],
        check=True,
        capture_output=True,
        text=True,
    )
    used, said = json.loads(done.stdout)
    assert abs(used - said) <= 0.15 * said + 50, (used, said)
