"""Several modalities of an open file: which there are, which cells each measured, their obs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any

import numpy as np
import numpy.typing as npt

from scx_core._errors import NameNotFoundError
from scx_core._faults import each_of
from scx_core.experiment._modality import Modality
from scx_train.inputs.obs import (
    EXACT_IN_FLOAT64,
    ObsValues,
    farthest_from_0,
    frame_column,
    naming,
    numbers,
    training_column,
)
from scx_train.inputs.open_file import OpenFile
from scx_train.inputs.source import Source, open_with_all_rows, source_of


@dataclass(frozen=True)
class Modalities(OpenFile):
    """One matrix of each of some modalities of an open file; all have the same shards.

    Attributes
    ----------
    sources
        What is read, by the name of the modality.
    """

    sources: Mapping[str, Source]

    @property
    def shard_starts(self) -> npt.NDArray[np.int64]:
        """First row of each shard and, as the last entry, the number of rows."""
        return next(iter(self.sources.values())).shard_starts

    @cached_property
    def rows(self) -> npt.NDArray[np.int64] | None:
        """The rows of the cells that any of the modalities measured, ascending; None for all."""
        measured = [source.rows for source in self.sources.values()]
        if any(rows is None for rows in measured):
            return None
        return reduce(np.union1d, (rows for rows in measured if rows is not None))

    @cached_property
    def measured(self) -> dict[str, npt.NDArray[np.bool_]]:
        """For each modality a mask over the rows of the file."""
        return {name: self._mask(source.rows) for name, source in self.sources.items()}

    def obs_columns(self, names: tuple[str, ...]) -> dict[str, ObsValues]:
        """The columns, each with an entry for each row of the file.

        A name is that of a column of the file's obs, `"modality:column"` for one of a modality's
        own obs, or just the column where one modality alone has it. What a modality says of its
        cells is a gap for all others.

        Raises
        ------
        KeyError
            There is no such column; the message lists those there are.
        ValueError
            Several modalities have it, or it holds what batches cannot.
        """
        return each_of(names, self._obs_column)

    def embeddings(self, names: tuple[str, ...]) -> dict[str, npt.NDArray[Any]]:
        """The entries of obsm, named as the columns of obs; NaN for cells without one.

        Raises
        ------
        KeyError
            There is no such entry; the message lists those there are.
        ValueError
            Several modalities have it, or it is no array of numbers.
        """
        return each_of(names, self._embedding)

    def _obs_column(self, name: str) -> ObsValues:
        first = next(iter(self.sources.values()))
        if name in self.experiment.obs_keys():
            return first.obs_columns([name])[name]
        modality, column = self._owner("obs column", name, self.experiment.obs_keys(), _obs_keys)
        frame = modality.obs
        assert frame is not None
        with naming(self.path):
            values = training_column(frame_column(frame[column]), name)
            result: ObsValues = _with_gaps(values, modality, self.n_obs, f"obs column {name!r}")
            return result

    def _embedding(self, name: str) -> npt.NDArray[Any]:
        first = next(iter(self.sources.values()))
        if name in self.experiment.obsm:
            return first.embeddings([name])[name]
        modality, key = self._owner("obsm entry", name, list(self.experiment.obsm), _obsm_keys)
        with naming(self.path):
            value = numbers(modality.obsm[key], f"obsm[{name!r}]")
            result: npt.NDArray[Any] = _with_gaps(value, modality, self.n_obs, f"obsm[{name!r}]")
            return result

    def _owner(
        self, what: str, name: str, shared: list[str], keys_of: Callable[[Modality], list[str]]
    ) -> tuple[Modality, str]:
        """Which modality has an entry, and what it calls it."""
        parts = {each: self.experiment.modality(each) for each in self.sources}
        named, _, entry = name.partition(":")
        if named in parts and entry in keys_of(parts[named]):
            return parts[named], entry
        owners = [each for each, part in parts.items() if name in keys_of(part)]
        if len(owners) == 1:
            return parts[owners[0]], name
        if owners:
            choices = " or ".join(repr(f"{each}:{name}") for each in owners)
            raise ValueError(
                f"{what} {name!r} is one of each of {', '.join(owners)} in {self.path}: say which "
                f"one is meant, {choices}"
            )
        own = [f"{each}:{key}" for each, part in parts.items() for key in keys_of(part)]
        names = ", ".join(dict.fromkeys([*shared, *own])) or "none"
        raise NameNotFoundError(f"{self.path} has no {what} {name!r}; it has {names}")

    def _mask(self, rows: npt.NDArray[np.int64] | None) -> npt.NDArray[np.bool_]:
        if rows is None:
            return np.ones(self.n_obs, dtype=np.bool_)
        mask = np.zeros(self.n_obs, dtype=np.bool_)
        mask[rows] = True
        return mask


def open_modalities(
    path: str | os.PathLike[str],
    names: tuple[str, ...] | None,
    source: Callable[[str], str],
) -> Modalities:
    """Open some modalities of a file, None for all; `source` names the matrix of each.

    Raises
    ------
    KeyError
        There is no such modality or layer; the message lists those there are.
    ValueError
        The file has no modalities, a modality no such matrix, or they differ in their shards.
    CorruptFileError, OSError
        As `open_source` does.
    """
    experiment = open_with_all_rows(path)
    if not experiment.is_multimodal:
        raise ValueError(
            f"{experiment.path} is a file of a single modality without a name: use TrainingDataset"
        )
    chosen = tuple(experiment.modality_names) if names is None else names
    sources = {
        name: source_of(experiment, experiment.modality(name), source(name)) for name in chosen
    }
    _check_shards(sources, experiment.path)
    return Modalities(experiment, sources)


def _check_shards(sources: Mapping[str, Source], path: str) -> None:
    (name, first), *others = sources.items()
    for other_name, other in others:
        for shard, one, two in _pairs(first.shard_starts, other.shard_starts):
            if one != two:
                raise ValueError(
                    f"modalities {name!r} and {other_name!r} of {path} cannot be streamed "
                    f"together, since their shards differ: shard {shard} has {_said(one)} in the "
                    f"one and {_said(two)} in the other; load the file with scx_core and write it "
                    "again, or stream them one by one with TrainingDataset(modality=...)"
                )


def _pairs(
    one: npt.NDArray[np.int64], two: npt.NDArray[np.int64]
) -> Iterator[tuple[int, tuple[int, int] | None, tuple[int, int] | None]]:
    """The rows of each shard in both, None where there is no such shard."""

    def rows(starts: npt.NDArray[np.int64], shard: int) -> tuple[int, int] | None:
        return (int(starts[shard]), int(starts[shard + 1])) if shard + 1 < len(starts) else None

    for shard in range(max(len(one), len(two)) - 1):
        yield shard, rows(one, shard), rows(two, shard)


def _said(rows: tuple[int, int] | None) -> str:
    return "no rows" if rows is None else f"rows {rows[0]} to {rows[1] - 1}"


def _obs_keys(modality: Modality) -> list[str]:
    return [] if modality.obs is None else [str(column) for column in modality.obs.columns]


def _obsm_keys(modality: Modality) -> list[str]:
    return list(modality.obsm)


def _with_gaps(values: Any, modality: Modality, n_obs: int, what: str) -> Any:
    """Entries of a modality's cells at the file's rows, with gaps elsewhere.

    Raises
    ------
    ValueError
        There are gaps, and whole numbers that no float beside NaN can hold.
    """
    rows = modality.rows
    if rows is None:
        return values
    if isinstance(values, dict):
        codes = np.full(n_obs, -1, dtype=values["codes"].dtype)
        codes[rows] = values["codes"]
        return {**values, "codes": codes}
    result: npt.NDArray[Any]
    if len(rows) == n_obs:
        result = np.empty_like(values)
    else:
        if farthest_from_0(values) > EXACT_IN_FLOAT64:
            raise ValueError(
                f"{what} is one of {modality.name!r} alone, which lacks some of the cells, and has "
                "whole numbers beyond 2**53, which floats beside NaN cannot hold: store it as text"
            )
        dtype = values.dtype if values.dtype.kind == "f" else np.float64
        result = np.full((n_obs, *values.shape[1:]), np.nan, dtype=dtype)
    result[rows] = values
    return result
