"""Names of the codecs that a shard may have."""

from __future__ import annotations

from typing import Literal, TypeAlias

Codec: TypeAlias = Literal["auto", "rowpack", "none"]
"""What files can be written with; "auto" takes the best one."""

CODEC_NAMES: dict[int, str] = {
    0: "none",
    1: "scx1",
    2: "zstd",
    3: "lz4",
    4: "pcodec",
    5: "shuffle-delta-zstd",
    64: "rowpack",
}


def codec_name(number: int) -> str:
    """The name of a codec; `codec 99` for one that this version does not know."""
    return CODEC_NAMES.get(number, f"codec {number}")
