"""Downsampling: what is exact about it exactly, and its draws by their distribution."""

from __future__ import annotations

import inspect
import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from scx_train import downsample_counts_csr, downsample_file_identity

METHODS = ("binomial", "multinomial")


def counts(seed: int, n_rows: int, *, n_genes: int = 60) -> sp.csr_matrix:
    rng = np.random.default_rng(seed)
    matrix = sp.random(n_rows, n_genes, density=0.5, format="csr", random_state=rng)
    matrix.sort_indices()
    matrix.data = rng.choice([0, 0.5, 1.5, 2.5, 1, 3, 40, 700, -3, np.nan], size=matrix.nnz)
    return matrix


def drawn_down(*arguments: Any, **options: Any) -> tuple[npt.NDArray[Any], ...]:
    """indptr, indices and data."""
    result = downsample_counts_csr(*arguments, **options)
    assert list(result) == ["indptr", "indices", "data"]
    return result["indptr"], result["indices"], result["data"]


def rounded(values: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Clipped, NaN as 0, rounded by numpy, which rounds half to even."""
    whole: npt.NDArray[np.float64] = np.rint(np.where(values > 0, values, 0.0))
    return whole


@pytest.mark.parametrize("method", METHODS)
def test_rows_within_the_target_are_rounded_only(method: Any) -> None:
    indptr, indices, data = drawn_down(
        [0, 6, 6, 7], [0, 1, 2, 3, 4, 9, 1], [0.5, 1.5, 2.5, -3, np.nan, 3, 0.2], None, 0, 7, method
    )
    assert indptr.tolist() == [0, 3, 3, 3]
    assert indices.tolist() == [1, 2, 9]
    assert data.tolist() == [2, 2, 3]
    assert (indptr.dtype, indices.dtype, data.dtype) == (np.int64, np.int32, np.float32)


@settings(max_examples=50, deadline=None)
@given(
    seed=st.integers(0, 2**64 - 1),
    n_rows=st.integers(0, 150),
    target=st.integers(1, 3000),
    method=st.sampled_from(METHODS),
)
def test_what_holds_for_any_draw(seed: int, n_rows: int, target: int, method: Any) -> None:
    matrix = counts(seed % 1000, n_rows)
    indptr, indices, data = drawn_down(
        matrix.indptr, matrix.indices, matrix.data, None, 0, target, method, seed
    )
    assert len(indptr) == n_rows + 1
    assert (data > 0).all()
    for row in range(n_rows):
        before = {
            int(g): float(v)
            for g, v in zip(matrix[row].indices, rounded(matrix[row].data), strict=True)
        }
        genes = indices[indptr[row] : indptr[row + 1]]
        after = data[indptr[row] : indptr[row + 1]]
        assert (np.diff(genes) > 0).all()
        total = sum(before.values())
        for gene, value in zip(genes.tolist(), after.tolist(), strict=True):
            assert value == int(value)
            if method == "binomial" or total <= target:
                assert value <= before[gene]
            else:
                assert before[gene] > 0
        if total <= target:
            kept = [value for value in before.values() if value > 0]
            assert after.tolist() == kept
        elif method == "multinomial":
            assert after.sum() == target


@pytest.mark.parametrize("method", METHODS)
def test_a_row_depends_on_its_key_alone(method: Any) -> None:
    matrix = counts(3, 150)
    numbers = np.arange(150) * 7
    identity = downsample_file_identity("somewhere")

    def drawn(order: npt.NDArray[Any]) -> dict[int, tuple[list[int], list[float]]]:
        part = matrix[order]
        indptr, indices, data = drawn_down(
            part.indptr, part.indices, part.data, numbers[order], identity, 90, method, 11
        )
        return {
            int(row): (
                indices[indptr[i] : indptr[i + 1]].tolist(),
                data[indptr[i] : indptr[i + 1]].tolist(),
            )
            for i, row in enumerate(order)
        }

    whole = drawn(np.arange(150))  # on several threads where there are
    backwards = drawn(np.arange(150)[::-1])
    alone = {row: drawn(np.array([row]))[row] for row in (0, 5, 149)}
    assert whole == backwards
    assert all(whole[row] == values for row, values in alone.items())


@pytest.mark.parametrize("argument", ["file_identities", "rows"])
def test_numbers_of_64_bits_may_come_in_a_list(argument: str) -> None:
    """One beyond int64 beside another that is not: numpy makes floats of such a list."""
    arguments: dict[str, Any] = {
        "indptr": [0, 2, 4], "indices": [0, 1, 0, 1], "data": [70, 80, 70, 80],
        "rows": [3, 4], "file_identities": 5, "target": 60,
    }  # fmt: skip
    numbers = [2**64 - 1, 12345]
    expected = downsample_counts_csr(**{**arguments, argument: np.array(numbers, np.uint64)})
    for several in (numbers, tuple(numbers), [np.uint64(numbers[0]), numbers[1]]):
        found = downsample_counts_csr(**{**arguments, argument: several})
        assert found["data"].tolist() == expected["data"].tolist()
    with pytest.raises(ValueError, match=f"{argument} holds 18446744073709551616"):
        downsample_counts_csr(**{**arguments, argument: [2**64, 1]})
    with pytest.raises(TypeError, match=f"{argument} has dtype float64, but whole numbers"):
        downsample_counts_csr(**{**arguments, argument: [1.0, 2.0]})
    with pytest.raises(TypeError, match=f"{argument} has dtype bool"):
        downsample_counts_csr(**{**arguments, argument: [True, False]})


def test_seed_file_row_and_method_each_change_the_draw() -> None:
    arguments: dict[str, Any] = {
        "indptr": [0, 200],
        "indices": np.arange(200),
        "data": np.full(200, 9),
        "rows": [3],
        "file_identities": 2,
        "target": 500,
        "method": "binomial",
        "seed": 1,
    }
    draws = [drawn_down(**arguments)]
    changes = ({"seed": 2}, {"file_identities": 3}, {"rows": [4]}, {"method": "multinomial"})
    draws += [drawn_down(**{**arguments, **change}) for change in changes]
    texts = {tuple(indices) + tuple(data) for _, indices, data in draws}
    assert len(texts) == len(draws)
    per_row = drawn_down(**{**arguments, "file_identities": [2]})
    np.testing.assert_array_equal(per_row[2], draws[0][2])


@pytest.mark.parametrize("method", METHODS)
def test_moments(method: Any) -> None:
    """Means and variances over many cells, within five standard errors."""
    genes = np.array([3.0, 100.0, 0.0, 897.0, 1000.0])
    n_rows, target = 4000, 500
    total = genes.sum()
    indptr, indices, data = drawn_down(
        np.arange(n_rows + 1) * 5,
        np.tile(np.arange(5), n_rows),
        np.tile(genes, n_rows),
        None,
        0,
        target,
        method,
        seed=5,
    )
    drawn = sp.csr_matrix((data, indices, indptr), shape=(n_rows, 5)).toarray()
    share = genes / total
    mean = target * share
    kept = target / total
    if method == "binomial":
        variance = genes * kept * (1 - kept)
        total_variance = variance.sum()
    else:
        variance = target * share * (1 - share)
        total_variance = 0.0
    np.testing.assert_array_less(
        np.abs(drawn.mean(axis=0) - mean), 5 * np.sqrt(variance / n_rows) + 1e-9
    )
    spread = np.sqrt((2 * variance**2 + variance) / n_rows)
    np.testing.assert_array_less(np.abs(drawn.var(axis=0) - variance), 5 * spread + 1e-9)
    assert abs(drawn.sum(axis=1).var() - total_variance) <= 5 * total_variance * np.sqrt(2 / n_rows)


@pytest.mark.parametrize(
    ("method", "row", "expected"),
    [
        ("binomial", 0, [1, 26, 0, 217, 12, 0, 2, 229]),
        ("multinomial", 0, [1, 25, 1, 224, 14, 0, 0, 235]),
        ("binomial", 41, [1, 23, 0, 226, 6, 0, 2, 236]),
        ("multinomial", 41, [2, 29, 0, 207, 9, 0, 1, 252]),
    ],
)
def test_draws_are_those_of_rand_distr(method: Any, row: int, expected: list[int]) -> None:
    """Printed by a Rust program of rand_distr 0.4 and rand_chacha 0.3 that follows the rules of
    docs/semantics.md; means lie on both sides of 10.
    """
    counts = [3, 100, 1, 897, 40, 0, 5, 954]
    indptr, indices, data = drawn_down([0, 8], np.arange(8), counts, [row], [77], 500, method, 9)
    found = sp.csr_matrix((data, indices, indptr), shape=(1, 8)).toarray()[0]
    assert found.tolist() == expected


def test_signature_and_defaults() -> None:
    parameters = inspect.signature(downsample_counts_csr).parameters
    assert list(parameters) == [
        *("indptr", "indices", "data", "rows", "file_identities", "target", "method", "seed")
    ]
    assert parameters["method"].default == "multinomial"
    totals = drawn_down([0, 3], [0, 1, 2], [90, 60, 50], [4], [5], 100)[2].sum()
    assert totals == 100


@pytest.mark.parametrize("dtype", ["uint8", "int64", "uint64", "float16", "float64"])
def test_dtypes(dtype: str) -> None:
    values = np.array([1, 200, 50, 3], dtype=dtype)
    options = (None, 0, 60, "binomial", 4)
    expected = drawn_down([0, 4], [0, 1, 2, 3], [1, 200, 50, 3], *options)
    result = drawn_down(
        np.array([0, 4], np.uint32), np.array([0, 1, 2, 3], np.int8), values, *options
    )
    for one, other in zip(expected, result, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"target": 0}, "target must be >= 1, but target=0"),
        ({"target": 1.5}, "target=1.5 must be a whole number"),
        ({"method": "poisson"}, "method='poisson' must be one of 'multinomial', 'binomial'"),
        ({"seed": -1}, "seed must be >= 0, but seed=-1"),
        (
            {"file_identities": 2**64},
            "file_identities must be <= .* file_identities=18446744073709551616",
        ),
        ({"file_identities": [1]}, "file_identities has 1 entries for 2 rows"),
        ({"rows": [1]}, "rows has 1 entries for 2 rows"),
        ({"rows": [1, -1]}, "rows holds -1"),
        ({"indices": [1, 0, 0]}, "row 0 are not strictly ascending"),
        ({"data": [1, 2, np.inf]}, "row 1 holds a value above"),
    ],
)
def test_refusals(change: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {
        "indptr": [0, 2, 3],
        "indices": [0, 1, 0],
        "data": [1, 2, 3],
        "rows": None,
        "file_identities": 0,
        "target": 5,
    }
    downsample_counts_csr(**arguments)
    with pytest.raises(ValueError, match=message):
        downsample_counts_csr(**{**arguments, **change})


def test_file_identity_is_of_the_canonical_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blake3 = pytest.importorskip("blake3")

    def identity(text: str) -> int:
        return int.from_bytes(blake3.blake3(text.encode()).digest()[:8], "little")

    real = tmp_path / "cells é.scx"
    real.touch()
    link = tmp_path / "link.scx"
    link.symlink_to(real)
    canonical = identity(os.path.realpath(real))
    assert downsample_file_identity(real) == canonical
    assert downsample_file_identity(str(link)) == canonical
    monkeypatch.chdir(tmp_path)
    assert downsample_file_identity("cells é.scx") == canonical
    assert downsample_file_identity("not/there.scx") == identity("not/there.scx")


def test_file_identity_of_a_known_text() -> None:
    # the published BLAKE3 of "abc" begins with 6437b3ac38465133
    assert downsample_file_identity("abc") == 0x33514638ACB33764
