"""The Python of all READMEs and guides under the type checkers that users have.

Run as a program: `python tools/_dev/examples.py`.
"""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^```(?:python|py)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CHECKER_SECONDS_MAX = 300


def documents() -> list[Path]:
    """The texts that hold examples."""
    patterns = ("README.md", "packages/*/README.md", "docs/*.md")
    return [path for pattern in patterns for path in sorted(ROOT.glob(pattern))]


def program_of(markdown: str) -> str:
    """The examples of a text, one after the other, each on the lines where it stands there."""
    lines = [""] * (markdown.count("\n") + 1)
    for found in FENCE.finditer(markdown):
        first = markdown.count("\n", 0, found.start(1))
        text = found[1].splitlines()
        lines[first : first + len(text)] = text
    return "\n".join(lines).rstrip() + "\n"


def write_programs(folder: Path) -> dict[str, str]:
    """Write the examples of each text as a program; the texts by the names of the programs."""
    texts = {}
    for path in documents():
        program = program_of(path.read_text(encoding="utf-8"))
        if program.strip():
            name = path.relative_to(ROOT).as_posix()
            stem = re.sub(r"\W", "_", name.removesuffix(".md"))
            (folder / f"{stem}.py").write_text(program, encoding="utf-8")
            texts[f"{stem}.py"] = name
    return texts


def checkers(folder: Path) -> dict[str, list[str]]:
    """The commands that check the programs in a folder."""
    sources = [str(path) for path in sorted(ROOT.glob("packages/*/src"))]
    settings = folder / "pyrightconfig.json"
    pyright = {
        "typeCheckingMode": "basic",
        "extraPaths": sources,
        "include": ["."],
        # Some Pythons have no torch and scvi-tools in their environment.
        "reportMissingImports": importlib.util.find_spec("scvi") is not None,
    }
    settings.write_text(json.dumps(pyright), encoding="utf-8")
    # A name may stand for one thing in one example and for another in the next one.
    mypy = ["mypy", "--config-file", str(ROOT / "pyproject.toml"), "--allow-redefinition"]
    return {
        "mypy": [*mypy, *map(str, sorted(folder.glob("*.py")))],
        "pyright": ["pyright", "--pythonpath", sys.executable, "--project", str(settings)],
    }


def main() -> int:
    """Run the checkers; 1 when one of them finds fault with an example."""
    failed = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        texts = write_programs(folder)
        for checker, command in checkers(folder).items():
            result = subprocess.run(
                [sys.executable, "-m", *command],
                cwd=ROOT, capture_output=True, text=True, timeout=CHECKER_SECONDS_MAX,
            )  # fmt: skip
            said = result.stdout + result.stderr
            for program, text in texts.items():
                said = re.sub(rf"(?:\S*/)?(?<!\w){re.escape(program)}", text, said)
            print(f"{checker}:\n{said}")
            failed |= result.returncode != 0
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main())
