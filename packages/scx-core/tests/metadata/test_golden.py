"""Files of version 1 as they were written once: they must be read for ever."""

from __future__ import annotations

import pytest
from metadata_golden import FOLDER, GOLDEN, from_hex
from metadata_samples import assert_same

from scx_core.metadata import read_column, read_index


def content(name: str) -> bytes:
    return from_hex((FOLDER / f"{name}.hex").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", list(GOLDEN))
def test_golden_file_is_read(name: str) -> None:
    make, _, decode = GOLDEN[name]
    assert_same(decode(content(name)), make())


def test_golden_columns() -> None:
    frame = content("frame_v1")
    assert read_index(frame).tolist() == ["AAAC-1", "AAAG-1", "é"]
    column = read_column(frame, "cell_type")
    assert isinstance(column, dict)
    assert (column["codes"].tolist(), column["categories"]) == ([2, -1, 0], ["T", "NK", "B"])
