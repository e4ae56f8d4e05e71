"""The whole demo on small inputs: every kind of file, with and without labels."""

import gzip
from pathlib import Path

import anndata as ad
import h5py
import numpy as np
import pytest
import scipy.io

import realistic_counts
import scx_core
from demo import run_demo


def run(tmp_path: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    status = run_demo.main([*arguments, "--out", str(tmp_path / "out")])
    printed = capsys.readouterr()
    assert status == 0, printed.err
    return printed.out


def table(printed: str) -> dict[str, str]:
    rows = (line.partition("  ") for line in printed.splitlines())
    return {name.strip(): value.strip() for name, _, value in rows if value}


def test_made_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = table(run(tmp_path, capsys, "--cells", "1500", "--genes", "800"))
    assert found["matrix"].startswith("1,500 cells x 800 genes")
    assert found["accuracy"].endswith("%)")
    assert float(found["accuracy"].partition("%")[0]) > 80
    assert 0.3 < float(found["bytes per stored value"]) < 3
    out = tmp_path / "out"
    assert (out / "counts.png").read_bytes().startswith(b"\x89PNG")
    made = ad.read_h5ad(out / "counts.h5ad")
    with scx_core.open(out / "counts.scx") as experiment:
        assert (experiment.gather_rows(np.arange(1500)) != made.X).nnz == 0


def test_other_labels_and_values_that_are_no_counts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    adata = realistic_counts.make_counts(300, 200, 1000, n_types=3)
    adata.obs = adata.obs[["cell_type"]].rename(columns={"cell_type": "annotation"})
    adata.X.data = np.sqrt(adata.X.data)
    adata.write_h5ad(tmp_path / "roots.h5ad")
    printed = run(tmp_path, capsys, str(tmp_path / "roots.h5ad"))
    assert "obs column 'annotation'" in printed
    assert "holds no counts" in printed
    assert "(3 classes" in printed


def test_10x_file_and_folder_without_labels(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    adata = realistic_counts.make_counts(400, 150, 2000, n_types=2)
    write_10x_h5(tmp_path / "cells.h5", adata)
    write_10x_folder(tmp_path / "matrix.folder", adata)
    for source, kind in ((tmp_path / "cells.h5", "10x h5"), (tmp_path / "matrix.folder", "mtx")):
        printed = run(tmp_path, capsys, str(source))
        assert "k-means" in printed
        assert "Learning the clusters" in printed
        assert kind in printed
        assert table(printed)["matrix"].startswith("400 cells x 150 genes")
    assert (tmp_path / "out" / "matrix.folder.scx").exists()


def test_a_file_too_small_to_learn_from_is_converted_all_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = tmp_path / "small.H5AD"
    realistic_counts.write_counts(small, 20, 30, 300)
    printed = run(tmp_path, capsys, str(small))
    assert "Too little to learn from" in printed
    assert table(printed)["matrix"].startswith("20 cells x 30 genes")
    assert "accuracy" not in table(printed)
    size = small.stat().st_size
    assert size < 1e6
    assert table(printed)["h5ad size"] == f"{size / 1e3:,.1f} kB"


def test_a_matrix_without_values(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ad.AnnData(np.zeros((60, 5), np.float32)).write_h5ad(tmp_path / "zeros.h5ad")
    printed = run(tmp_path, capsys, str(tmp_path / "zeros.h5ad"))
    assert table(printed)["bytes per stored value"] == "-"


def test_refusals_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    ad.AnnData(np.eye(3, dtype=np.complex64)).write_h5ad(tmp_path / "complex.h5ad")
    cases = {
        tmp_path / "complex.h5ad": "X has dtype complex64",
        tmp_path / "missing.h5ad": "no such file or folder",
        tmp_path / "notes.txt": "neither an .h5ad file",
    }
    for source, message in cases.items():
        assert run_demo.main([str(source), "--out", str(tmp_path / "out")]) == 1
        error = capsys.readouterr().err
        assert error.startswith("demo: ")
        assert message in error
        assert error.count("\n") == 1


def write_10x_h5(path: Path, adata: ad.AnnData) -> None:
    names = np.array(adata.var_names, dtype="S")
    with h5py.File(path, "w") as file:
        group = file.create_group("matrix")
        group["barcodes"] = np.array(adata.obs_names, dtype="S")
        group["data"] = adata.X.data.astype(np.int32)
        group["indices"] = adata.X.indices.astype(np.int64)
        group["indptr"] = adata.X.indptr.astype(np.int64)
        group["shape"] = np.array([adata.n_vars, adata.n_obs], dtype=np.int32)
        features = group.create_group("features")
        features["id"] = features["name"] = names
        features["feature_type"] = np.full(names.size, b"Gene Expression")
        features["genome"] = np.full(names.size, b"made")


def write_10x_folder(path: Path, adata: ad.AnnData) -> None:
    path.mkdir()
    with gzip.open(path / "matrix.mtx.gz", "wb") as file:
        scipy.io.mmwrite(file, adata.X.T.astype(np.int32))
    with gzip.open(path / "barcodes.tsv.gz", "wt") as file:
        file.writelines(f"{name}\n" for name in adata.obs_names)
    with gzip.open(path / "features.tsv.gz", "wt") as file:
        file.writelines(f"{name}\t{name}\tGene Expression\n" for name in adata.var_names)
