"""Made tests/golden/rowpack_v1.hex; kept to show how. The file itself is never made again.

python tests/golden/make_rowpack_v1.py OUT.hex
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import anndata as ad
import numpy as np

import scx_core


def matrix() -> np.ndarray:
    """8 cells x 40 genes: a row for each way of columns and values."""
    x = np.zeros((8, 40), np.float32)
    x[1, [0, 3, 4, 17, 39]] = [1, 2, 1, 900, 1]  # Elias-Fano, escapes in two tiers
    x[2, 5:25] = 1  # a run, nothing but ones
    x[3, ::2] = 3  # a bitmap
    x[3, 1] = 7
    x[4, [1, 2, 8, 9, 30]] = np.log1p(np.array([1, 1, 2, 1, 2], np.float32))  # a palette
    x[5, [7, 8, 20]] = [-0.25, 1.5, 0.125]  # decimals, a negative
    x[6, [2, 31]] = [np.pi, -0.0]  # raw values
    x[7, :] = np.arange(40) % 3 + 1  # a full row
    return x


def hex_lines(content: bytes, parts: list[tuple[int, str]]) -> list[str]:
    """Offset and bytes; lines of zeros are left out, sections have a comment."""
    lines = [f"# {len(content)} bytes; what is not listed is zero"]
    names = dict(parts)
    for start in range(0, len(content), 8):
        if start in names:
            lines.append(f"# {start}: {names[start]}")
        piece = content[start : start + 8]
        if any(piece):
            lines.append(f"{start} {piece.hex()}")
    return lines


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "golden.scx"
        adata = ad.AnnData(matrix())
        adata.obs_names = [f"cell{i}" for i in range(8)]
        adata.var_names = [f"gene{i}" for i in range(40)]
        scx_core.from_anndata(adata, path, shard_size=5, progress=False)
        with scx_core.open(path) as experiment:
            parts = [(s["offset"], s["name"]) for s in experiment.sections() if "X_" in s["name"]]
        content = path.read_bytes()
    Path(sys.argv[1]).write_text("\n".join(hex_lines(content, parts)) + "\n")


if __name__ == "__main__":
    main()
