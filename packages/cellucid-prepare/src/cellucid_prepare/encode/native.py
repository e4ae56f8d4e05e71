"""DEFLATE streams by the native library, for arrays of which few values are different."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from scx_core.native import binding

WIDTHS = (4, 8)
"""Bytes of the values that can be encoded."""


def deflate_streams(values: npt.NDArray[Any], chunk_elements: int) -> list[bytes | None]:
    """The streams of the chunks of a contiguous array, the last one filled up with zeros.

    Counts repeat one another by whole values, of which there are few: a search among those finds
    more, in less time, than one among bytes. None for a chunk of more than 256 different values,
    which needs a general encoder.

    Raises
    ------
    ValueError
        The values have another width than 4 or 8 bytes.
    """
    flat = values.reshape(-1)
    bound = _bound(flat.itemsize, chunk_elements)
    n_chunks = -(-len(flat) // chunk_elements)
    out = np.empty(n_chunks * bound, np.uint8)
    lengths = np.zeros(n_chunks, np.uint64)
    binding.call(
        "scx_deflate",
        flat.itemsize,
        chunk_elements,
        binding.input_array(flat, flat.dtype, "values"),
        len(flat),
        binding.output_array(out, np.uint8, "out"),
        len(out),
        binding.output_array(lengths, np.uint64, "lengths"),
        n_chunks,
    )
    return [
        out[number * bound : number * bound + int(length)].tobytes() if length else None
        for number, length in enumerate(lengths)
    ]


@lru_cache(maxsize=64)
def _bound(width: int, chunk_elements: int) -> int:
    """How many bytes a chunk may take; asked for once: every call ends with a wait for the GIL."""
    bound = binding.native().ffi.new("uint64_t *")
    binding.call("scx_deflate_bound", width, chunk_elements, bound)
    return int(bound[0])
