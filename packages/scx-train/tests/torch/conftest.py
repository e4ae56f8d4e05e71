"""These tests need torch, Lightning, scvi-tools and torchdata, and are left out without them."""

from __future__ import annotations

import importlib.util

NEEDED = ("lightning", "scvi", "torch", "torchdata")

if any(importlib.util.find_spec(name) is None for name in NEEDED):
    collect_ignore_glob = ["test_*.py"]
