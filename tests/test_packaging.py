"""The source distribution holds everything, and a wheel is built from it with nothing else."""

from __future__ import annotations

import importlib.util
import os
import platform
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

import scx_core
from checkout import PACKAGES, ROOT, project_table, zon_field

# Compiling all levels takes about a minute of one CPU; these bounds are for a busy machine.
BUILD_SECONDS_MAX = 840
pytestmark = pytest.mark.timeout(900)

SOURCE_FOLDER = f"scx_core-{scx_core.__version__}"
LIBRARY = {"linux": "libscx.so", "darwin": "libscx.dylib", "win32": "scx.dll"}[sys.platform]


def build(project: Path, kind: str, destination: Path) -> Path:
    """Build with the build backend that is installed here; no other package is fetched."""
    result = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(destination)],
        cwd=project,
        capture_output=True,
        text=True,
        timeout=BUILD_SECONDS_MAX,
        env={k: v for k, v in os.environ.items() if k != "SCX_BUILD_TARGET"},
    )
    assert result.returncode == 0, result.stdout + result.stderr
    (built,) = destination.iterdir()
    return built


@pytest.fixture(scope="module")
def unpacked_sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    sdist = build(ROOT / "packages/scx-core", "sdist", tmp_path_factory.mktemp("sdist"))
    folder = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    return folder / SOURCE_FOLDER


def files_below(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_sdist_holds_the_zig_sources_as_files(unpacked_sdist: Path) -> None:
    assert files_below(unpacked_sdist / "zig") == files_below(ROOT / "zig")
    for name in ("build.zig", "build.zig.zon"):
        assert (unpacked_sdist / name).read_bytes() == (ROOT / name).read_bytes()


def test_sdist_holds_the_package_but_nothing_built(unpacked_sdist: Path) -> None:
    held = files_below(unpacked_sdist)
    for name in ("LICENSE", "README.md", "hatch_build.py", "pyproject.toml"):
        assert name in held
    assert "src/scx_core/py.typed" in held
    assert [name for name in held if "/_lib/" in name or name.endswith((".so", ".pyc"))] == []


@pytest.fixture(scope="module")
def wheel(unpacked_sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(unpacked_sdist, "wheel", tmp_path_factory.mktemp("wheel"))


def test_wheel_from_the_sdist_has_the_platforms_tag(wheel: Path) -> None:
    *_, python_tag, abi_tag, platform_tag = wheel.stem.split("-")
    assert (python_tag, abi_tag) == ("py3", "none")
    if sys.platform == "linux":
        assert platform_tag == sysconfig.get_platform().replace("-", "_")
    else:
        assert platform_tag.endswith(platform.machine().lower())


def test_wheel_from_the_sdist_holds_library_and_header(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        header = archive.read("scx_core/_lib/scx.h")
        metadata = archive.read(f"{SOURCE_FOLDER}.dist-info/WHEEL").decode()
    assert header == (ROOT / "zig/scx.h").read_bytes()
    assert sorted(name for name in names if "/_lib/" in name) == sorted(
        [f"scx_core/_lib/{LIBRARY}", "scx_core/_lib/scx.h"]
    )
    assert "Root-Is-Purelib: false" in metadata.splitlines()
    assert f"{SOURCE_FOLDER}.dist-info/licenses/LICENSE" in names
    assert [name for name in names if not name.startswith(("scx_core/", "scx_core-"))] == []


def test_library_of_the_wheel_loads(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extract(f"scx_core/_lib/{LIBRARY}", tmp_path)
    code = f"import ctypes; print(ctypes.CDLL({str(tmp_path / 'scx_core/_lib' / LIBRARY)!r})"
    code += ".scx_abi_version())"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert int(result.stdout) >= 1, result.stderr


@pytest.mark.parametrize("folder", PACKAGES.values())
def test_licence_is_the_projects(folder: str) -> None:
    assert (ROOT / "packages" / folder / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    table = project_table(folder)
    assert (table["license"], table["license-files"]) == ("BSD-3-Clause", ["LICENSE"])


def test_no_package_requires_torch() -> None:
    for folder in PACKAGES.values():
        required = project_table(folder)["dependencies"]
        assert [line for line in required if line.startswith(("torch", "lightning"))] == []


@pytest.fixture(scope="module")
def hook() -> ModuleType:
    path = ROOT / "packages/scx-core/hatch_build.py"
    spec = importlib.util.spec_from_file_location("hatch_build", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_build_requires_the_pinned_compiler(hook: ModuleType) -> None:
    assert hook.zig_version(ROOT) == zon_field("minimum_zig_version")
    frontend_asks = subprocess.run(
        [
            sys.executable,
            "-c",
            "from hatchling.build import get_requires_for_build_wheel as ask; print(ask())",
        ],
        cwd=ROOT / "packages/scx-core",
        capture_output=True,
        text=True,
    )
    assert frontend_asks.stdout.strip() == f"['ziglang=={zon_field('minimum_zig_version')}']"


@pytest.mark.parametrize(
    ("target", "tag"),
    [
        ("x86_64-linux-gnu.2.28", "manylinux_2_28_x86_64"),
        ("aarch64-linux-gnu.2.28", "manylinux_2_28_aarch64"),
        ("x86_64-macos.11.0", "macosx_11_0_x86_64"),
        ("aarch64-macos.11.0", "macosx_11_0_arm64"),
        ("x86_64-windows-gnu", "win_amd64"),
    ],
)
def test_cross_built_wheels_are_tagged_for_their_target(
    hook: ModuleType, monkeypatch: pytest.MonkeyPatch, target: str, tag: str
) -> None:
    monkeypatch.setenv("SCX_BUILD_TARGET", target)
    assert hook.build_target() == (target, tag)


def test_unknown_target_is_refused_with_the_choice(
    hook: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCX_BUILD_TARGET", "riscv64-linux-gnu")
    with pytest.raises(ValueError, match=r"'riscv64-linux-gnu'.*x86_64-linux-gnu\.2\.28, "):
        hook.build_target()


@pytest.mark.parametrize(
    ("system", "machine", "expected"),
    [
        ("darwin", "arm64", ("aarch64-macos.11.0", "macosx_11_0_arm64")),
        ("darwin", "x86_64", ("x86_64-macos.11.0", "macosx_11_0_x86_64")),
        ("win32", "AMD64", ("x86_64-windows-gnu", "win_amd64")),
    ],
)
def test_native_target_follows_the_interpreter(
    hook: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    system: str,
    machine: str,
    expected: tuple[str, str],
) -> None:
    monkeypatch.delenv("SCX_BUILD_TARGET", raising=False)
    monkeypatch.setattr(hook.sys, "platform", system)
    monkeypatch.setattr(hook.platform, "machine", lambda: machine)
    assert hook.build_target() == expected


def test_missing_sources_are_named(
    hook: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(hook, "PACKAGE_ROOT", tmp_path / "a" / "b")
    with pytest.raises(FileNotFoundError, match=r"build\.zig, build\.zig\.zon, zig.*full checkout"):
        hook.native_source_root()
