"""`scx convert` of many files into a folder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import anndata
import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

import scx_core
from scx_core._cli import main


def write_h5ad(path: Path, n_obs: int = 5, *, value: float = 1.0) -> None:
    matrix = sp.csr_matrix(value * np.eye(n_obs, 3, dtype=np.float32))
    anndata.AnnData(matrix).write_h5ad(path)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three matrices of three kinds of names, and what is none."""
    monkeypatch.chdir(tmp_path)
    Path("in").mkdir()
    write_h5ad(Path("in/a.h5ad"), 5)
    write_h5ad(Path("in/b.one.H5AD"), 6)
    (Path("in") / "sample1").mkdir()
    scipy.io.mmwrite("in/sample1/matrix.mtx", sp.coo_matrix(np.eye(3, 7, dtype=np.int64)))
    Path("in/sample1/genes.tsv").write_text("".join(f"E{j}\tG{j}\n" for j in range(3)))
    Path("in/sample1/barcodes.tsv").write_text("".join(f"C{i}\n" for i in range(7)))
    Path("in/notes.txt").write_text("x")
    return tmp_path


NAMES = {"a.scx": 5, "b.one.scx": 6, "sample1.scx": 7}


def made(out: str = "out") -> dict[str, int]:
    return {name: scx_core.open(Path(out) / name).n_obs for name in sorted(os.listdir(out))}


@pytest.mark.parametrize(
    "arguments",
    [
        ["in", "out"],
        ["in/*", "out"],
        ["in/a.h5ad", "in/b*", "in/sample1", "out"],
        ["in", "out", "--workers", "2"],
    ],
)
@pytest.mark.usefixtures("folder")
def test_files_folders_and_patterns(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["convert", *arguments]) == 0
    assert made() == NAMES
    told = capsys.readouterr()
    assert sorted(line.split(":")[0] for line in told.out.splitlines()) == [
        os.path.join("out", name) for name in NAMES
    ]
    assert told.err == ""


@pytest.mark.usefixtures("folder")
def test_a_slash_at_the_end_makes_a_folder() -> None:
    assert main(["convert", "in/a.h5ad", "out/"]) == 0
    assert made() == {"a.scx": 5}


@pytest.mark.usefixtures("folder")
def test_all_inputs_that_are_none_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", "in/a.h5ad", "s3://x/y.h5ad", "in/z.h5ad", "hf://z", "out"]) == 1
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert told.count(" is an address: download it") == 2
    assert "only local files are read; there is no file in/z.h5ad; in holds" in told.replace(
        os.sep, "/"
    )
    assert not os.path.exists("out")


@pytest.mark.parametrize("workers", ["1", "2"])
@pytest.mark.usefixtures("folder")
def test_failures_are_listed_at_the_end_and_keep_back_no_other(
    workers: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write_h5ad(Path("in/c.h5ad"), value=np.nan)
    Path("in/aa.h5ad").write_bytes(Path("in/a.h5ad").read_bytes()[:-100])
    Path("in/d.h5ad").write_text("no HDF5")
    assert main(["convert", "in", "out", "--workers", workers, "--quiet"]) == 1
    assert made() == {**NAMES, "c.scx": 5}
    told = capsys.readouterr()
    assert told.out == ""
    lines = told.err.splitlines()
    warning = lines.index(next(line for line in lines if "warning" in line))
    assert lines[warning].startswith("scx: warning: in/c.h5ad: NaN or infinite values were kept")
    assert lines[-3] == "scx: error: 2 of 6 inputs were not converted:"
    said = sorted(lines[-2:])
    assert said[0].startswith("  in/aa.h5ad looks like an HDF5 file that is cut off")
    assert said[1].startswith("  in/d.h5ad looks like a file of no kind")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["in", "in/a.h5ad", "out"], 1, "IN name in/a.h5ad twice"),
        (["in", "copy/A.h5", "out"], 1, "in/a.h5ad and copy/A.h5 would both become out/A.scx"),
        (["in", "gone.h5ad", "out"], 1, "there is no file gone.h5ad"),
        (["in", "s3://b/a.h5ad", "out"], 1, "s3://b/a.h5ad is an address"),
        (["in/a.h5ad", "in/b.one.H5AD", "out.scx"], 2, "of several inputs, write to a folder"),
        (["in/a.h5ad", "in/notes.txt", "in/notes.txt"], 1, "in/notes.txt is a file; several"),
        (["in/a.h5ad", "in/b.one.H5AD", "none/out"], 1, "none"),
        (["in/a.h5ad", "in/sample1", "out", "--layers", "x"], 2, "--layers does not apply"),
        (["in", "out", "--to", "h5ad"], 1, "in has 4 entries, but none is a .scx file"),
        (["in", "full"], 1, "full/a.scx exists: pass --overwrite"),
        (["in", "s3://b/out"], 1, "write to this machine"),
        (["in/a.h5ad", "a.scx", "--workers", "2"], 2, "--workers does not apply"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_what_is_refused_before_anything_is_written(
    arguments: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("copy", "full"):
        Path(name).mkdir()
    write_h5ad(Path("copy/A.h5"))
    Path("full/a.scx").write_text("old")
    before = sorted(Path().rglob("*"))
    try:
        found = main(["convert", *arguments])
    except SystemExit as end:
        found = end.code
    assert found == code
    assert said in capsys.readouterr().err
    assert sorted(Path().rglob("*")) == before
    assert Path("full/a.scx").read_text() == "old"


@pytest.mark.usefixtures("folder")
def test_a_folder_is_made_of_scx_files_too() -> None:
    assert main(["convert", "in", "out", "--quiet"]) == 0
    assert main(["convert", "out", "back", "--to", "h5ad", "--quiet"]) == 0
    assert sorted(os.listdir("back")) == ["a.h5ad", "b.one.h5ad", "sample1.h5ad"]
    assert anndata.read_h5ad("back/a.h5ad").shape == (5, 3)
    scx_core.mark_deleted("out/a.scx", [0])
    assert main(["convert", "out/a.scx", "out/b.one.scx", "small", "--quiet"]) == 0
    assert made("small") == {"a.scx": 4, "b.one.scx": 6}


@pytest.mark.usefixtures("folder")
def test_nothing_is_left_of_a_folder_in_which_all_failed() -> None:
    Path("in/a.h5ad").write_text("x")
    assert main(["convert", "in/a.h5ad", "in/notes.txt", "out"]) == 1
    assert not Path("out").exists()


@pytest.mark.parametrize("workers", ["1", "2"])
def test_ctrl_c_leaves_no_half_file(workers: str, tmp_path: Path) -> None:
    matrix = sp.random(30_000, 2_000, 0.05, "csr", dtype=np.float32, random_state=0)
    for name in "abcd":
        anndata.AnnData(matrix).write_h5ad(tmp_path / f"{name}.h5ad")
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "scx_core", "convert", tmp_path, tmp_path / "out"),
            *("--quiet", "--workers", workers),
        ],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # as a terminal does, the signal reaches the workers too
    )
    while not list(tmp_path.glob("out/.*")):
        assert process.poll() is None
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert said == "scx: interrupted\n"
    assert not list(tmp_path.glob("out/.*"))
