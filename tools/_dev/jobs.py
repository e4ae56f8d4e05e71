"""The jobs of tools/dev.py. A job's help text is its docstring."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .browser import ensure_browser
from .environment import ROOT, Environment
from .parts import run_parts, style_parts, test_parts
from .wheels import build_and_try_wheels

RunJob = Callable[[Environment, list[str]], int]


@dataclass(frozen=True)
class Job:
    """One job: how it is called, what it needs installed, and what it does."""

    name: str
    arguments: str
    groups: tuple[str, ...]
    run: RunJob

    @property
    def summary(self) -> str:
        """The first line of the help text."""
        return self.help.partition("\n")[0]

    @property
    def help(self) -> str:
        """The whole help text."""
        return inspect.getdoc(self.run) or ""


JOBS: dict[str, Job] = {}


def _job(*, arguments: str = "", groups: tuple[str, ...] = ()) -> Callable[[RunJob], RunJob]:
    def register(run: RunJob) -> RunJob:
        name = run.__name__
        JOBS[name] = Job(name=name, arguments=arguments, groups=groups, run=run)
        return run

    return register


@_job(arguments="[FILE]", groups=("demo",))
def demo(environment: Environment, arguments: list[str]) -> int:
    """Convert a file (or made-up counts) and learn the cell types from its training batches.

    FILE is an .h5ad file, a 10x .h5 file or a 10x folder with matrix.mtx; without it realistic
    counts are made. `demo -- --help` lists what else can be set.
    """
    return environment.run([ROOT / "tools/demo/run_demo.py", *arguments], folder=Path.cwd())


@_job(arguments="[PYTEST ARGUMENTS]", groups=("test", "demo"))
def test(environment: Environment, arguments: list[str]) -> int:
    """Run all checks and tests: Zig, style, types, Python.

    Every part runs, whatever the others say; the summary at the end names those that failed.
    Arguments are passed on to pytest, for instance: test packages/scx-core -k round_trip
    The tests in a browser need Chromium and npm; where they are missing, the job says how to get
    them (in CI it installs Chromium) and those tests are skipped.
    """
    ensure_browser()
    return run_parts(environment, [*style_parts(), *test_parts(arguments)])


@_job(groups=("test", "demo"))
def check(environment: Environment, arguments: list[str]) -> int:
    """Run the parts of `test` that only read the sources: format, style, types.

    The Python in READMEs and guides is checked as users' own: by mypy (strict) and pyright (basic).
    """
    return run_parts(environment, style_parts())


@_job(arguments="[OPTIONS]", groups=("test", "demo"))
def bench(environment: Environment, arguments: list[str]) -> int:
    """Measure conversion, file size, decoding and training batches, beside other software.

    `bench -- --help` lists the options.
    """
    return environment.run([ROOT / "tools/bench/run_bench.py", *arguments], folder=Path.cwd())


@_job()
def wheels(environment: Environment, arguments: list[str]) -> int:
    """Build the wheels of all packages and platforms into dist/, and try the local ones.

    The native library is cross-compiled, so that one machine makes them all. Those for this
    machine are installed into a fresh environment outside the checkout and used there.
    """
    return build_and_try_wheels(environment, ROOT / "dist")


@_job()
def build(environment: Environment, arguments: list[str]) -> int:
    """Set up the environment and build the native library, nothing else."""
    print(f"ready: {environment.python}")
    return 0
