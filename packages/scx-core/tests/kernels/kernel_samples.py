"""Matrices whose rows take every way through the codec and the kernels."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import anndata as ad
import numpy as np
import scipy.sparse as sp

import scx_core
from scx_core._section_names import SectionType
from scx_core.native.container import FileReader
from scx_core.native.matrix import Matrix

N_ROWS, N_COLS = 230, 700


def counts(rng: np.random.Generator) -> sp.csr_matrix:
    """UMI-like counts: mostly 1, a heavy tail, some rows empty, one full, one with huge values."""
    rates = rng.lognormal(-1.5, 1.5, N_COLS)
    dense = rng.poisson(rates * rng.lognormal(0, 1, (N_ROWS, 1))).astype(np.float32)
    dense[[0, 7, N_ROWS - 1]] = 0
    dense[3] = np.arange(1, N_COLS + 1)
    dense[4, ::3] = 2.0**24
    dense[5, 10:200] = 1
    return sp.csr_matrix(dense)


def samples(rng: np.random.Generator) -> dict[str, sp.csr_matrix]:
    """By name; float32 unless the name says otherwise."""
    base = counts(rng)
    log_normalised = base.copy()
    totals = np.asarray(base.sum(1)).ravel()
    scale = np.repeat(1e4 / np.maximum(totals, 1), np.diff(base.indptr))
    log_normalised.data = np.log1p(base.data * scale).astype(np.float32)
    scattered = base.copy()
    scattered.data = rng.normal(size=base.nnz).astype(np.float32)
    special = base.copy()
    special.data[::17] = np.nan
    special.data[5::29] = -special.data[5::29]
    special.data[3::31] = -0.0
    special.data[11::97] = np.inf
    wide = base.astype(np.int64)
    wide.data[::50] = 2**40 + np.arange(len(wide.data[::50]))
    return {
        "counts": base,
        "log_normalised": log_normalised,
        "scattered": scattered,
        "special": special,
        "uint8": base.minimum(255).astype(np.uint8),
        "uint16": base.minimum(65535).astype(np.uint16),
        "uint32": base.astype(np.uint32),
        "int32_negative": sp.csr_matrix(
            base.astype(np.int32).multiply(rng.choice([-1, 1], N_COLS))
        ),
        "int64_wide": wide,
        "uint64": wide.astype(np.uint64),
        "float64": log_normalised.astype(np.float64),
    }


def open_matrix(path: Path, matrix: Any, codec: str, shard_size: int = 100) -> Matrix:
    """The matrix written to `path` as X, and opened."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="NaN or infinite values were kept")
        scx_core.from_anndata(
            ad.AnnData(matrix),
            path,
            codec=codec,
            shard_size=shard_size,
            overwrite=True,
            progress=False,
        )
    return Matrix(FileReader(path), section_type=SectionType.CSR_SHARD, name="X")
