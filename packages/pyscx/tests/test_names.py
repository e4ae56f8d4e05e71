"""Each published name is the very object of the package that provides it."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

import pyscx

NAMES = sorted(set(pyscx.__all__) - {"__version__"})
# of scx_tokenize, which are no kernels
JOBS = {"__version__", "GeneMedians", "medians", "run"}


@pytest.mark.parametrize("name", NAMES)
def test_name_is_the_providers_object(name: str) -> None:
    module = importlib.import_module(pyscx._PROVIDERS[name][0])
    assert getattr(pyscx, name) is getattr(module, name)


def test_every_name_has_a_provider_and_is_listed() -> None:
    assert sorted(pyscx._PROVIDERS) == NAMES
    assert set(NAMES) <= set(dir(pyscx))


def test_the_readme_lists_every_name() -> None:
    text = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    listed: dict[str, str] = {}
    for row in re.findall(r"^\| (`.*) \| (`.*) \|$", text, re.MULTILINE):
        names, provider = (re.findall(r"`([\w.]+)[`\[]", cell) for cell in row)
        listed |= dict.fromkeys(names, provider[0])
    modules = {"tokenize": "scx_tokenize", "scx_integrations.scvi": "scx_train.lightning"}
    assert set(modules) <= set(listed)
    assert {name: listed[name] for name in listed if name in NAMES} == {
        name: pyscx._PROVIDERS[name][0] for name in NAMES
    }
    for name, provider in modules.items():
        assert listed[name] == provider


def test_unknown_name() -> None:
    with pytest.raises(AttributeError, match=r"has no 'plot'; it has .*CorruptFileError, .*"):
        pyscx.plot  # noqa: B018
    assert not hasattr(pyscx, "plot")


def test_missing_package_is_named() -> None:
    code = (
        "import sys\n"
        "sys.modules['scx_train'] = None\n"  # as if it were not installed
        "import pyscx\n"
        "assert not hasattr(pyscx, 'TrainingDataset')\n"
        "pyscx.TrainingDataset\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 1
    assert result.stderr.splitlines()[-1] == (
        "AttributeError: pyscx.TrainingDataset comes with scx-train, which is not installed: "
        f'python -m pip install "scx-train=={pyscx.__version__}"'
    )


def test_what_a_provider_lacks_is_not_taken_for_the_provider() -> None:
    code = (
        "import sys, types\n"
        "import importlib.abc, importlib.machinery\n"
        "class Broken(importlib.abc.MetaPathFinder, importlib.abc.Loader):\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name == 'scx_train':\n"
        "            return importlib.machinery.ModuleSpec(name, self)\n"
        "    def create_module(self, spec): return None\n"
        "    def exec_module(self, module): import a_module_that_is_missing\n"
        "sys.meta_path.insert(0, Broken())\n"
        "import pyscx\n"
        "pyscx.TrainingDataset\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stderr.splitlines()[-1] == (
        "ModuleNotFoundError: No module named 'a_module_that_is_missing'"
    )


def test_tokenize_is_a_module_of_the_kernels() -> None:
    import scx_tokenize

    code = "import pyscx; assert pyscx.tokenize.CONTRACT_VERSION == 1; import pyscx.tokenize"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
    assert "tokenize" in dir(pyscx)
    module = importlib.import_module("pyscx.tokenize")
    assert set(module.__all__) == set(scx_tokenize.__all__) - JOBS
    for name in module.__all__:
        assert getattr(module, name) is getattr(scx_tokenize, name)


def test_missing_tokenize_is_named() -> None:
    code = "import sys\nsys.modules['scx_tokenize'] = None\nimport pyscx\n"
    for use, kind in (
        ("pyscx.tokenize", "AttributeError"),
        ("import pyscx.tokenize", "ModuleNotFoundError"),
    ):
        result = subprocess.run([sys.executable, "-c", code + use], capture_output=True, text=True)
        last = result.stderr.splitlines()[-1]
        assert last.startswith(f"{kind}: pyscx.tokenize comes with scx-tokenize"), result.stderr
