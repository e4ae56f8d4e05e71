"""What the tests in a browser need besides Python packages: Chromium and JavaScript libraries.

On a person's machine nothing of the system's is changed: what is missing is told with the command
that installs it, and the tests are skipped. In CI it is installed; where that fails, too, the tests
are skipped and the reason is told, so that a server's bad hour does not hide what the others say.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from .environment import ROOT, SetupError

LIBRARIES = ROOT / "packages/cellucid-prepare/tests/browser"
PROGRAMS = ("chromium", "chromedriver")
# Debian's names; the packages of other systems have others.
INSTALL_CHROMIUM = (
    ("apt-get", "-o", "DPkg::Lock::Timeout=300", "-o", "Acquire::Retries=3", "update"),
    (
        *("apt-get", "-o", "DPkg::Lock::Timeout=300", "-o", "Acquire::Retries=3", "install"),
        *("--yes", "--no-install-recommends", "chromium", "chromium-driver"),
    ),
)
INSTALL_LIBRARIES = ("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
INSTALL_SECONDS_MAX = 900


def ensure_browser() -> None:
    """Install what can be installed, and tell what is missing."""
    try:
        _ensure_chromium(may_install=bool(os.environ.get("CI")) and _is_root_of_debian())
        _ensure_libraries()
    except SetupError as error:
        _tell(str(error))


def _ensure_chromium(*, may_install: bool) -> None:
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if not missing:
        return
    if not may_install:
        _tell(
            f"{' and '.join(missing)} not found; on Debian they come with "
            "`apt-get install chromium chromium-driver`"
        )
        return
    print("installing Chromium")
    for command in INSTALL_CHROMIUM:
        _require("installing Chromium", command, ROOT, {"DEBIAN_FRONTEND": "noninteractive"})


def _ensure_libraries() -> None:
    """`npm ci`, when the lock file is another one than that of the last time."""
    stamp = LIBRARIES / "node_modules" / "scx-dev.sha256"
    digest = hashlib.sha256((LIBRARIES / "package-lock.json").read_bytes()).hexdigest()
    if stamp.exists() and stamp.read_text(encoding="utf-8") == digest:
        return
    if shutil.which("npm") is None:
        _tell("npm not found; it comes with Node.js")
        return
    print("installing the JavaScript libraries of the tests in a browser")
    _require("installing the JavaScript libraries", INSTALL_LIBRARIES, LIBRARIES, {})
    stamp.write_text(digest, encoding="utf-8")


def _is_root_of_debian() -> bool:
    return shutil.which("apt-get") is not None and hasattr(os, "geteuid") and os.geteuid() == 0


def _require(what: str, command: Sequence[str], folder: Path, extra: dict[str, str]) -> None:
    program = shutil.which(command[0])
    assert program is not None
    try:
        result = subprocess.run(
            [program, *command[1:]],
            cwd=folder,
            env={**os.environ, **extra},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            timeout=INSTALL_SECONDS_MAX,
        )
    except subprocess.TimeoutExpired as error:
        raise SetupError(f"{what} took more than {INSTALL_SECONDS_MAX} seconds") from error
    if result.returncode != 0:
        raise SetupError(f"{what} failed with status {result.returncode}:\n{result.stdout[-2000:]}")


def _tell(what: str) -> None:
    print(f"the tests in a browser will be skipped: {what}")
