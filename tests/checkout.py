"""Where things stand in the checkout; shared by the tests that cross packages."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]

# Import name -> folder under packages/.
PACKAGES = {
    "scx_core": "scx-core",
    "scx_train": "scx-train",
    "scx_tokenize": "scx-tokenize",
    "cellucid_prepare": "cellucid-prepare",
    "pyscx": "pyscx",
}


def project_table(folder: str) -> dict[str, Any]:
    """The [project] table of a package."""
    text = (ROOT / "packages" / folder / "pyproject.toml").read_text(encoding="utf-8")
    table: dict[str, Any] = tomllib.loads(text)["project"]
    return table


def zon_field(name: str) -> str:
    """A text field of build.zig.zon."""
    text = (ROOT / "build.zig.zon").read_text(encoding="utf-8")
    found = re.search(rf'^\s*\.{name} = "([^"]*)"', text, re.MULTILINE)
    assert found, f"build.zig.zon has no .{name}"
    return found[1]


def run_python(code: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run code in a fresh process; warnings are errors there too."""
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **variables},
    )
