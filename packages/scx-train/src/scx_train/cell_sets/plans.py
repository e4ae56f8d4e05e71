"""Plans of cell sets: what they have to be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from scx_train import _arguments as arguments
from scx_train.cell_sets.readers import Manifest, Selection

_PARTS = ("file_ids", "rows", "role_tags", "set_offsets")


@dataclass(frozen=True)
class CellSetPlan:
    """A plan that was checked.

    Attributes
    ----------
    file_ids, rows, role_tags
        int64, one entry for each row of the batch.
    set_offsets
        int64; where each set begins, and the number of rows at the end.
    files
        int64; the distinct files, ascending.
    source_of_row
        uint32; the place in `files` of each row's file.
    """

    file_ids: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int64]
    role_tags: npt.NDArray[np.int64]
    set_offsets: npt.NDArray[np.int64]
    files: npt.NDArray[np.int64]
    source_of_row: npt.NDArray[np.uint32]


class CellSetRules:
    """Checks plans against a manifest.

    Parameters
    ----------
    manifest
        The files.
    selections
        Which matrix of each is read.
    max_plan_rows
        How many rows a plan may have; None for any number.
    is_remapped
        Whether the columns of all files have a common meaning.

    Attributes
    ----------
    mean_values
        Stored values of a row on average, over all files.
    n_cols_max
        Columns of the widest file, and so the most values of a row.
    """

    def __init__(
        self,
        manifest: Manifest,
        selections: Sequence[Selection],
        *,
        max_plan_rows: int | None,
        is_remapped: bool,
    ) -> None:
        self._manifest = manifest
        self.mean_values = manifest.mean_values
        self.n_cols_max = int(manifest.n_cols.max())
        self._selections = selections
        self._max_plan_rows = max_plan_rows
        # Of each file, equal for equal genes; None where all files have the same.
        self._genes: list[bytes] | None = None
        if not is_remapped and len(set(manifest.genes)) > 1:
            self._genes = list(manifest.genes)
        self._by_name: dict[bytes, bytes] = {}

    def prepare(self, plan: Any) -> CellSetPlan:
        """The plan with its arrays converted and copied.

        Raises
        ------
        TypeError, ValueError
            It is no tuple of four arrays of whole numbers, or they do not fit each other; or a set
            spans files of different genes without a common numbering.
        IndexError
            It names a file or a row that is not there, or a row that is marked as deleted.
        RuntimeError
            It has more than `max_plan_rows` rows.
        """
        if isinstance(plan, str | bytes | Mapping) or not hasattr(plan, "__len__"):
            raise TypeError(f"a plan is a tuple ({', '.join(_PARTS)}), not {type(plan).__name__}")
        if len(plan) != len(_PARTS):
            raise ValueError(f"a plan is a tuple ({', '.join(_PARTS)}), but it has {len(plan)}")
        file_ids, rows, role_tags, set_offsets = (
            _whole_numbers(part, name) for part, name in zip(plan, _PARTS, strict=True)
        )
        for name, part in (("rows", rows), ("role_tags", role_tags)):
            if len(part) != len(file_ids):
                raise ValueError(
                    f"{name} of the plan has {len(part)} entries, but file_ids has {len(file_ids)}"
                )
        _check_offsets(set_offsets, len(rows))
        if self._max_plan_rows is not None and len(rows) > self._max_plan_rows:
            raise RuntimeError(
                f"the plan has {len(rows)} rows, but max_plan_rows={self._max_plan_rows}: split it "
                "or build the data set with a larger max_plan_rows"
            )
        if len(rows) == 0:
            files, source_of_row = file_ids, np.empty(0, dtype=np.uint32)
        elif (file_ids == file_ids[0]).all():
            files, source_of_row = file_ids[:1].copy(), np.zeros(len(rows), dtype=np.uint32)
        else:
            files, inverse = np.unique(file_ids, return_inverse=True)
            source_of_row = inverse.astype(np.uint32)
        self._check_cells(files, file_ids, rows)
        if len(files) > 1:
            self._check_genes(file_ids, set_offsets)
        return CellSetPlan(file_ids, rows, role_tags, set_offsets, files, source_of_row)

    def shards_of(self, plan: CellSetPlan) -> int:
        """How many different shards the rows lie in."""
        count = 0
        for place, file_id in enumerate(plan.files.tolist()):
            starts = self._manifest.shard_starts[file_id][:-1]
            rows = plan.rows[plan.source_of_row == place]
            count += len(np.unique(np.searchsorted(starts, rows, side="right")))
        return count

    def _check_cells(
        self,
        files: npt.NDArray[np.int64],
        file_ids: npt.NDArray[np.int64],
        rows: npt.NDArray[np.int64],
    ) -> None:
        if len(files) == 0:
            return
        # Two numbers tell of most plans that they are right, which come by the ten thousand.
        fewest = 0
        if files[0] >= 0 and files[-1] < len(self._manifest.paths):
            fewest = int(self._manifest.n_rows[files].min())
        if rows.min() < 0 or rows.max() >= fewest:
            self._check_each_cell(file_ids, rows)
        for file_id, deleted in self._manifest.deleted.items():
            here = np.flatnonzero(file_ids == file_id)
            gone = here[_are_among(rows[here], deleted)]
            self._refuse_first(gone, file_id, rows, "which is marked as deleted")
        for file_id, cells in self._manifest.cells.items():
            here = np.flatnonzero(file_ids == file_id)
            missing = here[~_are_among(rows[here], cells)]
            self._refuse_first(missing, file_id, rows, "which the modality does not have")

    def _check_each_cell(
        self, file_ids: npt.NDArray[np.int64], rows: npt.NDArray[np.int64]
    ) -> None:
        n_files = len(self._manifest.paths)
        wrong = (file_ids < 0) | (file_ids >= n_files)
        if wrong.any():
            place = int(np.argmax(wrong))
            raise IndexError(
                f"entry {place} of the plan has file id {file_ids[place]}, but the files are "
                f"numbered 0 to {n_files - 1}"
            )
        n_rows = self._manifest.n_rows[file_ids]
        wrong = (rows < 0) | (rows >= n_rows)
        if wrong.any():
            place = int(np.argmax(wrong))
            there = f"numbered 0 to {n_rows[place] - 1}" if n_rows[place] else "none"
            raise IndexError(
                f"entry {place} of the plan has row {rows[place]} of file {file_ids[place]} "
                f"({self._manifest.paths[file_ids[place]]}), but its cells are {there}"
            )

    def _refuse_first(
        self, wrong: npt.NDArray[np.int64], file_id: int, rows: npt.NDArray[np.int64], why: str
    ) -> None:
        if wrong.size:
            raise IndexError(
                f"entry {wrong[0]} of the plan has row {rows[wrong[0]]} of file {file_id} "
                f"({self._manifest.paths[file_id]}), {why}"
            )

    def _check_genes(
        self, file_ids: npt.NDArray[np.int64], set_offsets: npt.NDArray[np.int64]
    ) -> None:
        """Without a common numbering, gene ids of one set must mean the same genes."""
        if self._genes is None:
            return
        # Places where a row's file is another one than the row's before it, within a set.
        changes = np.flatnonzero(np.diff(file_ids)) + 1
        changes = changes[~np.isin(changes, set_offsets)]
        for place in changes.tolist():
            one, other = int(file_ids[place - 1]), int(file_ids[place])
            if self._genes_of(one) != self._genes_of(other):
                paths = self._manifest.paths
                raise ValueError(
                    f"a set of the plan spans files {one} ({paths[one]}) and {other} "
                    f"({paths[other]}), whose genes differ: pass remap_tables and n_global_genes"
                )

    def _genes_of(self, file_id: int) -> bytes:
        """By the var table as long as only that was looked at, else by its names."""
        assert self._genes is not None
        table = self._genes[file_id]
        if table not in self._by_name:
            self._by_name[table] = self._selections[file_id].genes_by_name(
                self._manifest.paths[file_id]
            )
        return self._by_name[table]


def _are_among(
    rows: npt.NDArray[np.int64], ascending: npt.NDArray[np.int64]
) -> npt.NDArray[np.bool_]:
    """Which rows are among others, of which there may be millions: no look at all of these."""
    if len(ascending) == 0:
        return np.zeros(len(rows), dtype=np.bool_)
    places = np.minimum(np.searchsorted(ascending, rows), len(ascending) - 1)
    return np.asarray(ascending[places] == rows)


def _check_offsets(set_offsets: npt.NDArray[np.int64], n_rows: int) -> None:
    if len(set_offsets) == 0:
        raise ValueError(
            "set_offsets of the plan is empty, but it has one entry more than there are sets"
        )
    if set_offsets[0] != 0 or set_offsets[-1] != n_rows:
        raise ValueError(
            f"set_offsets of the plan must span its {n_rows} rows, but it goes from "
            f"{set_offsets[0]} to {set_offsets[-1]}"
        )
    if len(set_offsets) > 2 and (set_offsets[1:] < set_offsets[:-1]).any():
        raise ValueError("set_offsets of the plan must not descend")


def _whole_numbers(value: Any, name: str) -> npt.NDArray[np.int64]:
    try:
        array = np.asarray(value)
    except (ValueError, OverflowError):
        raise TypeError(f"{name} of the plan is no array of whole numbers") from None
    if array.ndim != 1:
        raise ValueError(f"{name} of the plan has {array.ndim} dimensions, but it has one")
    if array.size == 0:
        return np.empty(0, dtype=np.int64)
    if array.dtype.kind not in "iu" and not (name == "role_tags" and array.dtype.kind == "b"):
        _refuse(value, name, array)
    if (
        array.dtype.kind == "u"
        and array.dtype.itemsize == 8
        and int(array.max()) > np.iinfo(np.int64).max
    ):
        _refuse_number(int(array.max()), name)
    return array.astype(np.int64)


def _refuse(value: Any, name: str, array: npt.NDArray[Any]) -> NoReturn:
    if not isinstance(value, np.ndarray):
        # numpy has no integer type for numbers beyond 64 bits, nor for both ends of these.
        number = arguments.beyond_64_bits(value)
        if number is not None:
            _refuse_number(number, name)
    raise TypeError(f"{name} of the plan has dtype {array.dtype}, but whole numbers are needed")


def _refuse_number(number: int, name: str) -> NoReturn:
    """Of files and rows it is one that is not there; tags and offsets are just numbers."""
    if name in ("file_ids", "rows"):
        raise IndexError(f"{name} of the plan holds {number}, which no file has")
    raise ValueError(f"{name} of the plan holds {number}, which leaves the range of int64")
