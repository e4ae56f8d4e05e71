"""The file that neighbourhoods come from: its cells, coordinates and graphs, by physical rows."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from scx_core._errors import NameNotFoundError
from scx_core._section_names import SectionType
from scx_core.experiment import Experiment
from scx_core.metadata.pairwise_rows import PairwiseRows
from scx_core.native.matrix import Matrix
from scx_train._arguments import row_selection
from scx_train.inputs.source import open_with_all_rows

Rows = npt.NDArray[np.int64]
PathOrExperiment = str | os.PathLike[str] | Experiment

AXES_MAX = 3


@dataclass(frozen=True)
class EdgeChunk:
    """Stored edges of the rows from `first_row` on: `indptr` from 0, columns, float32 weights."""

    first_row: int
    indptr: Rows
    columns: Rows
    weights: npt.NDArray[np.float32]


def with_all_rows(path: PathOrExperiment) -> Experiment:
    """The file, or the open one again, with deleted rows; TypeError for what is neither."""
    if isinstance(path, Experiment):
        return path.with_deleted()
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"path must be a path or an open Experiment, not {type(path).__name__}")
    return open_with_all_rows(path)


def kept_rows(
    experiment: Experiment, *, drop_deleted: bool, rows: npt.ArrayLike | None = None
) -> Rows:
    """The rows that may be centres and neighbours, ascending; raises as `row_selection`."""
    if rows is not None:
        deleted = experiment.deleted_rows if drop_deleted else np.empty(0, dtype=np.int64)
        chosen = row_selection(rows, n_obs=experiment.n_obs_physical, deleted=deleted)
        assert chosen is not None
        return chosen
    if drop_deleted:
        return experiment.live_rows
    return np.arange(experiment.n_obs_physical, dtype=np.int64)


def coordinates_of(experiment: Experiment, key: str, rows: Rows) -> npt.NDArray[np.float32]:
    """The entry of obsm for these rows, float32 of shape (rows, 1 to 3), all finite.

    Raises
    ------
    KeyError
        There is no such entry; the message lists those there are.
    ValueError
        It has another shape or kind, or a coordinate of these rows is NaN or infinite.
    """
    _check_key(key, experiment.obsm, f"{experiment.path}: obsm")
    entry = experiment.obsm[key]
    values = np.asarray(entry) if not hasattr(entry, "nnz") else None
    if values is None or values.dtype.kind not in "fiub":
        raise ValueError(
            f"obsm[{key!r}] is a {type(entry).__name__} that is no dense array of real numbers"
        )
    if values.ndim == 1:
        values = values[:, None]
    if values.ndim != 2 or not 1 <= values.shape[1] <= AXES_MAX:
        raise ValueError(
            f"obsm[{key!r}] has shape {values.shape}, but neighbours are searched in 1 to "
            f"{AXES_MAX} dimensions: choose columns of it, or build a graph and take "
            "neighborhood_plans_from_graph"
        )
    with np.errstate(over="ignore"):
        coordinates = np.ascontiguousarray(values[rows], dtype=np.float32)
    wrong = np.flatnonzero(~np.isfinite(coordinates).all(axis=1))
    if wrong.size:
        row = int(rows[wrong[0]])
        raise ValueError(
            f"obsm[{key!r}] of row {row} is {values[row].tolist()}, which is not finite (as "
            "float32): a cell without a place has no neighbours; leave it out with rows=, or with "
            "mark_deleted"
        )
    return coordinates


def edges_of(experiment: Experiment, key: str, chunk_rows: int) -> Iterator[EdgeChunk]:
    """The stored edges of a graph, `chunk_rows` rows at a time.

    Raises
    ------
    KeyError
        There is no such graph; the message lists those there are.
    ValueError
        Its values are no real numbers.
    """
    _check_key(key, experiment.obsp, f"{experiment.path}: obsp")
    stored = _stored_graph(experiment, key)
    n_rows = experiment.n_obs_physical
    if stored.dtype.kind not in "fiub":
        raise ValueError(f"obsp[{key!r}] holds {stored.dtype}, which are no weights")
    for first in range(0, n_rows, chunk_rows):
        last = min(n_rows, first + chunk_rows)
        if isinstance(stored, PairwiseRows):
            indptr, columns, data = stored.read(first, last)
        else:
            indptr, columns, data = stored.gather_csr(np.arange(first, last, dtype=np.int64))
        with np.errstate(over="ignore"):
            weights = data.astype(np.float32)
        chunk = EdgeChunk(first, indptr, columns.astype(np.int64), weights)
        experiment.file.expect_unchanged()
        yield chunk


def _stored_graph(experiment: Experiment, key: str) -> PairwiseRows | Matrix:
    sections = experiment.sections_by_type
    members = sections.members(SectionType.OBSP, SectionType.OBSP_ROW_SHARD, 0, "obsp", "")
    if key not in members:
        return Matrix(
            experiment.file, section_type=SectionType.OBSP_CSR_SHARD, name=key, modality_id=0
        )
    buffer, name = members[key]()
    read = partial(PairwiseRows, buffer, n=experiment.n_obs_physical, where=f"obsp[{key!r}]")
    return sections.decoded(name, read)


def _check_key(key: Any, entries: Any, what: str) -> None:
    if not isinstance(key, str):
        raise TypeError(f"the key of {what} must be str, not {type(key).__name__}")
    if key not in entries:
        names: Sequence[str] = list(entries)
        raise NameNotFoundError(f"{what} has no {key!r}; it has {', '.join(names) or 'none'}")
