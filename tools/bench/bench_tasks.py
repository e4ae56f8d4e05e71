"""What users ask of training batches beyond the panel: each task beside what bounds it.

- all genes as they are, CSR: beside annbatch
- all genes, normalised and logged: CSR beside dense, dense beside a memset and copy of its bytes
- the first batch, from the constructor on
- one thread and two
- a cold page cache: the file is dropped from it before each epoch, beside a plain read of the
  dropped file from front to back

Ours runs in this process, a new data set for every epoch; annbatch in its own.
"""

from __future__ import annotations

import ctypes
import gc
import os
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import scx_core
import scx_train
from bench import cold
from bench.bench_train import panel_of
from bench.harness import Limit, Result, Sample, alternate, repeat
from bench.others import Undisturbed
from bench.peers.client import Worker
from bench.peers.environments import PEERS, PeerUnavailable, python_of
from bench.setup import BATCH_SIZE, Setup

CSR_RATIO_MIN = 4.0
# A file of one group of shards is read before its first batch is decoded.
BOUND_SHARE_MIN = 0.6
FIRST_BATCH_MS_MAX = 50.0
RAW = {"normalize": False, "log1p": False}


def run(setup: Setup) -> Result:
    """Measure every task; limits hold for full runs alone."""
    result = Result("tasks")
    h5ad = setup.counts()
    path = setup.folder / f"{h5ad.stem}.tasks.scx"
    scx_core.from_h5ad(h5ad, path, overwrite=True)
    cold.read_again(path)
    panel = panel_of(h5ad)
    quiet = Undisturbed()
    _csr_beside_annbatch(path, h5ad, panel, setup, result)
    _transformed(path, setup, quiet, result)
    _panel(path, panel, setup, quiet, result)
    cold.compare(
        "panel",
        path,
        partial(epoch, path, hvg_indices=panel),
        setup.n_pairs,
        _limit(setup, BOUND_SHARE_MIN),
        result,
        quiet=quiet,
    )
    quiet.report(result)
    path.unlink()
    return result


def epoch(path: Path, *, seed: int = 0, cells_max: int | None = None, **options: Any) -> Sample:
    """Cells and seconds of one epoch, from the constructor to the close."""
    gc.collect()
    cells = 0
    start = time.perf_counter()
    with scx_train.TrainingDataset(
        path, batch_size=BATCH_SIZE, obs_columns=["cell_type"], seed=seed, **options
    ) as dataset:
        for batch in dataset:
            cells += batch["X"].shape[0]
            if cells_max is not None and cells >= cells_max:
                break
        del batch
    return Sample(cells, time.perf_counter() - start)


def _limit(setup: Setup, value: float) -> Limit | None:
    return None if setup.quick else Limit("at least", value)


def _csr_beside_annbatch(
    path: Path, h5ad: Path, panel: npt.NDArray[np.int64], setup: Setup, result: Result
) -> None:
    def ours() -> Sample:
        return epoch(path, layout="csr", **RAW)

    name = "all genes, raw, CSR"
    peer = next(peer for peer in PEERS if peer.name == "annbatch")
    try:
        if peer.name not in setup.peers:
            raise PeerUnavailable("not asked for")
        python = python_of(peer, setup.environments)
        with Worker(peer.name, python, setup.folder / "workers.log") as worker:
            worker.ask("open", h5ad=str(h5ad), cache=str(setup.folder), panel=panel.tolist())

            def theirs() -> Sample:
                answer = worker.ask(
                    "run", task="csr", batch_size=BATCH_SIZE, epoch=0, seconds_min=setup.seconds_min
                )
                return Sample(answer["cells"], answer["seconds"])

            both = alternate(ours, theirs, setup.n_pairs)
    except (PeerUnavailable, TimeoutError) as error:
        result.skipped[peer.name] = str(error)
        result.add(name, [sample.rate for sample in repeat(ours, setup.n_pairs)], "cells/s")
        return
    result.add(name, [sample.rate for sample in both.ours], "cells/s")
    result.add(f"{name}, annbatch", [sample.rate for sample in both.theirs], "cells/s")
    result.add(f"{name} / annbatch", both.ratios, "x", _limit(setup, CSR_RATIO_MIN))


def _transformed(path: Path, setup: Setup, quiet: Undisturbed, result: Result) -> None:
    name = "all genes, normalised, log1p"
    dense = quiet(lambda: epoch(path))
    both = alternate(dense, quiet(lambda: epoch(path, layout="csr")), setup.n_pairs)
    result.add(f"{name}, dense", [sample.rate for sample in both.ours], "cells/s")
    result.add(f"{name}, CSR", [sample.rate for sample in both.theirs], "cells/s")
    ratios = [1 / ratio for ratio in both.ratios]
    result.add(f"{name}, CSR / dense", ratios, "x", _limit(setup, 1.0))

    with scx_core.open(path) as experiment:
        shape = experiment.n_obs, experiment.n_vars
    filling = _Filling(*shape)
    bound = alternate(dense, quiet(filling.run), setup.n_pairs)
    result.add("memset and copy of these bytes", [s.rate for s in bound.theirs], "cells/s")
    limit = _limit(setup, BOUND_SHARE_MIN)
    result.add(f"{name}, dense / memset and copy", bound.ratios, "x", limit)


class _Filling:
    """Zeroes batches and copies rows of the same size over them, with as many threads as cores.

    The buffers are those that a data set has at once; their pages are there already. The source
    is one row, so it is read from the cache: what is measured is writing.
    """

    def __init__(self, n_cells: int, n_genes: int) -> None:
        self._n_batches = n_cells // BATCH_SIZE
        self._buffers = [np.ones((BATCH_SIZE, n_genes), np.float32) for _ in range(6)]
        self._row = np.ones(n_genes, np.float32)
        self._threads = len(os.sched_getaffinity(0))

    def run(self) -> Sample:
        start = time.perf_counter()
        with ThreadPoolExecutor(self._threads) as pool:
            for number in range(self._n_batches):
                batch = self._buffers[number % len(self._buffers)]
                parts = np.array_split(batch, self._threads)
                list(pool.map(self._fill, parts))
        return Sample(self._n_batches * BATCH_SIZE, time.perf_counter() - start)

    def _fill(self, part: npt.NDArray[np.float32]) -> None:
        ctypes.memset(part.ctypes.data, 0, part.nbytes)
        np.copyto(part, self._row)


def _panel(
    path: Path,
    panel: npt.NDArray[np.int64],
    setup: Setup,
    quiet: Undisturbed,
    result: Result,
) -> None:
    for threads in (1, 2):
        run = quiet(partial(epoch, path, hvg_indices=panel, threads=threads))
        samples = repeat(run, setup.n_pairs)
        result.add(f"panel, {threads} threads", [sample.rate for sample in samples], "cells/s")
    run = quiet(partial(epoch, path, hvg_indices=panel, cells_max=1))
    first = repeat(run, setup.n_pairs)
    limit = None if setup.quick else Limit("at most", FIRST_BATCH_MS_MAX)
    seconds = [1e3 * sample.seconds for sample in first]
    result.add("construct, first batch, close", seconds, "ms", limit)
