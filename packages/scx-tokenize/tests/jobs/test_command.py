"""The command `scx-tokenize`: what it makes, prints and answers."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from job_samples import (
    as_json,
    cells,
    ids_of,
    medians_of,
    read_tokens,
    shard_bytes,
    tokens_of,
    tree,
    written,
)

import scx_tokenize
from scx_core._locks import held_lock
from scx_tokenize._cli import main
from scx_tokenize.jobs._manifest import read_manifest


@pytest.fixture
def given(tmp_path: Path) -> dict[str, str]:
    """Files of a run."""
    return {
        "input": str(written(cells(40), tmp_path / "a.scx")),
        "tokens": str(as_json(tokens_of(), tmp_path / "tokens.json")),
        "medians": str(as_json(medians_of(), tmp_path / "medians.json")),
    }


def rank(given: dict[str, str], out: Path, *more: Any) -> int:
    tables = ["--token-dictionary", given["tokens"], "--gene-medians", given["medians"]]
    return main(["rank", given["input"], str(out), *tables, *map(str, more)])


def test_the_command_makes_what_the_function_makes(
    tmp_path: Path, given: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--preset", "geneformer-v2", "--obs-filter", "n_counts > 20", "--shard-rows", 8]
    columns = ["--obs-columns", "cell_type,donor"]
    assert rank(given, tmp_path / "one", *options, *columns) == 0
    printed = capsys.readouterr().out
    assert "60 of 60 genes known (100% of what could be)" in printed
    scx_tokenize.run(
        "rank",
        given["input"],
        tmp_path / "two",
        preset="geneformer-v2",
        token_dictionary=given["tokens"],
        gene_medians=given["medians"],
        obs_filter="n_counts > 20",
        obs_columns=["cell_type", "donor"],
        shard_rows=8,
    )
    assert shard_bytes(tmp_path / "one") == shard_bytes(tmp_path / "two")


def test_cells_without_tokens_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Three cells are empty; of the two with equal values alone the right bound is bin 0."""
    path = str(written(cells(40), tmp_path / "a.scx"))
    for tie, expected in {"left": 3, "right": 5}.items():
        assert main(["bin", path, str(tmp_path / tie), "--tie", tie]) == 0
        assert f"\n{expected} cells have no token of a gene\n" in capsys.readouterr().out
        made = read_tokens(tmp_path / tie)
        assert (made["length"] == 0).sum() == expected
        assert all((bins > 0).all() for bins in made["values"])


def test_lists_in_front_of_the_files_leave_these_alone(tmp_path: Path) -> None:
    adata = cells(40)
    adata.obs["age, years"] = adata.obs["score"]
    path = str(written(adata, tmp_path / "a.scx"))
    lists = ["--obs-columns", 'donor,"age, years"', "--obs-columns", "cell_name"]
    lists += ["--edges", "1,2,3.5", "--n-bins", "5", "--edges", "9"]
    assert main(["bin", *lists, path, str(tmp_path / "out")]) == 0
    frame = read_tokens(tmp_path / "out")
    assert list(frame)[-3:] == ["donor", "age, years", "cell_name"]
    assert (read_manifest(tmp_path / "out") or {})["options"]["edges"] == [1, 2, 3.5, 9]


def test_the_package_is_run_as_the_command_is(
    tmp_path: Path, given: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert rank(given, tmp_path / "one") == 0
    printed = capsys.readouterr().out
    tables = ["--token-dictionary", given["tokens"], "--gene-medians", given["medians"]]
    command = [sys.executable, "-m", "scx_tokenize", "rank", given["input"], "two", *tables]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[1:] == printed.splitlines()[1:]
    assert shard_bytes(tmp_path / "one") == shard_bytes(tmp_path / "two")
    wrong = subprocess.run(command[:3], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert wrong.returncode == 2
    assert "scx-tokenize: error: the following arguments are required: COMMAND" in wrong.stderr


def test_a_command_that_is_repeated_keeps_what_is_there(
    tmp_path: Path, given: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert rank(given, tmp_path / "out") == 0
    before = tree(tmp_path)
    assert rank(given, tmp_path / "out") == 0
    assert tree(tmp_path) == before
    capsys.readouterr()
    assert rank(given, tmp_path / "out", "--l-max", 5) == 1
    said = capsys.readouterr().err
    assert "options.l_max is 2048 there and 5 here" in said
    assert "replace it with --overwrite" in said
    assert rank(given, tmp_path / "out", "--l-max", 5, "--overwrite", "--quiet") == 0
    assert max(map(len, ids_of(tmp_path / "out"))) == 5


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["rank", "missing.scx", "out"], 1, "--gene-medians: it is needed for 'rank'"),
        (["bin", "missing.scx", "out"], 1, "there is no file missing.scx"),
        (["bin", "only.scx"], 2, "the following arguments are required: OUT"),
        (["bin", "a.scx", "out", "--preset", "uce"], 2, "invalid choice: 'uce'"),
        (["sample", "a.scx", "out", "--l-max", "5"], 2, "unrecognized arguments: --l-max"),
        (["bin", "a.scx", "out", "--n-bins", "2"], 2, "2 is less than 3"),
        ([], 2, "the following arguments are required: COMMAND"),
        (["bin", "a.scx", "out", "--obs-columns", "a", "b"], 2, "arguments: b (files stand tog"),
        (["bin", "a.scx", "b.scx", "--pad", "out"], 2, "unrecognized arguments: out (files stand"),
        (["bin", "a.scx", "out", "--obs-columns", "a,,b"], 2, "'a,,b' is no list of names"),
        (["bin", "a.scx", "out", "--obs-columns", '"a'], 2, "is no list of names with commas"),
        (["bin", "a.scx", "out", "--edges", "1,x"], 2, "'1,x' is no list of numbers with commas"),
        (["bin", "a.scx", "out", "--edges", ""], 2, "'' is no list of numbers with commas"),
    ],
)
def test_wrong_commands_are_answered_in_their_words(
    arguments: list[str],
    code: int,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    try:
        found = main(arguments)
    except SystemExit as error:
        found = int(error.code or 0)
    assert found == code
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_what_goes_wrong_meanwhile_is_told_in_words(
    tmp_path: Path, given: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    with held_lock(out / ".lock"):
        assert rank(given, out) == 1
    said = capsys.readouterr().err
    assert said == f"scx-tokenize: error: another process makes tokens in {out}\n"


def test_help_names_every_argument_of_the_function(capsys: pytest.CaptureFixture[str]) -> None:
    """Each is an option of a command, and the commands have no others but `--quiet`."""
    found: set[str] = set()
    for command in ("rank", "bin", "sample"):
        with pytest.raises(SystemExit):
            main([command, "--help"])
        options = set(
            re.findall(r"^  (?:-\w .*)?--([\w-]+)", capsys.readouterr().out, re.MULTILINE)
        )
        assert {"obs-filter", "threads", "token-dictionary", "overwrite", "hf"} <= options
        found |= options
    arguments = set(inspect.signature(scx_tokenize.run).parameters)
    arguments -= {"kernel", "inputs", "out", "progress"}
    assert found == {name.replace("_", "-") for name in arguments} | {"quiet"}
