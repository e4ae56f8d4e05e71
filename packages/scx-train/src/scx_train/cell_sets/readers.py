"""The files of a data set over many: which of them are open."""

from __future__ import annotations

import hashlib
import os
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from scx_core._errors import CorruptFileError
from scx_core._faults import Faults
from scx_core._section_names import SectionType
from scx_core.native.container import FileReader
from scx_core.native.matrix import Matrix
from scx_train._given import one_path_or_list, path_list
from scx_train.inputs.content import rows_digest
from scx_train.inputs.counts import warn_unless_counts
from scx_train.inputs.source import open_source


@dataclass(frozen=True)
class Reader:
    """One open file, and what is known of it.

    Attributes
    ----------
    path
        The file.
    title
        The matrix and its modality, for messages.
    matrix
        The matrix that is read; None in a file without cells.
    n_rows, n_cols
        Its shape.
    shard_starts
        int64; first row of each shard and, as the last entry, the number of rows.
    cells
        int64, ascending; the rows that the modality has; None for all of the file's.
    deleted
        int64, ascending; the rows that are marked as deleted.
    genes
        Equal for files of equal var tables, which so have the same genes; others may have, too.
    content
        Equal as long as the file's matrices are the same.
    """

    path: str
    title: str
    matrix: Matrix | None
    n_rows: int
    n_cols: int
    shard_starts: npt.NDArray[np.int64]
    cells: npt.NDArray[np.int64] | None
    deleted: npt.NDArray[np.int64]
    genes: bytes
    content: bytes

    @property
    def rows(self) -> npt.NDArray[np.int64] | None:
        """int64, ascending; the rows that plans may name; None for all."""
        if self.cells is None and not len(self.deleted):
            return None
        cells = np.arange(self.n_rows, dtype=np.int64) if self.cells is None else self.cells
        live: npt.NDArray[np.int64] = np.setdiff1d(cells, self.deleted)
        return live


@dataclass(frozen=True)
class Selection:
    """Which matrix of each file is read; as `TrainingDataset` has the arguments."""

    source: str = "X"
    modality: str | None = None

    def open(self, path: str, *, warns: bool = False) -> Reader:
        """Open a file; raises and warns as `open_source` does."""
        if self.source == "X" and self.modality is None:
            reader = _open_plain(path)
            if reader is not None:
                return reader
        opened = open_source(
            path,
            source=self.source,
            modality=self.modality,
            warns=warns,
        )
        return Reader(
            path=opened.path,
            title=opened.title,
            matrix=opened.matrix,
            n_rows=opened.n_obs,
            n_cols=opened.n_vars,
            shard_starts=opened.shard_starts,
            cells=None if opened.modality is None else opened.modality.rows,
            deleted=opened.experiment.deleted_rows,
            genes=_digest(opened.var_names()),
            content=rows_digest(opened.experiment.file),
        )

    def genes_by_name(self, path: str) -> bytes:
        """A digest of the names of the genes of a file."""
        return _digest(open_source(path, source=self.source, modality=self.modality).var_names())


def _digest(names: npt.NDArray[np.object_]) -> bytes:
    text = "\0".join(map(str, names))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def _open_plain(path: str) -> Reader | None:
    """X of a file of one modality, without looking at anything else; None for other files."""
    file = FileReader(path)
    if file.info.n_modalities:
        return None
    var = file.find(SectionType.VAR, "var")
    if var is None:
        return None
    n_rows, n_cols = file.info.n_obs, file.info.n_vars
    matrix = None
    starts = [0]
    if n_rows:
        try:
            matrix = Matrix(file, section_type=SectionType.CSR_SHARD, name="X")
        except KeyError:
            return None  # whose error says what there is instead
        if matrix.shape != (n_rows, n_cols):
            return None
        starts = [
            shard.row_start
            for section in file.sections
            if section.section_type == SectionType.CSR_SHARD and (shard := section.shard)
        ]
    return Reader(
        path=file.path,
        title="X",
        matrix=matrix,
        n_rows=n_rows,
        n_cols=n_cols,
        shard_starts=np.array([*sorted(starts), n_rows], dtype=np.int64),
        cells=None,
        deleted=file.deleted_rows(),
        genes=var.blake3,
        content=rows_digest(file),
    )


@dataclass(frozen=True)
class Manifest:
    """What the constructor learnt about the files.

    Attributes
    ----------
    paths
        In the order given: a file's place is its file id.
    n_rows, n_cols, nnz
        int64, of each file.
    shard_starts
        Of each file, as of `Reader`.
    cells, deleted
        As of `Reader`, of the files where not all rows can be read.
    genes, contents
        Of each file.
    """

    paths: tuple[str, ...]
    n_rows: npt.NDArray[np.int64]
    n_cols: npt.NDArray[np.int64]
    nnz: npt.NDArray[np.int64]
    shard_starts: tuple[npt.NDArray[np.int64], ...]
    cells: dict[int, npt.NDArray[np.int64]]
    deleted: dict[int, npt.NDArray[np.int64]]
    genes: tuple[bytes, ...]
    contents: tuple[bytes, ...]

    @property
    def n_bytes(self) -> int:
        """Memory that it takes, about."""
        per_file = 3 * 8 + 250  # the numbers; a path, an array's head, and a digest
        return len(self.paths) * per_file + sum(starts.nbytes for starts in self.shard_starts)

    @property
    def mean_values(self) -> float:
        """Stored values of a row on average over all files."""
        return int(self.nnz.sum()) / max(1, int(self.n_rows.sum()))


