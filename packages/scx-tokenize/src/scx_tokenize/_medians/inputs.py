"""The files that medians are taken of: looked at once, then opened whenever it is their turn."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from scx_core._faults import each_of
from scx_core._genes import JoinedGenes
from scx_tokenize._genes import FileGenes, file_genes, match_genes
from scx_tokenize.jobs._cells import Cells, H5adCells, open_cells
from scx_tokenize.jobs._fractions import first_fractions, warn_of_fractions
from scx_tokenize.jobs._inputs import content_identities, turned_file
from scx_tokenize.jobs._obs import kept_positions


@dataclass(frozen=True)
class Selection:
    """What of each file is read; as `medians` has the arguments."""

    source: str = "X"
    modality: str | None = None
    obs_filter: str | None = None
    gene_key: str | None = None


@dataclass(frozen=True)
class Input:
    """The cells of one file.

    Attributes
    ----------
    path
        The file.
    selection
        What of it is read.
    turned
        A .scx file with its rows, where an .h5ad has no rows to read; else None.
    is_in_rows
        Whether it can be read by rows, or through `turned` alone.
    n_cells
        How many are taken.
    positions
        int64, ascending; which of its cells are taken, None for all.
    n_genes
        Columns of its matrix.
    places
        Where its genes are among those of all files, as of `JoinedGenes.columns`.
    stamp
        Bytes and time of the file when it was looked at.
    identity
        What stands for its content.
    has_fractions
        Whether its first cells have values that are no counts.
    """

    path: str
    selection: Selection
    turned: str | None
    is_in_rows: bool
    n_cells: int
    positions: npt.NDArray[np.int64] | None
    n_genes: int
    places: npt.NDArray[np.int32] | None
    stamp: tuple[int, int]
    identity: str
    has_fractions: bool

    def open(self) -> Cells:
        """Open it; RuntimeError when it is no longer the file that was looked at."""
        if stamp_of(self.path) != self.stamp:
            raise RuntimeError(f"{self.path} was changed meanwhile: start again")
        return open_cells(
            self.path,
            source=self.selection.source,
            modality=self.selection.modality,
            turned=self.turned,
        )

    def chosen(self, start: int, stop: int) -> npt.NDArray[np.int64]:
        """Positions of the cells `start` to `stop` of those that are taken."""
        if self.positions is None:
            return np.arange(start, stop, dtype=np.int64)
        return self.positions[start:stop]


def look_at(
    paths: Sequence[str], selection: Selection, *, min_known_genes: float
) -> tuple[list[Input], JoinedGenes]:
    """Open each file once, and match their genes; errors as of `medians`."""
    looked = list(each_of(paths, partial(_look_at_one, selection=selection)).values())
    genes = match_genes([ids for _, ids in looked], min_known_genes=min_known_genes)
    tell_of_fractions([each for each, _ in looked if each.has_fractions])
    identities = content_identities(paths)
    inputs = [
        replace(each, places=places, identity=identity)
        for (each, _), places, identity in zip(looked, genes.columns, identities, strict=True)
    ]
    return inputs, genes


def tell_of_fractions(inputs: Sequence[Input]) -> None:
    """Warn of inputs that hold something else than counts."""
    if inputs:
        paths = [each.path for each in inputs]
        warn_of_fractions(paths, inputs[0].selection.source, "medians are made of")


def _look_at_one(path: str, selection: Selection) -> tuple[Input, FileGenes]:
    stamp = stamp_of(path)
    with open_cells(path, source=selection.source, modality=selection.modality) as cells:
        var = cells.var()
        is_in_rows = not isinstance(cells, H5adCells) or cells.is_in_rows
        positions = None
        if selection.obs_filter is not None:
            positions = kept_positions(cells.obs(), selection.obs_filter, path=path)
        found = Input(
            path=path,
            selection=selection,
            turned=None,
            is_in_rows=is_in_rows,
            n_cells=len(cells.rows) if positions is None else len(positions),
            positions=positions,
            n_genes=len(var),
            places=None,
            stamp=stamp,
            identity="",
            has_fractions=first_fractions(cells, is_in_rows=is_in_rows),
        )
        return found, file_genes(path, var, selection.gene_key)


def in_rows(inputs: Sequence[Input], folder: Path) -> list[Input]:
    """The inputs, with .scx files in `folder` for those that cannot be read by rows."""
    return [
        each
        if each.is_in_rows
        else replace(each, turned=str(turned_file(each, each.selection.source, folder)))
        for each in inputs
    ]


def stamp_of(path: str) -> tuple[int, int]:
    """What changes when a file is replaced or written to."""
    facts = os.stat(path)
    return facts.st_size, facts.st_mtime_ns
