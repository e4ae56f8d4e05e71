"""The parts that `check` and `test` consist of, and the summary of how they ended."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from .environment import ROOT, Environment

# Bounds that only a hanging part reaches.
STYLE_SECONDS_MAX = 600
ZIG_TEST_SECONDS_MAX = 1800
PYTEST_SECONDS_MAX = 3600

# A process for each core, each with a file of tests at a time, whose fixtures are made once.
PYTEST_PROCESSES = ["-n", "auto", "--maxprocesses", "4"]
PYTEST_PROCESSES += ["--dist", "loadfile", "--no-loadscope-reorder"]


@dataclass(frozen=True)
class Part:
    """One command whose exit status tells whether the sources are fit."""

    name: str
    arguments: tuple[str, ...]
    seconds_max: float


def style_parts() -> list[Part]:
    """The parts that only read the sources."""
    typed = ["tools", "packages/scx-core/hatch_build.py"]
    typed += sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("packages/*/src"))
    ruff = ("-m", "ruff", "check", "--output-format=concise", ".")
    return [
        Part("zig fmt", ("-m", "ziglang", "build", "check"), STYLE_SECONDS_MAX),
        Part("ruff check", ruff, STYLE_SECONDS_MAX),
        Part("ruff format", ("-m", "ruff", "format", "--check", "."), STYLE_SECONDS_MAX),
        Part("mypy", ("-m", "mypy", *typed), STYLE_SECONDS_MAX),
        Part("examples", ("tools/_dev/examples.py",), STYLE_SECONDS_MAX),
    ]


def test_parts(pytest_arguments: Sequence[str]) -> list[Part]:
    """The parts that run code."""
    return [
        Part("zig test", ("-m", "ziglang", "build", "test"), ZIG_TEST_SECONDS_MAX),
        Part("pytest", ("-m", "pytest", *PYTEST_PROCESSES, *pytest_arguments), PYTEST_SECONDS_MAX),
    ]


def run_parts(environment: Environment, parts: Sequence[Part]) -> int:
    """Run all parts and print a summary; 1 when any of them failed."""
    lines: list[str] = []
    failed = 0
    for part in parts:
        print(f"\n== {part.name}")
        start = time.monotonic()
        status = environment.run(part.arguments, seconds_max=part.seconds_max)
        seconds = time.monotonic() - start
        result = "passed" if status == 0 else f"failed (status {status})"
        lines.append(f"{part.name:<12} {seconds:7.1f} s  {result}")
        failed += status != 0
    print("\n== summary", *lines, sep="\n")
    print(f"parts: {len(parts) - failed} passed, {failed} failed")
    return 1 if failed else 0
