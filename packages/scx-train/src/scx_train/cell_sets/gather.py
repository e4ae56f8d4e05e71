"""Rows of several files as one CSR batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scx_core.native import binding
from scx_core.native.binding import CData, native
from scx_core.native.joined import JoinedCsr, RowSource, row_sources
from scx_core.native.matrix import LOG1P, NORMALIZE
from scx_core.native.packing import CsrArrays, packed
from scx_train.cell_sets.downsample import METHODS, Downsampling
from scx_train.cell_sets.plans import CellSetPlan
from scx_train.cell_sets.readers import Reader, Readers


@dataclass(frozen=True)
class RowChanges:
    """What happens to each row on its way into a batch.

    Attributes
    ----------
    remap_tables
        int32 for each file: the new column of each of its columns, -1 for none; None for no change.
    downsampling, file_identities
        How counts are drawn down, and what stands for each file then (uint64); None for not at all.
    normalize, log1p, target_sum
        What is done last.
    """

    remap_tables: tuple[npt.NDArray[np.int32], ...] | None
    downsampling: Downsampling | None
    file_identities: npt.NDArray[np.uint64] | None
    normalize: bool
    log1p: bool
    target_sum: float

    def options(self, threads: int) -> CData:
        """The `scx_joined_options` of them."""
        draw = self.downsampling
        return binding.new_struct(
            "scx_joined_options",
            threads=threads,
            transform=NORMALIZE * self.normalize + LOG1P * self.log1p,
            downsample_method=0 if draw is None else METHODS[draw.method],
            target_sum=self.target_sum,
            downsample_target=0 if draw is None else draw.target,
            downsample_seed=0 if draw is None else draw.seed,
        )


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

    def open_pipeline(self, *, n_cols: int, batches: int, threads: int) -> JoinedCsr:
        """What decodes rows of all files put end to end, in threads of its own."""
        files = np.flatnonzero(self._readers.manifest.n_rows)  # without cells there are no rows
        with self._readers.lease(files.tolist()) as readers:
            return JoinedCsr(
                self._sources(files, readers),
                self._changes.options(threads),
                n_columns=n_cols,
                batches=batches,
                threads=threads,
            )

    def fits(self, plan: CellSetPlan) -> bool:
        """Whether all files of a plan may be open at once."""
        return len(plan.files) <= self._readers.limit

    def gather(self, plan: CellSetPlan, *, threads: int) -> CsrArrays:
        """The rows of a plan, in its order."""
        if self.fits(plan):
            with self._readers.lease(plan.files.tolist()) as readers:
                rows = _Rows(self._sources(plan.files, readers), plan.source_of_row, plan.rows)
                starts, kept, indices, data = rows.decode(self._changes.options(threads))
            return packed(starts, kept, indices, data, in_place=True)
        return self._one_by_one(plan, threads=threads)

    def _one_by_one(self, plan: CellSetPlan, *, threads: int) -> CsrArrays:
        """One file after the other, so that no more are open than may be."""
        starts = np.zeros(len(plan.rows), dtype=np.int64)
        kept = np.zeros(len(plan.rows), dtype=np.int64)
        parts: list[tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]] = []
        end = 0
        by_file = np.argsort(plan.source_of_row, kind="stable")
        bounds = np.searchsorted(plan.source_of_row[by_file], np.arange(len(plan.files) + 1))
        for place, file_id in enumerate(plan.files.tolist()):
            here = by_file[bounds[place] : bounds[place + 1]]
            with self._readers.lease([file_id]) as readers:
                sources = self._sources(plan.files[place : place + 1], readers)
                rows = _Rows(sources, np.zeros(len(here), dtype=np.uint32), plan.rows[here])
                decoded = rows.decode(self._changes.options(threads))
            starts[here], kept[here] = decoded[0] + end, decoded[1]
            end += len(decoded[2])
            parts.append(decoded[2:])
        indices = np.concatenate([part[0] for part in parts])
        data = np.concatenate([part[1] for part in parts])
        return packed(starts, kept, indices, data, in_place=False)

    def _sources(self, files: npt.NDArray[np.int64], readers: Sequence[Reader]) -> list[RowSource]:
        changes = self._changes
        tables, identities = changes.remap_tables, changes.file_identities
        sources = []
        for file_id, reader in zip(files.tolist(), readers, strict=True):
            assert reader.matrix is not None  # a file without cells has no rows
            sources.append(
                RowSource(
                    reader.matrix,
                    reader.path,
                    None if tables is None else tables[file_id],
                    0 if identities is None else int(identities[file_id]),
                )
            )
        return sources


class _Rows:
    """Rows of open files, as the native calls take them."""

    def __init__(
        self,
        sources: list[RowSource],
        source_of_row: npt.NDArray[np.uint32],
        rows: npt.NDArray[np.int64],
    ) -> None:
        self._sources = sources
        structs, kept = row_sources(sources)
        self._n_rows = len(rows)
        self._struct = binding.new_struct(
            "scx_joined_rows",
            n_sources=len(sources),
            sources=structs,
            source_of_row=binding.input_array(source_of_row, np.uint32, "source_of_row"),
            rows=binding.input_array(rows, np.int64, "rows"),
            n_rows=len(rows),
        )
        # The structs hold bare pointers: what these point to is kept here.
        self._kept = (kept, source_of_row, rows)

    def decode(
        self, options: CData
    ) -> tuple[
        npt.NDArray[np.int64],
        npt.NDArray[np.int64],
        npt.NDArray[np.int32],
        npt.NDArray[np.float32],
    ]:
        """Where each row begins, how many entries it has, and their indices and values."""
        counts = np.empty(self._n_rows, dtype=np.int64)
        self._call("scx_joined_counts", binding.output_array(counts, np.int64, "counts"))
        ends = np.cumsum(counts)
        starts = ends - counts
        n_values = int(ends[-1]) if self._n_rows else 0
        indices = np.empty(n_values, dtype=np.int32)
        data = np.empty(n_values, dtype=np.float32)
        kept = np.empty(self._n_rows, dtype=np.int64)
        output = binding.new_struct(
            "scx_joined_output",
            starts=binding.input_array(starts, np.int64, "starts"),
            counts=binding.input_array(counts, np.int64, "counts"),
            indices=binding.output_array(indices, np.int32, "indices"),
            values=binding.output_array(data, np.float32, "data"),
            kept=binding.output_array(kept, np.int64, "kept"),
        )
        self._call("scx_joined_gather", options, output)
        return starts, kept, indices, data

    def _call(self, function: str, *arguments: CData) -> None:
        library = native()
        failed = library.ffi.new("uint64_t *")
        error = library.ffi.new("scx_error *")
        status = getattr(library.lib, function)(self._struct, *arguments, failed, error)
        source = int(failed[0])
        path = self._sources[source].path if source < len(self._sources) else None
        binding.check(status, error, path=path)
