"""Neighbourhoods as plans for cell sets: each cell and its neighbours, by a graph or by place."""

from __future__ import annotations

import math
import numbers
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from scx_train import _arguments as arguments
from scx_train.neighborhoods.file import (
    EdgeChunk,
    PathOrExperiment,
    Rows,
    coordinates_of,
    edges_of,
    kept_rows,
    with_all_rows,
)
from scx_train.neighborhoods.nearest import nearest, within
from scx_train.neighborhoods.set_plans import Plan, plans_of_sets

WeightOrder = Literal["asc", "desc"]


def neighborhood_plans_from_graph(
    path: PathOrExperiment,
    key: str = "connectivities",
    *,
    file_id: int,
    k: int | None = None,
    weight_order: WeightOrder | None = None,
    include_center: bool = True,
    drop_deleted: bool = True,
    chunk_rows: int = 65_536,
    rows: npt.ArrayLike | None = None,
) -> tuple[list[Plan], Rows]:
    """A plan for each cell: itself, and its neighbours in a graph of obsp by ascending column.

    Without `k` a set has every stored edge of the centre, in the order of the columns; also one
    of weight zero, and one from the cell to itself. With `k` it has the k best of them, emitted by
    column as well: position 1 is the neighbour of the lowest number, not the best one.

    Parameters
    ----------
    path
        A file, or an open `Experiment`. Rows are those of the file either way.
    key
        Of obsp, default "connectivities".
    file_id
        **The place of this file in the list of paths** of the data set that will gather the plans,
        and no property of the file: another number silently gathers the rows of another file.
    k
        How many edges to keep, from the end that `weight_order` says; None (default) for all. Ties
        are broken by column, ascending. A deleted row is no candidate, so that sets are still k
        wide where there are enough others; without `k` they are short by what is gone. Weights are
        compared as float32.
    weight_order
        Needed with `k`: "desc" where a large weight means near (connectivities), "asc" where a
        small one does (distances). There is no default, since the wrong one gives the farthest
        neighbours without a word. NaN and infinite weights come last either way.
    include_center
        Put the centre first, with role tag 0; default True. Neighbours have role tag 1.
    drop_deleted
        Leave rows that are marked as deleted out, as centres and as neighbours; default True.
    chunk_rows
        Rows of the graph that are read at a time, default 65,536.
    rows
        Take these cells alone, as centres and as neighbours: rows of the file or a boolean mask
        over them, as `TrainingDataset` takes them, such as a part of `split`. With `k` other cells
        are no candidates. None (default) for all.

    Returns
    -------
    plans, centers
        A list of `(file_ids, rows, role_tags, set_offsets)`, one single-set plan for each cell that
        is not left out, and these cells' rows (int64, ascending). `rows` and `set_offsets` are
        int64, `file_ids` and `role_tags` int32. Plans of the same length share arrays, which are
        read-only.

    Raises
    ------
    KeyError
        There is no such graph; the message lists those there are.
    TypeError, ValueError
        An argument is not valid, `k` comes without `weight_order` or the other way round, or the
        graph's values are no real numbers.
    CorruptFileError, OSError
        The file is damaged, or cannot be opened.
    """
    file_id = _file_id(file_id)
    k = None if k is None else arguments.whole_number(k, "k", lowest=1)
    _check_weight_order(k, weight_order)
    include_center = arguments.flag(include_center, "include_center")
    drop_deleted = arguments.flag(drop_deleted, "drop_deleted")
    chunk_rows = arguments.whole_number(chunk_rows, "chunk_rows", lowest=1)
    experiment = with_all_rows(path)
    centers = kept_rows(experiment, drop_deleted=drop_deleted, rows=rows)
    kept = np.zeros(experiment.n_obs_physical, dtype=np.bool_)
    kept[centers] = True
    counts, columns = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
    for chunk in edges_of(experiment, key, chunk_rows):
        of_chunk, chosen = _chosen_edges(chunk, kept, k, ascending=weight_order == "asc")
        counts.append(of_chunk)
        columns.append(chosen)
    indptr = np.zeros(len(centers) + 1, dtype=np.int64)
    np.cumsum(np.concatenate(counts), out=indptr[1:])
    plans = plans_of_sets(
        centers if include_center else None, indptr, np.concatenate(columns), file_id=file_id
    )
    return plans, _own(centers)


