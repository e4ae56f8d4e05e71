"""The command `scx`: what it writes, prints and answers."""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import anndata
import h5py
import mudata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from anndata.tests.helpers import assert_equal

import scx_core
from hdf5_samples import counts, read_10x_h5, write_10x, write_10x_legacy
from scx_core._cli import main
from scx_core._commands.words import in_words, with_options

SCX = [sys.executable, "-m", "scx_core"]


def run(*arguments: Any, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [*SCX, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, **options)


def sample(n_obs: int = 40, n_vars: int = 25) -> anndata.AnnData:
    adata = anndata.AnnData(
        counts(n_obs, n_vars),
        obs=pd.DataFrame(
            {"type": pd.Categorical(["a", "b"] * (n_obs // 2))},
            index=[f"cell{i}" for i in range(n_obs)],
        ),
        var=pd.DataFrame(index=[f"gene{j}" for j in range(n_vars)]),
    )
    adata.layers["twice"] = sp.csc_matrix(adata.X * 2)
    adata.layers["thrice"] = (adata.X * 3).toarray()
    adata.raw = anndata.AnnData(counts(n_obs, 31, seed=5))
    adata.obsm["X_pca"] = np.arange(2.0 * n_obs).reshape(-1, 2)
    return adata


def multimodal(path: Path) -> mudata.MuData:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        first, second = sample(), sample(20, 7)
        second.var_names = [f"p{j}" for j in range(7)]
        mdata = mudata.MuData({"rna": first, "adt": second})
        mdata.write(path)
    return mdata


def test_h5ad_there_and_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sample().write_h5ad(tmp_path / "a.h5ad")
    scx, back = str(tmp_path / "a.scx"), str(tmp_path / "b.h5ad")
    assert main(["convert", str(tmp_path / "a.h5ad"), scx]) == 0
    assert capsys.readouterr().out.startswith(f"{scx}: 40 x 25, ")
    assert main(["convert", scx, back, "--compression", "gzip"]) == 0
    assert capsys.readouterr().out.startswith(f"{back}: ")
    read = anndata.read_h5ad(back)
    assert_equal(read, anndata.read_h5ad(tmp_path / "a.h5ad"), exact=True)
    with h5py.File(back) as file:
        assert file["X/data"].compression == "gzip"


def test_options_reach_the_conversion(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sample().write_h5ad(tmp_path / "a.h5ad")
    out = tmp_path / "a.scx"
    arguments = ["convert", str(tmp_path / "a.h5ad"), str(out), "--layers", "thrice"]
    arguments += ["--codec", "none", "--shard-size", "16", "--threads", "1"]
    arguments += ["--memory-budget", "10MiB", "--temporary-folder", str(tmp_path), "--quiet"]
    assert main(arguments) == 0
    assert capsys.readouterr() == ("", "")
    with scx_core.open(out) as experiment:
        assert list(experiment.layers) == ["thrice"]
        shards = [part for part in experiment.sections() if part["type"] == "csr_shard"]
        assert [part["rows"] for part in shards] == [(0, 16), (16, 32), (32, 40)]
        assert {part["codec"] for part in shards} == {"none"}
    assert main([*arguments[:3], "--no-layers", "--overwrite"]) == 0
    with scx_core.open(out) as experiment:
        assert list(experiment.layers) == []
    # a list has commas or is repeated, so that it takes in no file that follows
    in_front = ["convert", "--layers", "thrice,twice", *arguments[1:3], "--overwrite", "--quiet"]
    for one in (in_front, [*in_front[:2], "thrice", "--layers", "twice", *in_front[3:]]):
        assert main(one) == 0
        with scx_core.open(out) as experiment:
            assert sorted(experiment.layers) == ["thrice", "twice"]


def test_10x_files_folders_and_genomes(tmp_path: Path) -> None:
    write_10x(tmp_path / "a.h5", counts(30, 8), feature_type=["Gene Expression", "CRISPR"] * 4)
    arguments = ["convert", str(tmp_path / "a.h5"), str(tmp_path / "a.scx")]
    assert main([*arguments, "--feature-types", "Gene Expression"]) == 0
    assert scx_core.open(tmp_path / "a.scx").shape == (30, 4)
    write_10x_legacy(tmp_path / "b.h5", {"hg19": counts(5, 4), "mm10": counts(6, 3)})
    assert main(["convert", str(tmp_path / "b.h5"), str(tmp_path / "b.scx")]) == 1
    arguments = ["convert", str(tmp_path / "b.h5"), str(tmp_path / "b.scx"), "--genome", "mm10"]
    assert main(arguments) == 0
    expected = read_10x_h5(tmp_path / "b.h5", genome="mm10")
    assert_equal(scx_core.read(tmp_path / "b.scx"), expected, exact=True)
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "x_genes.tsv").write_text("E0\tA\nE1\tB\n")
    (folder / "x_barcodes.tsv").write_text("C0\n")
    text = "%%MatrixMarket matrix coordinate integer general\n2 1 1\n2 1 5\n"
    (folder / "x_matrix.mtx").write_text(text)
    arguments = ["--prefix", "x_", "--var-names", "gene_ids"]
    assert main(["convert", str(folder), str(tmp_path / "c.scx"), *arguments]) == 0
    assert scx_core.read(tmp_path / "c.scx").var_names.tolist() == ["E0", "E1"]
    assert main(["convert", str(folder / "x_matrix.mtx"), str(tmp_path / "d.scx")]) == 0
    assert scx_core.read(tmp_path / "d.scx").var_names.tolist() == ["A", "B"]


def test_multimodal_files(tmp_path: Path) -> None:
    multimodal(tmp_path / "a.h5mu")
    scx = str(tmp_path / "a.scx")
    assert main(["convert", str(tmp_path / "a.h5mu"), scx]) == 0
    assert main(["convert", scx, str(tmp_path / "b.h5mu")]) == 0
    assert main(["convert", scx, str(tmp_path / "adt.h5ad"), "--modality", "adt"]) == 0
    with scx_core.open(scx) as experiment:
        expected = experiment.to_anndata(modality="adt")
    assert_equal(anndata.read_h5ad(tmp_path / "adt.h5ad"), expected, exact=True)
    with h5py.File(tmp_path / "b.h5mu") as file:
        assert list(file["mod"].attrs["mod-order"]) == ["rna", "adt"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "the following arguments are required: COMMAND"),
        (["frobnicate"], "invalid choice: 'frobnicate'"),
        (["convert", "a.h5ad"], "the following arguments are required: OUT"),
        (["convert", "a.h5ad", "a.h5mu"], "OUT is a.h5mu: its name must end in .scx"),
        (["convert", "a.scx", "b.txt"], "from a .scx file, write an .h5ad, .h5mu or .scx"),
        (["convert", "a.scx", "b.scx", "--modality", "x"], "--modality does not apply: a.scx is a"),
        (["convert", "a.h5ad", "b.scx", "--genome", "x"], "--genome does not apply: a.h5ad is an"),
        (["convert", "a.scx", "b.h5ad", "--codec", "none"], "--codec does not apply: a.scx is a"),
        (["convert", "m.scx", "b.h5ad"], "m.scx has the modalities rna, adt: choose one with"),
        (["convert", "m.scx", "b.h5mu", "--modality", "rna"], "an .h5mu takes all of them"),
        (
            ["convert", "a.h5ad", "b.scx", "--shard-size", "many"],
            "invalid whole number value: 'many'",
        ),
        (["convert", "a.h5ad", "b.scx", "--shard-size", "0"], "--shard-size: 0 is less than 1"),
        (["convert", "a.h5ad", "b.scx", "--threads", "-1"], "--threads: -1 is less than 0"),
        (["convert", "a.h5ad", "b.scx", "--memory-budget", "x"], "'x' is not an amount of memory"),
        (["convert", "a.h5ad", "b.scx", "--memory-budget", "0"], "must be at least one byte"),
        (["convert", "a.scx", "b.h5ad", "--modality", "x"], "--modality does not apply: a.scx has"),
        (["convert", "a.scx", "b.h5mu"], "a.scx has a single modality: write it to an .h5ad"),
    ],
)
def test_wrong_command_lines_end_with_2(
    tmp_path: Path,
    arguments: list[str],
    words: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    sample().write_h5ad("a.h5ad")
    scx_core.from_h5ad("a.h5ad", "a.scx")
    if "m.scx" in arguments:
        multimodal(Path("m.h5mu"))
        scx_core.from_h5mu("m.h5mu", "m.scx")
    before = sorted(os.listdir())
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    error = capsys.readouterr().err
    assert words in error
    assert "Traceback" not in error
    # help on the command at hand
    assert error.startswith(f"usage: scx {arguments[0]}" if arguments[1:] else "usage: scx [-h]")
    assert sorted(os.listdir()) == before


def damaged_scx(path: Path) -> None:
    scx_core.from_anndata(sample(), path)
    with scx_core.open(path) as experiment:
        section = next(part for part in experiment.sections() if part["type"] == "csr_shard")
    content = bytearray(path.read_bytes())
    content[section["offset"] + section["length"] // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["convert", "none.h5ad", "b.scx"], "there is no file or folder none.h5ad"),
        (["convert", "a.txt", "b.scx"], "a.txt looks like a file of no kind that is known here"),
        (["convert", "a.h5ad", "a.scx"], "a.scx exists: pass --overwrite to replace it"),
        (["convert", "a.scx", "a.h5ad"], "a.h5ad exists: pass --overwrite to replace it"),
        (["convert", "a.h5ad", "b.scx", "--layers", "x"], "--layers: there is no layer 'x'"),
        (["convert", "cut.h5ad", "b.scx"], "looks like an HDF5 file that is cut off, damaged or"),
        (["convert", "a.h5ad", "none/b.scx"], "there is no folder none to write to"),
        (["convert", "bad.scx", "b.h5ad"], "bad.scx, section X_shard_0"),
        (["info", "none.scx"], "error: none.scx: cannot open: no such file or folder\n"),
        (["info", "."], "error: .: cannot open: it is a folder, not a file\n"),
        (["info", "a.txt"], "a.txt"),
        (["validate", "a.txt"], "a.txt"),
    ],
)
def test_failures_end_with_1_and_a_message(
    tmp_path: Path,
    arguments: list[str],
    words: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    sample().write_h5ad("a.h5ad")
    scx_core.from_h5ad("a.h5ad", "a.scx")
    damaged_scx(Path("bad.scx"))
    Path("a.txt").write_text("gene,count\n")
    Path("cut.h5ad").write_bytes(Path("a.h5ad").read_bytes()[:-100])
    before = sorted(os.listdir())
    assert main(arguments) == 1
    captured = capsys.readouterr()
    assert captured.err.startswith("scx: error: ")
    assert words in captured.err
    assert captured.err.count("\n") == 1
    assert "Traceback" not in captured.err
    assert sorted(os.listdir()) == before


def test_messages_of_several_lines_become_one() -> None:
    assert in_words(ValueError("a differs:\n\n  left: 1\n")) == "a differs: left: 1"
    assert in_words(ZeroDivisionError("x\ny")) == "ZeroDivisionError: x; y"


def test_arguments_are_named_as_options() -> None:
    for text, expected in {
        "choose with genome=; there are": "choose with --genome; there are",
        "with prefix=: ['']": "with --prefix: ['']",
        "shard_size=0 must lie": "--shard-size 0 must lie",
        "name it with `modality=`, or": "name it with `--modality`, or",
        "feature_types: no 'x' (strict_uns=True)": "--feature-types: no 'x' (--strict-uns)",
    }.items():
        assert with_options(text) == expected
    for text in ("layers['x']", "in threads: 3", "/overwrite=True/a", "my_prefix=1", "codec 3"):
        assert with_options(text) == text


def test_names_that_a_terminal_would_obey_are_escaped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    adata = sample()
    adata.obsm["\x1b[31m\nü"] = np.ones((40, 2))
    scx_core.from_anndata(adata, tmp_path / "a.scx")
    assert main(["info", str(tmp_path / "a.scx")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len([line for line in lines if line.startswith(r"obsm/\x1b[31m\nü ")]) == 1
    assert main(["info", str(tmp_path / "a.scx"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert "obsm/\x1b[31m\nü" in [section["name"] for section in told["sections"]]


@pytest.mark.parametrize("encoding", ["ascii", "utf-8:strict"])
def test_names_beyond_the_encoding_of_the_output(tmp_path: Path, encoding: str) -> None:
    adata = sample()
    adata.layers["ü"] = adata.X
    scx_core.from_anndata(adata, tmp_path / "ü.scx")
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    for arguments in (["info", "ü.scx"], ["validate", "ü.scx"], ["info", "--json", "ü.scx"]):
        done = run(*arguments, cwd=tmp_path, env=environment, encoding="utf-8")
        assert (done.returncode, done.stderr) == (0, "")
        if "--json" in arguments:
            assert json.loads(done.stdout)["path"] == "ü.scx"
        else:
            assert (r"\xfc.scx" if encoding == "ascii" else "ü.scx") in done.stdout


def test_without_an_output_to_write_to(tmp_path: Path) -> None:
    scx_core.from_anndata(sample(), tmp_path / "a.scx")
    command = "import sys; sys.stdout = None; from scx_core._cli import main; sys.exit(main())"
    for arguments in (["info"], ["validate", "--deep"]):
        done = subprocess.run(
            [sys.executable, "-c", command, *arguments, tmp_path / "a.scx"],
            capture_output=True,
            text=True,
        )
        assert (done.returncode, done.stderr) == (0, "")


def test_warnings_are_one_line_each(tmp_path: Path) -> None:
    adata = sample()
    adata.X.data[3] = np.nan
    adata.write_h5ad(tmp_path / "a.h5ad")
    result = run("convert", tmp_path / "a.h5ad", tmp_path / "a.scx")
    assert result.returncode == 0
    coordinates = adata.X.tocoo()
    cell = adata.obs_names[coordinates.row[3]]
    gene = adata.var_names[coordinates.col[3]]
    assert result.stderr == (
        "scx: warning: NaN or infinite values were kept as they are, in X "
        f"(1, the first in cell {cell!r}, gene {gene!r})\n"
    )


def test_info(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.scx"
    scx_core.from_anndata(sample(), path, shard_size=16)
    assert main(["info", str(path), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["n_obs"], told["n_vars"]) == (40, 25)
    assert told["file_bytes"] == path.stat().st_size
    assert told["nnz"] == sample().X.nnz
    assert told["modalities"] == []
    made_by = f"scx-core {scx_core.__version__}"
    assert told["provenance"] == [
        {"time": None, "action": "anndata", "tool": made_by, "parameters": ""}
    ]
    with scx_core.open(path) as experiment:
        assert told["sections"] == json.loads(json.dumps(experiment.sections()))
    matrices = {matrix["name"]: matrix for matrix in told["matrices"]}
    assert list(matrices) == ["X", "layers['twice']", "layers['thrice']", "raw.X"]
    assert matrices["raw.X"]["shape"] == [40, 31]
    assert matrices["layers['twice']"]["form"] == "csc_matrix"
    for name, kind in (("X", "csr_shard"), ("raw.X", "raw_csr_shard")):
        shards = [part for part in told["sections"] if part["type"] == kind]
        n_bytes = sum(part["length"] for part in shards)
        assert matrices[name]["bytes"] == n_bytes
        assert matrices[name]["shards"] == len(shards) == 3
        bits = matrices[name]["bits_per_value"]
        assert bits == pytest.approx(8 * n_bytes / matrices[name]["nnz"], abs=0.006)
    layers = sum(part["length"] for part in told["sections"] if part["type"] == "layer_csr_shard")
    assert matrices["layers['twice']"]["bytes"] + matrices["layers['thrice']"]["bytes"] == layers
    assert main(["info", str(path)]) == 0
    text = capsys.readouterr().out
    assert text.startswith(f"{path}: 40 x 25, ")
    assert [line.split() for line in text.splitlines()[-2:]] == [
        ["action", "tool"],
        ["anndata", *made_by.split()],
    ]
    for words in ("raw.X", "40 x 31", "float32", "rowpack", "bits a value", "obsm/X_pca"):
        assert words in text


def test_info_of_a_multimodal_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mdata = multimodal(tmp_path / "a.h5mu")
    scx_core.from_h5mu(tmp_path / "a.h5mu", tmp_path / "a.scx")
    assert main(["info", str(tmp_path / "a.scx"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["modalities"] == [
        {"name": "rna", "n_obs": 40, "n_vars": 25, "nnz": mdata["rna"].X.nnz},
        {"name": "adt", "n_obs": 20, "n_vars": 7, "nnz": mdata["adt"].X.nnz},
    ]
    names = [matrix["name"] for matrix in told["matrices"]]
    assert names[0] == "mod['rna'].X" and "mod['adt'].layers['twice']" in names
    assert all(matrix["shards"] == 1 for matrix in told["matrices"])
    assert main(["info", str(tmp_path / "a.scx")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].split() == ["modality", "cells", "genes", "values"]
    assert lines[4].split() == ["adt", "20", "7", str(mdata["adt"].X.nnz)]


@pytest.mark.parametrize("deep", [[], ["--deep"]])
def test_validate(tmp_path: Path, deep: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = tmp_path / "good.scx", tmp_path / "bad.scx"
    scx_core.from_anndata(sample(), good)
    damaged_scx(bad)
    assert main(["validate", str(good), *deep]) == 0
    assert capsys.readouterr().out.startswith(f"{good}: sound (")
    assert main(["validate", str(bad), *deep]) == 1
    captured = capsys.readouterr()
    assert captured.out.startswith("damaged: X_shard_0: ")
    assert captured.err == ""


def test_version_and_help() -> None:
    result = run("--version")
    assert (result.returncode, result.stdout) == (0, f"scx {scx_core.__version__}\n")
    for command in ([], ["convert"], ["info"], ["validate"]):
        result = run(*command, "--help")
        assert result.returncode == 0
        assert result.stdout.startswith("usage: scx")


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys; from scx_core._cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "print(sorted({'numpy', 'pandas', 'anndata', 'h5py', 'pyarrow'} & set(sys.modules)))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.splitlines()[-1] == "[]"


def test_no_bar_in_a_pipe_and_one_on_a_terminal(tmp_path: Path) -> None:
    sample().write_h5ad(tmp_path / "a.h5ad")
    result = run("convert", tmp_path / "a.h5ad", tmp_path / "a.scx")
    assert result.stderr == ""
    pty, fcntl, termios = (pytest.importorskip(name) for name in ("pty", "fcntl", "termios"))
    command = [*SCX, "convert", str(tmp_path / "a.h5ad"), str(tmp_path / "b.scx")]
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    process = subprocess.Popen(command, stderr=theirs, stdout=subprocess.DEVNULL)
    os.close(theirs)
    shown = b""
    while True:
        try:
            piece = os.read(ours, 4096)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        shown += piece
    os.close(ours)
    assert process.wait() == 0
    assert b"100%" in shown


def slow_source(folder: Path) -> Path:
    """An .h5ad whose conversion takes long enough to be interrupted."""
    adata = anndata.AnnData(sp.vstack([counts(2000, 500)] * 20, format="csc"))
    adata.write_h5ad(folder / "slow.h5ad")
    return folder / "slow.h5ad"


@pytest.mark.skipif(os.name != "posix", reason="signals are sent")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupts_leave_nothing_behind(tmp_path: Path, number: int, code: int) -> None:
    source, out = slow_source(tmp_path), tmp_path / "a.scx"
    out.write_bytes(b"an old file")
    arguments = ["convert", str(source), str(out), "--overwrite", "--memory-budget", "2MiB"]
    process = subprocess.Popen([*SCX, *arguments], stderr=subprocess.PIPE, text=True)
    started = time.monotonic()
    # until the conversion is under way
    while len(os.listdir(tmp_path)) == 2 and time.monotonic() < started + 60:
        time.sleep(0.005)
    process.send_signal(number)
    _, error = process.communicate(timeout=60)
    assert process.returncode == code
    assert "Traceback" not in error
    assert sorted(os.listdir(tmp_path)) == ["a.scx", "slow.h5ad"]
    assert out.read_bytes() == b"an old file"


LOSING = """
import argparse, signal, sys, time, weakref
from scx_core._command_line import run_program

class Referent:
    pass

def run(options):
    number = signal.Signals(int(options.number))
    def callback(_):
        signal.raise_signal(number)
    thing = Referent()
    reference = weakref.ref(thing, callback)
    del thing
    if not options.last:
        time.sleep(30)
    return 0

parser = argparse.ArgumentParser(prog="losing")
parser.add_argument("number")
parser.add_argument("--last", action="store_true")
parser.set_defaults(run=run, parser=parser)
sys.exit(run_program(parser, None))
"""


@pytest.mark.skipif(os.name != "posix", reason="signals are sent")
@pytest.mark.parametrize("last", [[], ["--last"]])
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_in_the_callback_of_a_weak_reference_ends_the_program(
    number: int, code: int, last: list[str]
) -> None:
    command = [sys.executable, "-c", LOSING, str(int(number)), *last]
    done = subprocess.run(command, capture_output=True, text=True, timeout=25)
    assert done.returncode == code
    assert "ignored" not in done.stderr and "Traceback" not in done.stderr


@pytest.mark.skipif(os.name != "posix", reason="pipes are closed")
def test_a_reader_that_stops_early_is_no_error_to_talk_of(tmp_path: Path) -> None:
    adata = sample()
    for number in range(3000):
        adata.uns[f"key{number}"] = number
    scx_core.from_anndata(adata, tmp_path / "a.scx", shard_size=1)
    command = [*SCX, "info", "--json", str(tmp_path / "a.scx")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None and process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait() in (0, 1)
