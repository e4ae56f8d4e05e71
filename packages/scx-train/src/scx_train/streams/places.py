"""Where the cells of a data set stand: in which of its files, and which genes those have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from scx_core._genes import GeneMatch
from scx_train.inputs.cells import Cells
from scx_train.inputs.file_set import FileSet
from scx_train.inputs.joined_files import JoinedFiles, file_of
from scx_train.inputs.source import Source
from scx_train.streams.order import Rows
from scx_train.streams.progress import digest


def contents_of(cells: Cells) -> tuple[str, ...]:
    """For each file: equal for equal content, of which the same rows are deleted."""
    parts = cells.parts if isinstance(cells, JoinedFiles) else (cells,)
    return tuple(digest(repr(part.fingerprint).encode()) for part in parts)


def replaced(path: str, what: str) -> str:
    """The message where a file is not what it was when something was built."""
    return (
        f"{path} was replaced by a file of other content since this {what} was built, or rows of "
        "it were marked as deleted: build a new one"
    )


def _some(paths: list[str]) -> str:
    return paths[0] if len(paths) == 1 else f"{paths[0]} (and {len(paths) - 1} more)"


class FilePlaces:
    """Cells of one file or several.

    A subclass calls `_keep_places` or `_share_places` in its constructor.
    """

    def _keep_places(self, cells: Cells) -> None:
        """Keep where files begin, if there are several; not the files themselves."""
        self._has_list = isinstance(cells, JoinedFiles)
        if isinstance(cells, JoinedFiles):
            self._paths = tuple(part.path for part in cells.parts)
            self._row_offsets = cells.row_offsets
        else:
            self._paths = (cells.path,)
            self._row_offsets = np.array([0, cells.n_obs], dtype=np.int64)
        self._file_contents = contents_of(cells)

    def _share_places(self, other: FilePlaces) -> None:
        """Keep what a data set over the same files has kept."""
        self._has_list, self._paths = other._has_list, other._paths
        self._row_offsets = other._row_offsets
        self._file_contents = other._file_contents

    def _replaced(self, contents: tuple[str, ...], what: str) -> str:
        """The message where files have this content now, of `contents_of`, and another then."""
        then_and_now = zip(self._paths, self._file_contents, contents, strict=True)
        changed = list(dict.fromkeys(path for path, then, now in then_and_now if then != now))
        return replaced(_some(changed), what)

    @property
    def paths(self) -> tuple[str, ...]:
        """The files."""
        return self._paths

    @property
    def row_offsets(self) -> npt.NDArray[np.int64]:
        """int64; the first row of each file and, as the last entry, the number of rows.

        `cell_indices - row_offsets[file_ids]` are the rows in the files themselves.
        """
        return self._row_offsets.copy()

    def _add_file_ids(self, batch: dict[str, Any], rows: Rows) -> None:
        """Say of which file each cell is, where there may be several."""
        if self._has_list:
            batch["file_ids"] = file_of(self._row_offsets, rows)


@dataclass(frozen=True)
class FileGenes:
    """What the columns of batches are in each file.

    Attributes
    ----------
    matches
        How well the genes of each of several files fit; empty for a single path.
    measured
        bool, shape (files, columns), read-only: which columns each file has at all.
    digest
        Equal for the same common genes of the same files; None for a single path.
    """

    matches: tuple[GeneMatch, ...]
    measured: npt.NDArray[np.bool_]
    digest: str | None

    @property
    def n_genes_max(self) -> int:
        """Genes of that of several files which has most; 0 for a single path."""
        return max((match.n_genes for match in self.matches), default=0)


def genes_of_files(opened: Source | FileSet, panel: npt.NDArray[np.uint32] | None) -> FileGenes:
    """What is kept of the genes of files, of which batches have those of the panel."""
    matches: tuple[GeneMatch, ...] = ()
    measured, digest = np.ones((1, opened.n_vars), dtype=bool), None
    if isinstance(opened, FileSet):
        matches, measured = opened.genes.matches, opened.genes.measured
        digest = opened.genes_digest
    if panel is not None:
        measured = measured[:, panel]
    measured.setflags(write=False)
    return FileGenes(matches, measured, digest)
