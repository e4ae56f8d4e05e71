"""Epochs of chosen, drawn and grouped cells, each beside a plain epoch of the same file.

The panel task of `train`, with `rows=` of a random half of the cells, `weights=` between 0 and 1,
`balance_by=` and `batch_by=` the cell types; dense and of the panel, and all genes as they are in
CSR. Rates are of the cells that a run received, so that half of the cells should take half of the
time. A new data set for every epoch: what it does with rows, weights and labels counts.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import scx_core
from bench import cold
from bench.bench_tasks import RAW, epoch
from bench.bench_train import panel_of
from bench.harness import Limit, Result, alternate
from bench.others import Undisturbed
from bench.setup import Setup

PLAIN_SHARE_MIN = 0.8


def run(setup: Setup) -> Result:
    """Measure every kind of epoch; limits hold for full runs alone."""
    result = Result("sampling")
    h5ad = setup.counts()
    path = setup.folder / f"{h5ad.stem}.sampling.scx"
    quiet = Undisturbed()
    try:
        scx_core.from_h5ad(h5ad, path, overwrite=True)
        cold.read_again(path)
        with scx_core.open(path) as experiment:
            kinds = kinds_of(experiment.n_obs)
        limit = None if setup.quick else Limit("at least", PLAIN_SHARE_MIN)
        tasks: dict[str, dict[str, Any]] = {
            "panel": {"hvg_indices": panel_of(h5ad)},
            "all genes, raw, CSR": {"layout": "csr", **RAW},
        }
        for task, options in tasks.items():
            plain = quiet(partial(epoch, path, **options))
            for kind, choice in kinds.items():
                one = quiet(partial(epoch, path, **options, **choice))
                both = alternate(one, plain, setup.n_pairs)
                name = f"{task}, {kind}"
                result.add(name, [sample.rate for sample in both.ours], "cells/s")
                result.add(f"{name} / plain", both.ratios, "x", limit)
    finally:
        quiet.report(result)
        path.unlink(missing_ok=True)
    return result


def kinds_of(n_cells: int) -> dict[str, dict[str, Any]]:
    """The options of each kind of epoch, by its name."""
    rng = np.random.default_rng(0)
    return {
        "a random half": {"rows": rng.permutation(n_cells)[: n_cells // 2]},
        "weights": {"weights": rng.random(n_cells)},
        "balance_by": {"balance_by": "cell_type"},
        "batch_by": {"batch_by": "cell_type"},
    }
