"""The numbers in X against numpy in float64 and against scanpy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anndata
import numpy as np
import numpy.typing as npt
import pytest
import scipy.sparse as sp

from scx_train import TrainingDataset

MakeFile = Callable[..., Path]
PANELS = [None, [0], [3, 7, 8, 29], list(range(30))]


def stream(path: Path, **options: Any) -> npt.NDArray[np.float32]:
    """All rows, back in the order of the file."""
    with TrainingDataset(path, 16, **options) as dataset:
        assert dataset.n_output_genes == len(options.get("hvg_indices") or range(dataset.n_vars))
        batches = list(dataset)
    values = np.concatenate([batch["X"] for batch in batches])
    assert values.dtype == np.float32
    order = np.argsort(np.concatenate([batch["cell_indices"] for batch in batches]))
    return values[order]


def reference(
    counts: npt.NDArray[Any], *, normalize: bool, log1p: bool, target_sum: float
) -> npt.NDArray[np.float32]:
    """The documented rule, in float64 up to the rounding that it prescribes."""
    values = np.asarray(counts, dtype=np.float64)
    if log1p:
        values = np.where(values > 0, values, 0.0)
    if normalize:
        depth = values.sum(axis=1, keepdims=True)
        values = values * np.where(depth > 0, target_sum / np.where(depth > 0, depth, 1), 1.0)
    rounded = values.astype(np.float32)
    return np.log1p(rounded) if log1p else rounded


@pytest.mark.parametrize("panel", PANELS)
@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("log1p", [False, True])
@pytest.mark.parametrize("target_sum", [1e4, 137.5])
def test_counts(
    make_file: MakeFile, panel: list[int] | None, normalize: bool, log1p: bool, target_sum: float
) -> None:
    path = make_file(101)
    counts = read_counts(path)
    expected = reference(counts, normalize=normalize, log1p=log1p, target_sum=target_sum)
    values = stream(
        path, hvg_indices=panel, normalize=normalize, log1p=log1p, target_sum=target_sum
    )
    wanted = expected if panel is None else expected[:, panel]
    # log1p may be 2 ulp off; everything before it is exact
    np.testing.assert_array_max_ulp(values, wanted, maxulp=2 if log1p else 0)


def read_counts(path: Path) -> npt.NDArray[Any]:
    import scx_core

    with scx_core.open(path) as experiment:
        counts: npt.NDArray[Any] = experiment.to_anndata().X.toarray()
    return counts


@pytest.mark.filterwarnings("ignore:Some cells have zero counts")
def test_scanpy_normalises_over_all_genes_then_the_panel_is_cut(make_file: MakeFile) -> None:
    import scanpy as sc

    path = make_file(101)
    panel = [2, 5, 11, 28]
    adata = anndata.AnnData(sp.csr_matrix(read_counts(path)))
    sc.pp.normalize_total(adata, target_sum=1e4)
    sc.pp.log1p(adata)
    expected = adata[:, panel].X.toarray()
    np.testing.assert_allclose(stream(path, hvg_indices=panel), expected, rtol=2e-6)


@pytest.mark.filterwarnings("ignore:X of")
def test_negative_values_are_clipped_on_log_paths_only(make_file: MakeFile) -> None:
    matrix = np.array([[1, -3, 4], [-1, -1, 0], [0.5, 0.25, -8]], dtype=np.float32)
    path = make_file(matrix=sp.csr_matrix(matrix))
    for normalize in (False, True):
        for log1p in (False, True):
            expected = reference(matrix, normalize=normalize, log1p=log1p, target_sum=1e4)
            values = stream(path, normalize=normalize, log1p=log1p)
            np.testing.assert_array_max_ulp(values, expected, maxulp=2 if log1p else 0)


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int32", "int64", "float32", "float64"])
def test_stored_types(make_file: MakeFile, dtype: str) -> None:
    rng = np.random.default_rng(1)
    matrix = rng.poisson(0.5, size=(40, 20)).astype(dtype)
    path = make_file(matrix=sp.csr_matrix(matrix))
    expected = reference(matrix, normalize=True, log1p=True, target_sum=1e4)
    np.testing.assert_array_max_ulp(stream(path), expected, maxulp=2)
    np.testing.assert_array_equal(stream(path, normalize=False, log1p=False), matrix)


def test_no_stored_value_gives_zeros(make_file: MakeFile) -> None:
    path = make_file(matrix=sp.csr_matrix((12, 5), dtype=np.float32))
    np.testing.assert_array_equal(stream(path), np.zeros((12, 5)))


def test_default_is_normalised_and_logged(make_file: MakeFile) -> None:
    path = make_file(20)
    explicit = stream(path, normalize=True, log1p=True, target_sum=1e4)
    np.testing.assert_array_equal(stream(path), explicit)
