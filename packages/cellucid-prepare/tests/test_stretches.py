"""Matrices in memory that are turned a stretch at a time, against scipy and the other ways."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from cellucid_prepare.layout.chunks import SLICED_CHUNK_ELEMENTS
from cellucid_prepare.matrix import expression, in_memory
from cellucid_prepare.matrix.expression import Expression, judged
from scx_core.sources._memory_matrix import CsrSource, SlicedSource


def matrix_of(n_cells: int, n_genes: int, dtype: str, seed: int = 0) -> Any:
    """Counts with stored zeros; a gene that is empty, and one that every cell has."""
    rng = np.random.default_rng(seed)
    dense = rng.poisson(rng.gamma(0.4, 1, n_genes), (n_cells, n_genes)).astype(dtype)
    dense[:, 1], dense[:, 2] = 0, 3
    matrix = sp.csr_matrix(dense)
    matrix.data[rng.random(matrix.nnz) < 0.1] = 0
    return matrix


def by_gene(
    source: Any, n_genes: int, places: Any = None, threads: int = 2
) -> tuple[Any, Any, Any]:
    found = judged(Expression(source, n_genes, places))
    runs = list(found.sliced(threads))
    assert all(len(values) % SLICED_CHUNK_ELEMENTS == 0 for values, _ in runs[:-1])
    values = np.concatenate([run[0] for run in runs])
    rows = np.concatenate([run[1] for run in runs])
    return values, rows, found.indptr


@pytest.fixture(autouse=True)
def small_stretches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_memory, "STRETCH_CHUNKS", 1)
    monkeypatch.setattr(in_memory, "VALUES_OF_ROW", 1)


@pytest.mark.parametrize("dtype", ["f4", "f8", "u2", "i8", "?"])
@pytest.mark.parametrize("index_dtype", ["i4", "i8"])
def test_stretches_hold_what_scipy_finds(dtype: str, index_dtype: str) -> None:
    matrix = matrix_of(700, 300, dtype)
    matrix.indices, matrix.indptr = (
        matrix.indices.astype(index_dtype),
        matrix.indptr.astype(index_dtype),
    )
    source = CsrSource(matrix, "csr_matrix", None)
    assert in_memory.gives_stretches(source, None)
    values, rows, indptr = by_gene(source, 300)
    expected = matrix.tocsc(copy=True)
    expected.sort_indices()
    expected.eliminate_zeros()
    assert expected.nnz > 2 * SLICED_CHUNK_ELEMENTS
    np.testing.assert_array_equal(values, expected.data)
    np.testing.assert_array_equal(rows, expected.indices)
    np.testing.assert_array_equal(indptr, expected.indptr)


@pytest.mark.parametrize("ascending", [True, False])
def test_chosen_genes_come_like_those_of_a_file(
    ascending: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    matrix = matrix_of(700, 300, "f4")
    kept = np.random.default_rng(1).permutation(300)[:200]
    if ascending:
        kept.sort()
    places = np.full(300, -1, np.int32)
    places[kept] = np.arange(200)
    source = CsrSource(matrix, "csr_matrix", None)
    assert in_memory.gives_stretches(source, places) is ascending
    found = by_gene(source, 200, places)
    monkeypatch.setattr(expression, "BLOCK_BYTES", 20_000)
    read = SlicedSource(lambda a, b: matrix[a:b], matrix.shape, matrix.dtype, "csr_matrix")
    assert not in_memory.gives_stretches(read, places)
    for one, other in zip(found, by_gene(read, 200, places), strict=True):
        np.testing.assert_array_equal(one, other)
    expected = matrix.tocsc()[:, kept]
    expected.sort_indices()
    expected.eliminate_zeros()
    np.testing.assert_array_equal(found[0], expected.data)
    np.testing.assert_array_equal(found[1], expected.indices)


@pytest.mark.parametrize("change", ["more", "fewer", "other genes"])
def test_a_matrix_that_changes_meanwhile_is_refused(change: str) -> None:
    matrix = matrix_of(400, 300, "f4")
    found = judged(Expression(CsrSource(matrix, "csr_matrix", None), 300))
    if change == "more":
        matrix.data[:] = 1
    elif change == "fewer":
        matrix.data[-5:] = 0
    else:
        row = slice(matrix.indptr[7], matrix.indptr[8])
        matrix.indices[row] = np.arange(300)[-(row.stop - row.start) :]
    with pytest.raises((IndexError, RuntimeError), match="changed"):
        list(found.sliced(1))


def test_unordered_rows_are_put_in_order_first() -> None:
    matrix = matrix_of(400, 300, "f4")
    turned = matrix.copy()
    for row in range(400):
        part = slice(turned.indptr[row], turned.indptr[row + 1])
        turned.indices[part] = turned.indices[part][::-1].copy()
        turned.data[part] = turned.data[part][::-1].copy()
    turned.has_sorted_indices = False
    one = by_gene(CsrSource(matrix, "csr_matrix", None), 300)
    for left, right in zip(one, by_gene(CsrSource(turned, "csr_matrix", None), 300), strict=True):
        np.testing.assert_array_equal(left, right)
