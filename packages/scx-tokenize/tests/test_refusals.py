"""What the kernels refuse, and what they say."""

# ruff: noqa: E501 - one call and its message on a line

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import scx_tokenize as tk

GOOD = ([0, 2, 3], [1, 4, 2], [1.0, 2.0, 3.0])
EMPTY = ([0], [], [])
STATS = np.ones(5)

KERNELS = {
    "top_k": lambda *batch: tk.top_k(*batch, 3, 5),
    "rank_tokens": lambda *batch: tk.rank_tokens(*batch, STATS, 3, "v"),
    "bin_values": lambda *batch: tk.bin_values(*batch, 5),
    "sample_genes": lambda *batch: tk.sample_genes(*batch, 5, 0, 0),
    "measured_mask": lambda *batch: tk.measured_mask(batch[0], batch[1], [1, 2]),
}
VALUE_KERNELS = {
    "library_size": lambda *batch: tk.library_size(batch[0], batch[2]),
    "transform_values": lambda *batch: tk.transform_values(batch[0], batch[2], "log1p_raw"),
}


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize(
    ("indices", "message"),
    [
        ([1, 4, -2], "row 1 holds gene id -2: gene ids are non-negative and strictly ascending"),
        ([4, 1, 2], "row 0 are not strictly ascending: 1 follows 4"),
        ([4, 4, 2], "row 0 are not strictly ascending: 4 follows 4"),
        ([1, 4, 2**31], "row 1 holds gene id 2147483648, which is outside the vocabulary"),
        ([1, 4, -(2**40)], "row 1 holds gene id -1099511627776"),
    ],
)
def test_ids_out_of_order(name, indices, message):
    # values of zero: a row that has nothing to do is checked like any other
    with pytest.raises(ValueError, match=f"^{name}: .*{message}"):
        KERNELS[name]([0, 2, 3], indices, [0, 0, 0])


@pytest.mark.parametrize("name", ["top_k", "rank_tokens"])
def test_ids_outside_the_vocabulary(name):
    with pytest.raises(
        ValueError, match=f"^{name}: row 0 holds gene id 5, .*outside the vocabulary"
    ):
        KERNELS[name]([0, 2, 3], [1, 5, 2], [0, 0, 0])


@pytest.mark.parametrize("name", [*KERNELS, *VALUE_KERNELS])
@pytest.mark.parametrize(
    ("indptr", "message"),
    [
        ([1, 2, 3], r"indptr\[0\] is 1, not 0"),
        ([0, 3, 2, 3], r"indptr must not descend, but indptr\[2\] = 2 follows 3"),
        ([0, 2], "indptr ends with 2"),
        ([0, 2, 5], "indptr ends with 5"),
        ([], "indptr is empty"),
        ([[0, 3]], "indptr has 2 dimensions"),
    ],
)
def test_broken_indptr(name, indptr, message):
    kernel = {**KERNELS, **VALUE_KERNELS}[name]
    with pytest.raises(ValueError, match=f"^{name}: {message}"):
        kernel(indptr, GOOD[1], GOOD[2])


@pytest.mark.parametrize("name", [name for name in KERNELS if name != "measured_mask"])
def test_lengths_that_do_not_fit(name):
    with pytest.raises(ValueError, match=f"^{name}: indices has 3 entries and data has 2"):
        KERNELS[name](GOOD[0], GOOD[1], [1, 2])


@pytest.mark.parametrize("name", KERNELS)
def test_wrong_kinds(name):
    with pytest.raises(TypeError, match="indices has dtype float64"):
        KERNELS[name](GOOD[0], [1.0, 4.0, 2.0], GOOD[2])
    with pytest.raises(TypeError, match="indptr has dtype float64"):
        KERNELS[name]([0.0, 3.0], GOOD[1], GOOD[2])
    if name != "measured_mask":
        with pytest.raises(TypeError, match="data has dtype <U1"):
            KERNELS[name](GOOD[0], GOOD[1], ["a", "b", "c"])


