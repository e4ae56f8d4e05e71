"""Whole conversions of files to .scx, against what the usual readers make of the same files."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anndata
import h5py
import mudata
import numpy as np
import pandas as pd
import pytest
import scanpy
import scipy.sparse as sp
from anndata.tests.helpers import assert_equal

import scx_core
from hdf5_samples import (
    counts,
    read_10x_h5,
    write_10x,
    write_10x_legacy,
    write_bare_h5ad,
    write_h5ad_06,
    write_h5ad_07,
)


def quietly(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*arguments, **options)


def listing(folder: Path) -> dict[str, bytes]:
    return {entry.name: entry.read_bytes() for entry in folder.iterdir() if entry.is_file()}


def full_adata(n_obs: int = 40, n_vars: int = 25) -> anndata.AnnData:
    matrix = counts(n_obs, n_vars)
    adata = anndata.AnnData(
        matrix,
        obs=pd.DataFrame(
            {
                "type": pd.Categorical(["a", "b"] * (n_obs // 2), categories=["b", "a", "c"]),
                "n": pd.array([1, None] * (n_obs // 2), dtype="Int64"),
                "text": ["x", "y"] * (n_obs // 2),
            },
            index=[f"cell{i}" for i in range(n_obs)],
        ),
        var=pd.DataFrame(index=[f"gene{j}" for j in range(n_vars)]),
    )
    adata.layers["csc"] = sp.csc_matrix(matrix * 2)
    adata.layers["dense"] = (matrix * 3).toarray().astype(np.float64)
    adata.obsm["X_pca"] = np.arange(2.0 * n_obs).reshape(-1, 2)
    adata.obsp["graph"] = counts(n_obs, n_obs, 0.1)
    adata.uns["nested"] = {"a": 1, "b": {"c": np.arange(3), "d": "text"}}
    adata.raw = anndata.AnnData(counts(n_obs, 31, seed=5))
    return adata


def section_bytes(path: Path) -> dict[tuple[str, str | None], bytes]:
    content = path.read_bytes()
    with scx_core.open(path) as experiment:
        return {
            (section["type"], section["name"]): content[
                section["offset"] : section["offset"] + section["length"]
            ]
            for section in experiment.sections()
            if section["type"] != "provenance"
        }


@pytest.mark.parametrize("memory_budget", [2000, "2GiB"])
@pytest.mark.parametrize("compression", [None, "gzip"])
def test_from_h5ad_writes_what_from_anndata_writes(
    tmp_path: Path, compression: str | None, memory_budget: int | str
) -> None:
    source, out, expected = (tmp_path / name for name in ("a.h5ad", "a.scx", "b.scx"))
    full_adata().write_h5ad(source, compression=compression)
    adata = anndata.read_h5ad(source)
    scx_core.from_anndata(adata, expected, shard_size=16)
    scx_core.from_h5ad(source, out, shard_size=16, memory_budget=memory_budget)
    assert section_bytes(out) == section_bytes(expected)
    with scx_core.open(out) as experiment:
        assert experiment.find_damage(deep=True) == []
        assert_equal(experiment.to_anndata(), adata, exact=True)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["a.h5ad", "a.scx", "b.scx"]


@pytest.mark.parametrize("write", [write_h5ad_06, write_h5ad_07])
def test_old_files(tmp_path: Path, write: Callable[[Path], Any]) -> None:
    write(tmp_path / "old.h5ad")
    scx_core.from_h5ad(tmp_path / "old.h5ad", tmp_path / "old.scx")
    expected = quietly(anndata.read_h5ad, tmp_path / "old.h5ad")
    with scx_core.open(tmp_path / "old.scx") as experiment:
        assert_equal(experiment.to_anndata(), expected, exact=True)


@pytest.mark.parametrize("layout", ["csr", "csc"])
@pytest.mark.parametrize(
    ("indptr", "indices"), [("i4", "i4"), ("i8", "i4"), ("i8", "i8"), ("u8", "u4")]
)
def test_index_widths_of_the_source_do_not_reach_the_file(
    tmp_path: Path, layout: str, indptr: str, indices: str
) -> None:
    matrix = counts(5, 5, 0.5)
    write_bare_h5ad(tmp_path / "a.h5ad", matrix.asformat(layout), indptr=indptr, indices=indices)
    scx_core.from_h5ad(tmp_path / "a.h5ad", tmp_path / "a.scx")
    with scx_core.open(tmp_path / "a.scx") as experiment:
        rows = experiment.gather_rows(slice(None))
        assert np.array_equal(rows.toarray(), matrix.toarray())
        assert rows.indices.dtype == np.int32
        assert rows.indptr.dtype == np.int64 or rows.indptr.dtype == np.int32
        assert np.array_equal(experiment.to_anndata().X.toarray(), matrix.toarray())
    written = section_bytes(tmp_path / "a.scx")
    write_bare_h5ad(tmp_path / "a.h5ad", matrix)
    scx_core.from_h5ad(tmp_path / "a.h5ad", tmp_path / "a.scx", overwrite=True)
    assert section_bytes(tmp_path / "a.scx") == written


@pytest.mark.parametrize("layout", ["csr", "csc"])
def test_rows_that_are_not_canonical_are_mended_and_counted(tmp_path: Path, layout: str) -> None:
    # rows [3, 1, 2], [1, 1], a stored 0, and none
    matrix = sp.csr_matrix((4, 5), dtype=np.float32)
    matrix.indptr = np.array([0, 3, 5, 6, 6], np.int32)
    matrix.indices = np.array([3, 1, 2, 1, 1, 4], np.int32)
    matrix.data = np.array([1, 2, 3, 4, 5, 0], np.float32)
    write_bare_h5ad(tmp_path / "a.h5ad", matrix.asformat(layout))
    words = "1 repeated entries added up, 1 stored zeros dropped"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", scx_core.ScxWarning)
        scx_core.from_h5ad(tmp_path / "a.h5ad", tmp_path / "a.scx")
    # going by columns has sorted them already
    (message,) = [str(one.message) for one in caught]
    assert words in message
    assert ("1 rows put into column order" in message) == (layout == "csr")
    with scx_core.open(tmp_path / "a.scx") as experiment:
        rows = experiment.gather_rows(slice(None))
        assert rows.indices.tolist() == [1, 2, 3, 1]
        assert rows.data.tolist() == [2, 3, 1, 9]


@pytest.mark.parametrize("memory_budget", [100, "2GiB"])
def test_from_h5mu_writes_what_from_mudata_writes(tmp_path: Path, memory_budget: int | str) -> None:
    rna = full_adata(8, 5)[["cell3", "cell0", "cell2", "cell1"]].copy()
    adt = full_adata(8, 3)[["cell1", "cell6", "cell3"]].copy()
    adt.var_names = ["p1", "p2", "p3"]
    mdata = quietly(mudata.MuData, {"rna": rna, "adt": adt})
    quietly(mdata.write, tmp_path / "a.h5mu")
    read = quietly(mudata.read_h5mu, tmp_path / "a.h5mu")
    scx_core.from_mudata(read, tmp_path / "b.scx")
    scx_core.from_h5mu(tmp_path / "a.h5mu", tmp_path / "a.scx", memory_budget=memory_budget)
    assert section_bytes(tmp_path / "a.scx") == section_bytes(tmp_path / "b.scx")
    with scx_core.open(tmp_path / "a.scx") as experiment:
        assert experiment.modality_names == ["rna", "adt"]
        assert experiment.find_damage(deep=True) == []
        assert_equal(experiment.to_anndata(modality="rna"), read["rna"], exact=True)
        assert_equal(experiment.to_anndata(modality="adt"), read["adt"], exact=True)


def test_from_10x_comes_back_as_scanpy_reads_it(tmp_path: Path) -> None:
    write_10x(tmp_path / "a.h5", counts(30, 8), feature_type=["Gene Expression", "CRISPR"] * 4)
    scx_core.from_10x(tmp_path / "a.h5", tmp_path / "a.scx")
    expected = quietly(read_10x_h5, tmp_path / "a.h5", gex_only=False)
    assert_equal(quietly(scx_core.read, tmp_path / "a.scx"), expected, exact=True)
    crispr = tmp_path / "crispr.scx"
    scx_core.from_10x(tmp_path / "a.h5", crispr, feature_types="CRISPR")
    assert quietly(scx_core.read, crispr).shape == (30, 4)


def test_from_10x_of_several_genomes(tmp_path: Path) -> None:
    human, mouse = counts(5, 4), counts(6, 3, seed=1)
    write_10x_legacy(tmp_path / "a.h5", {"hg19": human, "mm10": mouse})
    before = listing(tmp_path)
    with pytest.raises(ValueError, match=r"genome=; there are \['hg19', 'mm10'\]"):
        scx_core.from_10x(tmp_path / "a.h5", tmp_path / "a.scx")
    assert listing(tmp_path) == before
    for genome in ("hg19", "mm10"):
        out = tmp_path / f"{genome}.scx"
        scx_core.from_10x(tmp_path / "a.h5", out, genome=genome)
        expected = read_10x_h5(tmp_path / "a.h5", genome=genome)
        assert_equal(scx_core.read(out), expected, exact=True)


def write_mtx(folder: Path, n_entries: int = 2) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "genes.tsv").write_text("E0\tA\nE1\tB\nE2\tA\n")
    (folder / "barcodes.tsv").write_text("C0\nC1\n")
    (folder / "matrix.mtx").write_text(
        f"%%MatrixMarket matrix coordinate integer general\n3 2 {n_entries}\n3 2 5\n1 1 7\n"
    )


@pytest.mark.parametrize("function", [scx_core.from_mtx, scx_core.from_10x])
def test_folders_come_back_as_scanpy_reads_them(
    tmp_path: Path, function: Callable[..., None]
) -> None:
    write_mtx(tmp_path / "counts")
    function(tmp_path / "counts", tmp_path / "a.scx")
    expected = scanpy.read_10x_mtx(tmp_path / "counts")
    assert_equal(scx_core.read(tmp_path / "a.scx"), expected, exact=True)
    with pytest.raises(ValueError, match="does not say genomes"):
        scx_core.from_10x(tmp_path / "counts", tmp_path / "b.scx", genome="hg38")


def test_a_refusal_leaves_nothing_and_an_old_file_as_it_was(tmp_path: Path) -> None:
    out = tmp_path / "out.scx"
    out.write_bytes(b"an old file")
    write_mtx(tmp_path / "cut", n_entries=3)
    full_adata().write_h5ad(tmp_path / "bad.h5ad")
    with h5py.File(tmp_path / "bad.h5ad", "a") as file:
        # found only when the last rows are read
        file["X/indices"][-1] = 99
    write_10x(tmp_path / "bad.h5", counts(3, 4))
    with h5py.File(tmp_path / "bad.h5", "a") as file:
        file["matrix/indices"][-1] = 99
    before = listing(tmp_path)
    for call, words in (
        (
            lambda: scx_core.from_mtx(tmp_path / "cut", out, overwrite=True),
            "holds 2: it is cut off",
        ),
        (lambda: scx_core.from_h5ad(tmp_path / "bad.h5ad", out, overwrite=True), "is 99, outside"),
        (lambda: scx_core.from_10x(tmp_path / "bad.h5", out, overwrite=True), "is 99, outside"),
        (
            lambda: scx_core.from_h5ad(
                tmp_path / "bad.h5ad", out, overwrite=True, memory_budget="a lot"
            ),
            "memory_budget='a lot' is not an amount of memory",
        ),
        (
            lambda: scx_core.from_h5ad(tmp_path / "bad.h5ad", tmp_path / "bad.h5ad"),
            "is the file that is read",
        ),
    ):
        with pytest.raises(ValueError, match=words):
            call()
        assert listing(tmp_path) == before
    with pytest.raises(FileExistsError, match="pass overwrite=True to replace it"):
        scx_core.from_h5ad(tmp_path / "bad.h5ad", out)
    with pytest.raises(FileNotFoundError, match=r"there is no folder .*none to write to"):
        scx_core.from_h5ad(tmp_path / "bad.h5ad", tmp_path / "none" / "a.scx")
    with pytest.raises(FileNotFoundError, match=r"there is no folder .* to hold temporary files"):
        scx_core.from_h5ad(
            tmp_path / "bad.h5ad", tmp_path / "a.scx", temporary_folder=tmp_path / "none"
        )
    assert listing(tmp_path) == before


def test_progress_counts_the_rows_of_all_matrices(tmp_path: Path) -> None:
    full_adata().write_h5ad(tmp_path / "a.h5ad")
    calls: list[tuple[int, int]] = []
    scx_core.from_h5ad(
        tmp_path / "a.h5ad",
        tmp_path / "a.scx",
        layers=["csc"],
        progress=lambda done, total: calls.append((done, total)),
    )
    assert calls[-1] == (120, 120)
    assert [done for done, _ in calls] == sorted(done for done, _ in calls)


@pytest.mark.parametrize("moment", [0.0, 0.3, 0.6])
def test_a_killed_conversion_leaves_the_old_file_and_the_next_run_clears_up(
    tmp_path: Path, moment: float
) -> None:
    source, out = tmp_path / "a.h5ad", tmp_path / "a.scx"
    adata = anndata.AnnData(sp.vstack([counts(2000, 300)] * 30, format="csc"))
    adata.write_h5ad(source)
    out.write_bytes(b"an old file")
    code = (
        "import sys, scx_core; print('ready', flush=True);"
        "scx_core.from_h5ad(sys.argv[1], sys.argv[2], overwrite=True, memory_budget='2MiB')"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(source), str(out)], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(moment)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    if process.returncode == -signal.SIGKILL:
        assert out.read_bytes() == b"an old file"
    left = {entry.name for entry in tmp_path.iterdir()} - {"a.h5ad", "a.scx"}
    assert all(name.startswith(".a.scx.") and name.endswith(".tmp") for name in left)
    scx_core.from_h5ad(source, out, overwrite=True)
    assert sorted(os.listdir(tmp_path)) == ["a.h5ad", "a.scx"]
    with scx_core.open(out) as experiment:
        assert experiment.shape == adata.shape