class Readers:
    """Opens files when they are needed and keeps the ones used last, at most `limit` of them.

    A plan that needs more files at once than that has them all open as long as it needs them.

    Parameters
    ----------
    paths
        The files. Each is opened once to look at it.
    selections
        Which matrix of each.
    limit
        How many stay open; None for all.
    unless_counts
        What to say in a warning about the first file whose values are no counts; None for none.
    """

    def __init__(
        self,
        paths: Sequence[str],
        selections: Sequence[Selection],
        *,
        limit: int | None,
        unless_counts: str | None = None,
    ) -> None:
        self._selections = selections
        self._limit = len(paths) if limit is None else limit
        # Reentrant: a garbage collection under the lock may end an iterator that holds a lease.
        self._lock = threading.RLock()
        self._open: OrderedDict[int, Reader] = OrderedDict()
        self._leases: dict[int, int] = {}
        self._opens = 0
        self._evictions = 0
        self._high_water = 0
        columns: dict[str, list[Any]] = {
            name: [] for name in ("rows", "cols", "nnz", "starts", "genes", "contents")
        }
        cells: dict[int, npt.NDArray[np.int64]] = {}
        deleted: dict[int, npt.NDArray[np.int64]] = {}
        same: dict[bytes, bytes] = {}
        faults = Faults()
        for file_id, (path, selection) in enumerate(zip(paths, selections, strict=True)):
            reader = None
            with faults.kept():
                reader = selection.open(path, warns=True)
            if reader is None:
                continue
            columns["rows"].append(reader.n_rows)
            columns["cols"].append(reader.n_cols)
            columns["nnz"].append(0 if reader.matrix is None else reader.matrix.nnz)
            columns["starts"].append(reader.shard_starts)
            columns["genes"].append(same.setdefault(reader.genes, reader.genes))
            columns["contents"].append(reader.content)
            if reader.cells is not None:
                cells[file_id] = reader.cells
            if len(reader.deleted):
                deleted[file_id] = reader.deleted
            if unless_counts is not None and warn_unless_counts([reader], unless_counts):
                unless_counts = None  # once is enough
            if len(self._open) < self._limit:
                self._add(file_id, reader)
        faults.raise_kept()
        self.manifest = Manifest(
            paths=tuple(paths),
            n_rows=np.array(columns["rows"], dtype=np.int64),
            n_cols=np.array(columns["cols"], dtype=np.int64),
            nnz=np.array(columns["nnz"], dtype=np.int64),
            shard_starts=tuple(columns["starts"]),
            cells=cells,
            deleted=deleted,
            genes=tuple(columns["genes"]),
            contents=tuple(columns["contents"]),
        )

    @property
    def limit(self) -> int:
        """How many files stay open."""
        return self._limit

    @contextmanager
    def lease(self, file_ids: Sequence[int]) -> Iterator[list[Reader]]:
        """The readers of these files, distinct ones, which stay open meanwhile."""
        held: list[int] = []
        try:
            readers = []
            for file_id in file_ids:
                with self._lock:
                    readers.append(self._take(file_id))
                    held.append(file_id)
            yield readers
        finally:
            with self._lock:
                for file_id in held:
                    self._leases[file_id] -= 1
                    if self._leases[file_id] == 0:
                        del self._leases[file_id]
                self._evict(self._limit)

    def report(self) -> dict[str, int]:
        """The counters of the readers."""
        with self._lock:
            return {
                "reader_opens": self._opens,
                "reader_evictions": self._evictions,
                "reader_resident": len(self._open),
                "reader_hwm": self._high_water,
            }

    def _take(self, file_id: int) -> Reader:
        reader = self._open.get(file_id)
        if reader is None:
            self._evict(self._limit - 1)
            reader = self._reopened(file_id)
            self._add(file_id, reader)
        else:
            self._open.move_to_end(file_id)
        self._leases[file_id] = self._leases.get(file_id, 0) + 1
        return reader

    def _add(self, file_id: int, reader: Reader) -> None:
        self._open[file_id] = reader
        self._opens += 1
        self._high_water = max(self._high_water, len(self._open))

    def _evict(self, n_kept: int) -> None:
        """Close what was not used for the longest time and is not in use now."""
        if len(self._open) <= n_kept:
            return
        for file_id in list(self._open):
            if file_id not in self._leases:
                del self._open[file_id]
                self._evictions += 1
                if len(self._open) <= n_kept:
                    return

    def _reopened(self, file_id: int) -> Reader:
        manifest = self.manifest
        reader = self._selections[file_id].open(manifest.paths[file_id])
        known = (int(manifest.n_rows[file_id]), int(manifest.n_cols[file_id]))
        if (reader.n_rows, reader.n_cols) != known or reader.genes != manifest.genes[file_id]:
            raise CorruptFileError(
                f"it was replaced by another file since the data set was built: it was "
                f"{known[0]} x {known[1]} and is {reader.n_rows} x {reader.n_cols}, or its genes "
                "changed; build the data set anew",
                path=reader.path,
            )
        if reader.content != manifest.contents[file_id]:
            raise CorruptFileError(
                "it was replaced by another file since the data set was built, which has other "
                "values; build the data set anew",
                path=reader.path,
            )
        return reader


def checked_paths(paths: Any) -> list[str]:
    """The paths of a manifest, as str, absolute; folders and patterns stand for their files.

    Raises TypeError when it is a single file or no list of paths, and ValueError when it is empty.
    """
    if isinstance(paths, str | os.PathLike):
        files = one_path_or_list(paths, "paths")
        if not isinstance(files, str):
            return list(files)
    if isinstance(paths, str | bytes | os.PathLike):
        raise TypeError(f"paths={paths!r} must be a list of paths; for one file pass [path]")
    if isinstance(paths, Set | Mapping):
        raise TypeError(f"paths={paths!r} must be a list of paths: file_ids are places in it")
    return list(path_list(paths, "paths"))