# Each wrong argument, on a batch with rows and on one without.
@pytest.mark.parametrize("batch", [GOOD, EMPTY], ids=["rows", "empty"])
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda *b: tk.top_k(*b, 0, 5), "top_k: k must be >= 1"),
        (lambda *b: tk.top_k(*b, 3, 0), "n_genes_total must be >= 1"),
        (lambda *b: tk.top_k(*b, 3, 2**31 - 1), "n_genes_total must be <="),
        (lambda *b: tk.top_k(*b, 3, 5, threads=0), "threads must be >= 1"),
        (lambda *b: tk.rank_tokens(*b, STATS, 0, "v"), "l_max must be >= 1"),
        (lambda *b: tk.rank_tokens(*b, [1, 0, 1, 1, 1], 3, "v"), "gene 1 is 0, .*finite and strictly positive"),
        (lambda *b: tk.rank_tokens(*b, [1, 1, np.nan, 1, 1], 3, "v"), "gene 2 .*finite and strictly positive"),
        (lambda *b: tk.rank_tokens(*b, [np.inf, 1, 1, 1, 1], 3, "v"), "gene 0 .*finite and strictly positive"),
        (lambda *b: tk.rank_tokens(*b, [1, 1, 1, 1, -2], 3, "v"), "gene 4 is -2"),
        (lambda *b: tk.rank_tokens(*b, [1, 1, 1, 1e-60, 1], 3, "v"), "gene 3 is 0"),
        (lambda *b: tk.rank_tokens(*b, [], 3, "v"), "gene_stats is empty, .*finite and strictly positive"),
        (lambda *b: tk.rank_tokens(*b, STATS, 3, "v", target_sum=0), "target_sum=0.0 must be finite and strictly positive"),
        (lambda *b: tk.rank_tokens(*b, STATS, 3, "v", target_sum=np.inf), "target_sum=inf"),
        (lambda *b: tk.bin_values(*b, 2), "n_bins must be >= 3"),
        (lambda *b: tk.bin_values(*b, 2**16 + 1), "n_bins must be <= 65536"),
        (lambda *b: tk.bin_values(*b, 5, tie="middle"), "unknown tie 'middle'"),
        (lambda *b: tk.bin_values(*b, 5, edges=[1, 2, 3]), "exactly n_bins - 1 = 4"),
        (lambda *b: tk.bin_values(*b, 4, edges=[1, 3, 2]), "non-decreasing, but edge 2, 2, follows 3"),
        (lambda *b: tk.bin_values(*b, 4, edges=[1, np.nan, 2]), "finite and non-decreasing, but edge 1 is nan"),
        (lambda *b: tk.bin_values(*b, 4, edges=[1, 2, np.inf]), "edge 2 is inf"),
        (lambda *b: tk.bin_values(*b, 4, rows=[1]), "rows has 1 entries for"),
        (lambda *b: tk.bin_values(*b, 4, seed=-1), "seed must be >= 0"),
        (lambda *b: tk.bin_values(*b, 4, file_identity=2**64), "file_identity must be <="),
        (lambda *b: tk.sample_genes(*b, 0, 0, 0), "n must be >= 1"),
        (lambda *b: tk.sample_genes(*b, 5, 0, 0, weight="square"), "weight='square' must be one of"),
        (lambda *b: tk.sample_genes(*b, 5, 0, 0, rows=[1]), "rows has 1 entries for"),
        (lambda *b: tk.sample_genes(*b, 5, 2**64, 0), "seed must be <="),
        (lambda *b: tk.transform_values(b[0], b[2], "log"), "mode='log' must be one of"),
        (lambda *b: tk.transform_values(b[0], b[2], "pflog_raw", n_measured=5), "requires pflog_alpha and n_measured"),
        (lambda *b: tk.transform_values(b[0], b[2], "pflog_raw", pflog_alpha=0.1), "requires pflog_alpha and n_measured"),
        (lambda *b: tk.transform_values(b[0], b[2], "pflog_raw", pflog_alpha=0, n_measured=5), "pflog_alpha=0.0 must be"),
        (lambda *b: tk.transform_values(b[0], b[2], "pflog_raw", pflog_alpha=1, n_measured=0), "n_measured must be >= 1"),
        (lambda *b: tk.transform_values(b[0], b[2], "normalize_log1p", target_sum=-1), "target_sum=-1.0"),
        (lambda *b: tk.measured_mask(b[0], b[1], [3, -1]), "panel holds gene id -1"),
    ],
)  # fmt: skip
def test_arguments(call, message, batch):
    with pytest.raises(ValueError, match=message):
        call(*batch)


def test_sizes_of_rows_of_n_measured():
    with pytest.raises(ValueError, match="n_measured of row 1 is 0"):
        tk.transform_values(GOOD[0], GOOD[2], "pflog_raw", pflog_alpha=1, n_measured=[1, 0])
    with pytest.raises(ValueError, match="n_measured has 3 entries for 2 rows"):
        tk.transform_values(GOOD[0], GOOD[2], "pflog_raw", pflog_alpha=1, n_measured=[1, 1, 1])


def test_a_value_below_the_edges():
    message = r"the value 1 of gene 1 in row 0 .*reserved for unexpressed"
    with pytest.raises(ValueError, match=message):
        tk.bin_values(*GOOD, 4, edges=[2, 3, 4])


def test_edges_are_checked_before_rows_without_values():
    with pytest.raises(ValueError, match="exactly n_bins - 1"):
        tk.bin_values([0, 1], [0], [0], 4, edges=[1])


def test_kinds_of_arguments():
    for call in (
        lambda: tk.top_k(*GOOD, 2.5, 5),
        lambda: tk.top_k(*GOOD, True, 5),
        lambda: tk.rank_tokens(*GOOD, STATS, 3, 1),
        lambda: tk.rank_tokens(*GOOD, STATS, 3, "v", target_sum="x"),
        lambda: tk.bin_values(*GOOD, 4, edges=["a", "b", "c"]),
        lambda: tk.bin_values(*GOOD, 4, rows=[0.5, 1]),
        lambda: tk.sample_genes(*GOOD, 5, None, 0),
    ):
        with pytest.raises(TypeError):
            call()
    for kernel in (tk.gene_mask_id, tk.pad_id):
        with pytest.raises(ValueError, match="n_genes_total must be >= 1"):
            kernel(0)


