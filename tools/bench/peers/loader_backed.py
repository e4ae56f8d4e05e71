"""An .h5ad opened with ``backed="r"``; a batch is a random choice of its rows, in file order."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from bench.peers.batches import Batch, Request, shape_batch


class Backed:
    """AnnData's own way to read rows of a file that is too large for memory."""

    packages = ("anndata", "h5py", "numpy", "scipy")

    def open(self, h5ad: str, cache: str, panel: npt.NDArray[np.int64]) -> dict[str, float]:
        self._h5ad, self._panel = h5ad, panel
        return {}

    def batches(self, request: Request) -> Iterator[Batch]:
        import anndata

        adata = anndata.read_h5ad(self._h5ad, backed="r")
        labels = adata.obs["cell_type"].cat.codes.to_numpy()
        order = np.random.default_rng(request.epoch).permutation(adata.n_obs)
        try:
            for start in range(0, order.size, request.batch_size):
                rows = np.sort(order[start : start + request.batch_size])
                labels[rows]
                yield Batch(shape_batch(adata.X[rows], request.task, self._panel), rows)
        finally:
            adata.file.close()


loader = Backed
