"""Batches over several matrices against the sums of columns that numpy makes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anndata
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import scx_core
from scx_core._section_names import SectionType
from scx_core.native.matrix import Matrix
from scx_core.native.members import Columns, Member
from scx_core.native.pipeline import CsrPipeline, DensePipeline

TRANSFORMS: list[dict[str, Any]] = [
    {},
    {"normalize": True, "log1p": True},
    {"normalize": True, "target_sum": 100.0},
    {"log1p": True},
    {"pflog_alpha": 0.3},
]


def matrix_of(n_obs: int, n_vars: int, seed: int, dtype: str = "f4") -> sp.csr_matrix:
    rng = np.random.default_rng(seed)
    values = rng.geometric(0.4, (n_obs, n_vars)) * (rng.random((n_obs, n_vars)) < 0.3)
    if dtype == "signed":
        values = values * rng.choice([1.0, -0.5], values.shape)
        dtype = "f4"
    return sp.csr_matrix(values.astype(dtype))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Path, sp.csr_matrix]]:
    folder = tmp_path_factory.mktemp("files")
    made = []
    shapes = [(50, 30, "f4"), (37, 41, "u2"), (20, 30, "signed"), (9, 3000, "f4")]
    for number, (n_obs, n_vars, dtype) in enumerate(shapes):
        matrix = matrix_of(n_obs, n_vars, number, dtype)
        path = folder / f"{number}.scx"
        scx_core.from_anndata(anndata.AnnData(matrix), path, shard_size=8)
        made.append((path, matrix))
    return made


def member(path: Path, targets: Any, n_output: int, **values: Any) -> Member:
    file = scx_core.open(path).file
    matrix = Matrix(file, section_type=SectionType.CSR_SHARD, name="X")
    if targets is not None:
        targets = np.asarray(targets, dtype=np.int32)
    return Member(matrix, Columns(matrix.info.n_cols, targets, n_output, **values), str(path))


def expected(
    matrix: sp.csr_matrix, targets: Any, n_output: int, values: dict[str, Any]
) -> np.ndarray:
    """Values are added first; totals and PFlog's mean are those of what is stored."""
    stored = matrix.toarray().astype(np.float64)
    result = np.zeros((len(stored), n_output))
    for column, target in enumerate(range(stored.shape[1]) if targets is None else targets):
        if target >= 0:
            result[:, target] += stored[:, column]
    clipped = np.maximum(stored, 0)
    if values.get("normalize"):
        totals = (clipped if values.get("log1p") else stored).sum(axis=1, keepdims=True)
        factors = np.ones_like(totals)
        np.divide(values.get("target_sum", 1e4), totals, out=factors, where=totals > 0)
        result = (np.maximum(result, 0) if values.get("log1p") else result) * factors
    if values.get("log1p"):
        result = np.log1p(np.maximum(result, 0))
    if alpha := values.get("pflog_alpha"):
        centre = np.log1p(4 * alpha * clipped).mean(axis=1, keepdims=True)
        result = np.log1p(4 * alpha * np.maximum(result, 0)) - centre
    return result


def maps(n_columns: int, n_output: int, rng: np.random.Generator) -> dict[str, Any]:
    kept = np.sort(rng.permutation(n_columns)[:n_output])
    ascending = np.full(n_columns, -1)
    ascending[kept] = np.arange(n_output)
    mixed = np.full(n_columns, -1)
    mixed[kept] = rng.permutation(n_output)
    return {
        "ascending": ascending,
        "mixed": mixed,
        "shared": rng.integers(-1, n_output, n_columns),
        "nothing": np.full(n_columns, -1),
    }