def test_empty_batches():
    top = tk.top_k(*EMPTY, 3, 5)
    assert (len(top["ids"]), top["n_rows"], top["k"]) == (0, 0, 3)
    assert len(tk.rank_tokens(*EMPTY, STATS, 3, "v")["lengths"]) == 0
    assert len(tk.bin_values(*EMPTY, 3)["bins"]) == 0
    assert len(tk.sample_genes(*EMPTY, 3, 0, 0)["ids"]) == 0
    assert len(tk.library_size([0], [])) == len(tk.measured_mask([0], [], [1])) == 0
    assert tk.library_size([0, 0, 0], []).tolist() == [0, 0]
    assert tk.measured_mask([0, 0], [], [1, 2]).tolist() == [0, 0]
    assert len(tk.measured_mask([0], [], [2, 1])) == 0
    assert tk.top_k([0, 0], [], [], 2, 5)["ids"].tolist() == [5, 6]
    assert tk.sample_genes([0, 0], [], [], 2, 0, 0)["lengths"].tolist() == [0]
    assert tk.rank_tokens([0, 0], [], [], STATS, 2, "v")["lengths"].tolist() == [0]


@pytest.mark.parametrize("kernel", [tk.library_size, lambda batch: tk.top_k(batch, 2, 5)])
@pytest.mark.parametrize(
    "batch", ["cells.scx", Path("cells.scx"), None, pd.DataFrame(np.eye(3)), np.eye(3)]
)
def test_what_is_no_batch_is_told_its_kind(kernel, batch):
    kind = type(batch).__name__
    with pytest.raises(TypeError, match=f"has to be in CSR, but this one is {kind}:"):
        kernel(batch)


@pytest.mark.parametrize("name", [*KERNELS, *VALUE_KERNELS])
def test_masks_are_not_lost_in_silence(name):
    kernel = {**KERNELS, **VALUE_KERNELS}[name]
    which = 1 if name == "measured_mask" else 2
    batch = [np.array(part) for part in GOOD]
    batch[which] = np.ma.array(batch[which], mask=[False, True, False])
    with pytest.raises(TypeError, match=f"^{name}: (data|indices) is a masked array"):
        kernel(*batch)
    batch[which] = batch[which].filled(0) if which == 2 else batch[which].data
    kernel(*batch)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda *b: tk.top_k(*b, 2**31 - 1, 5), r"top_k: k=2147483647 for 40 rows takes 859 GB"),
        (lambda *b: tk.rank_tokens(*b, [1] * 9, 2**31 - 1, "v"), "rank_tokens: l_max=.* 344 GB"),
        (lambda *b: tk.sample_genes(*b, 2**31 - 1, 1, 2), "sample_genes: n=.* 344 GB"),
        (lambda *b: tk.top_k(*b, 2**31, 5), "k must be <= 2147483647"),
        (lambda *b: tk.rank_tokens(*b, [1] * 9, 2**31, "v"), "l_max must be <= 2147483647"),
        (lambda *b: tk.sample_genes(*b, 2**31, 1, 2), "n must be <= 2147483647"),
    ],
)
def test_results_that_are_larger_than_memory(call, message, monkeypatch):
    monkeypatch.setattr("scx_core._memory.memory_bytes", lambda: 10**11)
    monkeypatch.setattr(np, "empty", None)  # before anything is allocated
    batch = np.arange(41), np.zeros(40, dtype=np.int32), np.ones(40, dtype=np.float32)
    with pytest.raises(ValueError, match=message):
        call(*batch)


def test_a_panel_that_is_larger_than_memory(monkeypatch):
    monkeypatch.setattr("scx_core._memory.memory_bytes", lambda: 10**6)
    message = "a panel of 30000 genes for 40 rows takes 1.2 MB, .* 1.0 MB of memory at most"
    with pytest.raises(ValueError, match=message):
        tk.measured_mask(np.arange(41), np.zeros(40, dtype=np.int32), np.arange(30_000))


def test_numbers_beyond_float32_are_refused():
    for wrong in (3.5e38, 1e39, 1e308, 10**50):
        with pytest.raises(
            ValueError, match=r"target_sum=.* too large for float32.* 3\.402823e\+38"
        ):
            tk.rank_tokens(*GOOD, STATS, 3, "v", target_sum=wrong)
        with pytest.raises(ValueError, match=r"target_sum=.* too large for float32"):
            tk.transform_values(GOOD[0], GOOD[2], "normalize_log1p", target_sum=wrong)
        with pytest.raises(ValueError, match=r"pflog_alpha=.* too large for float32"):
            tk.transform_values(GOOD[0], GOOD[2], "pflog_raw", pflog_alpha=wrong, n_measured=5)
        with pytest.raises(ValueError, match="gene 1 is inf"):
            tk.rank_tokens(*GOOD, [1, float(wrong), 1, 1, 1], 3, "v")
