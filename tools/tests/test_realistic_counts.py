"""The generator: its statistics, its determinism, and that the written file equals the made one."""

from pathlib import Path

import anndata as ad
import numpy as np
import pandas as pd
import pytest

import realistic_counts


def assert_equal(left: ad.AnnData, right: ad.AnnData) -> None:
    for part in ("indptr", "indices", "data"):
        a, b = getattr(left.X, part), getattr(right.X, part)
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)
    assert left.shape == right.shape
    pd.testing.assert_frame_equal(left.obs, right.obs)
    pd.testing.assert_frame_equal(left.var, right.var)
    assert set(left.obsm) == set(right.obsm)
    for key in left.obsm:
        np.testing.assert_array_equal(left.obsm[key], right.obsm[key])


def test_statistics_are_those_of_droplet_data() -> None:
    adata = realistic_counts.make_counts(600, 20_000, 5000, 3)
    counts = adata.X
    assert counts.dtype == np.float32
    assert 0.6 < np.mean(counts.data == 1) < 0.7
    assert 1500 < counts.nnz / adata.n_obs < 3000
    total = np.asarray(counts.sum(axis=1)).ravel()
    np.testing.assert_array_equal(total, adata.obs["n_counts"])
    assert 4500 < np.median(total) < 5500
    assert 0.40 < np.std(np.log(total)) < 0.50
    abundance = np.asarray(counts.sum(axis=0)).ravel()
    assert 0.2 < np.sort(abundance)[-200:].sum() / abundance.sum() < 0.6


def test_matrix_is_canonical() -> None:
    counts = realistic_counts.make_counts(50, 300, 1000, 0).X
    copy = counts.copy()
    copy.has_canonical_format = False
    copy.sum_duplicates()
    copy.eliminate_zeros()
    np.testing.assert_array_equal(counts.indptr, copy.indptr)
    np.testing.assert_array_equal(counts.indices, copy.indices)
    np.testing.assert_array_equal(counts.data, copy.data)
    assert counts.has_sorted_indices


def test_molecules_follow_the_probabilities() -> None:
    """Chi-square of all molecules of one type against the probabilities behind them."""
    recipe = realistic_counts.Recipe(n_cells=400, n_genes=200, median_umi=3000, seed=5, n_types=1)
    expected = realistic_counts._gene_probabilities(recipe)[0]
    counts = realistic_counts.make_counts(400, 200, 3000, 5, n_types=1).X
    observed = np.asarray(counts.sum(axis=0)).ravel().astype(np.float64)
    expected = expected * observed.sum()
    chi_square = ((observed - expected) ** 2 / expected).sum()
    assert abs(chi_square - 199) < 5 * np.sqrt(2 * 199)  # mean and deviation for 199 degrees


def test_alias_table_holds_the_distribution() -> None:
    probability = np.array([0.05, 0.5, 0.0, 0.25, 0.2])
    keep, alias = realistic_counts._alias_table(probability)
    rebuilt = np.zeros(5)
    for column in range(5):
        rebuilt[column] += keep[column] / 5
        rebuilt[alias[column]] += (1 - keep[column]) / 5
    np.testing.assert_allclose(rebuilt, probability, atol=1e-15)


def test_types_differ_in_some_genes() -> None:
    recipe = realistic_counts.Recipe(n_cells=1, n_genes=5000, median_umi=100, seed=1, n_types=3)
    profiles = realistic_counts._gene_probabilities(recipe)
    np.testing.assert_allclose(profiles.sum(axis=1), 1.0)
    ratio = profiles[0] / profiles[1]
    unchanged = np.isclose(ratio, np.median(ratio))
    assert abs(unchanged.mean() - 0.85**2) < 0.03


def test_seed_decides_everything() -> None:
    first = realistic_counts.make_counts(40, 500, 800, 9)
    again = realistic_counts.make_counts(40, 500, 800, 9)
    other = realistic_counts.make_counts(40, 500, 800, 10)
    assert_equal(first, again)
    assert (first.X != other.X).nnz > 0


def test_first_cells_do_not_depend_on_how_many_follow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(realistic_counts, "DENSE_BLOCK_VALUES", 10 * 500)
    small = realistic_counts.make_counts(30, 500, 800, 9)
    large = realistic_counts.make_counts(70, 500, 800, 9)
    assert (small.X != large.X[:30]).nnz == 0
    assert small.obs["n_counts"].equals(large.obs["n_counts"].iloc[:30])
    np.testing.assert_array_equal(small.obsm["X_pca"], large.obsm["X_pca"][:30])


@pytest.mark.parametrize("compression", [None, "gzip"])
@pytest.mark.parametrize("dtype", ["float32", "uint16"])
def test_written_file_equals_the_made_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dtype: str, compression: str | None
) -> None:
    monkeypatch.setattr(realistic_counts, "COPY_VALUES", 777)
    path = tmp_path / "counts.h5ad"
    nnz = realistic_counts.write_counts(path, 90, 400, 700, 2, dtype=dtype, compression=compression)
    made = realistic_counts.make_counts(90, 400, 700, 2, dtype=dtype)
    read = ad.read_h5ad(path)
    assert nnz == made.X.nnz
    assert_equal(read, made)
    assert [entry.name for entry in tmp_path.iterdir()] == ["counts.h5ad"]


def test_refusals_leave_nothing(tmp_path: Path) -> None:
    path = tmp_path / "counts.h5ad"
    with pytest.raises(ValueError, match="does not fit in uint8"):
        realistic_counts.write_counts(path, 10, 5, 5000, 0, dtype="uint8")
    with pytest.raises(ValueError, match="n_cells must be at least 1"):
        realistic_counts.make_counts(0, 5)
    with pytest.raises(ValueError, match="median_umi"):
        realistic_counts.make_counts(1, 5, float("nan"))
    assert list(tmp_path.iterdir()) == []


def test_script(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "counts.h5ad"
    assert realistic_counts.main([str(path), "20", "100", "300", "--seed", "4"]) == 0
    assert "20 cells x 100 genes" in capsys.readouterr().out
    assert ad.read_h5ad(path).shape == (20, 100)
    assert realistic_counts.main([str(tmp_path / "x.h5ad"), "0", "100", "300"]) == 1
    assert "n_cells" in capsys.readouterr().err
