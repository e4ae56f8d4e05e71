"""The codecs of the output: DEFLATE in its three wrappers, and text.

Numbers are encoded by the native library, which looks for repeats in byte planes and between whole
values; text and values that are nearly all different by libdeflate.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import deflate
import numpy as np
import numpy.typing as npt

from cellucid_prepare.encode.native import Wrapping, encoded_chunks

LEVEL = 6


def padded(values: npt.NDArray[Any], chunks: tuple[int, ...]) -> npt.NDArray[Any]:
    """A whole chunk: what it lacks at the end of an axis is zero."""
    if values.shape == chunks:
        return np.ascontiguousarray(values)
    whole = np.zeros(chunks, values.dtype)
    whole[tuple(slice(0, length) for length in values.shape)] = values
    return whole


def little_endian(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The values in the byte order of all containers."""
    return np.ascontiguousarray(values, values.dtype.newbyteorder("<"))


def chunk_streams(
    values: npt.NDArray[Any], chunk_elements: int, *, shuffle: bool, wrapping: Wrapping
) -> list[bytes]:
    """The stored form of consecutive chunks of numbers, the last one filled up with zeros."""
    flat = little_endian(values).reshape(-1)
    streams = encoded_chunks(flat, chunk_elements, shuffle=shuffle, wrapping=wrapping)
    return [
        _general(flat[number * chunk_elements :][:chunk_elements], chunk_elements, wrapping)
        if stream is None
        else stream
        for number, stream in enumerate(streams)
    ]


def _general(values: npt.NDArray[Any], chunk_elements: int, wrapping: Wrapping) -> bytes:
    """A chunk of many different values as they are."""
    plain = padded(values, (chunk_elements,)).view(np.uint8)
    compress = zlib_bytes if wrapping is Wrapping.ZLIB else gzip_bytes
    return compress(plain)


def zlib_bytes(plain: Any) -> bytes:
    """A zlib stream of anything."""
    return bytes(deflate.zlib_compress(plain, LEVEL))


def gzip_bytes(plain: Any) -> bytes:
    """A gzip stream without name and time."""
    return bytes(deflate.gzip_compress(plain, LEVEL))


def text_chunk(values: Sequence[str], chunk: int) -> bytes:
    """Texts behind their lengths, as the vlen-utf8 codec of Zarr has them, before compression."""
    encoded = [text.encode("utf-8") for text in values]
    encoded += [b""] * (chunk - len(encoded))
    parts = [struct.pack("<I", len(encoded))]
    for item in encoded:
        parts += [struct.pack("<I", len(item)), item]
    return b"".join(parts)
