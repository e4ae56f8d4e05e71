"""Lists of tokens of several lengths, one after the other."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int32]

CLS_VALUE = 0
PAD_VALUE = -2


@dataclass(frozen=True)
class Tokens:
    """Of a batch of cells.

    Attributes
    ----------
    ids
        int32, the tokens of all cells.
    lengths
        int64, how many each cell has.
    values
        int32 beside `ids`, None where the kernel has none.
    """

    ids: Ints
    lengths: npt.NDArray[np.int64]
    values: Ints | None = None

    @property
    def offsets(self) -> Ints:
        """Where each cell begins, and the end."""
        offsets = np.zeros(len(self.lengths) + 1, dtype=np.int32)
        np.cumsum(self.lengths, out=offsets[1:])
        return offsets


def filled(rows: npt.NDArray[Any], lengths: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The first entries of each row of a matrix, as many as `lengths` says, without gaps."""
    if rows.shape[1] and len(lengths) and int(lengths.min()) == rows.shape[1]:
        return rows.reshape(-1)
    result: npt.NDArray[Any] = rows[np.arange(rows.shape[1]) < lengths[:, None]]
    return result


def framed(tokens: Tokens, cls: int | None, eos: int | None) -> Tokens:
    """With a token in front of each cell and one behind it."""
    n_around = (cls is not None) + (eos is not None)
    if n_around == 0:
        return tokens
    lengths = tokens.lengths + n_around
    ends = np.cumsum(lengths)
    inner = np.ones(int(ends[-1]) if len(ends) else 0, dtype=np.bool_)
    ids = np.empty(len(inner), dtype=np.int32)
    if cls is not None:
        inner[ends - lengths] = False
        ids[ends - lengths] = cls
    if eos is not None:
        inner[ends - 1] = False
        ids[ends - 1] = eos
    ids[inner] = tokens.ids
    values = None
    if tokens.values is not None:
        values = np.full(len(inner), CLS_VALUE, dtype=np.int32)
        values[inner] = tokens.values
    return Tokens(ids, lengths, values)


def padded(tokens: Tokens, width: int, pad: int) -> Tokens:
    """Every cell with `width` tokens; `lengths` still says how many are its own."""
    inner = np.arange(width) < tokens.lengths[:, None]
    ids = np.full(inner.shape, pad, dtype=np.int32)
    ids[inner] = tokens.ids
    if tokens.values is None:
        return replace(tokens, ids=ids.reshape(-1))
    values = np.full(inner.shape, PAD_VALUE, dtype=np.int32)
    values[inner] = tokens.values
    return replace(tokens, ids=ids.reshape(-1), values=values.reshape(-1))
