"""Files end to end: their rows are numbered on from one to the next, their labels have one code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from scx_core._faults import Faults
from scx_train.inputs.cells import Cells
from scx_train.inputs.obs import EXACT_IN_FLOAT64, ObsValues, farthest_from_0

PartT = TypeVar("PartT", bound=Cells)


@dataclass(frozen=True)
class JoinedFiles(Generic[PartT]):
    """Open files, of which the rows are numbered on from one to the next.

    Attributes
    ----------
    parts
        What is read of each.
    """

    parts: tuple[PartT, ...]

    @property
    def path(self) -> str:
        """The files, for messages."""
        first = self.parts[0].path
        return first if len(self.parts) == 1 else f"{first} and {len(self.parts) - 1} more"

    @cached_property
    def row_offsets(self) -> npt.NDArray[np.int64]:
        """First row of each file and, as the last entry, the number of rows."""
        return np.cumsum([0, *(part.n_obs for part in self.parts)], dtype=np.int64)

    @property
    def n_obs(self) -> int:
        """Rows of all files."""
        return int(self.row_offsets[-1])

    @property
    def file_bytes(self) -> int:
        """Size of all files."""
        return sum(part.file_bytes for part in self.parts)

    @property
    def shard_starts(self) -> npt.NDArray[np.int64]:
        """First row of each shard and, as the last entry, the number of rows."""
        starts = [part.shard_starts[:-1] + offset for part, offset in self._with_offsets()]
        return np.concatenate([*starts, self.row_offsets[-1:]])

    @property
    def rows(self) -> npt.NDArray[np.int64] | None:
        """The rows of the cells that there are, ascending; None for all."""
        chosen = [part.rows for part in self.parts]
        if all(rows is None for rows in chosen):
            return None
        return np.concatenate(
            [
                (np.arange(part.n_obs) if rows is None else rows) + offset
                for rows, (part, offset) in zip(chosen, self._with_offsets(), strict=True)
            ]
        )

    @property
    def deleted_rows(self) -> npt.NDArray[np.int64]:
        """The rows that are marked as deleted, ascending."""
        return np.concatenate(
            [part.deleted_rows + offset for part, offset in self._with_offsets()]
        ).astype(np.int64)

    def obs_columns(self, names: tuple[str, ...]) -> dict[str, ObsValues]:
        """The columns of all files, end to end, with one code for each label.

        Labels come in the order in which the files have them, those of the first file first. Whole
        numbers beside floats become floats.

        Raises
        ------
        KeyError
            A file has no such column; the message lists those it has.
        ValueError
            A column is of different kinds in two files, or holds what batches cannot.
        """
        columns, faults = [], Faults()
        for part in self.parts:
            with faults.kept():
                columns.append(part.obs_columns(names))
        faults.raise_kept()
        paths = [part.path for part in self.parts]
        return {name: joined(name, [each[name] for each in columns], paths) for name in names}

    def embeddings(self, names: tuple[str, ...]) -> dict[str, npt.NDArray[Any]]:
        """The entries of obsm of all files, end to end.

        Raises
        ------
        KeyError
            A file has no such entry; the message lists those it has.
        ValueError
            Two have different widths, or one is no array of numbers.
        """
        arrays, faults = [], Faults()
        for part in self.parts:
            with faults.kept():
                arrays.append(part.embeddings(names))
        faults.raise_kept()
        for name in names:
            first = arrays[0][name]
            for part, each in zip(self.parts, arrays, strict=True):
                if each[name].shape[1:] != first.shape[1:]:
                    raise ValueError(
                        f"obsm[{name!r}] has shape {first.shape} in {self.parts[0].path} and "
                        f"{each[name].shape} in {part.path}: its cells have different dimensions"
                    )
        return {name: np.concatenate([each[name] for each in arrays]) for name in names}

    def _with_offsets(self) -> zip[tuple[PartT, np.int64]]:
        return zip(self.parts, self.row_offsets[:-1], strict=True)


def joined(name: str, columns: list[ObsValues], paths: Sequence[str]) -> ObsValues:
    """A column of several files end to end, as `JoinedFiles.obs_columns` describes it."""
    kinds = ["labels" if isinstance(column, dict) else "numbers" for column in columns]
    if len(set(kinds)) > 1:
        other = next(file for file, kind in enumerate(kinds) if kind != kinds[0])
        raise ValueError(
            f"obs column {name!r} holds {kinds[0]} in {paths[0]} and {kinds[other]} "
            f"in {paths[other]}"
        )
    labelled = [column for column in columns if isinstance(column, dict)]
    if labelled:
        numbers: dict[str, int] = {}
        for column in labelled:
            for label in column["categories"]:
                numbers.setdefault(label, len(numbers))
        codes = []
        for column in labelled:
            # One more place at the end: -1, a gap, finds itself there.
            recoded = [numbers[label] for label in column["categories"]] + [-1]
            codes.append(np.array(recoded, dtype=np.int32)[column["codes"]])
        return {"codes": np.concatenate(codes), "categories": list(numbers)}
    arrays = [column for column in columns if not isinstance(column, dict)]
    if len({array.dtype for array in arrays}) > 1:
        for path, array in zip(paths, arrays, strict=True):
            if farthest_from_0(array) > EXACT_IN_FLOAT64:
                raise ValueError(
                    f"obs column {name!r} of {path} holds whole numbers beyond 2**53, "
                    "which the floats of another file cannot stand beside"
                )
    result: ObsValues = np.concatenate(arrays)  # type: ignore[assignment]
    return result


def file_of(
    row_offsets: npt.NDArray[np.int64], rows: npt.NDArray[np.int64]
) -> npt.NDArray[np.int32]:
    """The number of the file of each row."""
    return (np.searchsorted(row_offsets, rows, side="right") - 1).astype(np.int32)
