"""What sizes are compared with: byte shuffle, byte delta and zstd-3 in groups of 256 rows.

A group's three streams (row pointers from 0, column numbers, values) are each laid out by byte
plane (all lowest bytes, then all second bytes, ...), every byte is replaced by its difference from
the one before it, modulo 256, and the whole is compressed with zstd at level 3. Columns take two
bytes where the genes allow it, integer values the narrowest unsigned type that holds the group's
largest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

GROUP_ROWS = 256
ZSTD_LEVEL = 3

Array = npt.NDArray[Any]


@dataclass
class StreamBytes:
    """Compressed sizes of a matrix's streams."""

    indptr: int = 0
    indices: int = 0
    values: int = 0
    values_without_delta: int = 0
    """The values shuffled but not differenced, which suits counts better."""
    values_zstd_alone: int = 0
    """The values as they are (no shuffle, no narrower type), zstd-3 in the same groups."""
    stored: int = 0

    @property
    def total(self) -> int:
        return self.indptr + self.indices + self.values

    @property
    def best_total(self) -> int:
        """With the values differenced or not, whichever is smaller: the harder thing to beat."""
        return self.indptr + self.indices + min(self.values, self.values_without_delta)


def measure(blocks: Iterator[sp.csr_matrix]) -> StreamBytes:
    """Sizes over blocks of rows; each block but the last must be a multiple of 256 rows."""
    sizes = StreamBytes()
    for block in blocks:
        for start in range(0, block.shape[0], GROUP_ROWS):
            group = block[start : start + GROUP_ROWS]
            values = narrowest(group.data)
            sizes.indptr += len(encode(group.indptr.astype(np.uint32)))
            sizes.indices += len(encode(group.indices.astype(column_type(group.shape[1]))))
            sizes.values += len(encode(values))
            sizes.values_without_delta += len(_zstd().compress(_planes(values).tobytes()))
            sizes.values_zstd_alone += len(_zstd().compress(group.data.tobytes()))
            sizes.stored += group.nnz
    return sizes


def column_type(n_genes: int) -> np.dtype[Any]:
    """Two bytes where they suffice, else four."""
    return np.dtype(np.uint16 if n_genes <= 65_536 else np.uint32)


def narrowest(values: Array) -> Array:
    """Whole non-negative numbers in the narrowest unsigned type; anything else unchanged."""
    if values.size == 0:
        return values
    largest = values.max()
    if not (0 <= values.min() and largest < 2**32 and np.all(values == np.floor(values))):
        return values
    for kind in (np.uint8, np.uint16, np.uint32):
        if largest <= np.iinfo(kind).max:
            return values.astype(kind)
    raise AssertionError("a value below two to the power of 32 fits in four bytes")


def encode(values: Array) -> bytes:
    """Shuffle, difference, compress."""
    differences = np.diff(_planes(values), prepend=np.uint8(0))
    compressed: bytes = _zstd().compress(differences.tobytes()).to_pybytes()
    return compressed


def decode(encoded: bytes, dtype: npt.DTypeLike, n: int) -> Array:
    """The inverse of :func:`encode`."""
    kind = np.dtype(dtype)
    plain = _zstd().decompress(encoded, decompressed_size=n * kind.itemsize)
    planes = np.cumsum(np.frombuffer(plain, np.uint8), dtype=np.uint8)
    return planes.reshape(kind.itemsize, n).T.copy().view(kind).ravel()


def _planes(values: Array) -> npt.NDArray[np.uint8]:
    """All lowest bytes, then all second bytes, and so on."""
    return np.ascontiguousarray(values).view(np.uint8).reshape(-1, values.itemsize).T.ravel()


def _zstd() -> Any:
    import pyarrow as pa

    return pa.Codec("zstd", compression_level=ZSTD_LEVEL)
