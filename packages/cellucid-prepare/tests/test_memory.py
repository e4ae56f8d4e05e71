"""A matrix takes bounded memory, whatever its size; blocks and ranges are scaled down."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import anndata
import numpy as np
import pytest
import scipy.sparse as sp

import scx_core

# what it takes beyond the libraries and the blocks: the input's values alone take 160 MB
LIMIT_MB = 100
WRITE = """
import sys, threading, time
import h5py, anndata, scipy.sparse, deflate, zarr
import cellucid_prepare, scx_core
from cellucid_prepare.inputs import matrices
from cellucid_prepare.matrix import expression
expression.BLOCK_BYTES = 2 << 20
matrices.TURNING_BYTES = 8 << 20
original = expression.Expression.__init__
def small_ranges(self, *arguments, **options):
    original(self, *arguments, **options, range_bytes=24 << 20)
expression.Expression.__init__ = small_ranges
def own():
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) >> 10
def write(source, target):
    cellucid_prepare.prepare(target, format="h5ad", data=source, dataset_id="a", dataset_name="A",
                             progress=False, threads=2, overwrite=True)
write("small.h5ad", "warm.h5ad")
before, peak, done = own(), 0, False
def watch():
    global peak
    while not done:
        peak = max(peak, own())
        time.sleep(0.002)
thread = threading.Thread(target=watch)
thread.start()
write(sys.argv[1], "out.h5ad")
done = True
thread.join()
print(peak - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("kind", ["csr.h5ad", "csc.h5ad", "x.scx"])
def test_the_peak_does_not_follow_the_matrix(kind: str) -> None:
    n_cells, n_genes, per_cell = 40_000, 1000, 500
    rng = np.random.default_rng(0)
    indices = np.tile(np.arange(per_cell, dtype=np.int32) * 2, n_cells)
    indices += np.repeat(rng.integers(0, 2, n_cells, dtype=np.int32), per_cell)
    values = rng.integers(1, 200, len(indices)).astype("f4")
    matrix = sp.csr_matrix(
        (values, indices, np.arange(n_cells + 1) * per_cell), shape=(n_cells, n_genes)
    )
    data = anndata.AnnData(matrix, obsm={"X_umap": np.zeros((n_cells, 2), "f4")})
    data[:100].copy().write_h5ad("small.h5ad")
    if kind == "x.scx":
        scx_core.from_anndata(data, kind, progress=False)
    else:
        data.X = matrix if kind == "csr.h5ad" else sp.csc_matrix(matrix)
        data.write_h5ad(kind)
    assert values.nbytes + indices.nbytes > 1.5 * (LIMIT_MB << 20)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", WRITE, kind],
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < LIMIT_MB, f"{done.stdout} MB"
    assert Path("out.h5ad").is_file()
