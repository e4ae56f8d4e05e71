"""The codecs of the output: DEFLATE in its three wrappings, and text.

libdeflate encodes, but for values that are not shuffled and of which few are different, as counts
are: those go to the native library.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Sequence
from typing import Any

import deflate
import numpy as np
import numpy.typing as npt

from cellucid_prepare.encode.native import WIDTHS, deflate_streams

LEVEL = 6

# The 16 bytes in front of a frame of c-blosc: versions of format and codec, flags, bytes of an
# element; bytes of the values, of a block, and of the frame.
BLOSC_HEAD = struct.Struct("<BBBBIII")
BLOSC_FORMAT, BLOSC_ZLIB_FORMAT = 2, 1
BLOSC_SHUFFLED, BLOSC_COPIED, BLOSC_UNSPLIT, BLOSC_ZLIB = 0x1, 0x2, 0x10, 3 << 5
# Readers expect a copy of fewer bytes, and one stream, not one for each plane, of fewer elements.
BLOSC_SMALL = 128


class Wrapping(enum.Enum):
    """What is around a DEFLATE stream."""

    ZLIB = enum.auto()
    GZIP = enum.auto()
    BLOSC = enum.auto()
    """A frame of c-blosc, whose values are shuffled."""


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
    chunks = [
        padded(flat[first : first + chunk_elements], (chunk_elements,))
        for first in range(0, len(flat), chunk_elements)
    ]
    if shuffle:
        pack = {Wrapping.ZLIB: zlib_bytes, Wrapping.GZIP: gzip_bytes, Wrapping.BLOSC: blosc_frame}
        return [pack[wrapping](_planes(chunk)) for chunk in chunks]
    if flat.itemsize not in WIDTHS:
        return [_general(chunk, wrapping) for chunk in chunks]
    return [
        _general(chunk, wrapping) if stream is None else _wrapped(stream, chunk, wrapping)
        for chunk, stream in zip(chunks, deflate_streams(flat, chunk_elements), strict=True)
    ]


def _planes(chunk: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """The first bytes of all values, then the second ones, and so on: (bytes, values)."""
    return np.ascontiguousarray(chunk.view(np.uint8).reshape(-1, chunk.itemsize).T)


def _general(chunk: npt.NDArray[Any], wrapping: Wrapping) -> bytes:
    """A chunk of many different values as they are."""
    compress = zlib_bytes if wrapping is Wrapping.ZLIB else gzip_bytes
    return compress(chunk.view(np.uint8))


def _wrapped(stream: bytes, chunk: npt.NDArray[Any], wrapping: Wrapping) -> bytes:
    """A DEFLATE stream with what RFC 1950 or RFC 1952 put around it."""
    plain = chunk.view(np.uint8)
    if wrapping is Wrapping.ZLIB:
        return b"\x78\x9c" + stream + deflate.adler32(plain).to_bytes(4, "big")
    # neither name nor time, and no system
    head = b"\x1f\x8b\x08" + bytes(6) + b"\xff"
    return head + stream + struct.pack("<II", deflate.crc32(plain), plain.size % 2**32)


def zlib_bytes(plain: Any) -> bytes:
    """A zlib stream of anything."""
    return bytes(deflate.zlib_compress(plain, LEVEL))


def gzip_bytes(plain: Any) -> bytes:
    """A gzip stream without name and time."""
    return bytes(deflate.gzip_compress(plain, LEVEL))


def blosc_frame(planes: npt.NDArray[np.uint8]) -> bytes:
    """A frame of c-blosc (format 2) of one block, each plane a zlib stream of its own."""
    width, n_values = planes.shape
    flags = BLOSC_SHUFFLED | BLOSC_ZLIB
    body: list[bytes] = []
    if planes.size >= BLOSC_SMALL:
        is_split = n_values >= BLOSC_SMALL
        flags |= 0 if is_split else BLOSC_UNSPLIT
        body.append(struct.pack("<I", BLOSC_HEAD.size + 4))  # where the block begins
        for part in planes if is_split else [planes.reshape(-1)]:
            stream = zlib_bytes(part)
            if len(stream) >= part.size:
                stream = part.tobytes()  # readers know a copy by its length
            body += [struct.pack("<I", len(stream)), stream]
    if not body or sum(map(len, body)) >= planes.size:
        flags = BLOSC_SHUFFLED | BLOSC_ZLIB | BLOSC_COPIED
        body = [planes.T.tobytes()]  # the values as they were
    length = BLOSC_HEAD.size + sum(map(len, body))
    versions = BLOSC_FORMAT, BLOSC_ZLIB_FORMAT
    return BLOSC_HEAD.pack(*versions, flags, width, planes.size, planes.size, length) + b"".join(
        body
    )


def text_chunk(values: Sequence[str], chunk: int) -> bytes:
    """Texts behind their lengths, as the vlen-utf8 codec of Zarr has them, before compression."""
    encoded = [text.encode("utf-8") for text in values]
    encoded += [b""] * (chunk - len(encoded))
    parts = [struct.pack("<I", len(encoded))]
    for item in encoded:
        parts += [struct.pack("<I", len(item)), item]
    return b"".join(parts)
