"""PFlog and its overdispersion against numpy, and the warning about values that are no counts."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import scipy.sparse as sp

import scx_core
from scx_train import TrainingDataset

MakeFile = Callable[..., Path]


def stream(path: Path, **options: Any) -> npt.NDArray[np.float32]:
    with TrainingDataset(path, 16, shuffle=False, **options) as dataset:
        return np.concatenate([batch["X"] for batch in dataset])


def read_counts(path: Path) -> npt.NDArray[np.float64]:
    import scx_core

    with scx_core.open(path) as experiment:
        return np.asarray(experiment.to_anndata().X.toarray(), dtype=np.float64)


def reference(values: npt.NDArray[Any], alpha: float) -> npt.NDArray[np.float64]:
    logs = np.log1p(4 * alpha * np.where(values > 0, values, 0.0))
    return logs - logs.mean(axis=1, keepdims=True)


def moments(values: npt.NDArray[Any]) -> float:
    clipped = np.where(values > 0, values, 0.0)
    mean, variance = clipped.mean(axis=0), clipped.var(axis=0, ddof=1)
    slope: npt.NDArray[np.float64] = np.linalg.lstsq(
        (mean**2)[:, None], variance - mean, rcond=None
    )[0]
    return float(slope[0])


# a float32 logarithm may be an ulp off, and 4 a v is rounded to float32 before it
TOLERANCE = {"rtol": 3e-6, "atol": 2e-6}


@pytest.mark.parametrize("panel", [None, [0], [3, 7, 8, 29], list(range(30))])
@pytest.mark.parametrize("alpha", [0.25, 1.7])
def test_values(make_file: MakeFile, panel: list[int] | None, alpha: float) -> None:
    path = make_file(101)
    expected = reference(read_counts(path), alpha)
    values = stream(path, hvg_indices=panel, pflog=True, pflog_alpha=alpha)
    wanted = expected if panel is None else expected[:, panel]
    np.testing.assert_allclose(values, wanted, **TOLERANCE)


@pytest.mark.parametrize("kind", ["palette", "decimals", "raw", "negative", "int32", "empty"])
@pytest.mark.parametrize("panel", [None, [1, 4, 18]])
@pytest.mark.filterwarnings("ignore:X of")
def test_stored_forms(make_file: MakeFile, kind: str, panel: list[int] | None) -> None:
    rng = np.random.default_rng(2)
    matrix = rng.poisson(0.8, size=(40, 20)).astype(np.float64)
    if kind == "palette":
        matrix = np.array([0, 0.1234567, 2.5, 1000.0])[rng.integers(0, 4, size=(40, 20))]
    elif kind == "decimals":
        matrix = np.round(matrix * rng.random((40, 20)), 2)
    elif kind == "raw":
        matrix *= rng.random((40, 20))
    elif kind == "negative":
        matrix -= rng.poisson(0.5, size=(40, 20))
    elif kind == "empty":
        matrix[:] = 0
    dtype = np.int32 if kind == "int32" else np.float32
    path = make_file(matrix=sp.csr_matrix(matrix.astype(dtype)))
    expected = reference(matrix.astype(dtype).astype(np.float64), 0.6)
    values = stream(path, pflog=True, pflog_alpha=0.6, hvg_indices=panel)
    wanted = expected if panel is None else expected[:, panel]
    np.testing.assert_allclose(values, wanted, **TOLERANCE)


def test_it_takes_precedence(make_file: MakeFile) -> None:
    path = make_file(30)
    plain = stream(path, pflog=True, pflog_alpha=0.5, normalize=False, log1p=False)
    np.testing.assert_array_equal(stream(path, pflog=True, pflog_alpha=0.5), plain)
    with TrainingDataset(path, pflog_alpha=0.5) as dataset:
        assert dataset.pflog_alpha is None
    np.testing.assert_array_equal(stream(path, pflog_alpha=0.5), stream(path))


def test_alpha_is_estimated_by_moments(make_file: MakeFile) -> None:
    rng = np.random.default_rng(8)
    means = rng.gamma(1.0, 3.0, size=50)
    counts = rng.negative_binomial(1 / 0.4, 1 / (1 + 0.4 * means), size=(3000, 50))
    path = make_file(matrix=sp.csr_matrix(counts.astype(np.float32)), shard_size=500)
    with (
        TrainingDataset(path, pflog=True) as dataset,
        TrainingDataset(path, pflog=True, rows=[1, 2], hvg_indices=[3]) as part,
    ):
        alpha = dataset.pflog_alpha
        assert alpha is not None
        assert alpha == pytest.approx(moments(counts), rel=1e-9)
        assert alpha == pytest.approx(0.4, rel=0.15)
        assert part.pflog_alpha == alpha
    values = stream(path, pflog=True)
    np.testing.assert_allclose(values, reference(counts, alpha), **TOLERANCE)


def test_alpha_of_many_cells_takes_some(
    make_file: MakeFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scx_train.inputs.counts.ALPHA_CELLS_MAX", 40)
    path = make_file(101)
    some = read_counts(path)[np.arange(40) * 101 // 40]
    with TrainingDataset(path, pflog=True) as dataset:
        assert dataset.pflog_alpha == pytest.approx(moments(some), rel=1e-9)


@pytest.mark.filterwarnings("ignore:.*not hold counts:UserWarning")
@pytest.mark.filterwarnings("ignore:NaN or infinite values were kept")
@pytest.mark.parametrize(
    ("matrix", "reason"),
    [
        (np.zeros((9, 3)), "Poisson"),
        (np.ones((9, 3)), "Poisson"),
        (np.ones((9, 0)), "Poisson"),
        (np.ones((1, 3)), "there are 1, but two are needed"),
        (np.array([[1.0, np.inf], [0, 1]]), "infinite values"),
        (np.array([[1.0, 1e300], [0, 1]]), "too large"),
    ],
)
def test_alpha_that_cannot_be_estimated(make_file: MakeFile, matrix: Any, reason: str) -> None:
    path = make_file(matrix=sp.csr_matrix(matrix))
    with pytest.raises(ValueError, match=f"cells.scx: .*{reason}.*pass a number"):
        TrainingDataset(path, pflog=True)


def test_without_cells_there_is_nothing_to_estimate(make_file: MakeFile) -> None:
    path = make_file(9)
    scx_core.mark_deleted(path, np.arange(9))
    for file in (path, make_file(0, name="none.scx")):
        with TrainingDataset(file, pflog=True) as dataset:
            assert list(dataset) == [] and dataset.pflog_alpha is None


@pytest.mark.parametrize("alpha", [0, -1.0, float("nan"), float("inf")])
def test_alpha_that_is_refused(make_file: MakeFile, alpha: float) -> None:
    with pytest.raises(ValueError, match=r"pflog_alpha=.*finite and strictly positive"):
        TrainingDataset(make_file(5), pflog=True, pflog_alpha=alpha)


@pytest.mark.parametrize("value", [-2.0, 0.5, 1e-3])
@pytest.mark.parametrize(
    ("options", "warned"),
    [
        ({}, True),
        ({"log1p": False}, True),
        ({"pflog": True, "pflog_alpha": 1.0, "normalize": False}, True),
        ({"normalize": False}, False),
        ({"normalize": False, "log1p": False}, False),
    ],
)
def test_one_warning_where_values_are_no_counts(
    make_file: MakeFile, value: float, options: dict[str, Any], warned: bool
) -> None:
    matrix = np.ones((40, 5), dtype=np.float32)
    matrix[25, 3] = value
    path = make_file(matrix=sp.csr_matrix(matrix))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with TrainingDataset(path, **options) as dataset:
            list(dataset)
            list(dataset)
    assert [str(warning.message).split(", so")[0] for warning in caught] == (
        [f"X of {path} holds {value:g} in row 25"] if warned else []
    )
    remedy = "pass pflog=False, normalize=False" if "pflog" in options else "pass normalize=False"
    assert all(remedy in str(warning.message) for warning in caught)
    assert all(warning.filename == __file__ for warning in caught)


def test_counts_do_not_warn(make_file: MakeFile) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        TrainingDataset(make_file(101)).close()
        TrainingDataset(make_file(0, name="none.scx")).close()
