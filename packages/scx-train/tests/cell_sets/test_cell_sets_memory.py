"""What a SparseCellSetDataset takes beside what its memory budget says."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cell_set_files import MakeCollection

MB = 2**20

MEASURE = """
import json, sys, time
import numpy
from scx_train import SparseCellSetDataset

def own():
    lines = open("/proc/self/smaps_rollup").read().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_Dirty:")) * 1024

paths, options = json.loads(sys.argv[1]), json.loads(sys.argv[2])
n_rows = options["max_plan_rows"]
if options.pop("remap"):
    options.update(remap_tables=[numpy.arange(2000)[::-1]] * len(paths), n_global_genes=2000)
small = (numpy.arange(2) % len(paths), [0, 1], [0, 0], [0, 2])
with SparseCellSetDataset(paths, **options) as dataset:
    list(dataset.iter_with_plans([small] * 8))
before = own()
dataset = SparseCellSetDataset(paths, **options)
rng = numpy.random.default_rng(0)

def plans():
    for _ in range(8):
        files = rng.integers(0, len(paths), n_rows)
        yield files, rng.integers(0, 300, n_rows), files * 0, [0, n_rows]

most = 0
for batch in dataset.iter_with_plans(plans()):
    time.sleep(0.05)
    most = max(most, own())
budget = dataset.memory_budget()
print(json.dumps([most - before, budget["breakdown"]["total_bytes"], budget["max_memory_mb"]]))
"""


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="measures in /proc")
@pytest.mark.parametrize(
    ("n_files", "options"),
    [
        (1, {"lookahead": 4, "remap": False}),
        (2, {"lookahead": 2, "remap": True}),
        (1, {"lookahead": 0, "remap": False}),
        (1, {"lookahead": 1, "remap": False}),
        (2, {"lookahead": 8, "remap": False, "max_memory_mb": 60}),
        (2, {"lookahead": 2, "remap": False, "reader_limit": 1}),
    ],
    ids=["ahead", "remapped", "on demand", "one ahead", "within a limit", "few files open"],
)
def test_what_is_used_is_what_is_said(
    make_collection: MakeCollection, n_files: int, options: dict[str, Any]
) -> None:
    """Batches of 20,000 rows with 100 values each: 15 MB."""
    files = make_collection([(300, 2000, 100)] * n_files, shard_size=64)
    options = {"max_plan_rows": 20_000, "threads": 2, **options}
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, json.dumps(files.paths), json.dumps(options)],
        check=True,
        capture_output=True,
        text=True,
        timeout=200,
    )
    used, said, limit = json.loads(done.stdout)
    allowed = min(said, limit * MB)
    # Far less than a batch of difference, so that one more or fewer of them would show.
    assert used <= 1.15 * allowed + 8 * MB, (used, said, limit)
    # With fewer readers than the plans have files, a batch is made when the one before is gone.
    batches_held = 1 if "reader_limit" in options else 2
    assert used >= batches_held * 15 * MB, "what the loop holds was not measured"