def neighborhood_plans_from_coords(
    path: PathOrExperiment,
    obsm_key: str = "spatial",
    *,
    file_id: int,
    k: int | None = None,
    radius: float | None = None,
    include_center: bool = True,
    drop_deleted: bool = True,
    rows: npt.ArrayLike | None = None,
) -> tuple[list[Plan], Rows]:
    """A plan for each cell: itself, and the cells nearest to it by an embedding, nearest first.

    The search is exact, whatever the points are like, and takes time in proportion to
    `n log n`: clusters and equal points cost no more. Neighbours are ordered by squared distance,
    in float64, then by row, ascending.

    Parameters
    ----------
    path
        A file, or an open `Experiment`. Rows are those of the file either way.
    obsm_key
        Of obsm, default "spatial": 1 to 3 columns, narrowed to float32.
    file_id
        **The place of this file in the list of paths** of the data set that will gather the plans,
        and no property of the file: another number silently gathers the rows of another file.
    k
        How many neighbours each cell gets, fewer only where the file (or `rows`) has no more cells.
    radius
        The largest distance of a neighbour, it included. Either `k` or `radius`, never both.
    include_center
        Put the centre first, with role tag 0; default True. Neighbours have role tag 1.
    drop_deleted
        Leave rows that are marked as deleted out, as centres and as neighbours; default True.
    rows
        Take these cells alone, as centres and as neighbours: see `neighborhood_plans_from_graph`.

    Returns
    -------
    plans, centers
        As from `neighborhood_plans_from_graph`.

    Raises
    ------
    KeyError
        There is no such embedding; the message lists those there are.
    TypeError, ValueError
        An argument is not valid, neither or both of `k` and `radius` are given, the embedding has
        more than 3 columns, or a coordinate of a cell that is not left out is NaN or infinite.
    CorruptFileError, OSError
        The file is damaged, or cannot be opened.
    """
    file_id = _file_id(file_id)
    if (k is None) == (radius is None):
        given = "neither" if k is None else "both"
        raise ValueError(f"pass k or radius, one of them: {given} was given")
    k = None if k is None else arguments.whole_number(k, "k", lowest=1)
    radius = None if radius is None else _radius(radius)
    include_center = arguments.flag(include_center, "include_center")
    drop_deleted = arguments.flag(drop_deleted, "drop_deleted")
    experiment = with_all_rows(path)
    centers = kept_rows(experiment, drop_deleted=drop_deleted, rows=rows)
    coordinates = coordinates_of(experiment, obsm_key, centers)
    if k is not None:
        of_each = nearest(coordinates, k)
        indptr = np.arange(len(centers) + 1, dtype=np.int64) * of_each.shape[1]
        found = of_each.reshape(-1)
    else:
        assert radius is not None
        indptr, found = within(coordinates, radius)
    if len(centers) < experiment.n_obs_physical:
        found = centers[found]
    plans = plans_of_sets(centers if include_center else None, indptr, found, file_id=file_id)
    return plans, _own(centers)


def _chosen_edges(
    chunk: EdgeChunk, kept: npt.NDArray[np.bool_], k: int | None, *, ascending: bool
) -> tuple[Rows, Rows]:
    """How many edges each kept row of the chunk has, and their columns."""
    n_rows = len(chunk.indptr) - 1
    is_center = kept[chunk.first_row : chunk.first_row + n_rows]
    places = np.repeat(np.arange(n_rows), np.diff(chunk.indptr))
    stays = kept[chunk.columns] & is_center[places]
    places, columns, weights = places[stays], chunk.columns[stays], chunk.weights[stays]
    counts = np.bincount(places, minlength=n_rows)
    if k is not None and n_rows and counts.max() > k:
        best = _best(places, counts, weights, k, ascending=ascending)
        places, columns = places[best], columns[best]
        counts = np.bincount(places, minlength=n_rows)
    return counts[is_center], columns


def _best(
    places: npt.NDArray[Any],
    counts: npt.NDArray[Any],
    weights: npt.NDArray[np.float32],
    k: int,
    *,
    ascending: bool,
) -> npt.NDArray[np.bool_]:
    """Which entries are among the k best of their row; entries lie by row, then column."""
    # sorting keeps the order of equal ones, which is that of the columns
    signed = weights if ascending else -weights
    order = np.lexsort((np.where(np.isfinite(signed), signed, np.float32(np.inf)), places))
    first = np.cumsum(counts) - counts
    ranks = np.arange(len(places)) - np.repeat(first, counts)
    chosen = np.zeros(len(places), dtype=np.bool_)
    chosen[order[ranks < k]] = True
    return chosen


def _file_id(value: Any) -> int:
    return arguments.whole_number(value, "file_id", lowest=0, highest=2**31 - 1)


def _check_weight_order(k: int | None, weight_order: Any) -> None:
    is_name = isinstance(weight_order, str) and weight_order in ("asc", "desc")
    if weight_order is not None and not is_name:
        raise ValueError(f"weight_order={weight_order!r} must be 'asc' or 'desc'")
    if k is not None and weight_order is None:
        raise ValueError(
            "k needs weight_order: 'desc' where a large weight means near, as in connectivities, "
            "'asc' where a small one does, as in distances"
        )
    if k is None and weight_order is not None:
        raise ValueError("weight_order chooses the k best, and no k was given: all edges are kept")


def _radius(value: Any) -> float:
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Real):
        raise TypeError(f"radius={value!r} must be a number, not {type(value).__name__}")
    radius = float(value)
    if not (math.isfinite(radius) and radius > 0):
        raise ValueError(f"radius={value!r} must be finite and positive")
    return radius


def _own(rows: Rows) -> Rows:
    """An array that may be written to."""
    return rows if rows.flags.writeable else rows.copy()
