"""The tests that stand in a file of scx-train, for the pages of promises that name them."""

from __future__ import annotations

import ast
from functools import cache

from checkout import ROOT

FOLDER = ROOT / "packages/scx-train/tests"


@cache
def functions_in(file: str) -> frozenset[str]:
    tree = ast.parse((FOLDER / file).read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))
