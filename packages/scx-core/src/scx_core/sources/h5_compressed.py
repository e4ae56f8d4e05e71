"""CSR and CSC matrices in HDF5, read as consecutive pieces of bounded size.

Both store three arrays: `indptr` with one entry more than there are rows (CSR) or columns (CSC),
and `indices` and `data` with one entry a stored value. The code speaks of the *major* axis, which
`indptr` cuts, and the *minor* axis, which `indices` counts along.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from scx_core._user_warnings import warn_user
from scx_core.sources.base import IndexDtypes, IndexWidth
from scx_core.sources.hdf5 import Dataset, Group, attribute, dataset_in, native, where

Indices: TypeAlias = npt.NDArray[np.int32] | npt.NDArray[np.int64]

# entries of indptr held at a time: 8 MB, so that the pointers of any number of cells fit
POINTERS_PER_READ = 1 << 20


@dataclass(frozen=True)
class CompressedPiece:
    """Consecutive majors, or a part of one.

    `indptr` (int64) starts at 0 and has an entry more than the piece has majors; the first of them
    is `first_major`. With `split_majors` a major may go on in the next piece.
    """

    first_major: int
    indptr: npt.NDArray[np.int64]
    indices: Indices
    values: npt.NDArray[Any]

    @property
    def n_majors(self) -> int:
        return len(self.indptr) - 1


@dataclass(frozen=True)
class CompressedArrays:
    """The arrays of one compressed matrix in an HDF5 group."""

    group: Group
    data: Dataset
    indices: Dataset
    indptr: Dataset
    n_majors: int
    n_minors: int

    @property
    def dtype(self) -> np.dtype[Any]:
        return cast("np.dtype[Any]", self.data.dtype.newbyteorder("="))

    @property
    def n_values(self) -> int:
        return int(self.indptr[self.n_majors]) if self.n_majors else 0

    @property
    def index_dtypes(self) -> IndexDtypes | None:
        """The widths as scipy would have them; None where the file has unsigned ones."""
        widths = self.indices.dtype.newbyteorder("="), self.indptr.dtype.newbyteorder("=")
        if not all(width in (np.int32, np.int64) for width in widths):
            return None
        return cast("tuple[IndexWidth, IndexWidth]", (widths[0].name, widths[1].name))

    @property
    def value_bytes(self) -> int:
        """Bytes that one stored value takes when read: its index and itself."""
        return index_bytes(self.indices.dtype) + int(self.data.dtype.itemsize)

    def pieces(
        self, piece_bytes: int, *, first_major: int = 0, split_majors: bool = False
    ) -> Iterator[CompressedPiece]:
        """Yield all majors from `first_major` on, in pieces of about `piece_bytes`.

        A piece holds at least one major whole, or with `split_majors` at least one value. Its
        arrays are used again for the piece after the next one.

        Raises
        ------
        ValueError
            Pointers or indices contradict the matrix; the message names file, path and position.
        """
        values_at_most = max(1, piece_bytes // self.value_bytes)
        # a major without values costs its pointer
        majors_at_most = max(1, min(POINTERS_PER_READ, piece_bytes // 8))
        data = SliceReader(with_chunk_cache(self.data, piece_bytes), values_at_most)
        indices = SliceReader(with_chunk_cache(self.indices, piece_bytes), values_at_most)
        for window_start in range(first_major, self.n_majors, majors_at_most):
            pointers = self._pointers(
                window_start, min(window_start + majors_at_most, self.n_majors)
            )
            cuts = _cuts(pointers, values_at_most, split_majors=split_majors)
            for start, stop, low, high in cuts:
                yield CompressedPiece(
                    first_major=window_start + start,
                    indptr=np.clip(pointers[start : stop + 1], low, high) - low,
                    indices=self._checked(as_indices(indices.read(low, high)), low),
                    values=data.read(low, high),
                )

    def majors(self, start: int, stop: int) -> CompressedPiece:
        """Majors `start` to `stop` as one piece, however large; raises as `pieces`."""
        pointers = self._pointers(start, stop)
        low, high = int(pointers[0]), int(pointers[-1])
        return CompressedPiece(
            first_major=start,
            indptr=pointers - low,
            indices=self._checked(as_indices(native(self.indices[low:high])), low),
            values=native(self.data[low:high]),
        )

    def with_caches(self, piece_bytes: int) -> CompressedArrays:
        """The same arrays, read by pieces of about `piece_bytes` without unpacking chunks twice."""
        return replace(
            self,
            data=with_chunk_cache(self.data, piece_bytes),
            indices=with_chunk_cache(self.indices, piece_bytes),
        )

    def _pointers(self, start: int, stop: int) -> npt.NDArray[np.int64]:
        """Entries `start` to `stop` (inclusive) of indptr, which must ascend within bounds."""
        stored = native(self.indptr[start : stop + 1])
        pointers = stored.astype(np.int64, copy=False)
        bounded = len(self.indices)
        falling = np.flatnonzero(np.diff(pointers) < 0)
        if start == 0 and pointers[0] != 0:
            raise ValueError(f"{where(self.indptr)}[0] is {stored[0]}; row pointers start at 0")
        if len(falling):
            at = int(falling[0])
            raise ValueError(
                f"{where(self.indptr)}[{start + at + 1}] is {stored[at + 1]}, below the entry "
                f"before it ({stored[at]}); row pointers never descend"
            )
        outside = np.flatnonzero((pointers < 0) | (pointers > bounded))
        if len(outside):
            at = int(outside[0])
            raise ValueError(
                f"{where(self.indptr)}[{start + at}] is {stored[at]}, but "
                f"{self.indices.name} holds {bounded} entries"
            )
        return pointers

    def _checked(self, indices: Indices, first_value: int) -> Indices:
        """`indices`, once all of them are known to lie in the matrix."""
        if not len(indices):
            return indices
        # seen as unsigned, a negative index is a huge one
        unsigned = indices.view(np.uint32 if indices.itemsize == 4 else np.uint64)
        if int(unsigned.max()) < self.n_minors:
            return indices
        at = int(np.flatnonzero((indices < 0) | (indices >= self.n_minors))[0])
        raise ValueError(
            f"{where(self.indices)}[{first_value + at}] is {indices[at]}, outside of 0 to "
            f"{self.n_minors - 1}"
        )


def compressed_arrays(group: Group, n_majors: int, n_minors: int) -> CompressedArrays:
    """The arrays of `group`, once their sizes are known to fit together."""
    data = dataset_in(group, "data", 1)
    indices = dataset_in(group, "indices", 1)
    indptr = dataset_in(group, "indptr", 1)
    for dataset in (indices, indptr):
        if dataset.dtype.kind not in "iu":
            raise ValueError(f"{where(dataset)} has type {dataset.dtype}; integers are expected")
    if data.dtype.kind not in "iufbc":
        raise ValueError(f"{where(data)} has type {data.dtype}; numbers are expected")
    if len(data) != len(indices):
        raise ValueError(
            f"{where(group)}: data holds {len(data)} values but indices holds {len(indices)}"
        )
    if len(indptr) != n_majors + 1:
        raise ValueError(
            f"{where(indptr)} has {len(indptr)} entries; a matrix of {n_majors} x {n_minors} in "
            f"this layout needs {n_majors + 1}"
        )
    arrays = CompressedArrays(group, data, indices, indptr, n_majors, n_minors)
    used = arrays.n_values
    if used < len(data):
        warn_user(
            f"{where(group)}: the last {len(data) - used} of {len(data)} values belong to no row "
            "and are left out"
        )
    return arrays


def sparse_shape(group: Group) -> tuple[int, int]:
    """The shape that a sparse matrix in an .h5ad declares; `h5sparse_shape` before version 0.7."""
    for name in ("shape", "h5sparse_shape"):
        declared = attribute(group, name)
        if declared is not None and len(declared) == 2:
            return int(declared[0]), int(declared[1])
    raise ValueError(f"{where(group)} has no attribute 'shape' with two numbers")


def index_bytes(dtype: np.dtype[Any]) -> int:
    """The width of the signed integer that indices of this type are read into."""
    return 4 if dtype.itemsize < 4 or dtype.newbyteorder("=") == np.int32 else 8


class SliceReader:
    """Reads slices of a dataset into two arrays by turns.

    Memory that was never touched costs as much as the reading itself, so it is used again.
    """

    def __init__(self, dataset: Dataset, typical_length: int) -> None:
        self._dataset = dataset
        self._length = min(typical_length, len(dataset))
        self._arrays: list[npt.NDArray[Any]] = []
        self._turn = 0

    def read(self, start: int, stop: int) -> npt.NDArray[Any]:
        """Entries `start` to `stop`, in the byte order of this machine."""
        count = stop - start
        if count == 0:
            return native(self._dataset[start:stop])
        array = self._next_array(count)
        self._dataset.read_direct(array, np.s_[start:stop], np.s_[:count])
        return native(array[:count])

    def _next_array(self, count: int) -> npt.NDArray[Any]:
        self._turn = 1 - self._turn
        while len(self._arrays) <= self._turn:
            self._arrays.append(np.empty(self._length, self._dataset.dtype))
        if len(self._arrays[self._turn]) < count:
            self._arrays[self._turn] = np.empty(count, self._dataset.dtype)
        return self._arrays[self._turn]


def as_indices(stored: npt.NDArray[Any]) -> Indices:
    """Stored indices as int32 or int64."""
    if stored.dtype == np.uint64:
        # what is beyond int64 turns negative and is refused as outside of the matrix
        return stored.view(np.int64)
    if index_bytes(stored.dtype) == 4:
        return stored.astype(np.int32, copy=False)
    return stored.astype(np.int64, copy=False)


def _cuts(
    pointers: npt.NDArray[np.int64], values_at_most: int, *, split_majors: bool
) -> Iterator[tuple[int, int, int, int]]:
    """Cut a window of pointers: first major, major after the last, first value, value after."""
    n_majors = len(pointers) - 1
    start, low = 0, int(pointers[0])
    while start < n_majors:
        fits = int(np.searchsorted(pointers, low + values_at_most, "right")) - 1
        if split_majors:
            high = min(low + values_at_most, int(pointers[-1]))
            # the major that holds the last value, whole or in part
            stop = max(fits, int(np.searchsorted(pointers, high, "left")), start + 1)
            stop = min(stop, n_majors)
        else:
            stop = min(max(fits, start + 1), n_majors)
            high = int(pointers[stop])
        yield start, stop, low, high
        start = stop if high >= pointers[stop] else stop - 1
        low = high


def with_chunk_cache(dataset: Dataset, piece_bytes: int) -> Dataset:
    """`dataset` opened so that a large compressed chunk is not unpacked once for each piece.

    Without this a chunk larger than HDF5's cache of one megabyte is unpacked again for every slice
    that touches it.
    """
    if not is_packed(dataset):
        return dataset
    chunk_bytes = int(np.prod(dataset.chunks)) * dataset.dtype.itemsize
    return reopened(dataset, chunk_bytes) if chunk_bytes > piece_bytes // 16 else dataset


def is_packed(dataset: Dataset) -> bool:
    """Whether the dataset's chunks pass through filters, so that each is unpacked whole."""
    if dataset.chunks is None:
        return False
    return int(dataset.id.get_create_plist().get_nfilters()) > 0


def reopened(dataset: Dataset, cache_bytes: int) -> Dataset:
    """`dataset` again, with a chunk cache of its own that holds `cache_bytes`."""
    import h5py

    access: Any = h5py.h5p.create(h5py.h5p.DATASET_ACCESS)
    access.set_chunk_cache(521, cache_bytes + (1 << 20), 0.0)
    identifier = h5py.h5d.open(dataset.file.id, dataset.name.encode("utf-8"), access)
    return h5py.Dataset(identifier)
