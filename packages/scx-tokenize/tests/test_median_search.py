"""The search for medians by counting bits, against np.median."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from scx_core.native.csr_rows import CsrRows
from scx_tokenize._medians.search import VALUE_BITS, MedianSearch, PassPlan, plan_passes

SMALLEST = float(np.nextafter(np.float32(0), np.float32(1)))
LARGEST = float(np.finfo(np.float32).max)


def count(search: MedianSearch, genes: np.ndarray, values: np.ndarray, threads: int = 1) -> None:
    """Count values, each in a row of its own."""
    starts = np.arange(len(genes) + 1, dtype=np.int64)
    search.count(CsrRows(starts, genes, values), np.ones(len(genes)), threads=threads)


def searched(genes: np.ndarray, values: np.ndarray, n_genes: int, plan: PassPlan) -> MedianSearch:
    search = MedianSearch(n_genes, plan)
    while not search.done:
        for part in np.array_split(np.arange(len(genes)), 3):
            count(search, genes[part], values[part])
        search.end_pass()
    return search


def expected(genes: np.ndarray, values: np.ndarray, n_genes: int) -> np.ndarray:
    of_each = [values[genes == gene].astype(np.float64) for gene in range(n_genes)]
    return np.array([np.median(each) if len(each) else np.nan for each in of_each])


def test_the_plan_has_the_fewest_passes_that_fit() -> None:
    plan = plan_passes(20_000, 2**30)
    assert plan.bits == (11, 10, 10)
    assert plan.table_bytes == 20_000 * 2**11 * 4
    assert plan_passes(20_000, plan.table_bytes).bits == plan.bits
    assert len(plan_passes(20_000, plan.table_bytes - 1).bits) == 4
    assert len(plan_passes(65_000, 2**30).bits) == 3
    assert len(plan_passes(100, 2**40).bits) == 3


@pytest.mark.parametrize("memory", [2**k for k in range(13, 31, 3)])
def test_a_plan_looks_at_all_bits_and_keeps_to_the_memory(memory: int) -> None:
    plan = plan_passes(30, memory)
    assert sum(plan.bits) == VALUE_BITS
    search = MedianSearch(30, plan)
    assert search.table_bytes <= plan.table_bytes <= memory


def test_too_little_memory_is_refused_with_what_is_needed() -> None:
    with pytest.raises(ValueError, match="at least 5120000 bytes are needed"):
        plan_passes(20_000, 1000)
    assert plan_passes(20_000, 5_120_000).table_bytes == 5_120_000


positive = st.floats(SMALLEST, LARGEST, width=32)


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_medians_are_those_of_numpy(data: st.DataObject) -> None:
    n_genes = data.draw(st.integers(1, 5))
    # few different values make ties; neighbouring ones part in the last bit
    close = np.float32(1.5).view(np.uint32)
    few = st.sampled_from([float((close + k).view(np.float32)) for k in range(3)])
    values = data.draw(st.lists(st.one_of(positive, few), max_size=30))
    genes = data.draw(
        st.lists(st.integers(0, n_genes - 1), min_size=len(values), max_size=len(values))
    )
    memory = data.draw(st.sampled_from([2**10, 2**12, 2**16, 2**22])) * n_genes
    of_gene, numbers = np.array(genes, np.int32), np.array(values, np.float32)
    search = searched(of_gene, numbers, n_genes, plan_passes(n_genes, memory))
    np.testing.assert_array_equal(search.medians(), expected(of_gene, numbers, n_genes))
    np.testing.assert_array_equal(search.n_values, np.bincount(of_gene, minlength=n_genes))


@pytest.mark.parametrize("n_values", [1, 2, 3, 1000, 1001])
def test_many_values_in_any_order(n_values: int) -> None:
    rng = np.random.default_rng(n_values)
    genes = np.repeat(np.arange(7, dtype=np.int32), n_values)
    values = rng.lognormal(0, 4, len(genes)).astype(np.float32)
    order = rng.permutation(len(genes))
    plan = plan_passes(7, 2**16)
    found = searched(genes, values, 7, plan).medians()
    again = searched(genes[order], values[order], 7, plan).medians()
    np.testing.assert_array_equal(found, expected(genes, values, 7))
    np.testing.assert_array_equal(found, again)


def test_the_two_in_the_middle_may_part_in_every_pass() -> None:
    plan = PassPlan((11, 10, 10), 0)
    for shift in (30, 25, 19, 11, 9, 5, 1, 0):
        low = np.uint32(0x3F000000)
        values = np.array([low, low + (1 << shift)], np.uint32).view(np.float32)
        search = searched(np.zeros(2, np.int32), values, 1, plan)
        assert search.medians()[0] == values.astype(np.float64).mean()


def test_values_that_change_between_passes_are_noticed() -> None:
    search = MedianSearch(1, PassPlan((16, 15), 0))
    count(search, np.zeros(2, np.int32), np.array([1, 2], np.float32))
    search.end_pass()
    count(search, np.zeros(1, np.int32), np.array([1], np.float32))
    with pytest.raises(RuntimeError, match="changed meanwhile"):
        search.end_pass()
    search = MedianSearch(1, PassPlan((16, 15), 0))
    count(search, np.zeros(1, np.int32), np.array([1], np.float32))
    search.end_pass()
    count(search, np.zeros(1, np.int32), np.array([2], np.float32))
    with pytest.raises(RuntimeError, match="changed while"):
        search.end_pass()


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_rows_are_scaled_counted_and_added_up_as_in_numpy(threads: int) -> None:
    rng = np.random.default_rng(3)
    n_rows, n_genes = 700, 400
    dense = rng.poisson(0.9, (n_rows, n_genes)).astype(np.float32) * np.float32(0.3)
    dense[rng.random(dense.shape) < 0.01] = -1
    dense[rng.random(dense.shape) < 0.01] = np.nan
    matrix = sp.csr_matrix(dense)
    rows = CsrRows(matrix.indptr.astype(np.int64), matrix.indices, matrix.data)
    factors = rng.lognormal(0, 1, n_rows)
    factors[5] = 0
    search = MedianSearch(n_genes, plan_passes(n_genes, 2**30))
    totals = np.zeros(n_genes)
    for first in (True, False, False):
        search.count(rows, factors, totals=totals if first else None, threads=threads)
        search.end_pass()
    with np.errstate(invalid="ignore"):
        scaled = (dense * factors[:, None]).astype(np.float32)
        there = scaled > 0
    for gene in range(n_genes):
        middle = np.median(scaled[there[:, gene], gene].astype(np.float64))
        assert search.medians()[gene] == middle
    np.testing.assert_array_equal(search.n_values, there.sum(axis=0))
    # one by one in the order of the rows, as a running sum is
    running = np.cumsum(np.where(there, dense, 0).astype(np.float64), axis=0)[-1]
    np.testing.assert_array_equal(totals, running)


def test_genes_that_are_not_there_are_refused() -> None:
    search = MedianSearch(3, plan_passes(3, 2**30))
    with pytest.raises(ValueError, match="gene id 3, which is outside"):
        count(search, np.array([0, 3], np.int32), np.ones(2, np.float32))
