"""Importing a package is quick because it loads nothing large."""

from __future__ import annotations

import json

import pytest

from checkout import PACKAGES, run_python

HEAVY = {
    "anndata",
    "h5py",
    "lightning",
    "matplotlib",
    "mudata",
    "numba",
    "pandas",
    "pyarrow",
    "pytorch_lightning",
    "scanpy",
    "scipy.sparse",
    "torch",
    "tqdm",
    "zarr",
}


def modules_after(code: str) -> set[str]:
    result = run_python(f"import sys, json\n{code}\nprint(json.dumps(sorted(sys.modules)))")
    assert result.returncode == 0, result.stderr
    return set(json.loads(result.stdout.splitlines()[-1]))


@pytest.mark.parametrize("name", PACKAGES)
def test_import_loads_nothing_large(name: str) -> None:
    assert modules_after(f"import {name}") & HEAVY == set()


def test_the_listing_sees_what_is_loaded() -> None:
    assert {"pandas"} == modules_after("import pandas") & {"pandas", "torch"}


@pytest.mark.parametrize("name", [name for name in PACKAGES if name != "scx_core"])
def test_companions_do_not_load_each_other(name: str) -> None:
    companions = set(PACKAGES) - {"scx_core", name}
    assert modules_after(f"import {name}") & companions == set()


def test_scx_core_loads_no_companion() -> None:
    assert modules_after("import scx_core") & set(PACKAGES) == {"scx_core"}
