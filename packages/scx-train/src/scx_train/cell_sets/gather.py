"""Rows of several files as one CSR batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scx_core.native import binding
from scx_core.native.binding import CData
from scx_core.native.mapped_rows import gather_rows
from scx_core.native.members import Columns, Member
from scx_core.native.packing import CsrArrays, packed
from scx_core.native.pipeline import CsrPipeline
from scx_train.cell_sets.downsample import METHODS, Downsampling
from scx_train.cell_sets.plans import CellSetPlan
from scx_train.cell_sets.readers import Reader, Readers


@dataclass(frozen=True)
class RowChanges:
    """What happens to each row on its way into a batch. Negative values count as 0.

    Attributes
    ----------
    remap_tables
        int32 for each file: the new column of each of its columns, -1 for none; None for no change.
    n_cols
        How many columns batches have.
    downsampling, file_identities
        How counts are drawn down, and what stands for each file then (uint64); None for not at all.
    normalize, log1p, target_sum
        What is done last.
    """

    remap_tables: tuple[npt.NDArray[np.int32], ...] | None
    n_cols: int
    downsampling: Downsampling | None
    file_identities: npt.NDArray[np.uint64] | None
    normalize: bool
    log1p: bool
    target_sum: float

    def options(self) -> CData:
        """The `scx_row_changes` of them."""
        draw = self.downsampling
        return binding.new_struct(
            "scx_row_changes",
            clips=1,
            downsample_method=0 if draw is None else METHODS[draw.method],
            downsample_target=0 if draw is None else draw.target,
            downsample_seed=0 if draw is None else draw.seed,
        )

    def members(self, files: npt.NDArray[np.int64], readers: Sequence[Reader]) -> list[Member]:
        """The matrices of these files, each with its way into the columns of batches."""
        shared: dict[tuple[int, int], Columns] = {}  # files with the same table share it
        members = []
        for file_id, reader in zip(files.tolist(), readers, strict=True):
            assert reader.matrix is not None  # a file without cells has no rows
            table = None if self.remap_tables is None else self.remap_tables[file_id]
            key = (id(table), reader.n_cols)
            if key not in shared:
                shared[key] = Columns(
                    reader.n_cols,
                    table,
                    self.n_cols,
                    normalize=self.normalize,
                    log1p=self.log1p,
                    target_sum=self.target_sum,
                )
            identities = self.file_identities
            identity = 0 if identities is None else int(identities[file_id])
            members.append(Member(reader.matrix, shared[key], reader.path, identity))
        return members


class RowGather:
    """Gathers the rows of plans; several threads may do so at once."""

    def __init__(self, readers: Readers, changes: RowChanges) -> None:
        self._readers = readers
        self._changes = changes

    @property
    def keeps_all_open(self) -> bool:
        """Whether all files may be open at once."""
        return self._readers.limit >= len(self._readers.manifest.paths)

    @property
    def row_offsets(self) -> npt.NDArray[np.int64]:
        """int64, for each file: the rows of those before it."""
        n_rows = self._readers.manifest.n_rows
        offsets: npt.NDArray[np.int64] = np.cumsum(n_rows) - n_rows
        return offsets

    def open_pipeline(self, *, batches: int, threads: int) -> CsrPipeline:
        """What decodes rows of all files put end to end, in threads of its own."""
        files = np.flatnonzero(self._readers.manifest.n_rows)  # without cells there are no rows
        with self._readers.lease(files.tolist()) as readers:
            return CsrPipeline(
                self._changes.members(files, readers),
                changes=self._changes.options(),
                batches=batches,
                threads=threads,
            )

    def fits(self, plan: CellSetPlan) -> bool:
        """Whether all files of a plan may be open at once."""
        return len(plan.files) <= self._readers.limit

    def gather(self, plan: CellSetPlan, *, threads: int) -> CsrArrays:
        """The rows of a plan, in its order; `threads` is 0 for one per CPU."""
        if self.fits(plan):
            with self._readers.lease(plan.files.tolist()) as readers:
                return self._decoded(
                    plan.files, readers, plan.source_of_row, plan.rows, threads=threads
                )
        return self._one_by_one(plan, threads=threads)

    def _one_by_one(self, plan: CellSetPlan, *, threads: int) -> CsrArrays:
        """One file after the other, so that no more are open than may be."""
        starts = np.zeros(len(plan.rows), dtype=np.int64)
        kept = np.zeros(len(plan.rows), dtype=np.int64)
        parts: list[CsrArrays] = []
        end = 0
        by_file = np.argsort(plan.source_of_row, kind="stable")
        bounds = np.searchsorted(plan.source_of_row[by_file], np.arange(len(plan.files) + 1))
        for place, file_id in enumerate(plan.files.tolist()):
            here = by_file[bounds[place] : bounds[place + 1]]
            with self._readers.lease([file_id]) as readers:
                part = self._decoded(
                    plan.files[place : place + 1],
                    readers,
                    np.zeros(len(here), dtype=np.uint32),
                    plan.rows[here],
                    threads=threads,
                )
            starts[here], kept[here] = part[0][:-1] + end, np.diff(part[0])
            end += len(part[1])
            parts.append(part)
        indices = np.concatenate([part[1] for part in parts])
        data = np.concatenate([part[2] for part in parts])
        return packed(starts, kept, indices, data, in_place=False)

    def _decoded(
        self,
        files: npt.NDArray[np.int64],
        readers: Sequence[Reader],
        source_of_row: npt.NDArray[np.uint32],
        rows: npt.NDArray[np.int64],
        *,
        threads: int,
    ) -> CsrArrays:
        """Rows of open files: indptr (int64), indices and data."""
        counts = self._readers.manifest.n_rows[files]
        return gather_rows(
            self._changes.members(files, readers),
            rows + (np.cumsum(counts) - counts)[source_of_row],
            changes=self._changes.options(),
            threads=threads,
        )
