"""Inputs before a job starts: what is in them, and whether they fit."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from scx_core._errors import NameNotFoundError
from scx_core._genes import without_version
from scx_core._paths import StrPath, input_paths, refuse_repeats
from scx_core.native.threads import usable_cpus

from .._genes import FileGenes, file_genes, match_genes
from ._cells import Cells, H5adCells, ScxCells, kind_of, open_cells
from ._description import InputFile
from ._files import blake3_of, each_in_threads
from ._fractions import first_fractions
from ._obs import kept_positions, obs_arrays
from ._vocabulary import Vocabulary

if TYPE_CHECKING:
    import pandas as pd

TURNED_FOLDER = "turned"
SUFFIXES = (".scx", ".h5ad")


def job_inputs(inputs: StrPath | Sequence[StrPath]) -> list[str]:
    """The files of a job, each once, in the order of `inputs`; raises as `input_paths` does."""
    paths = input_paths(inputs, suffixes=SUFFIXES)
    refuse_repeats(paths)
    return paths


@dataclass(frozen=True)
class InputOptions:
    """What of the inputs is read; attributes are arguments of `run`."""

    source: str
    modality: str | None
    gene_key: str | None
    gene_synonyms: Mapping[str, str] | None
    gene_filter: str | None
    min_known_genes: float
    obs_columns: tuple[str, ...]
    obs_filter: str | None


@dataclass(frozen=True)
class Inspected:
    """One input as it was found.

    Attributes
    ----------
    path
        The file.
    genes
        Its genes.
    selected
        bool, which of them are taken; None for all.
    obs_types
        The types of the columns of obs that are kept.
    n_cells
        Cells that are taken.
    is_in_rows
        Whether rows can be read one by one.
    has_fractions
        Whether the first cells have values that are no counts.
    """

    path: str
    genes: FileGenes
    selected: npt.NDArray[np.bool_] | None
    obs_types: Mapping[str, Any]
    n_cells: int
    is_in_rows: bool
    has_fractions: bool


def inspect(path: str, options: InputOptions) -> Inspected:
    """Look at an input; raises what `open_cells`, `file_genes` and the columns of obs raise."""
    with open_cells(path, source=options.source, modality=options.modality) as cells:
        var = cells.var()
        genes = file_genes(path, var, options.gene_key, synonyms=options.gene_synonyms)
        selected = None
        if options.gene_filter is not None:
            selected = _flags(var, options.gene_filter, path)
        n_cells = len(cells.rows)
        obs_types: dict[str, Any] = {}
        if options.obs_filter is not None or options.obs_columns:
            obs = cells.obs()
            positions = kept_positions(obs, options.obs_filter, path=path)
            arrays = obs_arrays(obs.iloc[positions], options.obs_columns, path=path)
            obs_types = {name: array.type for name, array in arrays.items()}
            n_cells = len(positions)
        is_in_rows = not isinstance(cells, H5adCells) or cells.is_in_rows
        if isinstance(cells, H5adCells):
            _check_shape(cells, n_vars=len(var))
        fractions = first_fractions(cells, is_in_rows=is_in_rows)
        return Inspected(path, genes, selected, obs_types, n_cells, is_in_rows, fractions)


def input_files(
    inspected: Sequence[Inspected],
    vocabulary: Vocabulary,
    options: InputOptions,
    *,
    chosen: Sequence[str] | None,
    n_without_id: int,
) -> tuple[InputFile, ...]:
    """The inputs with the places of their genes in the vocabulary.

    `chosen` are the ids to take; None takes all that the vocabulary has. .h5ad files that are not
    in rows have no `turned` yet. `n_without_id` is as of `join_genes`, for a vocabulary that is the
    genes of a file.

    Raises
    ------
    ValueError
        A file knows too few genes of the vocabulary.
    """
    joined = match_genes(
        [one.genes for one in inspected],
        vocabulary.names,
        min_known_genes=options.min_known_genes,
        n_without_id=n_without_id,
    )
    wanted = None
    if chosen is not None:
        wanted = np.isin(joined.names, [without_version(name) for name in chosen])
        if not wanted.any():
            raise ValueError(
                f"genes names {len(chosen)} genes, such as {chosen[0]!r}, but the vocabulary has "
                f"none of them; its genes look like {vocabulary.names[0]!r}"
            )
    # before they are read: who writes to them then is noticed
    facts = [os.stat(one.path) for one in inspected]
    identities = content_identities([one.path for one in inspected])
    files = []
    for number, one in enumerate(inspected):
        columns, match = joined.columns[number], joined.matches[number]
        places = _selected(columns, len(vocabulary), one.selected, wanted)
        if places is not None and not np.any(places >= 0):
            if wanted is None and one.selected is None:
                raise ValueError(f"{one.path}: the vocabulary has none of its genes")
            raise ValueError(f"{one.path}: no gene is left of those that were selected")
        files.append(
            InputFile(
                path=os.path.abspath(one.path),
                kind=kind_of(one.path),
                size=facts[number].st_size,
                time=facts[number].st_mtime_ns,
                identity=identities[number],
                turned=None,
                n_cells=one.n_cells,
                places=places,
                n_genes=match.n_genes,
                n_known=match.n_known,
                n_merged=match.n_merged,
                share_known=match.share_known,
                has_fractions=one.has_fractions,
            )
        )
    return tuple(files)


def content_identities(paths: Sequence[str]) -> list[str]:
    """The `content_identity` of each file; several are read at once."""
    threads = max(1, usable_cpus() // max(1, len(paths)))
    identity = partial(content_identity, threads=threads)
    with closing(each_in_threads(identity, paths)) as identities:
        return list(identities)


def content_identity(
    path: str, stop: threading.Event | None = None, *, threads: int | None = None
) -> str:
    """What stands for the content of a file, hexadecimal.

    Of a .scx file, a hash of the names and hashes of its sections; of an .h5ad, its BLAKE3, by so
    many threads, or by as many as there are CPUs.
    """
    if kind_of(path) == "scx":
        from scx_core.experiment import Experiment

        with Experiment(path) as experiment:
            return _of_sections(experiment)
    return blake3_of(Path(path), stop, threads=threads or usable_cpus())


def identity_of(cells: Cells) -> str:
    """The `content_identity` of a .scx file that is open."""
    assert isinstance(cells, ScxCells)
    return _of_sections(cells.experiment)


def _of_sections(experiment: Any) -> str:
    parts = hashlib.sha256()
    for section in experiment.file.sections:
        parts.update(f"{section.section_type} {section.name}\0".encode("utf-8", "surrogatepass"))
        parts.update(section.blake3)
    return parts.hexdigest()


class Identified(Protocol):
    """A file and what stands for its content."""

    @property
    def path(self) -> str: ...

    @property
    def identity(self) -> str: ...


def turned_file(file: Identified, source: str, folder: Path) -> Path:
    """A .scx file with the matrix of an .h5ad that is not in CSR, made where it is not there yet.

    It is made in bounded memory, and lies in `folder` while the job lasts.
    """
    from scx_core.sources.base import ExperimentContent, ModalityContent
    from scx_core.writing import write_experiment

    target = folder / f"{file.identity}.scx"
    if target.exists():
        return target
    import pandas as pd

    folder.mkdir(parents=True, exist_ok=True)
    with H5adCells(file.path, source, None) as cells:
        matrix = cells.matrix_source
        names = [pd.RangeIndex(length).astype(str) for length in matrix.shape]
        content = ExperimentContent(
            obs=pd.DataFrame(index=names[0]),
            modalities={"": ModalityContent(var=pd.DataFrame(index=names[1]), X=matrix)},
        )
        write_experiment(target, content, progress=False)
    return target


def _selected(
    columns: npt.NDArray[np.int32] | None,
    n_places: int,
    selected: npt.NDArray[np.bool_] | None,
    wanted: npt.NDArray[np.bool_] | None,
) -> npt.NDArray[np.int32] | None:
    if selected is None and wanted is None:
        return columns
    places = np.arange(n_places, dtype=np.int32) if columns is None else columns
    kept = places >= 0
    if selected is not None:
        kept &= selected
    if wanted is not None:
        kept &= wanted[places]
    return np.where(kept, places, -1).astype(np.int32)


def _flags(var: pd.DataFrame, name: str, path: str) -> npt.NDArray[np.bool_]:
    if name not in var.columns:
        there = ", ".join(map(str, var.columns)) or "none"
        raise NameNotFoundError(f"{path} has no var column {name!r}; it has {there}")
    values = var[name]
    if values.dtype.kind != "b" or values.isna().any():
        raise ValueError(f"var column {name!r} of {path} is {values.dtype}, not true or false")
    return values.to_numpy(dtype=np.bool_)


def _check_shape(cells: H5adCells, *, n_vars: int) -> None:
    shape, n_obs = cells.matrix_source.shape, len(cells.obs())
    if shape != (n_obs, n_vars):
        raise ValueError(
            f"{cells.path}: the matrix is {shape[0]} x {shape[1]}, but obs and var are for {n_obs} "
            f"cells x {n_vars} genes"
        )
    if cells.matrix_source.dtype.kind not in "biuf":
        raise ValueError(f"{cells.path}: the matrix holds {cells.matrix_source.dtype}, not numbers")
