"""Row blocks between a source and the shards, against loops over single rows."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from anndata_samples import random_matrix
from scx_core.sources._memory_matrix import SlicedSource, block_nbytes, ordered
from scx_core.sources.base import CsrBlock, DenseBlock
from scx_core.writing._blocks import Block, as_csr, cut, spread, with_dtype
from scx_core.writing._matrices import MatrixPlan, fitting_shard_size

N_COLS = 5


def rows_of(blocks: Iterable[Block]) -> list[bytes]:
    """Each row written out densely."""
    rows = []
    for block in blocks:
        for row in range(block.n_rows):
            if isinstance(block, DenseBlock):
                rows.append(block.values[row].tobytes())
                continue
            dense = np.zeros(N_COLS, dtype="f4")
            first = block.indptr[0]
            for place in range(block.indptr[row] - first, block.indptr[row + 1] - first):
                dense[block.indices[place]] = block.values[place]
            rows.append(dense.tobytes())
    return rows


def cells(seed: int, n_cells: int, form: str) -> object:
    return random_matrix(np.random.default_rng(seed), n_cells, N_COLS, "float32", form, 0.5)


FORMS = st.sampled_from(["dense", "csr_matrix", "csc_array"])


@given(
    seed=st.integers(0, 1000),
    form=FORMS,
    places=st.lists(st.booleans(), max_size=40),
    block_bytes=st.sampled_from([1, 50, 10_000]),
)
def test_spread_leaves_rows_without_cells_empty(
    seed: int, form: str, places: list[bool], block_bytes: int
) -> None:
    rows = np.flatnonzero(places)
    matrix = cells(seed, len(rows), form)
    dense = matrix if form == "dense" else matrix.toarray()
    if form != "dense":  # toarray adds up, which loses the sign of zeros
        dense = np.stack([np.frombuffer(row, "f4") for row in rows_of([whole(matrix)])] or [dense])
    wanted = [np.zeros(N_COLS, dtype="f4").tobytes()] * len(places)
    for cell, row in enumerate(rows):
        wanted[row] = dense[cell].tobytes()
    found = spread(ordered(matrix, None).row_blocks(block_bytes), rows, len(places))
    assert rows_of(found) == wanted


def whole(matrix: object) -> CsrBlock:
    csr = matrix.tocsr()
    return CsrBlock(csr.indptr.astype(np.int64), csr.indices, csr.data)


@given(
    seed=st.integers(0, 1000),
    form=FORMS,
    n_cells=st.integers(0, 30),
    shard_size=st.integers(1, 12),
    block_bytes=st.sampled_from([1, 50, 10_000]),
)
def test_cut_at_shards(
    seed: int, form: str, n_cells: int, shard_size: int, block_bytes: int
) -> None:
    source = ordered(cells(seed, n_cells, form), None)
    pieces = list(cut(source.row_blocks(block_bytes), shard_size))
    row = 0
    for first, piece in pieces:
        assert first == row
        assert piece.n_rows >= 1
        assert first // shard_size == (first + piece.n_rows - 1) // shard_size
        row += piece.n_rows
    assert row == n_cells
    assert rows_of(piece for _, piece in pieces) == rows_of(source.row_blocks(10**9))


@given(seed=st.integers(0, 1000), n_cells=st.integers(0, 30), form=FORMS)
def test_rows_in_another_order(seed: int, n_cells: int, form: str) -> None:
    matrix = cells(seed, n_cells, form)
    order = np.random.default_rng(seed).permutation(n_cells)
    straight = rows_of(ordered(matrix, None).row_blocks(10**9))
    assert rows_of(ordered(matrix, order).row_blocks(60)) == [straight[cell] for cell in order]


def test_negative_zeros_and_nan_are_values() -> None:
    values = np.array([[0.0, -0.0, np.nan], [0.0, 0.0, 0.0], [1.0, 0.0, -0.0]], dtype="f2")
    block = as_csr(DenseBlock(values))
    np.testing.assert_array_equal(block.indptr, [0, 2, 2, 4])
    np.testing.assert_array_equal(block.indices, [1, 2, 0, 2])
    assert block.values.tobytes() == values[[0, 0, 2, 2], [1, 2, 0, 2]].tobytes()


@pytest.mark.parametrize(("given_dtype", "stored"), [("bool", "u1"), ("i1", "i4"), (">f4", "f4")])
def test_dtypes_that_are_stored_as_another(given_dtype: str, stored: str) -> None:
    values = np.array([[1, 0], [0, 1]]).astype(given_dtype)
    for block in (DenseBlock(values), as_csr(DenseBlock(values))):
        changed = with_dtype(block, np.dtype(stored))
        assert changed.values.dtype == stored
        np.testing.assert_array_equal(changed.values, block.values)
        assert with_dtype(changed, np.dtype(stored)) is changed


def test_blocks_fit_the_bytes_asked_for() -> None:
    """Rows of very different lengths: no block is much larger than asked for, none is tiny."""
    lengths = np.array([0, 1, 500, 3] * 200)
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    indices = np.concatenate([np.arange(length) for length in lengths])
    values = np.ones(len(indices), dtype="f4")
    matrix = sp.csr_matrix((values, indices, indptr), shape=(len(lengths), 500))
    in_memory = [block_nbytes(block) for block in ordered(matrix, None).row_blocks(40_000)]
    assert max(in_memory) <= 50_000
    assert min(in_memory[:-1]) >= 30_000
    sliced = SlicedSource(
        lambda start, stop: matrix[start:stop], matrix.shape, matrix.dtype, "csr_matrix"
    )
    by_slices = [block_nbytes(block) for block in sliced.row_blocks(40_000)]
    assert max(by_slices) <= 80_000
    assert rows_total(sliced) == len(lengths)


def rows_total(source: SlicedSource) -> int:
    return sum(block.n_rows for block in source.row_blocks(40_000))


def test_dense_shards_stay_below_what_32_bits_count() -> None:
    class Wide:
        form = "dense"
        shape = (10**6, 40_000)
        dtype = np.dtype("f8")

    class Sparse(Wide):
        form = "csr_matrix"

    def plan(source: object) -> MatrixPlan:
        return MatrixPlan(source, "X", 4, 0, str, None, pd.Index([]))

    assert fitting_shard_size([plan(Wide())], 16_384) == 3 * 2**30 // 320_000
    assert fitting_shard_size([plan(Wide())], 100) == 100
    assert fitting_shard_size([plan(Sparse())], 16_384) == 16_384
    assert fitting_shard_size([], 7) == 7
