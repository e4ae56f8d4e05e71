"""No batch makes a kernel crash, or differ from its numpy version."""

from __future__ import annotations

import itertools
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import scx_tokenize as tk

N_GENES = 60
VALUES = st.one_of(
    st.integers(0, 4).map(float),
    st.integers(0, 2**24).map(float),
    st.floats(width=32, allow_infinity=False),
    st.sampled_from([0.0, -0.0, -1.0, float("nan"), 1e-45, 3e38]),
)
ROWS = st.lists(st.dictionaries(st.integers(0, N_GENES - 1), VALUES, max_size=40), max_size=6)
THREADS = st.sampled_from([None, 1, 3])


def batch_of(rows):
    lengths = [len(row) for row in rows]
    indptr = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64)
    indices = np.array([gene for row in rows for gene in sorted(row)], dtype=np.int32)
    data = np.array([row[gene] for row in rows for gene in sorted(row)], dtype=np.float32)
    return indptr, indices, data


@given(ROWS, st.integers(1, 50), THREADS)
@settings(max_examples=150, deadline=None)
def test_top_k(oracle, rows, k, threads):
    batch = batch_of(rows)
    result = tk.top_k(*batch, k, N_GENES, threads=threads)
    for name, expected in oracle.top_k(batch, k, N_GENES).items():
        np.testing.assert_array_equal(result[name], expected)


@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 600),
    st.integers(1, 600),
    st.sampled_from([1, 2, 5, 17, 40, 600]),
    st.sampled_from([0.0, 0.01, 0.3]),
)
@settings(max_examples=150, deadline=None)
def test_top_k_of_long_rows(oracle, seed, n_genes, k, n_distinct, odd_share):
    """So many values, the smaller ones more common, with odd ones among them."""
    rng = np.random.default_rng(seed)
    # float32 holds less than what a spread of 20 may draw
    drawn = rng.lognormal(0, rng.choice([0.001, 1, 20]), n_distinct)
    distinct = np.sort(drawn.clip(1e-30, 1e30).astype(np.float32))
    common = rng.geometric(rng.choice([0.05, 0.5, 0.9]), 3 * n_genes) - 1
    data = distinct[np.minimum(common, n_distinct - 1)]
    odd = np.array([0, -0.0, -1, np.nan, np.inf, -np.inf, 1e-45, 3e38], dtype=np.float32)
    data = np.where(rng.random(len(data)) < odd_share, rng.choice(odd, len(data)), data)
    batch = np.arange(4) * n_genes, np.tile(np.arange(n_genes), 3), data
    result = tk.top_k(*batch, k, n_genes)
    for name, expected in oracle.top_k(batch, k, n_genes).items():
        np.testing.assert_array_equal(result[name], expected, err_msg=name)


@given(ROWS, st.integers(1, 50), st.integers(0, 2**32 - 1), st.sampled_from([1e4, 1e-30, 1e30]))
@settings(max_examples=150, deadline=None)
def test_rank_tokens(oracle, rows, l_max, seed, target):
    batch = batch_of(rows)
    stats = np.random.default_rng(seed).lognormal(0, 8, N_GENES).astype(np.float32)
    stats = np.clip(stats, 1e-45, 3e38).astype(np.float32)
    result = tk.rank_tokens(*batch, stats, l_max, "v", target)
    expected = oracle.rank(batch, stats, l_max, target)
    ids = result["ids"].reshape(len(rows), l_max)
    assert [a[:n].tolist() for a, n in zip(ids, result["lengths"], strict=True)] == expected


@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 400),
    st.integers(1, 400),
    st.sampled_from([1, 2, 9, 400, 70_000]),
    st.sampled_from([0, 1, 5, 60, 2**20, 2**27]),
    st.sampled_from([1e4, 1e-34, 1e-30, 1e30, 1e38]),
)
@settings(max_examples=200, deadline=None)
def test_rank_tokens_of_counts(oracle, seed, n_genes, l_max, top_count, steps, target):
    """Counts over statistics that lie up to so many float32 steps apart."""
    rng = np.random.default_rng(seed)
    bits = rng.integers(0x3E000000, 0x40000000) + rng.integers(0, steps + 1, n_genes)
    stats = bits.astype(np.int32).view(np.float32)
    chosen = [np.flatnonzero(rng.random(n_genes) < rng.random()) for _ in range(3)]
    lengths = [len(genes) for genes in chosen]
    batch = (
        np.concatenate([[0], np.cumsum(lengths)]),
        np.concatenate(chosen),
        rng.integers(1, top_count + 1, sum(lengths)).astype(np.float32),
    )
    result = tk.rank_tokens(*batch, stats, l_max, "v", target)
    ids = result["ids"].reshape(3, l_max)
    found = [a[:n].tolist() for a, n in zip(ids, result["lengths"], strict=True)]
    assert found == oracle.rank(batch, stats, l_max, target)


