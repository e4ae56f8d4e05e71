"""Browser-ready files from counts in memory: seconds beside cellucid's, and sizes.

Both get the same AnnData with a latent space of 30 columns and one categorical column, and write to
the same disk. Not measured: reading the input.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from bench import data
from bench.harness import Limit, Result, alternate, timed
from bench.setup import Setup

FASTER = Limit("at least", 5.0)
SIZE = Limit("at most", 1.0)
CONTAINERS: dict[str, dict[str, Any]] = {
    "h5ad": {"format": "h5ad"},
    "zarr 2": {"format": "zarr", "zarr_format": 2},
    "zarr 3": {"format": "zarr", "zarr_format": 3},
    "zarr.zip": {"format": "zarr.zip"},
}


def run(setup: Setup) -> Result:
    """Alternate the two writers for each container."""
    import cellucid

    import cellucid_prepare

    size = data.QUICK if setup.quick else replace(data.FULL, n_cells=20_000)
    arguments = _arguments(data.counts_h5ad(size, setup.folder))
    stored = int(arguments["data"].X.nnz)
    result = Result("prepare")
    for name, options in CONTAINERS.items():
        outputs = [setup.folder / f"{who}.{options['format']}" for who in ("ours", "theirs")]

        def writing(prepare: Callable[..., Any], path: Path, **more: Any) -> Callable[[], Any]:
            return lambda: prepare(path, **more, **arguments)

        ours = writing(cellucid_prepare.prepare, outputs[0], **options, force=True, progress=False)
        theirs = writing(cellucid.prepare, outputs[1], **options, force=True)
        comparison = alternate(partial(timed, stored, ours), partial(timed, stored, theirs), 1)
        bytes_of = [_bytes(path) for path in outputs]
        result.add(f"{name}", [s.rate for s in comparison.ours], "values/s")
        result.add(f"{name} / cellucid", comparison.ratios, "x", None if setup.quick else FASTER)
        ratio = bytes_of[0] / bytes_of[1]
        result.add(f"{name}, size / cellucid's", ratio, "x", None if setup.quick else SIZE)
        for path in outputs:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    result.facts.update(stored_values=stored, cellucid=cellucid.__version__)
    return result


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
