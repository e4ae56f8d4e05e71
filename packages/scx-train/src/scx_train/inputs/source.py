"""What a data set reads from: one matrix of a file, its shards, obs, embeddings and gene names."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from scx_core import _section_names as section_names
from scx_core._errors import CorruptFileError, NameNotFoundError
from scx_core._faults import each_of
from scx_core._genes import gene_ids
from scx_core._section_names import SectionType
from scx_core.experiment import Experiment
from scx_core.experiment._modality import Modality
from scx_core.experiment._raw import RawView
from scx_core.native.container import FileReader, Section
from scx_core.native.matrix import Matrix
from scx_train._given import one_path
from scx_train._warn import warn
from scx_train.inputs.obs import (
    ObsValues,
    file_column,
    frame_column,
    naming,
    numbers,
    training_column,
)
from scx_train.inputs.open_file import OpenFile

LAYERS = "layers/"


@dataclass(frozen=True)
class Source(OpenFile):
    """One matrix of an open file.

    Attributes
    ----------
    modality
        The modality that is read; None in a single-modality file.
    matrix
        The matrix; None in a file without cells.
    label
        What messages call the matrix.
    shard_starts
        int64; first row of each shard of it and, as the last entry, the number of rows.
    n_vars
        How many genes it has; its rows are those of the file.
    """

    modality: Modality | None
    matrix: Matrix | None
    label: str
    shard_starts: npt.NDArray[np.int64]
    n_vars: int

    @property
    def where(self) -> str:
        """The file and the modality, for messages."""
        name = None if self.modality is None else self.modality.name
        return _where(self.path, name)

    @property
    def title(self) -> str:
        """The matrix and the modality, for messages."""
        return self.label if self.modality is None else f"{self.label} of {self.modality.name!r}"

    @property
    def rows(self) -> npt.NDArray[np.int64] | None:
        """The rows of the cells that there are, ascending; None for all of the file's.

        Left out are those that the modality did not measure, and those marked as deleted.
        """
        measured = None if self.modality is None else self.modality.rows
        if measured is None:
            return self.live_rows
        rows: npt.NDArray[np.int64] = np.setdiff1d(measured, self.experiment.deleted_rows)
        return rows

    @property
    def live_rows(self) -> npt.NDArray[np.int64] | None:
        """The rows that are not marked as deleted, ascending; None for all of the file's."""
        return self.experiment.live_rows if len(self.experiment.deleted_rows) else None

    @property
    def nnz(self) -> int:
        """Stored values of the matrix."""
        return 0 if self.matrix is None else self.matrix.nnz

    @property
    def parts(self) -> tuple[Source]:
        """The one matrix that it is, where several may be."""
        return (self,)

    def var_names(self) -> npt.NDArray[np.object_]:
        """Names of the matrix's genes; the file does not keep them, as each takes 60 bytes."""
        return self._genes_holder().load_var_names()

    def var_column(self, name: str, *, gaps: Literal["refuse", "no id"]) -> npt.NDArray[np.object_]:
        """Text about the matrix's genes, such as their ids; `gaps` as of `gene_ids`.

        Raises
        ------
        KeyError
            var has no such column; the message lists those there are.
        ValueError
            It does not hold text.
        """
        return gene_ids(self._genes_holder().load_var(), name, where=self.where, gaps=gaps)

    def _genes_holder(self) -> Modality | RawView:
        """What knows about the genes of the matrix."""
        holder = self.experiment.parts()[0] if self.modality is None else self.modality
        if self.label != "raw":
            return holder
        assert holder.raw is not None
        return holder.raw

    def obs_columns(self, names: Iterable[str]) -> dict[str, ObsValues]:
        """The columns, each with an entry for each row of the file.

        Where a modality has an obs of its own, its columns count too, behind those of the file.

        Raises
        ------
        KeyError
            There is no such column; the message lists those there are.
        ValueError
            A column holds what batches cannot.
        """
        names = list(names)
        there = self.experiment.obs_keys()
        if self.modality is not None and not set(names) <= set(there):
            own = self.modality.obs
            there = [*there, *(() if own is None else map(str, own.columns))]
        missing = [name for name in names if name not in there]
        if len(missing) > 1:
            raise NameNotFoundError(
                f"{self.path}: obs has no columns {', '.join(map(repr, missing))}; it has "
                f"{', '.join(there) or 'none'}"
            )
        return each_of(names, self._obs_column)

    def embeddings(self, names: Iterable[str]) -> dict[str, npt.NDArray[Any]]:
        """The entries of obsm, each with a row for each row of the file.

        Those of a modality come before those that all modalities share.

        Raises
        ------
        KeyError
            There is no such entry; the message lists those there are.
        ValueError
            One is no array of numbers.
        """
        return each_of(names, self._embedding)

    def _obs_column(self, name: str) -> ObsValues:
        with naming(self.path):
            own = self._own_obs_column(name)
            values = file_column(self.experiment, name) if own is None else own
        length = len(values["codes"]) if isinstance(values, dict) else len(values)
        if length != self.n_obs:
            raise CorruptFileError(
                f"obs column {name!r} has {length} entries for {self.n_obs} cells",
                path=self.path,
                section="obs",
            )
        return values

    def _own_obs_column(self, name: str) -> ObsValues | None:
        """A column of the modality alone, spread over the rows of the file; None without it."""
        if self.modality is None or name in self.experiment.obs_keys():
            return None
        frame = self.modality.obs
        if frame is None or name not in frame.columns:
            return None
        values = training_column(frame_column(frame[name]), name)
        result: ObsValues = _spread(values, self.modality.rows, self.n_obs)
        return result

    def _embedding(self, name: str) -> npt.NDArray[Any]:
        shared: Mapping[str, Any] = self.experiment.obsm
        own: Mapping[str, Any] = {} if self.modality is None else self.modality.obsm
        if name not in own and name not in shared:
            names = ", ".join(dict.fromkeys([*own, *shared])) or "none"
            raise NameNotFoundError(f"{self.path} has no obsm entry {name!r}; it has {names}")
        value = own[name] if name in own else shared[name]
        with naming(self.path):
            value = numbers(value, f"obsm[{name!r}]")
        rows = self.modality.rows if self.modality is not None and name in own else None
        result: npt.NDArray[Any] = _spread(value, rows, self.n_obs)
        return result


