"""scDataset on a backed .h5ad: blocks of 16 neighbouring cells, 16 batches fetched at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from bench.peers.batches import Batch, Request, rows_of_names, shape_batch

BLOCK_SIZE = 16
FETCH_FACTOR = 16


class ScDataset:
    """The set-up of its documentation: BlockShuffling, read to memory once a fetch."""

    packages = ("scDataset", "torch", "anndata", "h5py", "numpy", "scipy")

    def open(self, h5ad: str, cache: str, panel: npt.NDArray[np.int64]) -> dict[str, float]:
        import scdataset  # noqa: F401  (its import, of torch above all, is no part of an epoch)

        self._h5ad, self._panel = h5ad, panel
        return {}

    def batches(self, request: Request) -> Iterator[Batch]:
        import anndata
        from scdataset import BlockShuffling, scDataset
        from torch.utils.data import DataLoader

        adata = anndata.read_h5ad(self._h5ad, backed="r")

        def shape(part: Any) -> Batch:
            rows = rows_of_names(part.obs_names) if request.identify else None
            part.obs["cell_type"].cat.codes.to_numpy()
            return Batch(shape_batch(part.X, request.task, self._panel), rows)

        dataset = scDataset(
            adata,
            BlockShuffling(block_size=BLOCK_SIZE),
            batch_size=request.batch_size,
            fetch_factor=FETCH_FACTOR,
            fetch_transform=lambda part: part.to_memory(),
            batch_transform=shape,
            seed=request.epoch,
        )
        try:
            yield from DataLoader(dataset, batch_size=None, num_workers=0)
        finally:
            adata.file.close()


loader = ScDataset
