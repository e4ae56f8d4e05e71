"""Turning a compressed matrix to its other axis in bounded memory.

A CSC matrix has the values of one gene together; the writer wants those of one cell. Pieces of the
matrix, each small enough for memory, are turned on their own. Their rows are then cut into ranges,
and what belongs to a range is appended to the range's temporary file. When all pieces are through,
the files are read back one by one: each holds all values of its rows, small enough to be put
together in memory. A range that comes out too large (rows are not equally full) is cut once more
in the same way.

The temporary files have no name where the system allows it, so even a killed process leaves
nothing behind.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
import numpy.typing as npt

from scx_core.sources.base import CsrBlock
from scx_core.sources.h5_compressed import CompressedPiece

# at most this many files are open at a time and level; ranges that stay too large are cut again
RANGES_AT_MOST = 128
# a stored value in flight: its indices on both axes, before and after, beside the value twice
WORKING_BYTES_PER_VALUE = 24


@dataclass(frozen=True)
class Turned:
    """Some entries of the matrix, sorted by the axis that becomes the major one.

    `majors` are the distinct majors that have entries, ascending, and `counts` how many each has.
    `minors` and `values` list the entries of the first of them, then of the second, and so on.
    """

    majors: npt.NDArray[Any]
    counts: npt.NDArray[Any]
    minors: npt.NDArray[Any]
    values: npt.NDArray[Any]


@dataclass
class RangeFile:
    """What was spilled for majors `start` to `stop`, piece by piece."""

    start: int
    stop: int
    file: IO[bytes]
    n_values: int = 0
    pieces: list[tuple[int, int]] = field(default_factory=list)

    def append(self, part: Turned) -> None:
        for array in (part.majors, part.counts, part.minors, part.values):
            self.file.write(byte_view(array))
        self.pieces.append((len(part.majors), len(part.minors)))
        self.n_values += len(part.minors)

    def read(
        self, major_dtype: np.dtype[Any], minor_dtype: np.dtype[Any], value_dtype: np.dtype[Any]
    ) -> Iterator[Turned]:
        """The pieces in the order in which they came."""
        self.file.seek(0)
        for n_majors, n_values in self.pieces:
            yield Turned(
                majors=self._array(major_dtype, n_majors),
                counts=self._array(major_dtype, n_majors),
                minors=self._array(minor_dtype, n_values),
                values=self._array(value_dtype, n_values),
            )

    def _array(self, dtype: np.dtype[Any], count: int) -> npt.NDArray[Any]:
        array = np.empty(count, dtype)
        view = byte_view(array)
        filled = 0
        while filled < len(view):
            got = cast(Any, self.file).readinto(view[filled:])
            if not got:
                raise OSError("a temporary file of the conversion ends early")
            filled += got
        return array


@dataclass(frozen=True)
class Transposition:
    """How one matrix is turned: its shape after, its types, and the means."""

    n_majors: int
    n_minors: int
    dtype: np.dtype[Any]
    memory_bytes: int
    folder: Path

    @property
    def major_dtype(self) -> np.dtype[Any]:
        """Holds the number of a major, and how many values it has in a piece."""
        largest = max(self.n_majors, self.values_at_most)
        return np.dtype(np.int32 if largest <= np.iinfo(np.int32).max else np.int64)

    @property
    def minor_dtype(self) -> np.dtype[Any]:
        return np.dtype(np.int32 if self.n_minors <= np.iinfo(np.int32).max else np.int64)

    @property
    def values_at_most(self) -> int:
        """Values that may be in memory to be put in order at one time."""
        per_value = WORKING_BYTES_PER_VALUE + 2 * self.dtype.itemsize
        return max(1, self.memory_bytes // per_value)

    @property
    def piece_bytes(self) -> int:
        """How large the pieces should be that are handed in."""
        return self.values_at_most * (4 + self.dtype.itemsize)

    def blocks(
        self, pieces: Iterable[CompressedPiece], n_values: int, block_bytes: int
    ) -> Iterator[CsrBlock]:
        """Yield the matrix along its new major axis; `n_values` is how many the pieces hold."""
        with self.collected(self._turned(pieces), n_values) as collection:
            yield from collection.blocks(block_bytes)

    @contextmanager
    def collected(self, turned: Iterable[Turned], n_values: int) -> Iterator[Collection]:
        """Take all of `turned` in, into memory or temporary files as `n_values` demands."""
        with ExitStack() as stack:
            if n_values <= self.values_at_most:
                yield Collection(self, parts=list(turned), ranges=[])
            else:
                ranges = self._spilled(turned, 0, self.n_majors, n_values, stack)
                yield Collection(self, parts=[], ranges=ranges)

    def _turned(self, pieces: Iterable[CompressedPiece]) -> Iterator[Turned]:
        for piece in pieces:
            part = self._turn(piece)
            # neither may lie in memory while the next piece is read
            del piece
            yield part
            del part

    def _turn(self, piece: CompressedPiece) -> Turned:
        """Sort the entries of a piece by their index."""
        import scipy.sparse as sp

        index_dtype = self.major_dtype
        values = piece.values
        if self.dtype == np.float16:
            # scipy knows no sparse half floats; only their places matter here
            values = values.view(np.uint16)
        by_minor = sp.csc_matrix((self.n_majors, piece.n_majors), dtype=values.dtype)
        by_minor.indptr = piece.indptr.astype(index_dtype)
        by_minor.indices = piece.indices.astype(index_dtype, copy=False)
        by_minor.data = values
        by_major = by_minor.tocsr()
        counts = np.diff(by_major.indptr)
        majors = np.flatnonzero(counts)
        minors = by_major.indices.astype(self.minor_dtype, copy=False)
        minors += minors.dtype.type(piece.first_major)
        return Turned(
            majors.astype(index_dtype, copy=False),
            counts[majors].astype(index_dtype, copy=False),
            minors,
            by_major.data.view(self.dtype),
        )

    def _spilled(
        self,
        turned: Iterable[Turned],
        start: int,
        stop: int,
        n_values: int,
        stack: ExitStack,
    ) -> list[RangeFile]:
        """Spread majors `start` to `stop` over temporary files, which `stack` closes."""
        n_ranges = min(RANGES_AT_MOST, stop - start, 1 + n_values // self.values_at_most)
        edges = np.linspace(start, stop, n_ranges + 1).astype(np.int64)
        ranges = [
            RangeFile(int(low), int(high), stack.enter_context(self._temporary_file()))
            for low, high in itertools.pairwise(edges)
        ]
        for part in turned:
            distribute(part, ranges, edges)
        return ranges

    def range_blocks(self, spilled: RangeFile, block_bytes: int) -> Iterator[CsrBlock]:
        """The rows of one range, which is cut into finer ones where it is too large."""
        parts = spilled.read(self.major_dtype, self.minor_dtype, self.dtype)
        start, stop = spilled.start, spilled.stop
        if spilled.n_values <= self.values_at_most or stop - start == 1:
            yield from self.assembled(list(parts), start, stop, block_bytes)
            return
        with ExitStack() as stack:
            for finer in self._spilled(parts, start, stop, spilled.n_values, stack):
                yield from self.range_blocks(finer, block_bytes)

    def _temporary_file(self) -> IO[bytes]:
        return tempfile.TemporaryFile(prefix=".scx-transpose-", dir=self.folder)

    def assembled(
        self, parts: list[Turned], start: int, stop: int, block_bytes: int
    ) -> Iterator[CsrBlock]:
        """Put the parts of majors `start` to `stop` together and cut them into blocks."""
        counts = np.zeros(stop - start, np.int64)
        for part in parts:
            counts[part.majors - start] += part.counts
        indptr = np.zeros(stop - start + 1, np.int64)
        np.cumsum(counts, out=indptr[1:])
        if len(parts) == 1:
            indices, values = parts[0].minors, parts[0].values
        else:
            indices, values = self._merged(parts, indptr, start)
        yield from cut_rows(indptr, indices, values, block_bytes)

    def _merged(
        self, parts: list[Turned], indptr: npt.NDArray[np.int64], start: int
    ) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Indices and values of all parts in the order of `indptr`; empties `parts` as it goes."""
        indices = np.empty(int(indptr[-1]), self.minor_dtype)
        values = np.empty(int(indptr[-1]), self.dtype)
        following = indptr[:-1].copy()
        parts.reverse()
        while parts:
            part = parts.pop()
            majors = part.majors - start
            before = np.cumsum(part.counts, dtype=np.int64) - part.counts
            places = np.repeat(following[majors] - before, part.counts)
            places += np.arange(len(places))
            indices[places] = part.minors
            values[places] = part.values
            following[majors] += part.counts
        return indices, values


