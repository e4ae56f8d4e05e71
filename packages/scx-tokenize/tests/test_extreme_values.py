"""Scales and values at the ends of float32: results of finite values are finite, and right."""

from __future__ import annotations

import numpy as np
import pytest

import scx_tokenize as tk

LARGEST = float(np.finfo(np.float32).max)
ROWS = [
    [1, 2, 3, 4, 5, 6, 7, 8, 9],
    [LARGEST] * 20,
    [1e-45, 0, 1e-45, 0],
    [1e-45, LARGEST, 1, 1e-30, 1e30, 0, 0, 0, 0, 0, 0],
    [0, 1e-38, 0],
    [-1e30, 1e-40, -0.0, 5, float("nan")],
    [0, 0, 0, 0, 0, 0, 0, 0, 0],
    [],
]
INDPTR = np.concatenate([[0], np.cumsum([len(row) for row in ROWS])])
DATA = np.array([value for row in ROWS for value in row], dtype=np.float32)


def rows_of(values):
    return np.split(values, INDPTR[1:-1])


def clipped(row):
    return np.where(row > 0, row, 0).astype(np.longdouble)


@pytest.mark.parametrize("target", [1e-30, 1.0, 1e4, 1e38, LARGEST])
def test_normalised_logs(target):
    found = tk.transform_values(INDPTR, DATA, "normalize_log1p", target_sum=target)
    assert np.isfinite(found).all()
    for row, logs in zip(rows_of(DATA), rows_of(found), strict=True):
        total = clipped(row).sum()
        scaled = clipped(row) * (target / total if total > 0 else 1)
        expected = np.log1p(scaled).astype(np.float64)
        np.testing.assert_allclose(logs, expected, rtol=3e-6, atol=1e-44)


@pytest.mark.parametrize("alpha", [1e-30, 0.5, 1e20, LARGEST / 4, LARGEST])
def test_pflog(alpha):
    found = tk.transform_values(INDPTR, DATA, "pflog_raw", pflog_alpha=alpha, n_measured=30)
    assert np.isfinite(found).all()
    for row, values in zip(rows_of(DATA), rows_of(found), strict=True):
        logs = np.log1p(4 * alpha * clipped(row))
        expected = (logs - logs.sum() / 30).astype(np.float64)
        np.testing.assert_allclose(values, expected, rtol=3e-6, atol=1e-4)


def test_other_kernels():
    sizes = tk.library_size(INDPTR, DATA)
    assert np.isfinite(sizes).all()
    np.testing.assert_allclose(sizes, [float(clipped(row).sum()) for row in rows_of(DATA)])
    logs = tk.transform_values(INDPTR, DATA, "log1p_raw")
    np.testing.assert_allclose(logs, np.log1p(clipped(DATA)).astype(np.float64), rtol=3e-7)
    indices = np.concatenate([np.arange(len(row)) for row in ROWS])
    for tie in ("left", "right", "seeded"):
        assert tk.bin_values(INDPTR, indices, DATA, 5, tie=tie)["bins"].max() < 5
    for weight in ("log1p", "count"):
        drawn = tk.sample_genes(INDPTR, indices, DATA, 50, 1, 2, weight)
        has_some = [bool((clipped(row) > 0).any()) for row in rows_of(DATA)]
        assert drawn["lengths"].tolist() == [50 * some for some in has_some]


def test_ranks_of_scales_at_the_ends(oracle):
    batch = INDPTR, np.concatenate([np.arange(len(row)) for row in ROWS]), DATA
    for target in (1e-30, 1.0, LARGEST):
        for scale in (1e-45, 1.0, LARGEST):
            stats = np.full(20, scale, dtype=np.float32)
            made = tk.rank_tokens(*batch, stats, 20, "v", target_sum=target)
            ids = made["ids"].reshape(-1, 20)
            found = [a[:n].tolist() for a, n in zip(ids, made["lengths"], strict=True)]
            assert found == oracle.rank(batch, stats, 20, target)
