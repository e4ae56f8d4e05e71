"""How training batches grow with the file: 10,000, 100,000 and 1,000,000 cells, one thread and two.

The panel task of `train`, a new data set for every epoch, the page cache warm by a read of the
file; the largest file from a cold cache too. A million cells are the hundred thousand ten times
over, which changes neither the sizes of rows nor of shards, and takes 2 GB where so much is free.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

import scx_core
from bench import cold, data
from bench.bench_tasks import BOUND_SHARE_MIN, epoch
from bench.bench_train import panel_of
from bench.harness import Limit, Result, alternate
from bench.others import Undisturbed
from bench.setup import Setup
from scx_core.experiment import Experiment
from scx_core.sources.base import ExperimentContent, ModalityContent
from scx_core.writing import write_experiment

TIMES = 10
LARGE_FILE_SPARE = 2  # free space wanted, in sizes of the file


def run(setup: Setup) -> Result:
    """Measure every size; limits are those of `tasks`."""
    result = Result("growth")
    quiet = Undisturbed()
    h5ad = setup.counts()
    panel = panel_of(h5ad)
    size = data.QUICK if setup.quick else data.FULL
    small = replace(size, n_cells=size.n_cells // 10)
    paths = [setup.folder / f"{name}.growth.scx" for name in ("small", "middle", "large")]
    try:
        scx_core.from_h5ad(data.counts_h5ad(small, setup.folder), paths[0], overwrite=True)
        _epochs(paths[0], panel, setup, quiet, result)
        scx_core.from_h5ad(h5ad, paths[1], overwrite=True)
        _epochs(paths[1], panel, setup, quiet, result)
        needed = LARGE_FILE_SPARE * TIMES * paths[1].stat().st_size
        if shutil.disk_usage(setup.folder).free < needed:
            result.skipped["the largest file"] = f"{needed / 1e9:.1f} GB are not free"
            return result
        repeat_cells(paths[1], paths[2], TIMES)
        _epochs(paths[2], panel, setup, quiet, result)
        _cold(paths[2], panel, setup, quiet, result)
    finally:
        quiet.report(result)
        for path in paths:
            path.unlink(missing_ok=True)
    return result


def repeat_cells(source: Path, target: Path, times: int) -> None:
    """Write a file with the counts and obs of all cells of another one, several times over."""
    with Experiment(source) as experiment:
        assert experiment.X is not None
        rows = np.tile(np.arange(experiment.n_obs, dtype=np.int64), times)
        obs = experiment.obs.iloc[rows].set_axis([f"cell{row}" for row in range(len(rows))])
        part = ModalityContent(var=experiment.var, X=experiment.X.taking(rows))
        content = ExperimentContent(obs=obs, modalities={"": part})
        write_experiment(target, content, overwrite=True)


def _epochs(
    path: Path,
    panel: npt.NDArray[np.int64],
    setup: Setup,
    quiet: Undisturbed,
    result: Result,
) -> None:
    cold.read_again(path)
    one, two = (
        quiet(partial(epoch, path, hvg_indices=panel, threads=threads)) for threads in (1, 2)
    )
    both = alternate(two, one, min(setup.n_pairs, 3))
    name = _name(path)
    result.add(f"{name}, 1 thread", [sample.rate for sample in both.theirs], "cells/s")
    result.add(f"{name}, 2 threads", [sample.rate for sample in both.ours], "cells/s")
    result.add(f"{name}, 2 threads / 1", both.ratios, "x")


def _cold(
    path: Path,
    panel: npt.NDArray[np.int64],
    setup: Setup,
    quiet: Undisturbed,
    result: Result,
) -> None:
    cold.compare(
        _name(path),
        path,
        partial(epoch, path, hvg_indices=panel),
        min(setup.n_pairs, 3),
        None if setup.quick else Limit("at least", BOUND_SHARE_MIN),
        result,
        quiet=quiet,
    )


def _name(path: Path) -> str:
    with scx_core.open(path) as experiment:
        return f"{experiment.n_obs:,} cells"
