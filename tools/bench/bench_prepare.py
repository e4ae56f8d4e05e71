"""Browser-ready files from counts in memory: seconds beside cellucid's, and sizes.

Both get the same AnnData with a latent space of 30 columns and one categorical column, and write
new outputs, each under a name of its own, to a file system in memory where there is one: how long a
disk's file system takes for thousands of new files depends on what was deleted there before, by
whomever. What the disk makes of it stands beside it. Not measured: reading the input.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from bench import data
from bench.harness import Limit, Result, Sample, alternate, timed
from bench.setup import Setup

FASTER = Limit("at least", 5.0)
SIZE = Limit("at most", 1.0)
N_PAIRS = 2
SHARED_MEMORY = Path("/dev/shm")
ROOM_BYTES = 1 << 30
CONTAINERS: dict[str, dict[str, Any]] = {
    "h5ad": {"format": "h5ad"},
    "zarr 2": {"format": "zarr", "zarr_format": 2},
    "zarr 3": {"format": "zarr", "zarr_format": 3},
    "zarr.zip": {"format": "zarr.zip"},
}


def run(setup: Setup) -> Result:
    """Alternate the two writers for each container."""
    import cellucid

    size = data.QUICK if setup.quick else replace(data.FULL, n_cells=20_000)
    arguments = _arguments(data.counts_h5ad(size, setup.folder))
    stored = int(arguments["data"].X.nnz)
    result = Result("prepare")
    for name, options in CONTAINERS.items():
        limits = (None, None) if setup.quick else (FASTER, SIZE)
        with _folder_in_memory() as memory:
            writers = _Writers(memory or setup.folder, stored, options | arguments)
            comparison = alternate(writers.ours, writers.theirs, N_PAIRS)
            ratio = writers.sizes["ours"] / writers.sizes["theirs"]
        result.add(name, [s.rate for s in comparison.ours], "values/s")
        result.add(f"{name} / cellucid", comparison.ratios, "x", limits[0])
        result.add(f"{name}, size / cellucid's", ratio, "x", limits[1])
        if memory is not None:
            with tempfile.TemporaryDirectory(dir=setup.folder) as disk:
                writers = _Writers(Path(disk), stored, options | arguments)
                comparison = alternate(writers.ours, writers.theirs, 1, warm_up=0)
            result.add(f"{name}, on the disk / cellucid", comparison.ratios, "x")
    result.facts.update(stored_values=stored, cellucid=cellucid.__version__)
    return result


class _Writers:
    """The two writers; each call makes an output of a new name."""

    def __init__(self, folder: Path, stored: int, arguments: dict[str, Any]) -> None:
        self._folder = folder
        self._stored = stored
        self._arguments = arguments
        self._n_written = 0
        self.sizes: dict[str, int] = {}

    def ours(self) -> Sample:
        """Write with this project's package."""
        import cellucid_prepare

        return self._timed("ours", partial(cellucid_prepare.prepare, progress=False))

    def theirs(self) -> Sample:
        """Write with cellucid."""
        import cellucid

        return self._timed("theirs", cellucid.prepare)

    def _timed(self, who: str, prepare: Callable[..., Any]) -> Sample:
        self._n_written += 1
        path = self._folder / f"{who}{self._n_written}.{self._arguments['format']}"
        sample = timed(self._stored, lambda: prepare(path, **self._arguments))
        self.sizes[who] = _bytes(path)
        return sample


@contextmanager
def _folder_in_memory() -> Iterator[Path | None]:
    """A folder whose files take memory alone; None where there is none with room for all."""
    if not SHARED_MEMORY.is_dir() or shutil.disk_usage(SHARED_MEMORY).free < ROOM_BYTES:
        yield None
        return
    with tempfile.TemporaryDirectory(dir=SHARED_MEMORY) as folder:
        yield Path(folder)


def _arguments(h5ad: Path) -> dict[str, Any]:
    import anndata
    import numpy as np
    import pandas as pd

    adata = anndata.read_h5ad(h5ad)
    rng = np.random.default_rng(0)
    adata.obs["cell_type"] = pd.Categorical(rng.choice(list("abcdefgh"), adata.n_obs))
    adata.obsm["X_pca"] = rng.normal(size=(adata.n_obs, 30)).astype(np.float32)
    adata.obsm["X_umap"] = rng.normal(size=(adata.n_obs, 2)).astype(np.float32)
    return {
        "data": adata,
        "dataset_id": "counts",
        "dataset_name": "counts",
        "latent_key": "X_pca",
    }


def _bytes(path: Path) -> int:
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file())
