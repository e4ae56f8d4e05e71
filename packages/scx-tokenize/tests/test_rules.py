"""Worked values, and what the results may not depend on."""

from __future__ import annotations

import inspect
import sys
import threading
import time

import anndata
import numpy as np
import pytest
import scipy.sparse as sp

import scx_tokenize as tk
from scx_core.native.csr_rows import csr_rows

N_GENES = 300
STATS = np.random.default_rng(1).lognormal(0, 1, N_GENES)


def kernels(matrix, rows=None, **options):
    """Everything that the kernels make of a batch, by name."""
    parts = matrix.indptr, matrix.indices, matrix.data
    n = len(parts[0]) - 1
    top = tk.top_k(*parts, 40, N_GENES, **options)
    rank = tk.rank_tokens(*parts, STATS, 64, "v", **options)
    drawn = {"seed": 3, "file_identity": 4, "rows": rows}
    return {
        **{f"top_{name}": top[name].reshape(n, -1) for name in ("ids", "values", "mask", "pad")},
        "rank": rank["ids"].reshape(n, -1),
        "rank_lengths": rank["lengths"],
        "bins": tk.bin_values(*parts, 11, tie="seeded", **drawn, **options)["bins"],
        "sample": tk.sample_genes(*parts, 30, **drawn, **options)["ids"].reshape(n, -1),
        "totals": tk.library_size(parts[0], parts[2], **options),
        "values": tk.transform_values(parts[0], parts[2], "normalize_log1p", **options),
        "mask": tk.measured_mask(*parts[:2], np.arange(0, N_GENES, 2), **options).reshape(n, -1),
    }


def test_published_draws():
    batch = np.array([0, 2]), np.array([3, 8]), np.array([5, 5])
    drawn = tk.sample_genes(*batch, 12, 1, 2)
    assert drawn["ids"].tolist() == [3, 8, 8, 8, 3, 8, 3, 8, 3, 8, 3, 3]
    result = tk.bin_values(*batch, 9, tie="seeded", seed=1, file_identity=2)
    assert result["bins"].tolist() == [8, 7]


def test_threads_change_nothing(batch):
    matrix = batch(700, N_GENES, kind="odd")
    expected = kernels(matrix, threads=1)
    for threads in (2, 3, 16, None):
        for name, array in kernels(matrix, threads=threads).items():
            np.testing.assert_array_equal(array, expected[name], err_msg=name)


def test_batches_change_nothing(batch):
    """100 rows in one call, in four, and reversed."""
    matrix = batch(100, N_GENES, kind="odd")
    numbers = np.arange(100) + 10**6
    whole = kernels(matrix, numbers)
    quarters = [kernels(matrix[i : i + 25], numbers[i : i + 25]) for i in range(0, 100, 25)]
    backwards = kernels(matrix[::-1].tocsr(), numbers[::-1])
    for name, array in whole.items():
        np.testing.assert_array_equal(np.concatenate([q[name] for q in quarters]), array)
        if name not in ("bins", "values"):
            np.testing.assert_array_equal(backwards[name][::-1], array)
    for name in ("bins", "values"):
        there = np.split(whole[name], matrix.indptr[1:-1])
        back = np.split(backwards[name], matrix[::-1].tocsr().indptr[1:-1])
        for a, b in zip(there, back[::-1], strict=True):
            np.testing.assert_array_equal(a, b)


def test_row_numbers_key_the_draws():
    batch = np.array([0, 2, 4]), np.array([3, 8, 3, 8]), np.ones(4)
    a = tk.sample_genes(*batch, 30, 1, 2)["ids"].reshape(2, -1)
    b = tk.sample_genes(*batch, 30, 1, 2, rows=[1, 0])["ids"].reshape(2, -1)
    assert (a == b[::-1]).all() and (a[0] != a[1]).any()
    assert (tk.sample_genes(*batch, 30, 1, 3)["ids"].reshape(2, -1) != a).any()
    assert (tk.sample_genes(*batch, 30, 2, 2)["ids"].reshape(2, -1) != a).any()


