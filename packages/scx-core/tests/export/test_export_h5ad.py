"""Export to .h5ad: what anndata reads from the file equals `to_anndata()`, and what was put in."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import anndata
import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from anndata.tests.helpers import assert_equal

import scx_core
from hdf5_samples import counts

FORMS = ["csr_matrix", "csr_array", "csc_matrix", "csc_array"]
NAN_TEXT = pd.StringDtype(na_value=np.nan)


def full_adata(n_obs: int = 40, n_vars: int = 25) -> anndata.AnnData:
    matrix = counts(n_obs, n_vars)
    half = n_obs // 2
    adata = anndata.AnnData(
        matrix,
        obs=pd.DataFrame(
            {
                "type": pd.Categorical(["a", "b"] * half, categories=["b", "a", "unused"]),
                "stage": pd.Categorical([2, 1] * half, categories=[2, 1], ordered=True),
                "n": pd.array([1, None] * half, dtype="Int64"),
                "good": pd.array([True, None] * half, dtype="boolean"),
                "text": ["x", "y"] * half,
                "gaps": pd.array(["x", None] * half, dtype="string"),
                "score": np.linspace(0, 1, n_obs),
            },
            index=pd.Index([f"cell{i}" for i in range(n_obs)], name="barcode"),
        ),
        var=pd.DataFrame({"G1/S": range(n_vars)}, index=[f"gene{j}" for j in range(n_vars)]),
    )
    adata.layers["csc"] = sp.csc_matrix(matrix * 2)
    adata.layers["dense"] = (matrix * 3).toarray().astype(np.float64)
    adata.layers["half"] = (matrix * 4).toarray().astype(np.float16)
    adata.obsm["X_pca"] = np.arange(2.0 * n_obs).reshape(-1, 2)
    adata.obsm["frame"] = pd.DataFrame({"q": range(n_obs)}, index=adata.obs_names)
    adata.obsm["sparse"] = counts(n_obs, 4)
    adata.varm["loadings"] = np.ones((n_vars, 3), np.float32)
    adata.obsp["graph"] = counts(n_obs, n_obs, 0.1)
    adata.varp["corr"] = np.eye(n_vars)
    adata.uns["nested"] = {"a": 1, "b": {"c": np.arange(3), "d": "text"}}
    adata.raw = anndata.AnnData(
        counts(n_obs, 31, seed=5),
        var=pd.DataFrame({"k": range(31)}, index=[f"raw{j}" for j in range(31)]),
        varm={"w": np.ones((31, 2))},
    )
    return adata


def exported(tmp_path: Path, adata: anndata.AnnData, **options: Any) -> anndata.AnnData:
    scx_core.from_anndata(adata, tmp_path / "a.scx", shard_size=16, overwrite=True)
    with scx_core.open(tmp_path / "a.scx") as experiment:
        experiment.to_h5ad(tmp_path / "a.h5ad", overwrite=True, **options)
        read = anndata.read_h5ad(tmp_path / "a.h5ad")
        expected = experiment.to_anndata()
    for names in ("obs_names", "var_names"):
        # from pandas 3 on, anndata reads no names at all as objects, and some as text
        if len(getattr(read, names)) == 0:
            setattr(expected, names, getattr(expected, names).astype(getattr(read, names).dtype))
    assert sorted(os.listdir(tmp_path)) == ["a.h5ad", "a.scx"]
    assert_equal(read, expected, exact=True)
    assert read.obs.index.name == expected.obs.index.name
    return read


@pytest.mark.parametrize("memory_budget", [1000, "2GiB"])
@pytest.mark.parametrize(
    "options", [{}, {"compression": "lzf"}, {"compression": "gzip", "compression_opts": 1}]
)
def test_everything_comes_back(
    tmp_path: Path, options: dict[str, Any], memory_budget: int | str
) -> None:
    adata = full_adata()
    read = exported(tmp_path, adata, memory_budget=memory_budget, **options)
    assert_equal(read, adata, exact=True)
    with h5py.File(tmp_path / "a.h5ad") as file:
        assert dict(file.attrs) == {"encoding-type": "anndata", "encoding-version": "0.1.0"}
        for path in ("X/data", "layers/csc/indices", "layers/dense", "raw/X/data", "obsm/X_pca"):
            assert file[path].compression == options.get("compression")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "i8", "u1", "u2", "u8", "i2", "?"])
def test_forms_and_dtypes(tmp_path: Path, form: str, dtype: str) -> None:
    matrix = getattr(sp, form)(counts(9, 7).astype(dtype))
    read = exported(tmp_path, anndata.AnnData(matrix), memory_budget=200)
    assert read.X.format == form[:3]
    assert read.X.dtype == np.dtype(dtype)
    assert np.array_equal(read.X.toarray(), matrix.toarray())


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i4", "u8", "?"])
def test_dense(tmp_path: Path, dtype: str) -> None:
    dense = counts(9, 7).toarray().astype(dtype)
    read = exported(tmp_path, anndata.AnnData(dense), memory_budget=200)
    assert isinstance(read.X, np.ndarray)
    assert read.X.dtype == np.dtype(dtype)
    assert np.array_equal(read.X, dense)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0), (1, 1)])
@pytest.mark.parametrize("compression", [None, "gzip"])
def test_small_and_empty(tmp_path: Path, shape: tuple[int, int], compression: Any) -> None:
    for matrix in (
        sp.csr_matrix(shape, dtype=np.float32),
        sp.csc_matrix(shape, dtype=np.float32),
        np.zeros(shape, np.float32),
    ):
        read = exported(tmp_path, anndata.AnnData(matrix), compression=compression)
        assert read.shape == shape


def test_no_x(tmp_path: Path) -> None:
    adata = anndata.AnnData(obs=pd.DataFrame(index=["a", "b"]), var=pd.DataFrame(index=["g"]))
    assert exported(tmp_path, adata).X is None


def test_index_widths(tmp_path: Path) -> None:
    matrix = counts(6, 5)
    matrix.indices = matrix.indices.astype(np.int64)
    matrix.indptr = matrix.indptr.astype(np.int64)
    read = exported(tmp_path, anndata.AnnData(matrix))
    assert read.X.indices.dtype == read.X.indptr.dtype == np.int64


@pytest.mark.filterwarnings("ignore:The 'future.infer_string' option")
@pytest.mark.parametrize("with_string_dtype", [False, True])
def test_text_without_gaps_is_stored_as_older_readers_know_it(
    tmp_path: Path, with_string_dtype: bool
) -> None:
    with pd.option_context("future.infer_string", with_string_dtype):
        obs = pd.DataFrame(
            {"text": ["x", "ü"], "label": pd.Categorical(["b", "a"]), "n": [1, 2]},
            index=["c0", "c1"],
        )
        assert isinstance(obs.index.dtype, pd.StringDtype) == with_string_dtype
        adata = anndata.AnnData(
            counts(2, 3),
            obs=obs,
            obsm={"frame": obs.copy()},
            uns={"nested": {"frame": obs.copy(), "names": pd.array(["x", "ü"], dtype=NAN_TEXT)}},
        )
        scx_core.from_anndata(adata, tmp_path / "a.scx")
        with scx_core.open(tmp_path / "a.scx") as experiment:
            experiment.to_h5ad(tmp_path / "a.h5ad")
    with h5py.File(tmp_path / "a.h5ad") as file:
        for frame in ("obs", "obsm/frame", "uns/nested/frame"):
            columns = {"_index": ["c0", "c1"], "text": ["x", "ü"], "label/categories": ["a", "b"]}
            for name, values in columns.items():
                stored = file[f"{frame}/{name}"]
                assert stored.attrs["encoding-type"] == "string-array"
                assert stored.asstr()[()].tolist() == values
        assert file["uns/nested/names"].asstr()[()].tolist() == ["x", "ü"]


@pytest.mark.filterwarnings("ignore:The 'future.infer_string' option")
def test_text_of_the_string_dtype_with_gaps_comes_back(tmp_path: Path) -> None:
    with pd.option_context("future.infer_string", True):
        adata = anndata.AnnData(counts(2, 3))
        adata.obs["text"] = pd.Series(["x", np.nan], index=adata.obs_names, dtype=NAN_TEXT)
        scx_core.from_anndata(adata, tmp_path / "a.scx")
        with scx_core.open(tmp_path / "a.scx") as experiment:
            experiment.to_h5ad(tmp_path / "a.h5ad")
        assert anndata.read_h5ad(tmp_path / "a.h5ad").obs["text"].isna().tolist() == [False, True]


def test_what_anndata_cannot_store_is_refused_by_name(tmp_path: Path) -> None:
    adata = anndata.AnnData(counts(3, 2))
    adata.obs["when"] = pd.to_datetime(["2020-01-01"] * 3)
    scx_core.from_anndata(adata, tmp_path / "a.scx")
    (tmp_path / "a.h5ad").write_bytes(b"an old file")
    words = r"obs cannot be stored in HDF5 by anndata: obs\['when'\].*store obs\['when'\].astype"
    with scx_core.open(tmp_path / "a.scx") as experiment, pytest.raises(ValueError, match=words):
        experiment.to_h5ad(tmp_path / "a.h5ad", overwrite=True)
    assert sorted(os.listdir(tmp_path)) == ["a.h5ad", "a.scx"]
    assert (tmp_path / "a.h5ad").read_bytes() == b"an old file"


def test_arguments_are_checked_and_nothing_is_left(tmp_path: Path) -> None:
    scx_core.from_anndata(anndata.AnnData(counts(3, 2)), tmp_path / "a.scx")
    out = tmp_path / "a.h5ad"
    with scx_core.open(tmp_path / "a.scx") as experiment:
        for options, words in (
            ({"compression": "zip"}, "compression='zip' must be None"),
            ({"compression_opts": 4}, "level of gzip, which was not chosen"),
            ({"compression": "gzip", "compression_opts": 12}, "must lie in 0 to 9"),
            ({"memory_budget": "x"}, "memory_budget='x' is not an amount"),
            ({"modality": "rna"}, "has a single modality without a name"),
        ):
            with pytest.raises(ValueError, match=words):
                experiment.to_h5ad(out, **options)
        with pytest.raises(FileNotFoundError, match="there is no folder"):
            experiment.to_h5ad(tmp_path / "none" / "a.h5ad")
        assert os.listdir(tmp_path) == ["a.scx"]
        out.write_bytes(b"")
        with pytest.raises(FileExistsError, match="pass overwrite=True"):
            experiment.to_h5ad(out)
        with pytest.raises(ValueError, match=r"single modality: write it to an \.h5ad"):
            experiment.to_h5mu(tmp_path / "a.h5mu")


def test_damage_found_on_the_way_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.scx"
    scx_core.from_anndata(anndata.AnnData(counts(50, 40)), path)
    with scx_core.open(path) as experiment:
        (shard,) = [part for part in experiment.sections() if part["type"] == "csr_shard"]
    content = bytearray(path.read_bytes())
    content[shard["offset"] + shard["length"] // 2] ^= 0xFF
    path.write_bytes(content)
    with scx_core.open(path) as experiment, pytest.raises(scx_core.CorruptFileError):
        experiment.to_h5ad(tmp_path / "a.h5ad")
    assert os.listdir(tmp_path) == ["a.scx"]


def test_progress_counts_rows_of_all_matrices(tmp_path: Path) -> None:
    scx_core.from_anndata(full_adata(), tmp_path / "a.scx")
    calls: list[tuple[int, int]] = []
    with scx_core.open(tmp_path / "a.scx") as experiment:
        experiment.to_h5ad(
            tmp_path / "a.h5ad",
            memory_budget=2000,
            progress=lambda done, total: calls.append((done, total)),
        )
    assert calls[-1] == (200, 200)


EXPORT = """
import sys, scx_core
with scx_core.open(sys.argv[1]) as experiment:
    experiment.to_h5ad(sys.argv[2], memory_budget=sys.argv[3], progress=False)
with open("/proc/self/status") as status:
    print(next(line for line in status if line.startswith("VmHWM")).split()[1])
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
@pytest.mark.parametrize("form", ["csr", "csc", "dense"])
def test_memory_stays_within_the_budget_and_300_megabytes(tmp_path: Path, form: str) -> None:
    block = counts(2000, 1500, 0.5)
    matrix = sp.vstack([block] * 25, format="csr")
    assert matrix.nnz * 8 > 250e6
    stored = matrix.toarray() if form == "dense" else matrix.asformat(form)
    scx_core.from_anndata(anndata.AnnData(stored), tmp_path / "a.scx")
    command = [sys.executable, "-c", EXPORT, tmp_path / "a.scx", tmp_path / "a.h5ad", "64MiB"]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(result.stdout) * 1024 < 64 * 2**20 + 300 * 10**6
    read = anndata.read_h5ad(tmp_path / "a.h5ad", backed="r")
    assert read.shape == matrix.shape
    rows = read.X[[0, 2000, 49_999]]
    rows = rows.toarray() if sp.issparse(rows) else rows
    assert np.array_equal(rows, matrix[[0, 2000, 49_999]].toarray())
    read.file.close()
