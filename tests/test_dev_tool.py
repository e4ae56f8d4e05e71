"""tools/dev.py: its help, how it passes arguments on, and how a run of parts ends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from _dev import command_line, environment
from _dev.environment import Environment
from _dev.jobs import JOBS
from _dev.parts import Part, run_parts
from checkout import ROOT, zon_field


def dev(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ROOT / "tools/dev.py"), *arguments],
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_help_lists_the_jobs() -> None:
    result = dev("--help")
    assert result.returncode == 0
    listed = [line.split()[0] for line in result.stdout.splitlines() if line.startswith("    ")]
    assert [name for name in listed if name in JOBS] == list(JOBS)
    assert list(JOBS) == ["demo", "test", "check", "bench", "wheels", "build"]


@pytest.mark.parametrize("name", JOBS)
def test_help_of_a_job_is_its_docstring(name: str) -> None:
    result = dev(name, "--help")
    assert result.returncode == 0
    assert JOBS[name].help in result.stdout


def test_unknown_job_is_refused() -> None:
    result = dev("tset")
    assert result.returncode == 2
    assert "invalid choice: 'tset'" in result.stderr


def test_arguments_of_a_job_without_any_are_refused_before_the_set_up(tmp_path: Path) -> None:
    for name in ("check", "wheels", "build"):
        result = dev("--venv", str(tmp_path / "venv"), name, "packages/scx-core")
        assert result.returncode == 2
        assert f"{name} takes no arguments, got: packages/scx-core" in result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("given", "own", "passed_on"),
    [
        (["test"], ["test"], []),
        (["test", "-k", "demo", "--lf"], ["test"], ["-k", "demo", "--lf"]),
        (["--venv", "x", "demo", "a.h5ad"], ["--venv", "x", "demo"], ["a.h5ad"]),
        (["bench", "--help"], ["bench", "--help"], []),
        (["bench", "--", "--help"], ["bench"], ["--help"]),
        (["--help"], ["--help"], []),
    ],
)
def test_what_follows_the_job_is_the_jobs(
    given: list[str], own: list[str], passed_on: list[str]
) -> None:
    assert command_line._split(given) == (own, passed_on)


@pytest.fixture
def here() -> Environment:
    """The environment that this very test runs in."""
    return Environment(Path(sys.prefix))


def test_all_parts_run_and_one_failure_counts(
    here: Environment, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    mark = tmp_path / "ran"
    parts = [
        Part("first", ("-c", "raise SystemExit(3)"), 60),
        Part("slow", ("-c", "import time; time.sleep(60)"), 0.2),
        Part("last", ("-c", f"open({str(mark)!r}, 'w').close()"), 60),
    ]
    assert run_parts(here, parts) == 1
    assert mark.exists()
    lines = capfd.readouterr().out.splitlines()
    assert lines[-1] == "parts: 1 passed, 2 failed"
    assert [line.partition(" s  ")[2] for line in lines[-4:-1]] == [
        "failed (status 3)",
        "failed (status 124)",
        "passed",
    ]


def test_no_failure_is_status_0(here: Environment) -> None:
    assert run_parts(here, [Part("only", ("-c", "pass"), 60)]) == 0


def test_python_path_of_the_caller_stays_outside(
    here: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    assert here.run(["-c", "import os; assert 'PYTHONPATH' not in os.environ"]) == 0


def test_compiler_is_pinned_from_build_zig_zon() -> None:
    pin = f"ziglang=={zon_field('minimum_zig_version')}"
    assert pin in environment.group_requirements("build")


def test_any_change_of_a_native_source_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "ROOT", tmp_path)
    (tmp_path / "zig/src").mkdir(parents=True)
    for name in ("build.zig", "build.zig.zon", "zig/src/a.zig"):
        (tmp_path / name).write_text("1")
    digests = [environment._native_digest()]
    (tmp_path / "zig/src/a.zig").write_text("2")
    digests.append(environment._native_digest())
    (tmp_path / "zig/src/a.zig").rename(tmp_path / "zig/src/b.zig")
    digests.append(environment._native_digest())
    (tmp_path / "zig/src/b.zig").write_text("1")
    digests.append(environment._native_digest())
    assert len(set(digests)) == 4
    (tmp_path / "zig/src/b.zig").rename(tmp_path / "zig/src/a.zig")
    assert environment._native_digest() == digests[0]