@given(ROWS, st.integers(3, 60), st.sampled_from(["left", "right", "seeded"]), THREADS)
@settings(max_examples=150, deadline=None)
def test_quantile_bins(oracle, rows, n_bins, tie, threads):
    batch = batch_of(rows)
    result = tk.bin_values(*batch, n_bins, tie=tie, seed=9, threads=threads)
    assert result["bins"].tolist() == oracle.bins(batch, n_bins, tie=tie, seed=9)
    assert all(0 <= bin_ < n_bins for bin_ in result["bins"])


@given(
    ROWS,
    st.lists(st.floats(-2, 1e6), min_size=2, max_size=9),
    st.sampled_from(["left", "right", "seeded"]),
)
@settings(max_examples=100, deadline=None)
def test_given_edges(oracle, rows, edges, tie):
    batch = batch_of(rows)
    edges = np.sort(edges)
    values = batch[2]
    if ((values > 0) & (values < edges[0])).any():
        with pytest.raises(ValueError, match="reserved for unexpressed"):
            tk.bin_values(*batch, len(edges) + 1, edges, tie)
        return
    result = tk.bin_values(*batch, len(edges) + 1, edges, tie)
    assert result["bins"].tolist() == oracle.bins(batch, len(edges) + 1, edges, tie)


@given(ROWS, st.integers(1, 40), st.integers(0, 2**64 - 1), st.sampled_from(["log1p", "count"]))
@settings(max_examples=100, deadline=None)
def test_sample_genes(oracle, rows, n, seed, weight):
    batch = batch_of(rows)
    result = tk.sample_genes(*batch, n, seed, 3, weight)
    ids = result["ids"].reshape(len(rows), n)
    drawn = [a[:length].tolist() for a, length in zip(ids, result["lengths"], strict=True)]
    assert drawn == oracle.sample(batch, n, seed, 3, weight)


@given(ROWS)
@settings(max_examples=100, deadline=None)
def test_values(oracle, rows):
    indptr, indices, data = batch_of(rows)
    clipped = oracle.clipped(data)
    np.testing.assert_array_equal(tk.transform_values(indptr, data, "pass_through"), clipped)
    np.testing.assert_allclose(
        tk.transform_values(indptr, data, "log1p_raw"), np.log1p(clipped), rtol=2.4e-7, atol=1e-45
    )
    totals = np.array([clipped[a:b].sum() for a, b in itertools.pairwise(indptr)])
    np.testing.assert_allclose(tk.library_size(indptr, data), totals, rtol=1e-14)
    lengths = np.diff(indptr)
    with np.errstate(all="ignore"):
        factors = np.where(totals > 0, 1e4 / totals, 1)
        narrow = factors.astype(np.float32).astype(np.float64)
        is_normal = np.isfinite(narrow) & (narrow >= np.finfo(np.float32).tiny)
        scaled = np.repeat(np.where(is_normal, narrow, factors), lengths) * clipped
        logs = np.log1p(4 * 0.25 * clipped.astype(np.float64))
        centres = np.array([logs[a:b].sum() / 70 for a, b in itertools.pairwise(indptr)])
    normalised = tk.transform_values(indptr, data, "normalize_log1p")
    np.testing.assert_allclose(normalised, np.log1p(scaled), rtol=4e-7, atol=1e-45)
    pflog = tk.transform_values(indptr, data, "pflog_raw", pflog_alpha=0.25, n_measured=70)
    np.testing.assert_allclose(pflog, logs - np.repeat(centres, lengths), rtol=1e-6, atol=1e-4)
    panel = np.arange(0, N_GENES, 3)
    mask = tk.measured_mask(indptr, indices, panel).reshape(len(rows), len(panel))
    for row, (a, b) in enumerate(itertools.pairwise(indptr)):
        np.testing.assert_array_equal(mask[row], np.isin(panel, indices[a:b]))


@given(
    st.lists(st.integers(-3, 12), min_size=1, max_size=6),
    st.lists(st.integers(-2, 70), max_size=12),
)
@settings(max_examples=300, deadline=None)
def test_any_arrays_are_taken_or_refused(indptr, indices):
    data = np.ones(len(indices))
    ids = np.array(indices, dtype=np.int64)
    fits = indptr[0] == 0 and indptr == sorted(indptr) and indptr[-1] == len(indices)
    fits = fits and all(
        all(0 <= gene < N_GENES for gene in indices[a:b]) and (np.diff(indices[a:b]) > 0).all()
        for a, b in itertools.pairwise(indptr)
    )
    calls = (
        lambda: tk.top_k(indptr, ids, data, 3, N_GENES),
        lambda: tk.rank_tokens(indptr, ids, data, np.ones(N_GENES), 3, "v"),
    )
    for call in calls:
        if fits:
            call()
        else:
            with pytest.raises(ValueError, match=r"indptr|gene id"):
                call()


def test_no_torch_is_imported():
    use = "import sys, scx_tokenize as tk; tk.top_k([0, 1], [0], [1], 1, 1)"
    code = f"{use}; print('torch' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout == "False\n", result.stderr
