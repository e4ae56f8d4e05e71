"""Build hook of scx-core: compiles libscx with the Zig compiler that PyPI provides.

No C compiler is needed: the `ziglang` package is a requirement of the build, pinned to the version
in build.zig.zon. The Zig sources stand at the root of a checkout, and inside the package's own
folder in a source distribution.

Run as a script, it builds the library in place, for editable installs; with the argument "targets"
it lists the targets that wheels are published for.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import struct
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKAGE_ROOT = Path(__file__).resolve().parent
SOURCES = ("build.zig", "build.zig.zon", "zig")
TARGET_VARIABLE = "SCX_BUILD_TARGET"

# Zig target -> platform part of the wheel's tag. These are the published wheels.
WHEEL_PLATFORMS = {
    "x86_64-linux-gnu.2.28": "manylinux_2_28_x86_64",
    "aarch64-linux-gnu.2.28": "manylinux_2_28_aarch64",
    "x86_64-macos.11.0": "macosx_11_0_x86_64",
    "aarch64-macos.11.0": "macosx_11_0_arm64",
    "x86_64-windows-gnu": "win_amd64",
}


class NativeLibraryHook(BuildHookInterface):  # type: ignore[type-arg]
    """Puts the library and its header into wheels, the Zig sources into source distributions."""

    def dependencies(self) -> list[str]:
        """Requirements that the build has beside hatchling."""
        if self.target_name != "wheel":
            return []
        return [f"ziglang=={zig_version(native_source_root())}"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add what this build needs; `version` is hatchling's "standard" or "editable"."""
        if self.target_name == "sdist":
            root = native_source_root()
            for name in SOURCES:
                build_data["force_include"][str(root / name)] = name
            return

        target, wheel_platform = build_target()
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{wheel_platform}"
        if version == "editable":
            build_in_place(target)
            return
        self._staging = tempfile.TemporaryDirectory(prefix="scx-native-")
        for path in build_library(target, Path(self._staging.name)):
            build_data["force_include"][str(path)] = f"scx_core/_lib/{path.name}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the files that went into the wheel."""
        staging = getattr(self, "_staging", None)
        if staging is not None:
            staging.cleanup()


def native_source_root() -> Path:
    """The folder that holds build.zig: this one in a source distribution, else the checkout's."""
    candidates = (PACKAGE_ROOT, PACKAGE_ROOT.parent.parent)
    for root in candidates:
        if all((root / name).exists() for name in SOURCES):
            return root
    raise FileNotFoundError(
        f"the Zig sources ({', '.join(SOURCES)}) are in neither of "
        f"{', '.join(map(str, candidates))}; "
        "build scx-core from a full checkout or from its source distribution"
    )


def zig_version(root: Path) -> str:
    """The compiler version that build.zig.zon pins."""
    text = (root / "build.zig.zon").read_text(encoding="utf-8")
    found = re.search(r'^\s*\.minimum_zig_version\s*=\s*"([^"]+)"', text, re.MULTILINE)
    if found is None:
        raise ValueError(f"{root / 'build.zig.zon'} has no .minimum_zig_version")
    return found[1]


def build_target() -> tuple[str | None, str]:
    """The Zig target (None: this machine's) and the platform part of the wheel's tag."""
    target = os.environ.get(TARGET_VARIABLE)
    if target:
        if target not in WHEEL_PLATFORMS:
            raise ValueError(
                f"{TARGET_VARIABLE}={target!r} is not a target that scx-core is built for; "
                f"choose one of {', '.join(WHEEL_PLATFORMS)}"
            )
        return target, WHEEL_PLATFORMS[target]

    if struct.calcsize("P") != 8:
        raise RuntimeError("scx-core needs a 64-bit Python, this one has 32 bits")
    # Here the interpreter decides, not the machine: it may run under emulation.
    machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(
        platform.machine().lower(), platform.machine().lower()
    )
    system = {"darwin": "macos.11.0", "win32": "windows-gnu"}.get(sys.platform)
    if system is None:
        # build.zig fits the library to the libc of this very machine, which a manylinux tag could
        # not promise for others.
        return None, re.sub(r"[-.]", "_", sysconfig.get_platform())
    target = f"{machine}-{system}"
    if target not in WHEEL_PLATFORMS:
        raise RuntimeError(f"scx-core has no native library for {machine} under {sys.platform}")
    return target, WHEEL_PLATFORMS[target]


def build_library(target: str | None, destination: Path) -> list[Path]:
    """Compile the library for `target` into `destination`, and copy its header beside it.

    Files that are there already are replaced whole, never rewritten: a running process may have
    them mapped.
    """
    root = native_source_root()
    destination.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="scx-zig-", dir=destination) as prefix:
        command = [sys.executable, "-m", "ziglang", "build", "--prefix", prefix]
        if target is not None:
            command.append(f"-Dtarget={target}")
        result = subprocess.run(command, cwd=root, stdin=subprocess.DEVNULL)
        if result.returncode != 0:
            raise RuntimeError(
                f"building libscx failed: {' '.join(command)} (in {root}) ended with status "
                f"{result.returncode}; its messages stand above. If the module ziglang is missing: "
                f"python -m pip install ziglang=={zig_version(root)}"
            )
        built = [
            path
            for pattern in ("lib/libscx.so", "lib/libscx.dylib", "bin/scx.dll")
            for path in Path(prefix).glob(pattern)
        ]
        if len(built) != 1:
            raise RuntimeError(f"expected one library from {' '.join(command)}, found {built}")
        header = Path(prefix) / "scx.h"
        shutil.copyfile(root / "zig" / "scx.h", header)
        installed = []
        for path in (built[0], header):
            os.replace(path, destination / path.name)
            installed.append(destination / path.name)
        return installed


def build_in_place(target: str | None = None) -> list[Path]:
    """Build into the source tree, where an editable install looks for the library."""
    destination = PACKAGE_ROOT / "src" / "scx_core" / "_lib"
    # tools/dev.py notes here which sources the library is of; from now on that may be wrong.
    (destination / "sources.sha256").unlink(missing_ok=True)
    return build_library(target, destination)


if __name__ == "__main__":
    if sys.argv[1:] == ["targets"]:
        print(*WHEEL_PLATFORMS, sep="\n")
    else:
        print(*build_in_place(build_target()[0]), sep="\n")
