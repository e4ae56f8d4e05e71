"""This project: the .h5ad converted to .scx, and scx_train.TrainingDataset on it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from bench.peers.batches import TARGET_SUM, Batch, Request


class Scx:
    """Converts anew for every run, so that a file of an older build is never measured."""

    packages = ("scx-core", "scx-train", "numpy")

    def open(self, h5ad: str, cache: str, panel: npt.NDArray[np.int64]) -> dict[str, float]:
        import scx_core

        self._panel = panel
        self._scx = Path(cache) / f"{Path(h5ad).stem}.train.scx"
        start = time.perf_counter()
        scx_core.from_h5ad(h5ad, self._scx, overwrite=True)
        seconds = time.perf_counter() - start
        return {"convert_seconds": seconds, "store_bytes": float(self._scx.stat().st_size)}

    def batches(self, request: Request) -> Iterator[Batch]:
        if request.task == "csr":
            yield from self._random_rows(request)
        else:
            yield from self._training_batches(request)

    def _training_batches(self, request: Request) -> Iterator[Batch]:
        import scx_train

        transformed = request.task == "panel"
        dataset = scx_train.TrainingDataset(
            self._scx,
            batch_size=request.batch_size,
            hvg_indices=self._panel.astype(np.uint32),
            obs_columns=["cell_type"],
            normalize=transformed,
            log1p=transformed,
            target_sum=TARGET_SUM,
            seed=request.epoch,
        )
        try:
            for batch in dataset:
                yield Batch(batch["X"], batch["cell_indices"])
        finally:
            dataset.close()

    def _random_rows(self, request: Request) -> Iterator[Batch]:
        import scx_core

        with scx_core.open(self._scx) as experiment:
            order = np.random.default_rng(request.epoch).permutation(experiment.n_obs)
            for start in range(0, order.size, request.batch_size):
                rows = order[start : start + request.batch_size]
                yield Batch(experiment.gather_rows(rows), rows)


loader = Scx
