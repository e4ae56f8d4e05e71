"""Uses the installed packages a little; run where the wheels are installed, not in the checkout."""

from __future__ import annotations

import importlib
from pathlib import Path

MODULES = ("scx_core", "scx_train", "scx_tokenize", "cellucid_prepare", "pyscx")


def main() -> None:
    """Import every package, and take a small matrix through a file."""
    for name in MODULES:
        module = importlib.import_module(name)
        print(f"{name} {module.__version__} from {Path(module.__file__ or '').parent}")
    _round_trip()


def _round_trip() -> None:
    import anndata
    import numpy as np
    import scipy.sparse

    import pyscx

    rng = np.random.default_rng(0)
    counts = scipy.sparse.csr_matrix(rng.poisson(0.3, (300, 50)).astype(np.float32))
    adata = anndata.AnnData(counts)
    adata.obs["type"] = np.arange(300) % 3
    pyscx.from_anndata(adata, "trial.scx")
    with pyscx.open("trial.scx") as experiment:
        back = experiment.to_anndata()
    np.testing.assert_array_equal(back.X.toarray(), counts.toarray())
    cells = 0
    for batch in pyscx.TrainingDataset("trial.scx", batch_size=64, obs_columns=["type"]):
        np.testing.assert_array_equal(batch["obs"]["type"], batch["cell_indices"] % 3)
        cells += len(batch["X"])
    assert cells == 300
    print("round trip: 300 cells written, read back equal, and streamed as batches")


if __name__ == "__main__":
    main()
