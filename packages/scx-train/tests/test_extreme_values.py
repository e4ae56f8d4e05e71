"""Scales and values at the ends of float32: results of finite values are finite, and right."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anndata
import numpy as np
import numpy.typing as npt
import pytest
import scipy.sparse as sp

import scx_core
from scx_train import SparseCellSetDataset, TrainingDataset, collate_cellset_gathered

MakeFile = Callable[..., Path]

LARGEST = float(np.finfo(np.float32).max)
TARGETS = [1e-30, 1.0, 1e4, 1e38, LARGEST]
ALPHAS = [1e-30, 0.5, 1e20, LARGEST]

pytestmark = [
    pytest.mark.filterwarnings("ignore:X of"),
    pytest.mark.filterwarnings("ignore:.*not hold counts:UserWarning"),
]


def extremes(dtype: Any) -> npt.NDArray[Any]:
    """Rows of ordinary, large, tiny and mixed values, of one and of none."""
    matrix = np.zeros((7, 20))
    matrix[0, ::2] = np.arange(1, 11)
    matrix[1, :] = LARGEST
    matrix[2, ::3] = 1e-45
    matrix[3, ::4] = [1e-45, LARGEST, 1.0, 1e-30, 1e30]
    matrix[4, 5] = 1e-38
    matrix[5, 3] = LARGEST / 2
    return matrix.astype(dtype)


def stored_zeros(matrix: npt.NDArray[Any]) -> sp.csr_matrix:
    """All values are stored, zeros too."""
    n_rows, n_cols = matrix.shape
    places = np.tile(np.arange(n_cols), n_rows)
    return sp.csr_matrix((matrix.ravel(), places, np.arange(n_rows + 1) * n_cols), matrix.shape)


def stream(path: Any, **options: Any) -> npt.NDArray[Any]:
    with TrainingDataset(path, 16, shuffle=False, **options) as dataset:
        batches = [batch["X"] for batch in dataset]
    dense = [batch.toarray() if sp.issparse(batch) else batch for batch in batches]
    return np.concatenate(dense)


def normalised(values: npt.NDArray[Any], target: float) -> npt.NDArray[np.float64]:
    wide = values.astype(np.longdouble)
    depth = wide.sum(axis=1, keepdims=True)
    return np.asarray(wide * np.where(depth > 0, target / np.where(depth > 0, depth, 1), 1))


def close(found: npt.NDArray[Any], expected: npt.NDArray[Any]) -> None:
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found, expected.astype(np.float64), rtol=3e-6, atol=2e-38)


@pytest.mark.parametrize("layout", ["dense", "csr"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_normalising(make_file: MakeFile, layout: str, dtype: Any) -> None:
    matrix = extremes(dtype)
    path = make_file(matrix=sp.csr_matrix(matrix))
    for panel in (None, [0, 3, 5, 8]):
        kept = slice(None) if panel is None else panel
        given: dict[str, Any] = {"layout": layout, "hvg_indices": panel}
        for target in TARGETS:
            expected = normalised(matrix, target)[:, kept]
            close(stream(path, log1p=False, target_sum=target, **given), expected)
            close(stream(path, target_sum=target, **given), np.log1p(expected))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_pflog(make_file: MakeFile, dtype: Any) -> None:
    matrix = extremes(dtype)
    path = make_file(matrix=sp.csr_matrix(matrix))
    for alpha in ALPHAS:
        logs = np.log1p(4 * alpha * matrix.astype(np.longdouble))
        found = stream(path, pflog=True, pflog_alpha=alpha)
        assert np.isfinite(found).all()
        expected = (logs - logs.mean(axis=1, keepdims=True)).astype(np.float64)
        np.testing.assert_allclose(found, expected, rtol=3e-6, atol=1e-4)


def test_totals_beyond_float32_of_wide_values(make_file: MakeFile) -> None:
    matrix = np.zeros((3, 4))
    matrix[0] = [1e300, 1e299, 0, 0]
    matrix[1] = [1e-310, 1e-310, 0, 0]  # a factor beyond float64, which scales nothing
    matrix[2] = [1, 1e-300, 0, 2]
    path = make_file(matrix=sp.csr_matrix(matrix))
    expected = normalised(matrix, 1e30)
    expected[1] = 0
    close(stream(path, target_sum=1e30, log1p=False), expected)
    close(stream(path, target_sum=1e30), np.log1p(expected))
    logs = stream(path, pflog=True, pflog_alpha=LARGEST)
    assert np.isfinite(logs).all() and logs[0, 0] - logs[0, 3] == pytest.approx(780.9, abs=0.1)


@pytest.mark.parametrize("layout", ["dense", "csr"])
@pytest.mark.parametrize("kind", ["one", "joined", "shared"])
def test_values_that_scaling_takes_beyond_float32_are_refused(
    tmp_path: Path, make_file: MakeFile, layout: str, kind: str
) -> None:
    matrix = np.zeros((6, 5), dtype=np.float32)
    matrix[:, 1] = 3
    matrix[4] = [1e30, -1e30, 1e-9, 0, 0]  # added up in float64, 1e-9 is left, or nothing
    matrix[4, 0] = np.nextafter(np.float32(1e30), np.float32(2e30))
    path: Any = make_file(matrix=sp.csr_matrix(matrix))
    if kind != "one":
        names = ["a", "a" if kind == "shared" else "b", "c", "d", "e"]
        paths = []
        for number in range(2):
            adata = anndata.AnnData(sp.csr_matrix(matrix))
            adata.var["id"] = names
            paths.append(tmp_path / f"{number}.scx")
            scx_core.from_anndata(adata, paths[-1], progress=False)
        path = paths
    given: dict[str, Any] = {} if kind == "one" else {"gene_key": "id"}
    options = {"layout": layout, "log1p": False, "target_sum": 1e38, **given}
    message = r"\.scx.*row 4 .*a total that is next to nothing.* beyond float32"
    with pytest.raises(ValueError, match=message):
        stream(path, **options)
    assert np.isfinite(stream(path, **{**options, "log1p": True})).all()
    assert np.isfinite(stream(path, **{**options, "normalize": False})).all()


@pytest.mark.parametrize("odd", [np.inf, -np.inf, np.nan])
def test_values_that_are_not_finite_are_no_error(make_file: MakeFile, odd: float) -> None:
    matrix = np.array([[odd, 1, 0, 2], [1, 2, 3, 4]], dtype=np.float32)
    with pytest.warns(scx_core.ScxWarning):
        path = make_file(matrix=sp.csr_matrix(matrix))
    for options in ({"log1p": False}, {}, {"normalize": False, "log1p": False}):
        stream(path, **options)


def test_cell_sets(make_file: MakeFile) -> None:
    matrix = extremes(np.float32)
    path = make_file(matrix=sp.csr_matrix(matrix))
    rows = np.arange(len(matrix))
    plan = (
        np.zeros_like(rows),
        rows,
        np.zeros_like(rows, dtype=np.uint8),
        np.array([0, len(rows)]),
    )
    for target in TARGETS:
        for log1p in (False, True):
            with SparseCellSetDataset(
                [path], normalize=True, log1p=log1p, target_sum=target
            ) as dataset:
                batch = dataset.gather(*plan)
            found = sp.csr_matrix((batch["data"], batch["indices"], batch["indptr"]), matrix.shape)
            expected = normalised(matrix, target)
            close(found.toarray(), np.log1p(expected) if log1p else expected)
    matrix[4] = 0
    matrix[4, :3] = [np.nextafter(np.float32(1e30), np.float32(2e30)), -1e30, 1e-9]
    path = make_file(matrix=sp.csr_matrix(matrix), name="b.scx")
    # the negative value counts as 0, so it leaves no total that is next to nothing
    with SparseCellSetDataset([path], normalize=True, log1p=False, target_sum=1e38) as dataset:
        batch = dataset.gather(*plan)
    found = sp.csr_matrix((batch["data"], batch["indices"], batch["indptr"]), matrix.shape)
    close(found[4, :3].toarray()[0], np.array([1e38, 0, 0.1]))


def collated(matrix: npt.NDArray[Any], mode: Any, **options: Any) -> dict[str, Any]:
    n_rows, n_genes = matrix.shape
    stored = stored_zeros(matrix)
    return dict(
        collate_cellset_gathered(
            stored.indptr,
            stored.indices,
            stored.data,
            [0, n_rows],
            np.arange(n_rows),
            np.zeros(n_rows),
            np.zeros(n_rows),
            n_genes,
            np.arange(n_genes),
            None,
            None,
            [n_genes],
            n_genes,
            mode,
            n_genes,
            **options,
        )
    )


def test_collation() -> None:
    matrix = extremes(np.float32)
    order = np.argsort(-matrix, axis=1, kind="stable")
    is_gene = np.take_along_axis(matrix, order, axis=1) > 0

    def of_encoder(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return np.where(is_gene, np.take_along_axis(values, order, axis=1), 0)

    for target in TARGETS:
        expected = np.log1p(normalised(matrix, target))
        made = collated(matrix, "normalize_log1p", target_sum=target)
        close(made["target_counts"].reshape(matrix.shape), expected)
        close(made["encoder_counts"].reshape(matrix.shape), of_encoder(expected))
    for alpha in ALPHAS:
        logs = np.log1p(4 * alpha * matrix.astype(np.longdouble))
        expected = logs - logs.mean(axis=1, keepdims=True)
        found = collated(matrix, "pflog_raw", pflog_alpha=alpha)["encoder_counts"]
        assert np.isfinite(found).all()
        np.testing.assert_allclose(
            found.reshape(matrix.shape),
            of_encoder(expected.astype(np.float64)),
            rtol=3e-6,
            atol=1e-4,
        )
    close(
        collated(matrix, "log1p_raw")["encoder_counts"].reshape(matrix.shape),
        of_encoder(np.log1p(matrix)),
    )


@pytest.mark.parametrize("wrong", [3.5e38, 1e39, 1e308])
def test_scales_beyond_float32_are_refused(make_file: MakeFile, wrong: float) -> None:
    path = make_file(9)
    with pytest.raises(ValueError, match=r"target_sum=.* too large for float32"):
        TrainingDataset(path, target_sum=wrong)
    with pytest.raises(ValueError, match=r"pflog_alpha=.* too large for float32"):
        TrainingDataset(path, pflog=True, pflog_alpha=wrong)
    with pytest.raises(ValueError, match=r"target_sum=.* too large for float32"):
        SparseCellSetDataset([path], normalize=True, target_sum=wrong)
    matrix = extremes(np.float32)
    with pytest.raises(ValueError, match="target_sum must be finite and strictly positive, as a f"):
        collated(matrix, "normalize_log1p", target_sum=wrong)
    with pytest.raises(ValueError, match=r"pflog_alpha .*strictly positive, as a float32"):
        collated(matrix, "pflog_raw", pflog_alpha=wrong)
