"""Files in the layout of the published tools, against what is written beside them of their content.

`NAME.json` beside `NAME.scx` was made together with it, by another program: hashes of the arrays of
each matrix, and the tables in full. All ways to the values are compared: conversions, rows of X,
batches and tokens. A matrix in a codec that is not decoded is refused, and all else of its file is
read.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import anndata as ad
import mudata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from blake3 import blake3

import scx_core
from mudata_samples import quiet
from resealed import ScxFile
from scx_core._section_names import SectionType
from scx_tokenize import rank_tokens, top_k
from scx_train import SparseCellSetDataset, TrainingDataset

FOREIGN = Path(__file__).parent.parent / "packages/scx-core/tests/experiment/foreign"
TOLD = sorted(path.stem for path in FOREIGN.glob("*.json"))
DECODED = 0  # of the published codecs, the one that every version decodes
NOT_DECODED = "which this version does not decode"


def told(name: str) -> dict[str, Any]:
    return json.loads((FOREIGN / f"{name}.json").read_text(encoding="utf-8"))  # type: ignore[no-any-return]


def is_decoded(name: str) -> bool:
    shards = told(name).get("shards")
    if shards is None:  # they are those of modalities, in codecs of others
        return False
    return all(shard["codec"] == DECODED and not shard["row_group_rows"] for shard in shards)


MATRICES = [name for name in TOLD if is_decoded(name)]


def sha256(array: Any, dtype: str) -> str:
    return hashlib.sha256(np.ascontiguousarray(array, dtype=dtype).tobytes()).hexdigest()


def compare_matrix(matrix: Any, told: dict[str, Any]) -> None:
    assert matrix.shape == tuple(told["shape"])
    assert matrix.nnz == told["nnz"]
    assert sha256(matrix.indptr, "<i8") == told["indptr_sha256_i64le"]
    assert sha256(matrix.indices, "<i4") == told["indices_sha256_i32le"]
    assert sha256(matrix.data, "<f8") == told["data_sha256_f64le"]


def told_as(value: Any) -> Any:
    if isinstance(value, float) and np.isnan(value):
        return {"nonfinite": "nan"}
    return None if pd.isna(value) else value


def compare_frame(frame: pd.DataFrame, told: dict[str, Any]) -> None:
    if "n" in told:  # how many rows, where they are many
        assert len(frame) == told["n"]
    if "index" in told:
        assert list(frame.index) == told["index"]
        assert frame.index.name == told["index_name"]
    assert list(frame.columns) == list(told.get("columns", frame.columns))
    for name, column in told.get("columns", {}).items():
        series = frame[name]
        if column.get("dtype") == "category":
            assert list(series.cat.categories) == column["categories"]
            assert series.cat.codes.tolist() == column["codes"]
            assert series.cat.ordered == column["ordered"]
        else:
            assert [told_as(value) for value in series] == column["values"]
            if column.get("dtype") in ("int64", "float64", "float32", "bool"):
                assert series.dtype == column["dtype"]


def compare_array(array: Any, told: dict[str, Any]) -> None:
    if "columns" in told:
        np.testing.assert_array_equal(array, np.array([*told["columns"].values()]).T)
        return
    assert array.shape == tuple(told["shape"])
    assert sha256(array, "<f8") == told["sha256_c_order_f64le"]


@pytest.fixture(scope="module")
def matrices() -> dict[str, sp.csr_matrix]:
    """X of each file that is decoded, which `test_matrices` compares with what is told."""
    found = {}
    for name in MATRICES:
        with scx_core.open(FOREIGN / f"{name}.scx") as experiment:
            found[name] = sp.csr_matrix(experiment.to_anndata().X)
    return found


@pytest.mark.parametrize("name", TOLD)
def test_tables(name: str) -> None:
    expected = told(name)
    deleted = expected.get("deleted_rows", [])
    with scx_core.open(FOREIGN / f"{name}.scx", include_deleted=True) as experiment:
        assert experiment.deleted_rows.tolist() == deleted
        assert experiment.n_obs == expected["header"]["n_obs"]
        compare_frame(experiment.obs, expected["obs"])
        parts = expected.get("modalities") or {"": expected}
        assert [part.name for part in experiment.parts()] == list(parts)
        for part in experiment.parts():
            of_part = parts[part.name]
            assert part.n_vars == of_part["X"]["shape"][1]
            compare_frame(part.var, of_part.get("var", {}))
            for kind in ("obsm", "varm"):
                found = getattr(part, kind)
                assert list(found) == list(of_part.get(kind, {}))
                for key, array in of_part.get(kind, {}).items():
                    compare_array(found[key], array)
            for kind in ("obsp", "varp"):
                found = getattr(part, kind)
                assert list(found) == list(of_part.get(kind, {}))
                for key, graph in of_part.get(kind, {}).items():
                    compare_matrix(found[key], graph)
            assert list(part.layers) == list(of_part.get("layers", {}))
            assert (part.raw is None) == ("raw" not in of_part)
        if "uns" not in expected and "uns_json" in expected:
            assert experiment.uns == expected["uns_json"]


@pytest.mark.parametrize("name", [name for name in TOLD if not is_decoded(name)])
def test_a_codec_of_others_is_named(name: str) -> None:
    with scx_core.open(FOREIGN / f"{name}.scx") as experiment:
        part = experiment.parts()[0]
        with pytest.raises(ValueError, match=NOT_DECODED):
            part.X[:1]
        with pytest.raises(ValueError, match=NOT_DECODED):
            experiment.to_mudata() if experiment.is_multimodal else experiment.to_anndata()


@pytest.mark.parametrize("name", MATRICES)
def test_matrices(name: str, matrices: dict[str, sp.csr_matrix], tmp_path: Path) -> None:
    expected, matrix = told(name)["X"], matrices[name]
    compare_matrix(matrix, expected)
    with scx_core.open(FOREIGN / f"{name}.scx") as experiment:
        assert experiment.find_damage(deep=True) == []
        rows = np.random.default_rng(0).integers(0, max(1, matrix.shape[0]), 50)
        rows = rows[: 50 if matrix.shape[0] else 0]
        for gathered in (experiment.X[rows], experiment.gather_rows(rows, threads=2)):
            assert (gathered != matrix[rows]).nnz == 0
        columns = [matrix.shape[1] - 1, 0]
        dense = matrix.toarray()
        np.testing.assert_array_equal(
            experiment.X[rows][:, columns].toarray(), dense[rows][:, columns]
        )
        np.testing.assert_array_equal(
            experiment.X[:, columns].toarray(), dense[:, columns], strict=True
        )
        experiment.to_h5ad(tmp_path / "again.h5ad")
    scx_core.from_h5ad(tmp_path / "again.h5ad", tmp_path / "own.scx")
    with scx_core.open(tmp_path / "own.scx") as own:
        compare_matrix(sp.csr_matrix(own.to_anndata().X), expected)
        compare_frame(own.obs, told(name)["obs"])


@pytest.mark.parametrize("layout", ["dense", "csr"])
@pytest.mark.parametrize("name", [name for name in MATRICES if told(name)["X"]["nnz"]])
def test_batches(name: str, layout: Any, matrices: dict[str, sp.csr_matrix]) -> None:
    wanted = matrices[name].astype(np.float64).toarray()
    column = told(name)["obs"]["columns"]["cell_type"]
    categories = column.get("categories")
    cell_types = [categories[code] for code in column["codes"]] if categories else column["values"]
    is_logged = told(name)["shards"][0]["value_encoding"] == "f32"
    if not is_logged:
        totals = wanted.sum(axis=1, keepdims=True)
        wanted = np.log1p(1e4 * wanted / np.maximum(totals, 1))
    seen = []
    with TrainingDataset(
        FOREIGN / f"{name}.scx",
        batch_size=64,
        layout=layout,
        normalize=not is_logged,
        log1p=not is_logged,
        obs_columns=["cell_type"],
    ) as dataset:
        for batch in dataset:
            rows = batch["cell_indices"]
            x: Any = batch["X"]
            x = x.toarray() if layout == "csr" else np.array(x)
            np.testing.assert_allclose(x, wanted[rows], rtol=2e-6, atol=1e-6)
            labels = batch["obs"]["cell_type"]
            named = [labels["categories"][code] for code in labels["codes"]]
            assert named == [cell_types[row] for row in rows]
            seen.extend(rows.tolist())
    assert sorted(seen) == list(range(len(wanted)))


@pytest.mark.parametrize("name", [name for name in MATRICES if told(name)["X"]["nnz"]])
def test_sets_of_cells(name: str, matrices: dict[str, sp.csr_matrix]) -> None:
    matrix = matrices[name]
    path = FOREIGN / f"{name}.scx"
    rows = np.random.default_rng(1).integers(0, matrix.shape[0], 40)
    plan = (np.zeros(40, int), rows, np.zeros(40, int), [0, 15, 40])
    wanted = sp.csr_matrix(matrix[rows], dtype=np.float32)
    with SparseCellSetDataset([path]) as dataset:
        (batch,) = dataset.iter_with_plans([plan])
        np.testing.assert_array_equal(batch["indptr"], wanted.indptr)
        np.testing.assert_array_equal(batch["indices"], wanted.indices)
        np.testing.assert_array_equal(batch["data"], wanted.data)


@pytest.mark.parametrize("name", [name for name in MATRICES if told(name)["X"]["nnz"]])
def test_tokens(name: str, matrices: dict[str, sp.csr_matrix]) -> None:
    """Of rows as the file gives them: the largest values first, of equal ones the smaller gene."""
    dense = matrices[name].astype(np.float64).toarray()
    n_genes = dense.shape[1]
    with scx_core.open(FOREIGN / f"{name}.scx") as experiment:
        rows = experiment.X[:]
    ranked = rank_tokens(rows, np.ones(n_genes), n_genes, "v1")
    top = top_k(rows, 5, n_genes)
    for number, row in enumerate(dense):
        order = np.lexsort((np.arange(n_genes), -row))
        order = order[row[order] > 0]
        length = int(ranked["lengths"][number])
        assert ranked["ids"].reshape(-1, n_genes)[number, :length].tolist() == order.tolist()
        values = top["values"].reshape(-1, 5)[number]
        np.testing.assert_array_equal(values[: len(order[:5])], row[order[:5]].astype(np.float32))


def test_columns_that_only_var_has(tmp_path: Path) -> None:
    """Header, modality table, catalog and shards of early multimodal files count no columns."""
    rng = np.random.default_rng(3)
    dense = {"rna": rng.poisson(0.7, (9, 5)), "adt": rng.poisson(2.0, (9, 3))}
    names = [f"c{number}" for number in range(9)]
    modalities = {}
    for key, counts in dense.items():
        genes = pd.DataFrame(index=[f"{key}{number}" for number in range(counts.shape[1])])
        obs = pd.DataFrame(index=names)
        modalities[key] = ad.AnnData(sp.csr_matrix(counts.astype(np.float32)), obs, genes)
    with quiet():
        mdata = mudata.MuData(modalities)
    scx_core.from_mudata(mdata, tmp_path / "new.scx", codec="none")
    early = ScxFile(tmp_path / "new.scx")
    for field in ("n_vars", "nnz", "n_csr_shards"):
        early.set(field, 0)
    for section in early.sections:
        if section.section_type == SectionType.CSR_SHARD:
            section.set("n_minor", 0)
            section.set_stat("col_end", 0)
            section.reseal()
    table = early["modality_table"].content
    for key in dense:
        start = table.index(key.encode()) + len(key) + 4
        table[start : start + 8] = bytes(8)
    table[-4:] = blake3(bytes(table[:-4])).digest()[:4]
    early.write(tmp_path / "early.scx")

    with scx_core.open(tmp_path / "early.scx") as experiment:
        assert experiment.find_damage(deep=True) == []
        assert experiment.n_vars == 5
        for key, counts in dense.items():
            assert experiment[key].n_vars == counts.shape[1]
            np.testing.assert_array_equal(experiment[key].X[[8, 0]].toarray(), counts[[8, 0]])
        np.testing.assert_array_equal(experiment.to_mudata()["adt"].X.toarray(), dense["adt"])
    with TrainingDataset(
        tmp_path / "early.scx", modality="adt", normalize=False, log1p=False, shuffle=False
    ) as dataset:
        (batch,) = dataset
        np.testing.assert_array_equal(batch["X"], dense["adt"])


def test_cells_and_genes_without_names_have_numbers() -> None:
    with scx_core.open(FOREIGN / "golden_none_u8.scx") as experiment:
        assert experiment.obs_names.tolist() == [str(number) for number in range(100)]
        assert experiment.obs.index.tolist() == experiment.obs_names.tolist()
        assert experiment.to_anndata().obs_names.tolist() == experiment.obs_names.tolist()
        by_name = experiment.X[["17"], ["3", "0"]]
        np.testing.assert_array_equal(by_name.toarray(), experiment.X[17].toarray()[:, [3, 0]])
        with pytest.raises(KeyError, match="there is no cell '170'"):
            experiment.X["170"]
