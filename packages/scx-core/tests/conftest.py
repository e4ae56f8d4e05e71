"""What all tests of scx-core share."""

from __future__ import annotations

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Know the mark that anndata's test helpers put on their own cases."""
    config.addinivalue_line("markers", "gpu: set by anndata.tests.helpers")
