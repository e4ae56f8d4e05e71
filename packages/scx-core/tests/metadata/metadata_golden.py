"""What the golden files of version 1 hold, and how they were written.

`python metadata_golden.py` writes those that are not there yet; files that are there are never
touched, since later versions must go on reading them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp

from scx_core.metadata import (
    decode_embedding,
    decode_frame,
    decode_pairwise,
    decode_uns,
    encode_embedding,
    encode_frame,
    encode_pairwise,
    encode_uns,
)

FOLDER = Path(__file__).parent / "golden"
BYTES_PER_LINE = 32


def frame() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "sample": ["s1", "s2", "s1"],
            "cell_type": pd.Categorical(["B", None, "T"], categories=["T", "NK", "B"]),
            "stage": pd.Categorical([1, 2, 2], categories=[2, 1], ordered=True),
            "n_genes": np.array([3, 2**40, -1]),
            "score": np.array([0.5, np.nan, -0.0], dtype=np.float32),
            "doublet": pd.array([True, None, False], dtype="boolean"),
            "count": pd.array([1, None, 2**53 + 1], dtype="Int64"),
            "_index": [True, False, True],
            "when": np.array(["2020-01-01", "NaT", "2021-01-01"], dtype="M8[s]"),
        },
        index=pd.Index(["AAAC-1", "AAAG-1", "é"], name="barcode"),
    )


def embedding() -> np.ndarray:
    return np.array([[1.5, -2.0], [0.0, 3.25], [-0.0, 1e30]], dtype=np.float32)


def pairwise() -> sp.csr_matrix:
    return sp.csr_matrix(np.array([[0, 0.5, 0], [0.5, 0, 2], [0, 2, 0]], dtype=np.float32))


def uns() -> dict[str, Any]:
    return {
        "neighbors": {"params": {"n_neighbors": 15, "metric": "euclidean", "knn": True}},
        "colors": np.array(["#1f77b4", "#ff7f0e"], dtype=object),
        "variance": np.array([0.5, 0.25]),
        "none": [None, {"x": (1, b"\0")}],
        "big": 2**70,
        "scalar": np.float32(0.1),
        "ranks": np.rec.array([("a", 1.0)], dtype=[("names", "O"), ("scores", "<f4")]),
        "graph": pairwise(),
        "table": pd.DataFrame({0: [1, 2], 1: ["a", "b"]}, columns=pd.Index([0, 1])),
    }


def as_hex(content: bytes, title: str) -> str:
    """Bytes as lines of offset and hex; a reader needs no more than the part before the comment."""
    lines = [f"# {title}"]
    for start in range(0, len(content), BYTES_PER_LINE):
        part = content[start : start + BYTES_PER_LINE]
        readable = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        lines.append(f"{part.hex()}  # {start:5d} {readable}")
    return "\n".join(lines) + "\n"


def from_hex(text: str) -> bytes:
    return b"".join(bytes.fromhex(line.partition("#")[0]) for line in text.splitlines())


GOLDEN: dict[str, tuple[Callable[[], Any], Callable[[Any], bytes], Callable[[bytes], Any]]] = {
    "frame_v1": (frame, encode_frame, decode_frame),
    "embedding_v1": (embedding, lambda value: encode_embedding(value, 3), decode_embedding),
    "pairwise_v1": (pairwise, lambda value: encode_pairwise(value, 3), decode_pairwise),
    "uns_v1": (uns, lambda value: encode_uns(value, strict=True), decode_uns),
}


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, (make, encode, _) in GOLDEN.items():
        path = FOLDER / f"{name}.hex"
        if not path.exists():
            path.write_text(as_hex(encode(make()), name), encoding="utf-8")


if __name__ == "__main__":
    main()
