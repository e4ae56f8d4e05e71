"""`scx-tokenize medians` as it is typed."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import anndata
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from scx_tokenize import medians
from scx_tokenize._cli import main


def corpus(folder: Path) -> list[str]:
    rng = np.random.default_rng(0)
    paths = []
    for number in range(2):
        counts = rng.poisson(1.0, (20, 8)).astype(np.float32)
        counts[:, 0] = 0
        adata = anndata.AnnData(
            sp.csr_matrix(counts),
            obs=pd.DataFrame({"tissue": ["lung", "skin"] * 10}, index=[f"c{n}" for n in range(20)]),
            var=pd.DataFrame({"id": [f"g{n // 2}" for n in range(8)]}, index=list("abcdefgh")),
        )
        paths.append(str(folder / f"part-{number}.h5ad"))
        adata.write_h5ad(paths[-1])
    return paths


def test_the_file_is_that_of_the_function(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = corpus(tmp_path)
    out, again = tmp_path / "m.parquet", tmp_path / "again.parquet"
    options = ["--obs-filter", "tissue == 'lung'", "--target-sum", "100", "--threads", "1"]
    assert main(["medians", str(tmp_path / "part-*.h5ad"), "-o", str(out), *options]) == 0
    medians(paths, again, obs_filter="tissue == 'lung'", target_sum=100)
    assert out.read_bytes() == again.read_bytes()
    said = capsys.readouterr().out
    assert f"{out}: medians of 7 genes over 20 cells, 3 passes" in said
    assert "left out: 1 genes that no cell expresses (a)" in said
    assert f"{paths[1]}: 10 cells, 8 genes, 8 of them in other files too (100%" in said
    assert main(["medians", paths[0], "-o", str(out), "--quiet", "--overwrite"]) == 0
    assert capsys.readouterr().out == ""
    assert pq.read_table(out).num_rows == 7


def test_genes_of_one_id_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, _ = corpus(tmp_path)
    assert main(["medians", path, "-o", str(tmp_path / "m.parquet"), "--gene-key", "id"]) == 0
    assert f"{path}: 20 cells, 8 genes, 4 added to others" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--gene-key", "ensembl"], "has no var column 'ensembl'; it has id"),
        (["--min-known-genes", "7"], "--min-known-genes 7.0 must be from 0 to 1"),
        (["--memory-budget", "1kB"], "--memory-budget 1000 is too small"),
        (["--source", "layers/x"], "no layer 'x'; it has X"),
    ],
)
def test_errors_name_options(
    options: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, _ = corpus(tmp_path)
    assert main(["medians", path, "-o", str(tmp_path / "m.parquet"), *options]) == 1
    said = capsys.readouterr().err
    assert message in said and said.count("\n") == 1
    assert not (tmp_path / "m.parquet").exists()


def test_an_existing_file_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, _ = corpus(tmp_path)
    out = tmp_path / "m.parquet"
    out.write_bytes(b"mine")
    assert main(["medians", path, "-o", str(out)]) == 1
    assert "pass --overwrite to replace it" in capsys.readouterr().err
    assert out.read_bytes() == b"mine"


def test_an_input_is_never_the_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, _ = corpus(tmp_path)
    before = Path(path).read_bytes()
    assert main(["medians", path, "-o", path, "--overwrite"]) == 1
    assert "end it in .parquet" in capsys.readouterr().err
    assert Path(path).read_bytes() == before
    # of whatever name an input is
    renamed = Path(path).rename(tmp_path / "cells.parquet")
    assert main(["medians", str(renamed), "-o", str(renamed), "--overwrite"]) == 1
    assert "cells.parquet is the file that is read" in capsys.readouterr().err
    assert renamed.read_bytes() == before


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT])
def test_what_a_killed_run_leaves_the_next_one_removes(tmp_path: Path, end: signal.Signals) -> None:
    path, other = corpus(tmp_path)
    Path(other).unlink()
    waits = (
        "import sys, time, scx_tokenize\n"
        "def wait(done, total):\n"
        "    print('counting', flush=True)\n"
        "    time.sleep(60)\n"
        "scx_tokenize.medians(sys.argv[1], sys.argv[2], progress=wait)\n"
    )
    out = tmp_path / "m.parquet"
    command = [sys.executable, "-c", waits, path, str(out)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout is not None
    with process.stdout:
        assert process.stdout.readline() == "counting\n"
        before = {entry.name for entry in tmp_path.iterdir() if entry.name.startswith(".")}
        assert len(before) == 1
        process.send_signal(end)
        process.wait()
    left = {entry.name for entry in tmp_path.iterdir() if entry.name.startswith(".")}
    assert left == (before if end == signal.SIGKILL else set())
    medians(path, out)
    assert {entry.name for entry in tmp_path.iterdir()} == {Path(path).name, "m.parquet"}


def test_a_link_stays_one(tmp_path: Path) -> None:
    path, _ = corpus(tmp_path)
    (tmp_path / "real.parquet").write_bytes(b"old")
    (tmp_path / "link.parquet").symlink_to("real.parquet")
    medians(path, tmp_path / "link.parquet", overwrite=True)
    assert (tmp_path / "link.parquet").is_symlink()
    assert pq.read_table(tmp_path / "real.parquet").num_rows == 7


def test_a_file_that_appears_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    path, other = corpus(tmp_path)
    Path(other).unlink()
    out = tmp_path / "m.parquet"
    with pytest.raises(FileExistsError, match="exists"):
        medians(path, out, progress=lambda done, total: out.write_bytes(b"mine"))
    assert out.read_bytes() == b"mine"
    assert {entry.name for entry in tmp_path.iterdir()} == {Path(path).name, "m.parquet"}
