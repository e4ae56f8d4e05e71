"""The examples of every README run as they are written, in order, one after the other."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from _dev.examples import program_of
from checkout import ROOT

READMES = [ROOT / "README.md", *sorted(ROOT.glob("packages/*/README.md"))]
PROGRAMS = ("scx", "scx-tokenize", "cellucid-prepare")
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Example:
    """A fenced block: its language, its text, and the line of the file that it starts on."""

    language: str
    text: str
    line: int


def examples_in(markdown: str) -> list[Example]:
    """The blocks that are run: Python, and commands of the packages' programs."""
    blocks = [
        Example(found[1], found[2], markdown.count("\n", 0, found.start(2)) + 1)
        for found in FENCE.finditer(markdown)
    ]
    return [
        block
        for block in blocks
        if block.language == "python"
        or (block.language == "bash" and block.text.split(maxsplit=1)[0] in PROGRAMS)
    ]


def run_example(example: Example, name: str, namespace: dict[str, Any]) -> None:
    if example.language == "python":
        # Empty lines in front, so that a traceback shows the line of the README.
        source = "\n" * (example.line - 1) + example.text
        exec(compile(source, name, "exec"), namespace)
        return
    for line in example.text.splitlines():
        words = shlex.split(line, comments=True)
        if not words:
            continue
        assert words[0] in PROGRAMS, f"{name}:{example.line}: {line!r} is not a command of ours"
        program = Path(sys.executable).with_name(words[0])
        result = subprocess.run(
            [str(program), *words[1:]], capture_output=True, text=True, timeout=120
        )
        assert result.returncode == 0, f"{name}: {line}\n{result.stdout}{result.stderr}"


# mudata before 0.4 announces with each object what its later versions do
@pytest.mark.filterwarnings("ignore:.*pull_on_update:FutureWarning")
@pytest.mark.parametrize("readme", READMES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_examples_run_as_written(
    readme: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for example in examples_in(readme.read_text(encoding="utf-8")):
        run_example(example, os.fspath(readme), namespace)


@pytest.mark.skipif(importlib.util.find_spec("scvi") is None, reason="needs scvi-tools")
def test_examples_with_torch_run(tmp_path: Path) -> None:
    """Those of scx-train that need its extras too, which are marked as `py`; they train briefly."""
    text = (ROOT / "packages/scx-train/README.md").read_text(encoding="utf-8")
    options = 'max_epochs=1, accelerator="cpu", enable_progress_bar=False'
    program = re.sub(r"max_epochs=[0-9]+", options, program_of(text))
    result = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=250
    )
    assert result.returncode == 0, result.stdout + result.stderr


def test_examples_are_checked_on_the_lines_where_they_stand() -> None:
    markdown = "a\n```python\nx = 1\n```\n```text\nno code\n```\n```py\nprint(x)\n```\n"
    assert program_of(markdown) == "\n\nx = 1\n\n\n\n\n\nprint(x)\n"


def test_packages_with_features_have_examples() -> None:
    packages = [f"packages/{name}/README.md" for name in ("scx-core", "scx-train", "scx-tokenize")]
    for name in ("README.md", *packages):
        examples = examples_in((ROOT / name).read_text(encoding="utf-8"))
        assert {example.language for example in examples} >= {"python"}, name


def test_an_example_that_fails_is_seen() -> None:
    (example,) = examples_in("text\n\n```python\nx = 1\nx / 0\n```\n\n```text\nno code\n```\n")
    with pytest.raises(ZeroDivisionError) as caught:
        run_example(example, "EXAMPLE.md", {})
    assert (caught.traceback[-1].path.__str__()[-10:], caught.traceback[-1].lineno) == (
        "EXAMPLE.md",
        4,  # counted from 0
    )


def test_test_command_is_what_ci_calls() -> None:
    """The README's test command and the one in .ci/run are the same line."""
    command = "python tools/dev.py test"
    assert f"\n{command}\n" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"\nexec {command}\n" in (ROOT / ".ci/run").read_text(encoding="utf-8")
