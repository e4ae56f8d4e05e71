"""This project: random pairs of cells from scx_train.IndexPlanDataset on the converted .h5ad."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from bench.peers.batches import TARGET_SUM, Batch, Request


class ScxPairs:
    """Each cell once an epoch, with a random partner; both sides of a batch are yielded.

    The plans are lists of tuples, as a plan generator would make them; making them counts.
    """

    packages = ("scx-core", "scx-train", "numpy")

    def open(self, h5ad: str, cache: str, panel: npt.NDArray[np.int64]) -> dict[str, float]:
        import scx_core

        self._panel = panel
        self._scx = Path(cache) / f"{Path(h5ad).stem}.pairs.scx"
        start = time.perf_counter()
        scx_core.from_h5ad(h5ad, self._scx, overwrite=True)
        return {"convert_seconds": time.perf_counter() - start}

    def batches(self, request: Request) -> Iterator[Batch]:
        import scx_train

        transformed = request.task == "panel"
        dataset = scx_train.IndexPlanDataset(
            self._scx,
            hvg_indices=self._panel.astype(np.uint32),
            obs_columns=["cell_type"],
            normalize=transformed,
            log1p=transformed,
            target_sum=TARGET_SUM,
        )
        order = np.random.default_rng(request.epoch).permutation(dataset.n_obs)
        with dataset, dataset.iter_with_plans(_plans(order, request.batch_size)) as batches:
            for batch in batches:
                first, second = np.array(batch["pairs"]).T if request.identify else (None, None)
                yield Batch(batch["X"], first)
                if len(batch["pairs"]) == 1 and batch["pairs"][0][0] == batch["pairs"][0][1]:
                    continue  # a last cell without a partner
                yield Batch(batch["X_paired"], second)


def _plans(order: npt.NDArray[np.int64], batch_size: int) -> Iterator[list[tuple[int, int]]]:
    half = len(order) // 2
    for start in range(0, half, batch_size):
        stop = min(start + batch_size, half)
        first, second = order[start:stop], order[half + start : half + stop]
        yield list(zip(first.tolist(), second.tolist(), strict=True))
    if len(order) % 2:
        yield [(int(order[-1]), int(order[-1]))]


loader = ScxPairs
