"""Values that are no counts are told wherever in a file they are, and told once."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from job_samples import cells, medians_of, tokens_of, written

import scx_tokenize
from scx_tokenize.jobs._fractions import any_fractions

TABLES: dict[str, Any] = {"token_dictionary": tokens_of(), "gene_medians": medians_of()}
FORMS = {"csr.scx": sp.csr_matrix, "csr.h5ad": sp.csr_matrix, "dense.h5ad": np.asarray}


def with_a_half(path: Path, row: int, form: Any = sp.csr_matrix) -> Path:
    adata = cells(300)
    dense = adata.X.toarray()
    dense[row, 4] = 0.5
    adata.X = form(dense)
    return written(adata, path)


def told(function: Any, *arguments: Any, **options: Any) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        function(*arguments, **options)
    return [str(one.message) for one in caught]


@pytest.mark.parametrize("row", [0, 99, 100, 299])
@pytest.mark.parametrize("name", FORMS)
def test_one_fraction_anywhere_is_told_once(tmp_path: Path, name: str, row: int) -> None:
    path = with_a_half(tmp_path / name, row, FORMS[name])
    given = ("rank", path, tmp_path / "out")
    options = {**TABLES, "preset": "geneformer-v1", "shard_rows": 64}
    said = told(scx_tokenize.run, *given, **options)
    assert len(said) == 1
    assert f"{path}: X holds values that are no whole numbers, but Geneformer takes raw" in said[0]
    # and again when nothing is left to do, from what is noted of the shards
    assert told(scx_tokenize.run, *given, **options) == said
    said = told(scx_tokenize.medians, path, threads=1 + row % 2)
    assert len(said) == 1
    assert f"{path}: X holds values that are no whole numbers, but medians are made of" in said[0]


def test_the_manifest_tells_where(tmp_path: Path) -> None:
    path = with_a_half(tmp_path / "a.scx", 130)
    manifest = scx_tokenize.run("bin", path, tmp_path / "out", shard_rows=100)
    assert [shard["whole_numbers"] for shard in manifest["shards"]] == [True, False, True]


def test_several_files_are_told_together(tmp_path: Path) -> None:
    paths = [with_a_half(tmp_path / f"{row}.scx", row) for row in (3, 200, 250)]
    paths.append(written(cells(300), tmp_path / "counts.scx"))
    said = told(scx_tokenize.run, "sample", paths, tmp_path / "out", preset="uce")
    early, late = said
    assert early.startswith(f"{paths[0]}: X holds")
    assert late.startswith(f"{paths[1]} and 1 more: X holds")


def test_cells_that_are_not_taken_do_not_count(tmp_path: Path) -> None:
    path = with_a_half(tmp_path / "a.scx", 200)
    options = {"preset": "uce", "obs_filter": "index != 's0c200'"}
    assert told(scx_tokenize.run, "sample", path, tmp_path / "out", **options) == []


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], False),
        ([0, 1, 2**24, 3e38], False),
        ([np.nan, np.inf, -np.inf, -0.0], False),
        ([-0.5, -1e-30], False),
        ([1, 1e-30], True),
        ([np.nan, -0.5, 8388607.5], True),
    ],
)
def test_what_a_fraction_is(values: list[float], expected: bool) -> None:
    assert any_fractions(np.array(values, dtype=np.float32)) is expected
    assert any_fractions(np.array(values, dtype=np.float64)) is expected


def test_whole_dtypes_have_none() -> None:
    assert not any_fractions(np.arange(5))
