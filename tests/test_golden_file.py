"""A file whose bytes are checked in still opens, and holds what it held when it was made.

The expected values stand here, written out; they are not computed by the code that is tested.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

import scx_core

GOLDEN = Path(__file__).parent / "golden" / "rowpack_v1.hex"

LOG_2 = np.float32(0.6931472)
LOG_3 = np.float32(1.0986123)
ROWS: list[dict[int, float]] = [
    {},
    {0: 1, 3: 2, 4: 1, 17: 900, 39: 1},
    dict.fromkeys(range(5, 25), 1),
    {1: 7, **dict.fromkeys(range(0, 40, 2), 3)},
    {1: LOG_2, 2: LOG_2, 8: LOG_3, 9: LOG_2, 30: LOG_3},
    {7: -0.25, 8: 1.5, 20: 0.125},
    {2: np.float32(math.pi), 31: -0.0},
    {column: column % 3 + 1 for column in range(40)},
]


def golden_bytes() -> bytes:
    lines = GOLDEN.read_text().splitlines()
    content = bytearray(int(lines[0].split()[1]))
    for line in lines:
        if not line.startswith("#"):
            offset, piece = line.split()
            content[int(offset) : int(offset) + len(piece) // 2] = bytes.fromhex(piece)
    return bytes(content)


def test_the_golden_file(tmp_path):
    path = tmp_path / "golden.scx"
    path.write_bytes(golden_bytes())
    with scx_core.open(path) as experiment:
        assert experiment.shape == (8, 40)
        assert list(experiment.obs_names) == [f"cell{i}" for i in range(8)]
        assert list(experiment.var_names) == [f"gene{i}" for i in range(40)]
        stored = experiment.gather_rows(np.arange(8))
        assert all(ok for _, ok in experiment.validate(deep=True))
    assert stored.dtype == np.float32
    for row, expected in enumerate(ROWS):
        start, stop = stored.indptr[row], stored.indptr[row + 1]
        columns = sorted(expected)
        assert stored.indices[start:stop].tolist() == columns
        values = np.array([expected[column] for column in columns], np.float32)
        assert stored.data[start:stop].tobytes() == values.tobytes()  # bit for bit, -0.0 too
