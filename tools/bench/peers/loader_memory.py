"""The whole matrix in memory as CSR; a batch is a random choice of its rows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from bench.peers.batches import Batch, Request, shape_batch


class InMemory:
    """AnnData read whole; the reading is set-up and stays outside the clock."""

    packages = ("anndata", "numpy", "scipy")

    def open(self, h5ad: str, cache: str, panel: npt.NDArray[np.int64]) -> dict[str, float]:
        import anndata

        self._adata = anndata.read_h5ad(h5ad)
        self._panel = panel
        return {}

    def batches(self, request: Request) -> Iterator[Batch]:
        counts = self._adata.X
        labels = self._adata.obs["cell_type"].cat.codes.to_numpy()
        order = np.random.default_rng(request.epoch).permutation(counts.shape[0])
        for start in range(0, order.size, request.batch_size):
            rows = order[start : start + request.batch_size]
            labels[rows]  # a training step needs the labels too
            yield Batch(shape_batch(counts[rows], request.task, self._panel), rows)


loader = InMemory
