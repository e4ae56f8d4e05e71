"""What a data set reads from: one matrix of a file, its shards, and columns of obs."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scx_core._container import FileReader, Section
from scx_core._errors import CorruptFileError
from scx_core._matrix import Matrix
from scx_core._section_names import SectionType
from scx_core.experiment import Experiment

from ._obs import ObsValues, training_column

Fingerprint = tuple[tuple[str, bytes], ...]


@dataclass(frozen=True)
class Source:
    """An open file. It is closed when nothing refers to it any more.

    Attributes
    ----------
    path
        The file.
    matrix
        X; None in a file without cells.
    shard_starts
        int64; first row of each shard of X and, as the last entry, the number of rows.
    n_obs, n_vars
        Shape of X.
    fingerprint
        Names and hashes of all sections: equal for files of equal content.
    """

    path: str
    experiment: Experiment
    matrix: Matrix | None
    shard_starts: npt.NDArray[np.int64]
    n_obs: int
    n_vars: int
    fingerprint: Fingerprint

    def obs_columns(self, names: Iterable[str]) -> dict[str, ObsValues]:
        """The columns, each with an entry for each row.

        Raises
        ------
        KeyError
            There is no such column; the message lists those there are.
        ValueError
            A column holds what batches cannot.
        """
        return {name: self._obs_column(name) for name in names}

    def _obs_column(self, name: str) -> ObsValues:
        column = training_column(self.experiment.obs_column(name), name)
        length = len(column["codes"]) if isinstance(column, dict) else len(column)
        if length != self.n_obs:
            raise CorruptFileError(
                f"obs column {name!r} has {length} entries for {self.n_obs} cells",
                path=self.path,
                section="obs",
            )
        return column


def open_source(path: str | os.PathLike[str]) -> Source:
    """Open the file of a data set.

    Raises
    ------
    CorruptFileError
        The file is damaged or cut off.
    ValueError
        It is multimodal, has no X, or needs something that this version cannot do.
    OSError
        It cannot be opened.
    """
    experiment = Experiment(path)
    if experiment.is_multimodal:
        raise ValueError(
            f"{experiment.path} is multimodal ({', '.join(experiment.modality_names)}), but a "
            "TrainingDataset streams files with one matrix: write the modality to a file of its "
            "own, for example scx_core.write(experiment.to_anndata(modality=...), path)"
        )
    shards = _shards(experiment.file)
    if not shards and experiment.n_obs > 0:
        layers = ", ".join(experiment.layers) or "none"
        raise ValueError(f"{experiment.path} has no X to stream (its layers: {layers})")
    matrix = None
    if shards:
        matrix = Matrix(experiment.file, section_type=SectionType.CSR_SHARD, name="X")
        _check_shape(experiment, matrix)
    starts = [shard.row_start for section in shards if (shard := section.shard)]
    return Source(
        path=experiment.path,
        experiment=experiment,
        matrix=matrix,
        shard_starts=np.array([*sorted(starts), experiment.n_obs], dtype=np.int64),
        n_obs=experiment.n_obs,
        n_vars=experiment.n_vars,
        fingerprint=tuple((part.name, part.blake3) for part in experiment.file.sections),
    )


def _shards(file: FileReader) -> list[Section]:
    return [part for part in file.sections if part.section_type == SectionType.CSR_SHARD]


def _check_shape(experiment: Experiment, matrix: Matrix) -> None:
    if matrix.shape != experiment.shape:
        raise CorruptFileError(
            f"X is {matrix.shape[0]} x {matrix.shape[1]} by its shards, but {experiment.n_obs} x "
            f"{experiment.n_vars} by the header",
            path=experiment.path,
        )
