"""Iterators that are left when Python ends, some of them longer than the modules they need."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

MAKE = {
    "one file": "iter(TrainingDataset(path, 4))",
    "several files": "iter(TrainingDataset([path, path], 4, allow_repeated_files=True))",
    "pairs": "IndexPlanDataset(path).iter_with_plans([[(0, 1)]] * 50)",
    "sets": "SparseCellSetDataset([path]).iter_with_plans([plan] * 50)",
    "modalities": "iter(MultimodalTrainingDataset(path, ['rna', 'adt'], batch_size=4))",
}
# Modules go in the reverse order of their import: this one was imported before all of ours.
PROGRAM = """
    import collections, sys
    from scx_train import *
    path, keep = sys.argv[1:]
    plan = ([0, 0], [1, 2], [0, 0], [0, 2])
    batches = {make}
    next(batches)
    if keep == "longer":
        collections.kept = batches
"""


@pytest.mark.parametrize("keep", ["as long", "longer"])
@pytest.mark.parametrize("kind", MAKE)
def test_the_end_of_python_says_nothing(
    make_file: Callable[..., Path], multimodal: tuple[object, Path], kind: str, keep: str
) -> None:
    path = multimodal[1] if kind == "modalities" else make_file(60)
    program = textwrap.dedent(PROGRAM).format(make=MAKE[kind])
    done = subprocess.run(
        [sys.executable, "-c", program, path, keep], capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
