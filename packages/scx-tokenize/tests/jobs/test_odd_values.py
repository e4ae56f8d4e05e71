"""Values that are no counts: told, or refused with file, row and gene, in every form of a file."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from job_samples import IDS, cells, medians_of, tokens_of, written

import scx_tokenize

TABLES = {"token_dictionary": tokens_of(), "gene_medians": medians_of()}
FORMS = {"csr.h5ad": sp.csr_matrix, "csc.h5ad": sp.csc_matrix, "dense.h5ad": np.asarray}


@pytest.mark.parametrize("name", [*FORMS, "csr.scx"])
def test_values_that_are_no_counts_are_told(tmp_path: Path, name: str) -> None:
    adata = cells(30)
    form: Any = FORMS.get(name, sp.csr_matrix)
    adata.X = form(adata.X.toarray())
    path = written(adata, tmp_path / f"counts-{name}")
    scx_tokenize.run("rank", path, tmp_path / "counts", preset="geneformer-v1", **TABLES)
    adata.X = form(np.log1p(np.asarray(sp.csr_matrix(adata.X).toarray())))
    path = written(adata, tmp_path / f"logged-{name}")
    with pytest.warns(UserWarning, match=r"logged-.*X holds values that are no whole numbers"):
        scx_tokenize.run("rank", path, tmp_path / "logged", preset="geneformer-v1", **TABLES)


@pytest.mark.parametrize("suffix", [".scx", ".h5ad"])
@pytest.mark.parametrize(
    ("kernel", "options"), [("rank", TABLES), ("bin", {}), ("sample", {"n": 5})]
)
def test_an_infinite_value_is_named(
    tmp_path: Path, suffix: str, kernel: Any, options: dict[str, Any]
) -> None:
    adata = cells(30)
    dense = adata.X.toarray()
    dense[17, 3] = np.inf
    adata.X = sp.csr_matrix(dense)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what is converted is told of its infinite values
        path = written(adata, tmp_path / f"a{suffix}")
    message = rf"a\{suffix}: in row 17 the value inf of gene {IDS[3]} is infinite"
    with pytest.raises(ValueError, match=message):
        scx_tokenize.run(kernel, path, tmp_path / "out", **options)
    assert list((tmp_path / "out" / "data").iterdir()) == []


def test_a_value_below_the_first_edge_is_named(tmp_path: Path) -> None:
    adata = cells(30)
    dense = adata.X.toarray() * 2
    dense[21, :] = 0
    dense[21, 7] = 1
    adata.X = sp.csr_matrix(dense)
    path = written(adata, tmp_path / "a.scx")
    options: dict[str, Any] = {"n_bins": 4, "edges": [2, 3, 4], "obs_filter": "index != 's0c0'"}
    with pytest.raises(ValueError, match=rf"row 21 the value 1 of gene {IDS[7]} lies below .* 2:"):
        scx_tokenize.run("bin", path, tmp_path / "out", **options)
    options["edges"] = [1, 3, 4]
    with pytest.raises(ValueError, match=r"options\.edges\.0 is 2\.0 there and 1\.0 here"):
        scx_tokenize.run("bin", path, tmp_path / "out", **options)
    scx_tokenize.run("bin", path, tmp_path / "out", overwrite=True, **options)


def test_medians_of_nothing_are_refused(tmp_path: Path) -> None:
    adata = cells(30)
    adata.X = -adata.X
    path = written(adata, tmp_path / "a.scx")
    with pytest.raises(ValueError, match=r"a\.scx: no gene has a value above 0"):
        scx_tokenize.medians(path, tmp_path / "medians.parquet")
    assert not (tmp_path / "medians.parquet").exists()


@pytest.mark.parametrize("form", [sp.csr_matrix, sp.csc_matrix, np.asarray])
def test_medians_of_values_that_are_no_counts_are_told(tmp_path: Path, form: Any) -> None:
    adata = cells(30)
    adata.layers["counts"] = adata.X.copy()
    adata.X = form(np.log1p(adata.X.toarray()))
    path = written(adata, tmp_path / "a.h5ad")
    with pytest.warns(UserWarning, match="whole numbers, but medians are made of raw counts"):
        scx_tokenize.medians(path)
    scx_tokenize.medians(path, source="layers/counts")


def test_a_file_without_genes_is_told_so(tmp_path: Path) -> None:
    path = written(cells(30)[:, :0].copy(), tmp_path / "a.h5ad")
    with pytest.raises(ValueError, match=r"a\.h5ad has no genes"):
        scx_tokenize.run("rank", path, tmp_path / "out", **TABLES)
