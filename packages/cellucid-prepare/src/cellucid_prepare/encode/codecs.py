"""The codecs of the output: byte shuffle, DEFLATE in its three wrappers, and text.

DEFLATE streams come from libdeflate. Every reader of zlib and gzip streams takes them.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import deflate
import numpy as np
import numpy.typing as npt

LEVEL = 6


def padded(values: npt.NDArray[Any], chunks: tuple[int, ...]) -> npt.NDArray[Any]:
    """A whole chunk: what it lacks at the end of an axis is zero."""
    if values.shape == chunks:
        return np.ascontiguousarray(values)
    whole = np.zeros(chunks, values.dtype)
    whole[tuple(slice(0, length) for length in values.shape)] = values
    return whole


def shuffled(values: npt.NDArray[Any]) -> bytes:
    """The first bytes of all values, then the second ones, and so on."""
    return raw_bytes(values).reshape(-1, values.dtype.itemsize).T.tobytes()


def raw_bytes(values: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """The bytes of a contiguous array."""
    return np.frombuffer(little_endian(values).data, np.uint8)


def little_endian(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The values in the byte order of all containers."""
    return np.ascontiguousarray(values, values.dtype.newbyteorder("<"))


def zlib_chunk(values: npt.NDArray[Any], *, shuffle: bool) -> bytes:
    """A chunk of HDF5 or Zarr 2."""
    plain = shuffled(values) if shuffle else raw_bytes(values)
    return bytes(deflate.zlib_compress(plain, LEVEL))


def gzip_chunk(values: npt.NDArray[Any]) -> bytes:
    """A chunk of Zarr 3 whose values are not shuffled."""
    return gzip_bytes(raw_bytes(values))


def gzip_bytes(plain: Any) -> bytes:
    """A gzip stream without name and time."""
    return bytes(deflate.gzip_compress(plain, LEVEL))


def blosc_chunk(values: npt.NDArray[Any]) -> bytes:
    """A chunk of Zarr 3 whose values are shuffled: a frame of c-blosc with zlib."""
    from numcodecs import blosc

    return bytes(
        blosc.compress(
            raw_bytes(values).tobytes(),
            b"zlib",
            clevel=LEVEL,
            shuffle=blosc.SHUFFLE,
            blocksize=0,
            typesize=values.dtype.itemsize,
        )
    )


def text_chunk(values: Sequence[str], chunk: int) -> bytes:
    """Texts behind their lengths, as the vlen-utf8 codec of Zarr has them, before compression."""
    encoded = [text.encode("utf-8") for text in values]
    encoded += [b""] * (chunk - len(encoded))
    parts = [struct.pack("<I", len(encoded))]
    for item in encoded:
        parts += [struct.pack("<I", len(item)), item]
    return b"".join(parts)
