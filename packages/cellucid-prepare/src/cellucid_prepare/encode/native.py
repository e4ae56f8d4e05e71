"""Chunks encoded by the native library: zlib and gzip streams, and frames of c-blosc."""

from __future__ import annotations

import enum
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from scx_core.native import binding


class Wrapping(enum.IntEnum):
    """What is around a DEFLATE stream; the numbers of scx.h."""

    ZLIB = 0
    GZIP = 1
    BLOSC = 2


def encoded_chunks(
    values: npt.NDArray[Any], chunk_elements: int, *, shuffle: bool, wrapping: Wrapping
) -> list[bytes | None]:
    """The chunks of a contiguous array, the last one filled up with zeros.

    None for a chunk that needs a general encoder: one of values that are not shuffled, of which
    too many are different.

    Raises
    ------
    ValueError
        The values have another width than 1, 2, 4 or 8 bytes.
    """
    flat = values.reshape(-1)
    encoding = _encoding(flat.itemsize, chunk_elements, wrapping, shuffle=shuffle)
    bound = _bound(flat.itemsize, chunk_elements, wrapping, shuffle=shuffle)
    n_chunks = -(-len(flat) // chunk_elements)
    out = np.empty(n_chunks * bound, np.uint8)
    lengths = np.zeros(n_chunks, np.uint64)
    binding.call(
        "scx_chunks_encode",
        encoding,
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


def _encoding(width: int, chunk_elements: int, wrapping: Wrapping, *, shuffle: bool) -> Any:
    return binding.new_struct(
        "scx_chunk_encoding",
        element_bytes=width,
        is_shuffled=int(shuffle),
        wrapping=int(wrapping),
        chunk_elements=chunk_elements,
    )


@lru_cache(maxsize=64)
def _bound(width: int, chunk_elements: int, wrapping: Wrapping, *, shuffle: bool) -> int:
    """How many bytes a chunk may take; asked for once: every call ends with a wait for the GIL."""
    bound = binding.native().ffi.new("uint64_t *")
    encoding = _encoding(width, chunk_elements, wrapping, shuffle=shuffle)
    binding.call("scx_chunks_bound", encoding, bound)
    return int(bound[0])
