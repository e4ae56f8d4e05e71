"""SparseCellSetDataset: sets of cells out of several files, as an iterable of plans says."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy.typing as npt

from scx_core.native.pipeline import BATCHES_MAX
from scx_train import _arguments as arguments
from scx_train._process import usable_cpus
from scx_train._warn import warn
from scx_train.cell_sets.arguments import remap_tables as checked_tables
from scx_train.cell_sets.arguments import row_changes
from scx_train.cell_sets.batches import (
    CellSetBatch,
    CellSetCounters,
    CellSetSource,
    LeasingDecoder,
    SparseCellSetBatchIter,
)
from scx_train.cell_sets.budget import CellSetDemand
from scx_train.cell_sets.downsample import DownsampleMethod
from scx_train.cell_sets.gather import RowGather
from scx_train.cell_sets.pipeline import PipelineDecoder
from scx_train.cell_sets.plans import CellSetRules
from scx_train.cell_sets.readers import Readers, Selection, checked_paths
from scx_train.inputs.counts import CLIPPED, DRAWN, NORMALISED
from scx_train.inputs.file_set import source_of_each
from scx_train.plans.budget import DEFAULT_CACHE_SHARDS, DEFAULT_LOOKAHEAD
from scx_train.plans.lifecycle import TerminalDataset
from scx_train.streams.budget import MB


class SparseCellSetDataset(TerminalDataset):
    """Sets of cells out of several .scx files, as sparse batches in the order of plans.

    A plan is a tuple `(file_ids, rows, role_tags, set_offsets)` of whole numbers: which row of
    which file (its place in `paths`) each row of the batch is, what part it plays, and where each
    set begins among them, with the number of rows at the end. Lists, tuples and arrays of any
    integer dtype will do. **Values are raw counts by default.**

    Each batch is a dict (`CellSetBatch`) of numpy arrays: `"indptr"` (int64), `"indices"` (int32),
    `"data"` (float32) of the rows in CSR, in the order of the plan, and `"set_offsets"`,
    `"file_ids"`, `"cell_indices"` (the plan's rows) and `"role_tags"` (int64), and `"shape"`, the
    numbers of rows and of columns. Negative values and NaN are 0, before anything else happens to
    a row; such entries stay stored. Batches may be kept: the memory of `indices` and `data`, which
    they share, is used again only when nothing refers to either any more.

    Parameters
    ----------
    paths
        The files, at least one; a folder stands for its .scx files by name, and so does a pattern
        such as "part-*.scx" (`paths` of the data set has the files). A file may come twice, since
        plans say by its place which cells they mean: it then has two ids.
    cache_shards
        The most decoded shards that are kept; None (default) for 128. The codec of this package's
        files decodes each row on its own, straight into the batch: nothing is kept or charged.
    max_memory_mb
        What the data set may take beside the map of the files, in units of 2**20 bytes; None
        (default) for what is needed, from 512 to 4096. Batches decode ahead only as far as they
        fit. It is no ceiling of the process: a single batch may always be made, whatever its size.
    remap_tables, n_global_genes
        For each file the global number of each of its genes, negative (or the largest number of an
        unsigned dtype) for genes without one, and how many global genes there are. Genes without a
        place are left out, the others sorted, and values summed where several genes of a file have
        the same place. None (default) keeps each file's own numbers: a set may then
        only span files that have the same genes.
    normalize
        Scale each cell to `target_sum`; None (default) and False for not. The total is that of all
        values that the file stores for the cell, or of what downsampling left.
    log1p
        Take ln(1 + value); None (default) and False for not.
    target_sum
        Total of a scaled cell; None (default) for 1e4.
    lookahead
        How many plans may be under way; None (default) for 4. 0 decodes nothing ahead.
    scatter_block_index
        Decode parts of shards in files whose shards are cut into groups of rows; default False.
        True warns: the shards of this package's files have no groups, as each row is its own.
    max_plan_rows
        How many rows a plan may have: a wider one is a RuntimeError. None (default) for any number.
    reader_limit
        How many files stay open; None (default) for all. It bounds memory, not file descriptors,
        as an open file needs none. A plan that touches more files is decoded one file after the
        other, and not ahead.
    downsample_target_library_size, downsample_method, downsample_seed
        Draw the counts of each row down to this total before anything is normalised, as
        `downsample_counts_csr` would with the rows of this data set, their file's
        `downsample_file_identity` and their row numbers. None (default) for not; the method is then
        "multinomial", whose totals are exactly the target, or "binomial" (None: "multinomial"), and
        the seed a 64-bit number (None: 0).
    threads
        Decode threads of an iterator, at most 64; None (default) for one per CPU that the process
        may use.
    modality
        Which modality of multimodal files; its cells alone may be in plans. None (default) takes
        the first by the alphabet and warns. Without meaning in other files.
    source
        Which matrix: "X" (default), "layers/NAME" or "raw". Also a list with one for each file, or
        a dict by file, such as `{"b.scx": "raw"}`, in which "X" may be left out.

    Raises
    ------
    TypeError, ValueError
        An argument is not valid, or a file has no such matrix.
    KeyError
        A file has no such layer or modality.
    CorruptFileError
        A file is damaged or cut off. Damage in a row shows when its batch is due.
    OSError
        A file cannot be opened.

    Warns
    -----
    UserWarning
        A file is multimodal and no modality was named, `scatter_block_index` is True, or a file
        (the first such one is named) holds values that are no counts and would be normalised, or
        drawn down, before which they are rounded, or negative ones that come out as 0.

    Notes
    -----
    A data set works in the process that built it. In another one (a worker of a DataLoader) it
    raises a RuntimeError: use `num_workers=0`, or build it in the worker.

    Examples
    --------
    >>> dataset = SparseCellSetDataset(["a.scx", "b.scx"])  # doctest: +SKIP
    >>> plan = ([0, 0, 1], [17, 3, 5], [0, 1, 0], [0, 2, 3])  # doctest: +SKIP
    >>> for batch in dataset.iter_with_plans([plan]):  # doctest: +SKIP
    ...     loss = step(batch["indptr"], batch["indices"], batch["data"], batch["set_offsets"])
    """

    def __init__(
        self,
        paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        *,
        cache_shards: int | None = None,
        max_memory_mb: int | None = None,
        remap_tables: Sequence[npt.ArrayLike] | None = None,
        n_global_genes: int | None = None,
        normalize: bool | None = None,
        log1p: bool | None = None,
        target_sum: float | None = None,
        lookahead: int | None = None,
        scatter_block_index: bool = False,
        max_plan_rows: int | None = None,
        reader_limit: int | None = None,
        downsample_target_library_size: int | None = None,
        downsample_method: DownsampleMethod | None = None,
        downsample_seed: int | None = None,
        threads: int | None = None,
        modality: str | None = None,
        source: str | Sequence[str] | Mapping[str, str] = "X",
    ) -> None:
        super().__init__()
        given = checked_paths(paths)
        self._cache_shards = _at_least_1(cache_shards, "cache_shards") or DEFAULT_CACHE_SHARDS
        self._lookahead = DEFAULT_LOOKAHEAD if lookahead is None else _lookahead(lookahead)
        self._threads = arguments.threads(threads) or usable_cpus()
        self._reader_limit = _at_least_1(reader_limit, "reader_limit")
        self._max_plan_rows = _at_least_1(max_plan_rows, "max_plan_rows")
        limit = arguments.max_memory_mb(max_memory_mb)
        modality = None if modality is None else arguments.text(modality, "modality")
        selections = [Selection(each, modality) for each in source_of_each(source, given)]
        if arguments.flag(scatter_block_index, "scatter_block_index"):
            warn(
                "scatter_block_index=True has no effect: no shard of the files is cut into groups "
                "of rows, and each row is decoded on its own",
            )
        normalizes = normalize is not None and arguments.flag(normalize, "normalize")
        logs = log1p is not None and arguments.flag(log1p, "log1p")
        unless_counts = NORMALISED if normalizes else None if logs else CLIPPED
        if downsample_target_library_size is not None:
            unless_counts = DRAWN
        readers = Readers(
            given,
            selections,
            limit=self._reader_limit,
            unless_counts=unless_counts,
        )
        manifest = readers.manifest
        self._content = hashlib.blake2b(b"".join(manifest.contents)).digest()
        tables, self._n_cols = checked_tables(remap_tables, n_global_genes, manifest)
        changes = row_changes(
            tables,
            self._n_cols,
            manifest,
            normalize=normalizes,
            log1p=logs,
            target_sum=target_sum,
            downsample=(downsample_target_library_size, downsample_method, downsample_seed),
        )
        self._paths = tuple(given)
        self._n_files = len(given)
        self._mean_values = manifest.mean_values
        self._demand = CellSetDemand(
            max_plan_rows=self._max_plan_rows,
            mean_values=self._mean_values,
            lookahead=self._lookahead,
            needs_second_buffer=(
                tables is not None or changes.downsampling is not None or self._n_files > 1
            ),
            # The library has a table of its own for each of them.
            metadata_bytes=manifest.n_bytes
            + 2 * sum({id(table): table.nbytes for table in tables or ()}.values()),
        )
        self._limit_mb = self._demand.limit_mb(limit)
        self._rules: CellSetRules | None = CellSetRules(
            manifest,
            selections,
            max_plan_rows=self._max_plan_rows,
            is_remapped=tables is not None,
        )
        self._source: CellSetSource | None = CellSetSource(
            RowGather(readers, changes), CellSetCounters(readers), n_cols=self._n_cols
        )

    def iter_with_plans(
        self, plans: Iterable[Any], lookahead: int | None = None
    ) -> SparseCellSetBatchIter:
        """An iterator over the batches of these plans.

        The plans are pulled in a thread, a few ahead of the batches that are handed out. A
        generator may wait for what becomes of the batch before: then it is asked for the next plan
        early, and no other batch is kept from coming. Several iterators may run at a time.

        Parameters
        ----------
        plans
            Any iterable of plans. Plans without rows are skipped.
        lookahead
            How many plans may be under way, 0 to 1024; None (default) for that of the data set.
            Fewer are decoded ahead where their batches would take more than `max_memory_mb`.

        Raises
        ------
        TypeError, ValueError
            `plans` is no iterable or `lookahead` is not valid; while iterating: a plan is not made
            as it should be, or a set spans files of different genes without `remap_tables`.
        IndexError
            While iterating: a plan names a file or a row that is not there, or a row that is marked
            as deleted. Rows keep their numbers when others are deleted.
        RuntimeError
            The data set is closed or was built in another process; while iterating: a plan is too
            wide, or the iterable raised an exception ("plan iterator raised: ...", with the
            exception as its cause). The batches of the plans before it come first.
        """
        rules, source = self._usable()
        ahead = self._lookahead if lookahead is None else _lookahead(lookahead)
        decoder_class = PipelineDecoder if source.keeps_all_open else LeasingDecoder
        decoder = decoder_class(rules, source, lookahead=ahead, threads=self._threads)
        return SparseCellSetBatchIter(
            plans,
            decoder,
            lookahead=ahead,
            room_bytes=self._demand.room_bytes(self._limit_mb),
            counters=source.counters.report,
        )

    def gather(self, file_ids: Any, rows: Any, role_tags: Any, set_offsets: Any) -> CellSetBatch:
        """The batch of one plan, decoded on the calling thread and its helpers.

        Raises what iterating over the plan would; a plan without rows gives an empty batch.
        """
        rules, source = self._usable()
        plan = rules.prepare((file_ids, rows, role_tags, set_offsets))
        return source.batch(plan, threads=self._threads)

    def suggested_cache_shards(self, plan: Any) -> int:
        """How many different shards, over all files, the rows of a plan lie in.

        Raises what iterating over the plan would.
        """
        rules, _ = self._usable()
        return rules.shards_of(rules.prepare(plan))

    def cache_metrics(self) -> dict[str, int]:
        """Counters of the data set and all of its iterators since it was built.

        Those of the cache of decoded shards stay at 0, since rows are decoded without it;
        `rows_decoded_directly` counts these. `reader_opens` counts files that were opened to be
        read (the constructor's look at each is not counted), `reader_evictions` those that were
        closed again because of `reader_limit`, `reader_resident` those open now, and `reader_hwm`
        the most that were open at once.
        """
        _, source = self._usable()
        return source.counters.report()

    def memory_budget(self) -> dict[str, Any]:
        """What the data set and one running iterator take, as estimated.

        Returns
        -------
        `breakdown` in bytes (`cache_bytes`, `batch_buffer_bytes`, `lookahead_overhead_bytes`,
        `transient_bytes`, `python_overhead_bytes` and their sum `total_bytes`); `max_memory_mb` in
        units of 2**20 bytes; `cache_shards` as asked for and as `effective_cache_shards`;
        `shard_decoded_bytes`, what one shard takes in the cache; `max_plan_rows`;
        `mean_nnz_per_row`, over all files; `max_blocking_threads`, the decode threads of one
        iterator; `reader_limit`; and `budget_exceeded`, whether the sum is above the limit.
        Batches count as far as `max_plan_rows` says how wide they get. Open files are not counted.
        """
        self._usable()
        breakdown = self._demand.breakdown
        return {
            "breakdown": breakdown,
            "max_memory_mb": self._limit_mb,
            "cache_shards": self._cache_shards,
            "effective_cache_shards": self._cache_shards,
            "shard_decoded_bytes": 0,
            "max_plan_rows": self._max_plan_rows,
            "mean_nnz_per_row": self._mean_values,
            "max_blocking_threads": self._threads,
            "reader_limit": self._reader_limit,
            "budget_exceeded": breakdown["total_bytes"] > self._limit_mb * MB,
        }

    @property
    def paths(self) -> tuple[str, ...]:
        """The files: `file_ids` are places among them."""
        return self._paths

    @property
    def n_files(self) -> int:
        """How many files there are."""
        return self._n_files

    @property
    def n_cols(self) -> int:
        """How many columns batches have: the global genes, or the genes of the widest file."""
        return self._n_cols

    def __repr__(self) -> str:
        if not hasattr(self, "_source"):
            return "SparseCellSetDataset(not built)"
        files = "1 file" if self._n_files == 1 else f"{self._n_files} files"
        state = ", closed" if self.closed else ""
        return f"SparseCellSetDataset({files}, {self._n_cols} genes{state})"

    def _usable(self) -> tuple[CellSetRules, CellSetSource]:
        self._check_usable()
        assert self._rules is not None and self._source is not None  # it is not closed
        return self._rules, self._source

    def _release(self) -> None:
        self._rules = None
        self._source = None


def _lookahead(value: Any) -> int:
    return arguments.whole_number(value, "lookahead", lowest=0, highest=BATCHES_MAX)


def _at_least_1(value: Any, argument: str) -> int | None:
    return None if value is None else arguments.whole_number(value, argument, lowest=1)
