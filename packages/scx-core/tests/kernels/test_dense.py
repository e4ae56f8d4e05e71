"""Dense rows against numpy: the transforms, the panel, every kind of row and both codecs."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from kernel_samples import N_COLS, N_ROWS, open_matrix, samples

SAMPLES = samples(np.random.default_rng(1))


def expected(matrix, rows, columns, normalize, log1p, target_sum):
    """The documented rule in float64, cell by cell."""
    result = np.zeros((len(rows), len(columns)), np.float32)
    dense = np.asarray(matrix.todense())
    for i, row in enumerate(rows):
        stored = matrix[row].data.astype(np.float64)
        if log1p:
            stored = np.where(stored > 0, stored, 0)
        depth = 0.0
        for value in stored:
            depth += value
        values = dense[row, columns].astype(np.float64)
        if log1p:
            values = np.where(values > 0, values, 0)
        if normalize and depth > 0:
            with np.errstate(invalid="ignore"):
                values = values * (target_sum / depth)
        values = values.astype(np.float32)
        result[i] = np.log1p(values) if log1p else values
    return result


@pytest.mark.parametrize("codec", ["rowpack", "none"])
@pytest.mark.parametrize("name", SAMPLES)
def test_every_transform(tmp_path, name, codec):
    matrix = SAMPLES[name]
    stored = open_matrix(tmp_path / "x.scx", matrix, codec)
    rng = np.random.default_rng(2)
    rows = rng.integers(0, N_ROWS, 60)
    panel = np.sort(rng.choice(N_COLS, 120, replace=False)).astype(np.uint32)
    for columns, normalize, log1p in itertools.product((None, panel), (False, True), (False, True)):
        got = stored.gather_dense(
            rows, columns=columns, normalize=normalize, log1p=log1p, target_sum=321.0
        )
        all_columns = np.arange(N_COLS) if columns is None else columns
        want = expected(matrix, rows, all_columns, normalize, log1p, 321.0)
        if log1p:
            np.testing.assert_array_max_ulp(np.nan_to_num(got), np.nan_to_num(want), maxulp=2)
        else:
            np.testing.assert_array_equal(got, want)


def test_a_row_worked_out_by_hand(tmp_path):
    # counts 1 and 3, depth 4, target 8: twos and sixes; ln 3 and ln 7
    stored = open_matrix(tmp_path / "x.scx", np.array([[1, 0, 3]], np.float32), "rowpack")
    rows = np.array([0])
    np.testing.assert_array_equal(
        stored.gather_dense(rows, normalize=True, target_sum=8), [[2, 0, 6]]
    )
    both = stored.gather_dense(rows, normalize=True, log1p=True, target_sum=8)
    np.testing.assert_allclose(both, [[1.0986123, 0, 1.9459101]], rtol=1e-7)
    one = stored.gather_dense(
        rows, columns=np.array([2], np.uint32), normalize=True, log1p=True, target_sum=8
    )
    np.testing.assert_array_equal(one, both[:, 2:])  # depth over all genes, not over the panel


def test_what_was_in_the_output_does_not_matter(tmp_path):
    stored = open_matrix(tmp_path / "x.scx", SAMPLES["counts"], "rowpack")
    rows = np.arange(N_ROWS)
    rubbish = np.full((N_ROWS, N_COLS), np.nan, np.float32)
    np.testing.assert_array_equal(
        stored.gather_dense(rows, out=rubbish), SAMPLES["counts"].toarray()
    )


@pytest.mark.parametrize("threads", [1, 2, 7])
def test_threads_change_nothing(tmp_path, threads):
    stored = open_matrix(tmp_path / "x.scx", SAMPLES["counts"], "rowpack")
    rows = np.random.default_rng(3).integers(0, N_ROWS, 2000)
    got = stored.gather_dense(rows, normalize=True, log1p=True, threads=threads)
    np.testing.assert_array_equal(got, stored.gather_dense(rows, normalize=True, log1p=True))


@pytest.mark.parametrize(
    ("columns", "error", "message"),
    [
        ([1, 1], ValueError, "strictly ascending"),
        ([5, 2], ValueError, "strictly ascending"),
        ([N_COLS], IndexError, "out of range"),
    ],
)
def test_panels_that_cannot_be(tmp_path, columns, error, message):
    stored = open_matrix(tmp_path / "x.scx", SAMPLES["counts"], "rowpack")
    with pytest.raises(error, match=message):
        stored.gather_dense(np.array([0]), columns=np.array(columns, np.uint32))


def test_rows_out_of_range(tmp_path):
    stored = open_matrix(tmp_path / "x.scx", SAMPLES["counts"], "rowpack")
    for row in (-1, N_ROWS, 2**40):
        with pytest.raises(IndexError, match=f"row {row} "):
            stored.gather_dense(np.array([0, row]))
        with pytest.raises(IndexError, match=f"row {row} "):
            stored.gather_csr(np.array([0, row]))
