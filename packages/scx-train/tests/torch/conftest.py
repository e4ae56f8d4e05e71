"""These tests need torch, Lightning, scvi-tools and torchdata, and are left out without them."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

import pytest

NEEDED = ("lightning", "scvi", "torch", "torchdata")

if any(importlib.util.find_spec(name) is None for name in NEEDED):
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> Iterator[None]:
    """Models as small as those of the tests only wait for each other's threads."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")  # of processes that tests start
        yield
    torch.set_num_threads(before)