@dataclass
class Collection:
    """All values of a matrix, taken in and ready to be yielded once in their new order."""

    turning: Transposition
    parts: list[Turned]
    ranges: list[RangeFile]

    def blocks(self, block_bytes: int) -> Iterator[CsrBlock]:
        """Yield blocks of about `block_bytes`; what is yielded is gone from the collection."""
        if not self.ranges:
            parts, self.parts = self.parts, []
            yield from self.turning.assembled(parts, 0, self.turning.n_majors, block_bytes)
        for spilled in self.ranges:
            yield from self.turning.range_blocks(spilled, block_bytes)
            # gives the disk space back
            spilled.file.close()


def byte_view(array: npt.NDArray[Any]) -> memoryview:
    """The bytes of a contiguous array."""
    return memoryview(cast(Any, array)).cast("B")


def distribute(part: Turned, ranges: list[RangeFile], edges: npt.NDArray[np.int64]) -> None:
    """Append to each range's file what `part` holds of it."""
    at = np.searchsorted(part.majors, edges)
    offsets = np.concatenate(([0], np.cumsum(part.counts, dtype=np.int64)))[at]
    for spilled, low, high, first, last in zip(
        ranges, at[:-1], at[1:], offsets[:-1], offsets[1:], strict=True
    ):
        if high > low:
            spilled.append(
                Turned(
                    part.majors[low:high],
                    part.counts[low:high],
                    part.minors[first:last],
                    part.values[first:last],
                )
            )


def cut_rows(
    indptr: npt.NDArray[np.int64],
    indices: npt.NDArray[Any],
    values: npt.NDArray[Any],
    block_bytes: int,
) -> Iterator[CsrBlock]:
    """Blocks of about `block_bytes`, and at least a row, as views of a whole CSR matrix."""
    values_at_most = max(1, block_bytes // (indices.itemsize + values.itemsize))
    rows_at_most = max(1, block_bytes // 8)
    start, n_rows = 0, len(indptr) - 1
    while start < n_rows:
        fits = int(np.searchsorted(indptr, indptr[start] + values_at_most, "right")) - 1
        stop = min(max(fits, start + 1), start + rows_at_most, n_rows)
        low, high = int(indptr[start]), int(indptr[stop])
        yield CsrBlock(indptr[start : stop + 1], indices[low:high], values[low:high])
        start = stop
