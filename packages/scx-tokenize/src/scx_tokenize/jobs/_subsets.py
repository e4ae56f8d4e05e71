"""Cells with more tokens than there is room for: which ones stay."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ._ragged import Tokens

# "SCXTKCUT" as a big-endian number: the draws' tag, beside SCXTKSMP and SCXTKBIN of the kernels
TAG = 0x53435854_4B435554
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
FIRST = np.uint64(0xBF58476D1CE4E5B9)
SECOND = np.uint64(0x94D049BB133111EB)

Words = npt.NDArray[np.uint64]


def at_most(
    tokens: Tokens, width: int, *, seed: int, file: int, rows: npt.NDArray[np.int64]
) -> Tokens:
    """Cells with at most `width` tokens, drawn without replacement, in the order they had.

    With m = splitmix64 (its output for a state), a cell's key is m(m(m(m(seed) ^ tag) ^ file) ^
    row); the tokens with the `width` smallest m(key ^ id) stay. So they follow from the cell alone.
    """
    if not np.any(tokens.lengths > width):
        return tokens
    with np.errstate(over="ignore"):
        start = _mixed(_mixed(_mixed(_words(seed)) ^ _words(TAG)) ^ _words(file))
        keys = _mixed(start ^ rows.astype(np.uint64))
        draws = _mixed(np.repeat(keys, tokens.lengths) ^ tokens.ids.astype(np.uint64))
    kept = np.ones(len(tokens.ids), dtype=np.bool_)
    ends = np.cumsum(tokens.lengths)
    for cell in np.flatnonzero(tokens.lengths > width):
        first, end = int(ends[cell] - tokens.lengths[cell]), int(ends[cell])
        dropped = np.argsort(draws[first:end], kind="stable")[width:]
        kept[first + dropped] = False
    values = None if tokens.values is None else tokens.values[kept]
    return Tokens(tokens.ids[kept], np.minimum(tokens.lengths, width), values)


def _words(number: int) -> Words:
    return np.array([number], dtype=np.uint64)


def _mixed(state: Words) -> Words:
    """The output of splitmix64 for each state."""
    word = state + GOLDEN
    word = (word ^ (word >> np.uint64(30))) * FIRST
    word = (word ^ (word >> np.uint64(27))) * SECOND
    return word ^ (word >> np.uint64(31))