def test_any_dtype_and_layout(batch):
    matrix = batch(50, N_GENES)
    expected = kernels(matrix)
    for pointers in (np.int64, np.uint16, np.uint64, np.int32):
        for ids in (np.int16, np.uint32, np.int64, np.uint64):
            for values in (np.float64, np.int32, np.uint16, np.int64, np.float32, ">f8"):
                parts = [
                    matrix.indptr.astype(pointers),
                    np.repeat(matrix.indices.astype(ids), 2)[::2],
                    np.repeat(matrix.data.astype(values), 3)[::3],
                ]
                assert not parts[1].flags.c_contiguous
                result = tk.top_k(*parts, 40, N_GENES)
                np.testing.assert_array_equal(result["ids"].reshape(50, -1), expected["top_ids"])
    half = tk.top_k(matrix.indptr, matrix.indices, matrix.data.astype(np.float16), 40, N_GENES)
    np.testing.assert_array_equal(half["ids"].reshape(50, -1), expected["top_ids"])
    frozen = matrix.copy()
    for array in (frozen.indptr, frozen.indices, frozen.data):
        array.flags.writeable = False
    np.testing.assert_array_equal(kernels(frozen)["rank"], expected["rank"])
    listed = tk.top_k(
        matrix.indptr.tolist(), matrix.indices.tolist(), matrix.data.tolist(), 40, N_GENES
    )
    np.testing.assert_array_equal(listed["ids"].reshape(50, -1), expected["top_ids"])


def test_inputs_stay(batch):
    matrix = batch(50, N_GENES, kind="odd")
    before = matrix.copy()
    kernels(matrix)
    for name in ("indptr", "indices", "data"):
        np.testing.assert_array_equal(getattr(matrix, name), getattr(before, name))
    kept = tk.transform_values(matrix.indptr, matrix.data, "pass_through")
    assert not np.shares_memory(kept, matrix.data)


def test_a_batch_in_one_argument(batch):
    matrix = batch(50, N_GENES)
    parts = {"indptr": matrix.indptr, "indices": matrix.indices, "data": matrix.data}
    wide = matrix.copy()  # with room behind the last value
    wide.data = np.concatenate([wide.data, [9, 9]]).astype(np.float32)
    wide.indices = np.concatenate([wide.indices, [9, 9]]).astype(np.int32)
    forms = [
        matrix,
        sp.csr_array(matrix),
        parts,
        {**parts, "set_offsets": None},
        {"X": matrix, "obs": {}},
        anndata.AnnData(matrix),
        wide,
    ]
    expected = kernels(matrix)
    for form in forms:
        top = tk.top_k(form, 40, n_genes_total=N_GENES)
        np.testing.assert_array_equal(top["ids"], expected["top_ids"].ravel())
        rank = tk.rank_tokens(form, STATS, l_max=64, vocabulary_version="v")
        np.testing.assert_array_equal(rank["ids"], expected["rank"].ravel())
        drawn = tk.sample_genes(form, 30, 3, 4)
        np.testing.assert_array_equal(drawn["ids"], expected["sample"].ravel())
        bins = tk.bin_values(form, 11, tie="seeded", seed=3, file_identity=4)
        np.testing.assert_array_equal(bins["bins"], expected["bins"])
        np.testing.assert_array_equal(tk.library_size(form), expected["totals"])
        values = tk.transform_values(form, "normalize_log1p")
        np.testing.assert_array_equal(values, expected["values"])
        mask = tk.measured_mask(form, np.arange(0, N_GENES, 2))
        np.testing.assert_array_equal(mask, expected["mask"].ravel())
    for wrong in (matrix.tocsc(), matrix.toarray(), {"X": matrix.toarray()}, matrix.tocoo()):
        with pytest.raises(TypeError, match="has to be in CSR"):
            tk.top_k(wrong, 40, N_GENES)
    with pytest.raises(ValueError, match="keys of this one are Y"):
        tk.library_size({"Y": matrix})


def test_near_ties_have_a_fixed_order():
    """Ratios that are equal, or that differ in float64 and not in float32."""
    n = 2000
    stats = np.ones(n, dtype=np.float32)
    values = np.full(n, 3.0)
    batch = np.array([0, n]), np.arange(n), values
    assert tk.rank_tokens(*batch, stats, n, "v")["ids"].tolist() == list(range(n))
    # 3 / 3 = 6 / 6 = ..., whatever the factor is rounded to
    values[::2], stats[::2] = 6, 2
    assert tk.rank_tokens(*batch, stats, n, "v")["ids"].tolist() == list(range(n))
    # one below and one above in float64, the same float32
    near = np.array([0, 2]), np.array([0, 1]), np.array([1.0, 1.0 + 2**-30])
    assert tk.top_k(*near, 2, 2)["ids"].tolist() == [0, 1]
    assert tk.rank_tokens(*near, [1, 1], 2, "v")["ids"].tolist() == [0, 1]


def test_the_mask_marks_no_gene():
    assert tk.top_k([0, 3], [3, 5, 9], [1, 7, 4], 3, 100)["mask"].tolist() == [0, 0, 0]


def test_sentinels_lie_outside_the_genes():
    batch = np.array([0, 2, 3, 3]), np.array([0, 4, 4]), np.array([1, 2, -1])
    result = tk.top_k(*batch, 3, 5)
    assert result["ids"].tolist() == [4, 0, 6, 5, 6, 6, 5, 6, 6]
    assert result["mask"].tolist() == [0, 0, 0, 1, 0, 0, 1, 0, 0]
    assert result["pad"].tolist() == [0, 0, 1, 0, 1, 1, 0, 1, 1]


