"""The neighbours of points in 1 to 3 dimensions: scipy's k-d tree, with a fixed order of ties."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]

# This many candidates are sorted at once. Python reacts to Ctrl-C in between.
CANDIDATES_PER_STEP = 2**22
# scipy may round a distance otherwise than we do: points this much farther are looked at, too.
ROUNDING = 1e-12


def nearest(coordinates: npt.NDArray[np.float32], k: int) -> Numbers:
    """The k nearest others of each point, or all others where there are fewer.

    Distances are sums of squared differences in float64. Neighbours come nearest first, and those
    at the same distance by number.

    Parameters
    ----------
    coordinates
        Finite float32 of shape (points, axes).
    k
        How many neighbours, at least 1.

    Returns
    -------
    The numbers of the neighbours: int64 of shape (points, k).
    """
    n_points = len(coordinates)
    k = min(k, max(0, n_points - 1))
    found = np.empty((n_points, k), dtype=np.int64)
    if k == 0:
        return found
    # The tree has each place once. Points that share a place would hide one another in it, and
    # ask for as many distances as there are pairs of them.
    places, place_of, counts = np.unique(
        coordinates.astype(np.float64), axis=0, return_inverse=True, return_counts=True
    )
    place_of = place_of.reshape(-1)
    shared = _PointsByPlace(np.argsort(place_of, kind="stable"), np.cumsum(counts) - counts, counts)
    tree = _tree(places)
    # a point, its neighbours, and one more to see where they end
    n_asked = min(k + 2, len(places))
    pending = np.arange(len(places))
    while pending.size:
        again = []
        for some in _pieces(pending, n_asked):
            squared, near = _ask(tree, places, some, n_asked)
            best, farthest = shared.best(squared, near, k + 1)
            # Where a place that was not asked for may be as near as the last one, more are asked.
            safe = farthest < squared.max(axis=1) * (1 - ROUNDING)
            safe |= n_asked == len(places)
            again.append(some[~safe])
            shared.store(found, some[safe], best[safe])
        pending = np.concatenate(again)
        n_asked = min(2 * n_asked, len(places))
    return found


def within(coordinates: npt.NDArray[np.float32], radius: float) -> tuple[Numbers, Numbers]:
    """Which others lie within a radius, it included, in the order of `nearest`.

    Returns
    -------
    indptr, numbers
        int64; point i has the neighbours `numbers[indptr[i]:indptr[i + 1]]`.
    """
    places = coordinates.astype(np.float64)
    pairs = _tree(places).query_pairs(radius * (1 + ROUNDING), output_type="ndarray")
    squared = _squared_distances(places[pairs[:, 0]], places[pairs[:, 1]])
    inside = squared <= radius * radius
    pairs, squared = pairs[inside], squared[inside]
    points, others = np.concatenate([pairs, pairs[:, ::-1]]).astype(np.int64, copy=False).T
    order = np.lexsort((others, np.concatenate([squared, squared]), points))
    indptr = np.zeros(len(places) + 1, dtype=np.int64)
    np.cumsum(np.bincount(points, minlength=len(places)), out=indptr[1:])
    return indptr, others[order]


class _PointsByPlace:
    """Which points lie at each place: `numbers[starts[i]:starts[i] + counts[i]]`, ascending."""

    def __init__(self, numbers: Numbers, starts: Numbers, counts: Numbers) -> None:
        self.numbers = numbers
        self.starts = starts
        self.counts = counts

    def best(
        self, squared: npt.NDArray[np.float64], near: Numbers, n: int
    ) -> tuple[Numbers, npt.NDArray[np.float64]]:
        """The first n points of the places in each row of `near`, and the last one's distance."""
        counts = self.counts[near]
        # no more than n points of a place can be among the first n
        slots = np.arange(min(n, int(counts.max())))
        is_point = slots < counts[:, :, None]
        last = len(self.numbers) - 1
        numbers = self.numbers[np.minimum(self.starts[near][:, :, None] + slots, last)]
        numbers = numbers.reshape(len(near), -1)
        far = np.where(is_point, squared[:, :, None], np.inf).reshape(numbers.shape)
        order = np.lexsort((numbers, far), axis=-1)[:, :n]
        farthest = np.take_along_axis(far, order, axis=1)
        # Too few places may have been asked for n points: then more are needed in any case.
        last_distance = farthest[:, -1] if order.shape[1] == n else np.full(len(near), np.inf)
        return np.take_along_axis(numbers, order, axis=1), last_distance

    def store(self, found: Numbers, places: npt.NDArray[Any], best: Numbers) -> None:
        """Write the neighbours of all points at these places: the best points but itself."""
        counts = self.counts[places]
        rows = np.repeat(np.arange(len(places)), counts)
        ends = np.cumsum(counts)
        offsets = np.arange(len(rows)) - np.repeat(ends - counts, counts)
        points = self.numbers[np.repeat(self.starts[places], counts) + offsets]
        for step in range(0, len(points), max(1, CANDIDATES_PER_STEP // best.shape[1])):
            part = slice(step, step + max(1, CANDIDATES_PER_STEP // best.shape[1]))
            candidates = best[rows[part]]
            other = candidates != points[part, None]
            # A point that is not among its own best ones has k + 1 others there.
            other[other.all(axis=1), -1] = False
            found[points[part]] = candidates[other].reshape(len(candidates), -1)


def _tree(places: npt.NDArray[np.float64]) -> Any:
    from scipy.spatial import cKDTree

    return cKDTree(places)


def _ask(
    tree: Any, places: npt.NDArray[np.float64], some: npt.NDArray[Any], n_asked: int
) -> tuple[npt.NDArray[np.float64], Numbers]:
    """The `n_asked` nearest places of some places, themselves included, and squared distances."""
    _, near = tree.query(places[some], k=np.arange(1, n_asked + 1), workers=-1)
    return _squared_distances(places[some][:, None, :], places[near]), near


def _squared_distances(
    one: npt.NDArray[np.float64], other: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    difference = one - other
    squared: npt.NDArray[np.float64] = difference[..., 0] ** 2
    for axis in range(1, difference.shape[-1]):
        squared = squared + difference[..., axis] ** 2
    return squared


def _pieces(pending: npt.NDArray[Any], n_asked: int) -> Iterator[npt.NDArray[Any]]:
    """Pending places in pieces of a bounded number of candidates."""
    step = max(1, CANDIDATES_PER_STEP // n_asked)
    for first in range(0, len(pending), step):
        yield pending[first : first + step]
