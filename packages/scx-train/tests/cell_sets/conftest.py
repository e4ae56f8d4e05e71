"""The references lie beside the tests."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from cell_set_files import MakeCollection, collection_maker


@pytest.fixture
def make_collection(tmp_path: Path) -> MakeCollection:
    """Makes files of counts."""
    return collection_maker(tmp_path)
