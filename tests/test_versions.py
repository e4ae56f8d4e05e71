"""All packages have one version, pin each other to it, and refuse any other."""

from __future__ import annotations

import importlib

import pytest

import scx_core
from checkout import PACKAGES, project_table, run_python, zon_field

COMPANIONS = [name for name in PACKAGES if name != "scx_core"]


@pytest.mark.parametrize("name", PACKAGES)
def test_version_is_that_of_scx_core(name: str) -> None:
    assert importlib.import_module(name).__version__ == scx_core.__version__


def test_native_library_has_the_same_version() -> None:
    assert zon_field("version") == scx_core.__version__


@pytest.mark.parametrize("name", COMPANIONS)
def test_requirement_pins_scx_core(name: str) -> None:
    requirements = project_table(PACKAGES[name])["dependencies"]
    assert f"scx-core=={scx_core.__version__}" in requirements


def test_extra_pins_scx_train() -> None:
    extras = project_table("pyscx")["optional-dependencies"]
    assert extras["train"] == [f"scx-train=={scx_core.__version__}"]


@pytest.mark.parametrize("name", COMPANIONS)
def test_another_scx_core_is_refused(name: str) -> None:
    result = run_python(
        f"import scx_core._version\nscx_core._version.__version__ = '0.0.7'\nimport {name}"
    )
    assert result.returncode == 1
    message = result.stderr.splitlines()[-1]
    package, version = project_table(PACKAGES[name])["name"], scx_core.__version__
    assert message.startswith(f"ImportError: {package} {version} needs scx-core {version}")
    assert "but scx-core 0.0.7 is loaded from" in message
    assert f'python -m pip install "{package}=={version}" "scx-core=={version}"' in message


def test_equal_versions_pass() -> None:
    scx_core.require_version("scx-train", scx_core.__version__)
