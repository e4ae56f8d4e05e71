"""Builds the wheels of all packages for all platforms, and tries those for this machine."""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from .environment import PACKAGES, ROOT, Environment

WHEEL_SECONDS_MAX = 1200
TRIAL_SECONDS_MAX = 1200


def build_and_try_wheels(environment: Environment, destination: Path) -> int:
    """Fill `destination` with wheels; 1 when one could not be built or the trial failed."""
    shutil.rmtree(destination, ignore_errors=True)
    destination.mkdir(parents=True)
    for target in _targets(environment):
        print(f"\n== scx-core for {target}")
        if not _build(environment, "scx-core", destination, {"SCX_BUILD_TARGET": target}):
            return 1
    for package in PACKAGES[1:]:
        name = package.partition("[")[0]
        print(f"\n== {name}")
        if not _build(environment, name, destination, {}):
            return 1

    print("\n== trial in a fresh environment")
    status = _try(sorted(destination.glob("*.whl")))
    print("\n== summary")
    for wheel in sorted(destination.glob("*.whl")):
        print(f"{wheel.stat().st_size:>10,} bytes  {wheel.relative_to(ROOT)}")
    print("trial passed" if status == 0 else f"trial failed (status {status})")
    return 1 if status else 0


def _targets(environment: Environment) -> list[str]:
    """The Zig targets, from the build hook, which alone knows them."""
    return subprocess.run(
        [environment.python, ROOT / "packages/scx-core/hatch_build.py", "targets"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()


def _build(
    environment: Environment, package: str, destination: Path, variables: dict[str, str]
) -> bool:
    status = environment.run(
        ["-m", "hatchling", "build", "--target", "wheel", "--directory", destination],
        folder=ROOT / "packages" / package,
        extra_variables=variables,
        seconds_max=WHEEL_SECONDS_MAX,
    )
    return status == 0


def _fits_this_machine(wheel: Path) -> bool:
    platform_tag = wheel.stem.rpartition("-")[2]
    if platform_tag == "any":
        return True
    system = {"linux": "manylinux", "darwin": "macosx", "win32": "win"}.get(sys.platform, "none")
    return platform_tag.startswith(system) and platform_tag.endswith(platform.machine().lower())


def _try(wheels: list[Path]) -> int:
    """Install the fitting wheels where nothing of the checkout is in reach, and use them."""
    local = [wheel for wheel in wheels if _fits_this_machine(wheel)]
    with tempfile.TemporaryDirectory(prefix="scx-trial-") as folder:
        trial = Environment(Path(folder) / "venv")
        venv.EnvBuilder(with_pip=True, symlinks=sys.platform != "win32").create(trial.folder)
        script = Path(folder) / "try_packages.py"
        shutil.copyfile(Path(__file__).with_name("try_packages.py"), script)
        pip = ("-m", "pip", "--disable-pip-version-check")
        steps: list[list[str | Path]] = [
            [*pip, "install", "--quiet", *local],
            [*pip, "check"],
            [script],
        ]
        for arguments in steps:
            status = trial.run(arguments, folder=Path(folder), seconds_max=TRIAL_SECONDS_MAX)
            if status != 0:
                return status
    return 0