def open_source(
    path: str | os.PathLike[str],
    *,
    source: str = "X",
    modality: str | None = None,
    warns: bool = False,
) -> Source:
    """Open the file of a data set.

    With `warns` there is a UserWarning when a modality has to be chosen for the user.

    Raises
    ------
    CorruptFileError
        The file is damaged or cut off.
    KeyError
        There is no such modality or layer; the message lists those there are.
    ValueError
        The file has no such matrix, or needs something that this version cannot do.
    OSError
        It cannot be opened.
    """
    experiment = open_with_all_rows(path)
    part = _modality(experiment, modality, warns=warns)
    return source_of(experiment, part, source)


def open_with_all_rows(path: str | os.PathLike[str]) -> Experiment:
    """A file whose rows are numbered as they are stored, as batches and plans number them.

    Deleted ones are there too; `deleted_rows` says which they are.
    """
    return Experiment(one_path(path), include_deleted=True)


def source_of(experiment: Experiment, part: Modality | None, source: str) -> Source:
    """One matrix of an open file, of a modality where the file has any; raises as `open_source`.

    The file comes from `open_with_all_rows`.
    """
    assert experiment.n_obs == experiment.n_obs_physical
    holder = experiment if part is None else part
    name = "" if part is None else part.name
    modality_id = 0 if part is None else part.modality_id
    where = _where(experiment.path, None if part is None else name)
    wanted = _address(holder, name, source, where)
    shards = list(_shards(experiment.file, wanted, modality_id))
    if not shards and experiment.n_obs > 0:
        layers = ", ".join(holder.layers) or "none"
        raise ValueError(f"{where} has no X to stream (its layers: {layers})")
    matrix = None
    n_vars = _n_vars(holder, source)
    if shards:
        matrix = Matrix(
            experiment.file,
            section_type=wanted.section_type,
            name=wanted.name,
            modality_id=modality_id,
        )
        if matrix.shape != (experiment.n_obs, n_vars):
            raise CorruptFileError(
                f"{source} is {matrix.shape[0]} x {matrix.shape[1]} by its shards, but "
                f"{experiment.n_obs} x {n_vars} by obs and var",
                path=experiment.path,
            )
    starts = [shard.row_start for section in shards if (shard := section.shard)]
    return Source(
        experiment=experiment,
        modality=part,
        matrix=matrix,
        label=source,
        shard_starts=np.array([*sorted(starts), experiment.n_obs], dtype=np.int64),
        n_vars=n_vars,
    )


@dataclass(frozen=True)
class _Address:
    section_type: SectionType
    name: str
    shard_name: Callable[[int], str]


def _modality(experiment: Experiment, name: str | None, *, warns: bool) -> Modality | None:
    if not experiment.is_multimodal:
        return None
    if name is not None:
        return experiment.modality(name)
    names = sorted(experiment.modality_names)
    if warns:
        warn(
            f"{experiment.path} is multimodal, and no modality was named: {names[0]!r} is read, "
            f"the first of {', '.join(names)}; pass modality={names[0]!r} to say so",
        )
    return experiment.modality(names[0])


def _where(path: str, modality: str | None) -> str:
    return path if modality is None else f"modality {modality!r} of {path}"


def _address(holder: Experiment | Modality, modality: str, source: str, where: str) -> _Address:
    if source == "X":
        shard_name = partial(section_names.x_shard, modality)
        return _Address(SectionType.CSR_SHARD, "X", shard_name)
    if source == "raw":
        if holder.raw is None:
            raise ValueError(f"{where} has no raw")
        shard_name = partial(section_names.raw_shard, modality)
        return _Address(SectionType.RAW_CSR_SHARD, "raw/X", shard_name)
    if not source.startswith(LAYERS):
        raise ValueError(f"source={source!r} must be 'X', 'raw' or 'layers/NAME'")
    layer = source[len(LAYERS) :]
    if layer not in holder.layers:
        raise NameNotFoundError(
            f"{where} has no layer {layer!r}; it has {', '.join(holder.layers) or 'none'}"
        )
    shard_name = partial(section_names.layer_shard, modality, layer)
    return _Address(SectionType.LAYER_CSR_SHARD, layer, shard_name)


def _n_vars(holder: Experiment | Modality, source: str) -> int:
    if source != "raw":
        return holder.n_vars
    assert holder.raw is not None
    return holder.raw.n_vars


def _shards(file: FileReader, wanted: _Address, modality_id: int) -> Iterator[Section]:
    found = {
        section.name: section
        for section in file.sections
        if section.section_type == wanted.section_type and section.modality_id == modality_id
    }
    number = 0
    while (name := wanted.shard_name(number)) in found:
        yield found[name]
        number += 1


def _spread(values: Any, rows: npt.NDArray[np.int64] | None, n_obs: int) -> Any:
    """Entries of a modality's cells at the file's rows; what stands elsewhere is never read."""
    if rows is None:
        return values
    if isinstance(values, dict):
        return {**values, "codes": _spread(values["codes"], rows, n_obs)}
    result = np.zeros((n_obs, *values.shape[1:]), dtype=values.dtype)
    result[rows] = values
    return result
