"""Each kernel against its numpy version."""

from __future__ import annotations

import itertools

import blake3
import numpy as np
import pytest

import scx_tokenize as tk

KINDS = ["counts", "floats", "odd", "logged"]
N_GENES = 900


def triple(matrix):
    return matrix.indptr, matrix.indices, matrix.data


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("k", [1, 7, 450, 1000])
def test_top_k(batch, oracle, kind, k):
    matrix = batch(40, N_GENES, kind=kind)
    result = tk.top_k(*triple(matrix), k, N_GENES)
    expected = oracle.top_k(triple(matrix), k, N_GENES)
    for name in ("ids", "values", "mask", "pad"):
        np.testing.assert_array_equal(result[name], expected[name], err_msg=name)
    assert (result["n_rows"], result["k"]) == (40, k)
    assert {name: result[name].dtype for name in ("ids", "values", "mask", "pad")} == {
        "ids": np.int32, "values": np.float32, "mask": np.uint8, "pad": np.uint8,
    }  # fmt: skip


@pytest.mark.parametrize("n_shared", [1, 2, 17, 40])
@pytest.mark.parametrize("k", [1, 100, 900])
def test_top_k_of_values_that_many_genes_share(oracle, n_shared, k):
    """Rows of so many common values, each half as common as the one below it, and some others."""
    rng = np.random.default_rng(n_shared)
    values = np.sort(rng.lognormal(0, 2, n_shared).astype(np.float32))
    chosen = np.minimum(rng.geometric(0.5, 20 * N_GENES) - 1, n_shared - 1)
    data = values[chosen]
    data[rng.random(len(data)) < 0.01] = np.nan
    data[rng.random(len(data)) < 0.02] *= np.float32(1.0000001)
    data[rng.random(len(data)) < 0.01] = np.inf
    rows = (np.arange(0, len(data) + 1, N_GENES), np.tile(np.arange(N_GENES), 20), data)
    result = tk.top_k(*rows, k, N_GENES)
    for name, expected in oracle.top_k(rows, k, N_GENES).items():
        np.testing.assert_array_equal(result[name], expected, err_msg=name)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("l_max", [1, 33, 2048])
def test_rank_tokens(batch, oracle, kind, l_max):
    matrix = batch(40, N_GENES, kind=kind)
    stats = np.random.default_rng(1).lognormal(0, 1, N_GENES)
    result = tk.rank_tokens(*triple(matrix), stats, l_max, "v1", target_sum=777.0)
    expected = oracle.rank(triple(matrix), stats, l_max, 777.0)
    assert result["lengths"].tolist() == [len(row) for row in expected]
    for row, ids in enumerate(expected):
        assert result["ids"][row * l_max :][: len(ids)].tolist() == ids
    stamp = blake3.blake3(stats.astype("<f4").tobytes() + b"v1").digest()
    assert result["norm_identity"] == int.from_bytes(stamp[:8], "little")


@pytest.mark.parametrize("steps", [0, 1, 8, 30, 2**23])
@pytest.mark.parametrize("top_count", [1, 2, 300, 70_000])
@pytest.mark.parametrize("target", [1e4, 3e-32, 1e33])
def test_rank_of_counts_over_statistics_that_are_almost_equal(oracle, steps, top_count, target):
    """Statistics up to so many float32 steps apart, also from halves and doubles of each other."""
    rng = np.random.default_rng(steps)
    bits = np.float32(0.7).view(np.int32) + rng.integers(0, steps + 1, N_GENES, dtype=np.int32)
    stats = bits.view(np.float32) * rng.choice([0.5, 1, 2, 3], N_GENES).astype(np.float32)
    rows = (
        np.arange(0, 20 * N_GENES + 1, N_GENES),
        np.tile(np.arange(N_GENES), 20),
        rng.integers(1, top_count + 1, 20 * N_GENES).astype(np.float32),
    )
    for l_max in (100, N_GENES):
        result = tk.rank_tokens(*rows, stats, l_max, "v1", target)
        ids = result["ids"].reshape(20, l_max)
        assert [a[:n].tolist() for a, n in zip(ids, result["lengths"], strict=True)] == oracle.rank(
            rows, stats, l_max, target
        )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tie", ["left", "right", "seeded"])
