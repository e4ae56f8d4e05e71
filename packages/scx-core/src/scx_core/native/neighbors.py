"""The neighbours of points in 1 to 3 dimensions: the functions of scx.h on them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from scx_core.native import binding
from scx_core.native.binding import call, native

# points that are looked at in one call; between calls Python can react to Ctrl-C
POINTS_PER_CALL = 2**16

Numbers = npt.NDArray[np.int64]


class PointTree:
    """Points among which neighbours are found, exactly; a point is none of its own.

    Distances are sums of squared differences in float64. Neighbours come nearest first, those
    at the same distance by number.

    Parameters
    ----------
    coordinates
        float32 of shape (points, axes) with 1 to 3 axes, C-contiguous and finite.
    threads
        How many threads work; 0 for as many as the machine has.
    """

    def __init__(self, coordinates: npt.NDArray[np.float32], *, threads: int = 0) -> None:
        library = native()
        self.n_points, n_axes = coordinates.shape
        self._threads = threads
        out = library.ffi.new("scx_neighbors **")
        pointer = binding.input_array(coordinates, np.float32, "coordinates")
        call("scx_neighbors_open", pointer, self.n_points, n_axes, threads, out)
        self._handle = binding.owned(out[0], library.lib.scx_neighbors_close)

    def nearest(self, k: int) -> Numbers:
        """The k nearest others of each point, or all where there are fewer: int64, (points, k)."""
        k = min(k, max(0, self.n_points - 1))
        found = np.empty((self.n_points, k), dtype=np.int64)
        pointer = binding.output_array(found, np.int64, "found")
        for first, last in self._pieces() if k else ():
            call("scx_neighbors_nearest", self._handle, first, last, k, pointer, self._threads)
        return found

    def within(self, radius: float) -> tuple[Numbers, Numbers]:
        """Which others lie within a radius, it included: indptr (points + 1) and their numbers."""
        counts = np.zeros(self.n_points, dtype=np.int64)
        pointer = binding.output_array(counts, np.int64, "counts")
        for first, last in self._pieces():
            arguments = (first, last, radius, pointer, self._threads)
            call("scx_neighbors_count_within", self._handle, *arguments)
        indptr = np.zeros(self.n_points + 1, dtype=np.int64)
        np.cumsum(counts, out=indptr[1:])
        found = np.empty(int(indptr[-1]), dtype=np.int64)
        starts = binding.input_array(indptr, np.int64, "indptr")
        target = binding.output_array(found, np.int64, "found")
        for first, last in self._pieces():
            rest = (radius, starts, target, self._threads)
            call("scx_neighbors_within", self._handle, first, last, *rest)
        return indptr, found

    def _pieces(self) -> Iterator[tuple[int, int]]:
        for first in range(0, self.n_points, POINTS_PER_CALL):
            yield first, min(self.n_points, first + POINTS_PER_CALL)