@pytest.mark.parametrize("values", TRANSFORMS, ids=str)
@pytest.mark.parametrize("kind", ["ascending", "mixed", "shared", "nothing"])
def test_batches_agree_with_numpy(
    files: list[tuple[Path, sp.csr_matrix]], kind: str, values: dict[str, Any]
) -> None:
    rng = np.random.default_rng(5)
    n_output = 25
    chosen = [maps(matrix.shape[1], n_output, rng)[kind] for _, matrix in files]
    members = [
        member(path, targets, n_output, **values)
        for (path, _), targets in zip(files, chosen, strict=True)
    ]
    whole = np.vstack(
        [
            expected(matrix, targets, n_output, values)
            for (_, matrix), targets in zip(files, chosen, strict=True)
        ]
    )
    rows = rng.permutation(len(whole)).astype(np.int64)
    with DensePipeline(members, batches=1, threads=2) as pipeline:
        pipeline.submit(rows)
        np.testing.assert_allclose(pipeline.wait(), whole[rows], rtol=3e-6, atol=1e-5)
    if "pflog_alpha" in values:
        with pytest.raises(ValueError, match="dense batches alone"):
            CsrPipeline(members)
        return
    with CsrPipeline(members, batches=1, threads=2) as csr:
        csr.submit(rows)
        batch = csr.wait()
    found = sp.csr_matrix((batch.values, batch.indices, batch.indptr), (len(rows), n_output))
    assert found.has_canonical_format
    np.testing.assert_allclose(found.toarray(), whole[rows], rtol=3e-6, atol=1e-5)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_map(files: list[tuple[Path, sp.csr_matrix]], data: st.DataObject) -> None:
    path, matrix = files[1]
    n_output = data.draw(st.integers(1, 60))
    length = matrix.shape[1]
    targets = data.draw(st.lists(st.integers(-1, n_output - 1), min_size=length, max_size=length))
    rows = data.draw(st.lists(st.integers(0, matrix.shape[0] - 1), min_size=1, max_size=9))
    wanted = expected(matrix, targets, n_output, {})[rows]
    with CsrPipeline([member(path, targets, n_output)], threads=1) as pipeline:
        pipeline.submit(np.array(rows, dtype=np.int64))
        batch = pipeline.wait()
    found = sp.csr_matrix((batch.values, batch.indices, batch.indptr), wanted.shape)
    assert found.has_canonical_format
    np.testing.assert_array_equal(found.toarray(), wanted)


def test_damage_names_its_file(files: list[tuple[Path, sp.csr_matrix]], tmp_path: Path) -> None:
    good, matrix = files[0]
    damaged = tmp_path / "damaged.scx"
    data = bytearray(good.read_bytes())
    with scx_core.open(good) as experiment:
        (section,) = [part for part in experiment.sections() if part["name"] == "X_shard_2"]
    data[section["offset"] + section["length"] // 2] ^= 0xFF
    damaged.write_bytes(data)
    members = [member(path, None, matrix.shape[1]) for path in (good, damaged)]
    rows = np.arange(16, 24, dtype=np.int64) + matrix.shape[0]
    for kind in (DensePipeline, CsrPipeline):
        with kind(members, threads=1) as pipeline:
            pipeline.submit(rows)
            with pytest.raises(scx_core.CorruptFileError) as caught:
                pipeline.wait()
        assert caught.value.path == str(damaged)
        assert caught.value.shard == 2
        assert "file 1" not in str(caught.value)


def test_what_does_not_fit_is_refused(files: list[tuple[Path, sp.csr_matrix]]) -> None:
    path, matrix = files[0]
    n_vars = matrix.shape[1]
    with pytest.raises(IndexError, match="column 3 goes to 9, but there are 9 output columns"):
        Columns(5, np.array([0, 1, 2, 9, -1], dtype=np.int32), 9)
    with pytest.raises(ValueError, match="31 columns without a map cannot be 30"):
        Columns(31, None, 30)
    with pytest.raises(ValueError, match="no matrix"):
        DensePipeline([])
    short = Columns(n_vars - 1, None, n_vars - 1)
    whole = member(path, None, n_vars)
    with pytest.raises(ValueError, match=r"file 1: its matrix has 30 columns, its map 29"):
        DensePipeline([whole, Member(whole.matrix, short, str(path))])
    narrow = Columns(n_vars, np.zeros(n_vars, dtype=np.int32), 1)
    with pytest.raises(ValueError, match="file 1: its map has 1 output columns"):
        DensePipeline([whole, Member(whole.matrix, narrow, str(path))])
    far = np.array([100], dtype=np.int64)
    expected_error = pytest.raises(IndexError, match=r"row 100 .* the files have 100 rows")
    with DensePipeline([whole, whole]) as pipeline, expected_error:
        pipeline.submit(far)