@pytest.mark.parametrize("n_bins", [3, 7, 51])
def test_quantile_bins(batch, oracle, kind, tie, n_bins):
    matrix = batch(8, N_GENES // 2, kind=kind)
    numbers = np.arange(8)[::-1] + 2**40
    result = tk.bin_values(*triple(matrix), n_bins, tie=tie, seed=5, file_identity=6, rows=numbers)
    expected = oracle.bins(
        triple(matrix), n_bins, tie=tie, seed=5, file_identity=6, numbers=numbers.tolist()
    )
    assert result["bins"].tolist() == expected
    assert (result["n_rows"], result["n_bins"]) == (8, n_bins)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tie", ["left", "right", "seeded"])
def test_bins_of_given_edges(batch, oracle, kind, tie):
    matrix = batch(8, N_GENES // 2, kind=kind)
    edges = np.array([1e-31, 1, 1, 2, 2.5, 40, 1e5])
    matrix.data[(matrix.data > 0) & (matrix.data < 1e-31)] = 1
    result = tk.bin_values(*triple(matrix), 8, edges=edges, tie=tie)
    assert result["bins"].tolist() == oracle.bins(triple(matrix), 8, edges=edges, tie=tie)


def test_quantiles_are_numpys(batch):
    """The lower and the upper bound of numpy.digitize at the edges that numpy.quantile gives."""
    matrix = batch(30, N_GENES)
    left = tk.bin_values(matrix, 51)["bins"]
    right = tk.bin_values(matrix, 51, tie="right")["bins"]
    for a, b in itertools.pairwise(matrix.indptr):
        if a == b:
            continue
        row = matrix.data[a:b].astype(np.float64)
        edges = np.quantile(row, np.linspace(0, 1, 50))
        near = np.abs(row[:, None] - edges).min(axis=1)
        clear = (near == 0) | (near > 1e-9)  # numpy interpolates from the other end above a half
        assert clear.mean() > 0.9
        np.testing.assert_array_equal(left[a:b][clear], np.digitize(row, edges)[clear])
        np.testing.assert_array_equal(right[a:b][clear], np.digitize(row, edges, right=True)[clear])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("weight", ["log1p", "linear", "count"])
def test_sample_genes(batch, oracle, kind, weight):
    matrix = batch(8, N_GENES // 2, kind=kind)
    numbers = np.arange(8) * 7
    result = tk.sample_genes(*triple(matrix), 300, 3, 2**64 - 1, weight=weight, rows=numbers)
    expected = oracle.sample(triple(matrix), 300, 3, 2**64 - 1, weight, numbers.tolist())
    assert result["lengths"].tolist() == [len(row) for row in expected]
    for row, ids in enumerate(expected):
        assert result["ids"][row * 300 :][: len(ids)].tolist() == ids
    assert (result["n_rows"], result["n"]) == (8, 300)


@pytest.mark.parametrize("kind", KINDS)
def test_transform_values(batch, oracle, kind):
    matrix = batch(40, N_GENES, kind=kind)
    row_of = np.repeat(np.arange(40), np.diff(matrix.indptr))
    values = oracle.clipped(matrix.data)
    totals = np.bincount(row_of, values, minlength=40)
    factor = np.divide(500.0, totals, out=np.ones(40), where=totals > 0).astype(np.float32)
    scaled = (values * factor[row_of]).astype(np.float32).astype(np.float64)
    logs = np.log1p(4 * 0.3 * values)
    measured = np.arange(40) + 1000
    centred = logs - (np.bincount(row_of, logs, minlength=40) / measured)[row_of]
    expected = {
        "pass_through": values,
        "log1p_raw": np.log1p(values),
        "normalize_log1p": np.log1p(scaled),
        "pflog_raw": centred,
    }
    for mode, wanted in expected.items():
        result = tk.transform_values(
            matrix.indptr, matrix.data, mode, 500.0, pflog_alpha=0.3, n_measured=measured
        )
        assert result.dtype == np.float32
        np.testing.assert_allclose(result, wanted, rtol=3e-7, atol=1e-6, err_msg=mode)
    ulps = np.spacing(np.log1p(values).astype(np.float32))
    logged = tk.transform_values(matrix.indptr, matrix.data, "log1p_raw")
    assert (np.abs(logged - np.log1p(values)) <= 2 * ulps).all()
    one = tk.transform_values(matrix, "pflog_raw", pflog_alpha=0.3, n_measured=1000)
    several = tk.transform_values(matrix, "pflog_raw", 1e4, 0.3, np.full(40, 1000))
    np.testing.assert_array_equal(one, several)


@pytest.mark.parametrize("kind", KINDS)
def test_library_size(batch, oracle, kind):
    matrix = batch(40, N_GENES, kind=kind)
    result = tk.library_size(matrix.indptr, matrix.data)
    assert result.dtype == np.float64
    expected = [oracle.clipped(row).sum() for _, row in oracle.rows_of(triple(matrix))]
    np.testing.assert_allclose(result, expected, rtol=1e-15)


@pytest.mark.parametrize("panel", [[5, 3, 3, 800, 2**31 - 1], [], list(range(0, 900, 3))])
def test_measured_mask(batch, panel):
    matrix = batch(20, N_GENES, kind="odd")
    result = tk.measured_mask(matrix.indptr, matrix.indices, np.array(panel, dtype=np.int64))
    assert result.dtype == np.uint8
    expected = [np.isin(panel, matrix.indices[a:b]) for a, b in itertools.pairwise(matrix.indptr)]
    np.testing.assert_array_equal(result, np.concatenate(expected))


def test_sentinels():
    assert (tk.gene_mask_id(7), tk.pad_id(7)) == (7, 8)
    assert tk.CONTRACT_VERSION == 1
