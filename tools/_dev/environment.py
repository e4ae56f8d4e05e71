"""The virtual environment that all jobs run in, brought up to date in the least number of steps."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import tomllib
import venv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# In the order in which they depend on each other.
PACKAGES = ("scx-core[mudata]", "scx-train", "scx-tokenize", "cellucid-prepare", "pyscx[train]")
NATIVE_LIBRARY_FOLDER = ROOT / "packages/scx-core/src/scx_core/_lib"
NATIVE_SOURCES = ("build.zig", "build.zig.zon", "zig")
INSTALL_SECONDS_MAX = 1800
BUILD_SECONDS_MAX = 1800


class SetupError(Exception):
    """The set-up cannot go on; the message is for the person at the terminal."""


@dataclass(frozen=True)
class Environment:
    """A virtual environment and the ways to run something in it."""

    folder: Path

    @property
    def python(self) -> Path:
        """The environment's interpreter."""
        if os.name == "nt":
            return self.folder / "Scripts" / "python.exe"
        return self.folder / "bin" / "python"

    @property
    def variables(self) -> dict[str, str]:
        """Environment variables for what runs in it; nothing of the caller's Python shines in."""
        variables = {k: v for k, v in os.environ.items() if k not in ("PYTHONHOME", "PYTHONPATH")}
        variables["VIRTUAL_ENV"] = str(self.folder)
        variables["PATH"] = os.pathsep.join([str(self.python.parent), os.environ.get("PATH", "")])
        return variables

    def run(
        self,
        arguments: Sequence[str | Path],
        *,
        seconds_max: float | None = None,
        folder: Path = ROOT,
        extra_variables: Mapping[str, str] | None = None,
    ) -> int:
        """Run the environment's interpreter with `arguments`; returns the exit status."""
        sys.stdout.flush()
        command = [str(self.python), *map(str, arguments)]
        variables = {**self.variables, **(extra_variables or {})}
        try:
            return subprocess.run(
                command, cwd=folder, env=variables, timeout=seconds_max
            ).returncode
        except subprocess.TimeoutExpired:
            print(f"stopped after {seconds_max} seconds: {' '.join(command)}", file=sys.stderr)
            return 124

    def require(self, what: str, arguments: Sequence[str | Path], *, seconds_max: float) -> None:
        """Run a step of the set-up, without which nothing else makes sense."""
        status = self.run(arguments, seconds_max=seconds_max)
        if status != 0:
            raise SetupError(f"{what} failed with status {status}; the messages above say why")

    def ensure(self, groups: Iterable[str]) -> None:
        """Bring the environment up to date for a job that needs these dependency groups."""
        self._ensure_interpreter()
        self._ensure_installed(["build", *groups])
        self._ensure_native_library()

    def _ensure_interpreter(self) -> None:
        if self.python.exists():
            return
        print(f"creating {self.folder} with Python {sys.version.split()[0]}")
        try:
            venv.EnvBuilder(with_pip=True, symlinks=os.name != "nt").create(self.folder)
        except subprocess.CalledProcessError as error:
            raise SetupError(
                f"{sys.executable} cannot make a virtual environment with pip in it; on Debian and "
                f"Ubuntu the package python3-venv is missing ({error})"
            ) from error

    def _ensure_installed(self, groups: Sequence[str]) -> None:
        """Install the packages and the groups whose requirements are not the installed ones."""
        stamp = self.folder / "scx-dev.json"
        installed = _read_json(stamp)
        wanted = {f"group {name}": _digest(group_requirements(name)) for name in groups}
        wanted["packages"] = _packages_digest(self.folder)
        missing = [name for name, digest in wanted.items() if installed.get(name) != digest]
        if not missing:
            return
        pip = ("-m", "pip", "--disable-pip-version-check", "install", "--quiet")
        if "group build" in missing:
            print("installing what builds the packages")
            self.require(
                "installing the build tools",
                [*pip, *group_requirements("build")],
                seconds_max=INSTALL_SECONDS_MAX,
            )
        print("installing the packages and what the job needs (some minutes the first time)")
        requirements = [line for name in groups for line in group_requirements(name)]
        editables = [f"--editable=./packages/{package}" for package in PACKAGES]
        self.require(
            "installing the packages",
            [*pip, "--no-build-isolation", *requirements, *editables],
            seconds_max=INSTALL_SECONDS_MAX,
        )
        # Groups that this job does not need keep their stamp: what they need is still installed.
        stamp.write_text(json.dumps({**installed, **wanted}, indent=1) + "\n", encoding="utf-8")

    def _ensure_native_library(self) -> None:
        stamp = NATIVE_LIBRARY_FOLDER / "sources.sha256"
        digest = _native_digest()
        if stamp.exists() and stamp.read_text(encoding="utf-8") == digest:
            return
        print("building the native library")
        # The build takes the stamp away, so that it never stands beside a library of other sources.
        self.require(
            "building the native library",
            ["packages/scx-core/hatch_build.py"],
            seconds_max=BUILD_SECONDS_MAX,
        )
        stamp.write_text(digest, encoding="utf-8")


def group_requirements(name: str) -> list[str]:
    """The requirements of a dependency group of the root's pyproject.toml."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    requirements = [str(line) for line in settings["dependency-groups"][name]]
    if name == "build":
        requirements.append(f"ziglang=={_zig_version()}")
    return requirements


def _zig_version() -> str:
    text = (ROOT / "build.zig.zon").read_text(encoding="utf-8")
    found = re.search(r'^\s*\.minimum_zig_version\s*=\s*"([^"]+)"', text, re.MULTILINE)
    if found is None:
        raise SetupError("build.zig.zon has no .minimum_zig_version")
    return found[1]


def _packages_digest(folder: Path) -> str:
    """Changes when a package has to be installed anew, or the environment is another one."""
    parts = [str(ROOT), (folder / "pyvenv.cfg").read_text(encoding="utf-8")]
    for package in PACKAGES:
        package_root = ROOT / "packages" / package.partition("[")[0]
        parts += [package, (package_root / "pyproject.toml").read_text(encoding="utf-8")]
        parts += [
            version.read_text(encoding="utf-8")
            for version in sorted(package_root.glob("src/*/_version.py"))
        ]
    return _digest(parts)


def _native_digest() -> str:
    paths: list[Path] = []
    for name in NATIVE_SOURCES:
        source = ROOT / name
        paths += sorted(source.rglob("*")) if source.is_dir() else [source]
    digest = hashlib.sha256()
    for path in paths:
        if path.is_file():
            digest.update(f"{path.relative_to(ROOT).as_posix()}\n".encode())
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def _digest(parts: Iterable[str]) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _read_json(path: Path) -> dict[str, str]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
