"""Every cut and flipped byte of small files: a `ValueError` or some value, and nothing else.

`SCX_FUZZ_ROUNDS` sets how many changes are tried at each position (1 by default), `SCX_FUZZ_SEED`
which ones.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from metadata_arrow import labels, shard, text

from scx_core.metadata import (
    column_names,
    decode_embedding,
    decode_frame,
    decode_frame_shards,
    decode_pairwise,
    decode_uns,
    encode_embedding,
    encode_frame,
    encode_pairwise,
    encode_uns,
    read_column,
    read_index,
)

ROUNDS = int(os.environ.get("SCX_FUZZ_ROUNDS", "1"))
SEED = int(os.environ.get("SCX_FUZZ_SEED", str(random.SystemRandom().randrange(2**32))))


def small_frame() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "numbers": np.arange(4),
            "flags": [True, False, True, False],
            "text": ["a", "bb", "", "é"],
            "gaps": pd.Series(["a", None, "b", np.nan], dtype=object),
            "labels": pd.Categorical(["x", "y", None, "x"], ordered=True),
            "nullable": pd.array([1, None, 2, 3], dtype="Int64"),
            "times": pd.date_range("2020", periods=4, tz="UTC"),
            "complex": np.zeros(4, dtype=complex),
            "arrow": pd.array(["a", None, "b", "c"], dtype="string[pyarrow]"),
        },
        index=list("abcd"),
    ).set_axis(["a", "b", "c", "d"])


def read_all_columns(content: bytes) -> Any:
    for name in column_names(content):
        try:
            read_column(content, name)
        except OverflowError:  # beside a gap, a flipped bit can make a number too large
            continue
    return read_index(content)


def read_shards(content: bytes) -> Any:
    other = shard(1, 2, 3, {"_index": text("c"), "c": labels([0], ["y"])})
    return decode_frame_shards([content, other], copy=True)


SMALL_UNS = {
    "records": np.zeros(2, dtype=[("a", "i4"), ("b", "O")]),
    "frame": small_frame().iloc[:1, :2],
    "nested": (1, [2, {"__scx__": 3}], b"x", 2**70, float("nan")),
    "matrix": sp.csr_matrix(np.eye(2)),
    "text": np.array(["x"]),
    "moment": pd.Timestamp("2020"),
}

FILES: dict[str, tuple[Callable[[], bytes], Callable[[bytes], Any]]] = {
    "frame": (lambda: encode_frame(small_frame()), decode_frame),
    "columns": (lambda: encode_frame(small_frame()), read_all_columns),
    "shard": (
        lambda: shard(0, 0, 3, {"_index": text("a", "b"), "c": labels([0, None], ["x"])}),
        read_shards,
    ),
    "dense embedding": (
        lambda: encode_embedding(np.arange(8.0).reshape(4, 2), 4),
        lambda content: decode_embedding(content, n_rows=4),
    ),
    "text embedding": (
        lambda: encode_embedding(np.array([["a", "b"]]), 1),
        lambda content: decode_embedding(content, n_rows=1),
    ),
    "sparse embedding": (
        lambda: encode_embedding(sp.csr_array(np.eye(4, 3)), 4),
        lambda content: decode_embedding(content, n_rows=4),
    ),
    "pairwise": (
        lambda: encode_pairwise(sp.csc_matrix(np.eye(4)), 4),
        lambda content: decode_pairwise(content, n=4),
    ),
    "dense pairwise": (
        lambda: encode_pairwise(np.eye(4), 4),
        lambda content: decode_pairwise(content, n=4),
    ),
    "uns": (lambda: encode_uns(SMALL_UNS, strict=True), decode_uns),
}


def survives(decode: Callable[[bytes], Any], content: bytes) -> bool:
    """Whether a value came back; any error but `ValueError` goes through."""
    try:
        decode(content)
    except ValueError:
        return False
    return True


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", list(FILES))
def test_cut_at_every_position(name: str) -> None:
    make, decode = FILES[name]
    content = make()
    assert survives(decode, content)
    for length in range(len(content)):
        assert not survives(decode, content[:length]), length


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", list(FILES))
def test_every_byte_changed(name: str) -> None:
    make, decode = FILES[name]
    content = make()
    print(f"SCX_FUZZ_SEED={SEED}")
    generator = random.Random(f"{SEED} {name}")
    refused = 0
    for position in range(len(content)):
        for _ in range(ROUNDS):
            change = generator.choice([1 << generator.randrange(8), generator.randrange(1, 256)])
            changed = bytearray(content)
            changed[position] ^= change
            refused += not survives(decode, bytes(changed))
    assert refused > 0  # the changes reach what the decoder checks


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", list(FILES))
def test_several_bytes_changed(name: str) -> None:
    make, decode = FILES[name]
    content = make()
    print(f"SCX_FUZZ_SEED={SEED}")
    generator = random.Random(f"{SEED} several {name}")
    for _ in range(200 * ROUNDS):
        changed = bytearray(content)
        for _ in range(generator.randrange(2, 6)):
            changed[generator.randrange(len(content))] = generator.choice([0, 1, 127, 128, 255])
        survives(decode, bytes(changed))


def test_the_fuzzer_sees_other_errors() -> None:
    with pytest.raises(KeyError):
        survives(lambda content: {}[content], b"")


@pytest.mark.parametrize("name", list(FILES))
def test_bytes_that_are_no_file(name: str) -> None:
    decode = FILES[name][1]
    for content in (b"", b"\0" * 100, b"ARROW1\0\0", b"ARROW1\0\0" * 9 + b"ARROW1", b"{}x"):
        assert not survives(decode, content)