def test_infinite_values():
    batch = np.array([0, 3]), np.array([1, 2, 5]), np.array([2, np.inf, 1])
    assert tk.top_k(*batch, 3, 9)["ids"].tolist() == [2, 1, 5]
    assert set(tk.sample_genes(*batch, 50, 0, 0)["ids"]) == {2}
    assert tk.bin_values(*batch, 3, edges=[1, 2])["bins"].tolist() == [2, 2, 1]
    with pytest.raises(ValueError, match="value of gene 2 in row 0 is infinite"):
        tk.bin_values(*batch, 3)
    # the total is infinite, and nothing has a share of it
    assert tk.rank_tokens(*batch, np.ones(9), 3, "v")["lengths"].tolist() == [0]
    assert tk.library_size(batch[0], batch[2]).tolist() == [np.inf]
    changed = {"log1p_raw": [np.log(3), np.inf, np.log(2)]}
    changed |= {"normalize_log1p": [0, np.nan, 0], "pflog_raw": [-np.inf, np.nan, -np.inf]}
    for mode, expected in changed.items():
        values = tk.transform_values(batch[0], batch[2], mode, pflog_alpha=0.5, n_measured=9)
        np.testing.assert_allclose(values, expected, rtol=3e-7, err_msg=mode)


def test_large_and_tiny_values(oracle):
    values = np.array([3e38, 1e-45, 1e-30, 3e38, 7.0], dtype=np.float32)
    batch = np.array([0, 5]), np.arange(5), values
    stats = np.array([1e-45, 3e38, 1, 1, 1], dtype=np.float32)
    result = tk.rank_tokens(*batch, stats, 5, "v")
    (expected,) = oracle.rank(batch, stats, 5)
    assert result["ids"][: result["lengths"][0]].tolist() == expected


def test_other_threads_run_meanwhile(batch):
    """The GIL is released: another thread counts on while a kernel works.

    Nobody is asked to give the GIL up meanwhile, and arrays are not converted, so that the other
    thread can have it from the kernel alone.
    """
    matrix = batch(100, 2000)
    rows = matrix.indptr.astype(np.int64), matrix.indices, matrix.data
    turns, done = [0], threading.Event()

    def count() -> None:
        while not done.is_set():
            turns[0] += 1
            time.sleep(0)

    kernels = (
        lambda: tk.top_k(*rows, 2000, 2000, threads=1),
        lambda: tk.bin_values(*rows, 51, threads=1),
        lambda: tk.sample_genes(*rows, 2000, 1, 2, threads=1),
        lambda: tk.library_size(rows[0], rows[2], threads=1),
        lambda: tk.transform_values(rows[0], rows[2], "log1p_raw", threads=1),
    )
    counter = threading.Thread(target=count, daemon=True)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(60)
    try:
        counter.start()
        for kernel in kernels:
            before = turns[0]
            for _ in range(300):  # the other thread needs some time to wake up
                kernel()
                if turns[0] > before:
                    break
            assert turns[0] > before
    finally:
        sys.setswitchinterval(interval)
        done.set()
        counter.join()


def test_arrays_that_fit_are_not_copied():
    rows = np.array([0, 2]), np.array([3, 8], dtype=np.int32), np.array([5, 5], dtype=np.float32)
    taken = csr_rows(*rows, who="test")
    for given, used in zip(rows, (taken.indptr, taken.indices, taken.data), strict=True):
        assert np.shares_memory(given, used)


def test_signatures_are_the_published_ones():
    """Parameters that may be given by place, in their order; those behind them have names."""
    published = {
        tk.top_k: "indptr, indices, data, k, n_genes_total",
        tk.rank_tokens: "indptr, indices, data, gene_stats, l_max, vocabulary_version, "
        "target_sum=10000.0",
        tk.bin_values: "indptr, indices, data, n_bins, edges=None, tie='left', seed=0, "
        "file_identity=0, rows=None",
        tk.sample_genes: "indptr, indices, data, n, seed, file_identity, weight='log1p', rows=None",
        tk.transform_values: "indptr, data, mode, target_sum=10000.0, pflog_alpha=None, "
        "n_measured=None",
        tk.library_size: "indptr, data",
        tk.measured_mask: "indptr, indices, panel",
        tk.gene_mask_id: "n_genes_total",
        tk.pad_id: "n_genes_total",
    }
    for kernel, expected in published.items():
        found = [
            one.name if one.default is one.empty else f"{one.name}={one.default!r}"
            for one in inspect.signature(kernel).parameters.values()
            if one.kind is one.POSITIONAL_OR_KEYWORD
        ]
        assert ", ".join(found) == expected
