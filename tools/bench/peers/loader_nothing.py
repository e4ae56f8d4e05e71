"""The baseline: hands out one batch again and again, so it costs what the measuring costs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from bench.peers.batches import Batch, Request


class Nothing:
    """Yields views of one array of zeros."""

    packages = ("numpy",)

    def open(self, h5ad: str, cache: str, panel: npt.NDArray[np.int64]) -> dict[str, float]:
        import h5py

        with h5py.File(h5ad) as file:
            self._n_cells = int(file["X"].attrs["shape"][0])
        self._width = panel.size
        return {}

    def batches(self, request: Request) -> Iterator[Batch]:
        zeros = np.zeros((request.batch_size, self._width), np.float32)
        for start in range(0, self._n_cells, request.batch_size):
            stop = min(self._n_cells, start + request.batch_size)
            yield Batch(zeros[: stop - start], np.arange(start, stop, dtype=np.int64))


loader = Nothing
