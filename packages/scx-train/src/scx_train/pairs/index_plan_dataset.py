"""IndexPlanDataset: batches of pairs of cells, as an iterable of plans says."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from scx_core.native.pipeline import BATCH_ROWS_MAX, BATCHES_MAX
from scx_train import _arguments as arguments
from scx_train._process import usable_cpus
from scx_train._warn import warn
from scx_train.inputs.content import whole_digest
from scx_train.inputs.obs import size_of
from scx_train.inputs.source import Source, open_source
from scx_train.pairs.index_plan_batches import IndexPlanBatchIter
from scx_train.pairs.pairs import PairDecoder, PairRules
from scx_train.plans.budget import (
    DEFAULT_CACHE_SHARDS,
    DEFAULT_LOOKAHEAD,
    DEFAULT_MEMORY_MB,
    DEFAULT_PLAN_SIZE,
    Adaptive,
    PlanDemand,
    fit_plans,
)
from scx_train.plans.lifecycle import TerminalDataset
from scx_train.plans.metrics import CacheCounters
from scx_train.streams.budget import MB
from scx_train.streams.one_matrix import OneMatrix
from scx_train.streams.transform import Transform


class IndexPlanDataset(OneMatrix, TerminalDataset):
    """Batches of pairs of cells of one .scx file, in the order of plans.

    A plan is a list of `(row, row)` pairs, for example of a perturbed cell and a control; each
    makes one batch. **Values are normalised and logged by default**; models of counts need
    `normalize=False, log1p=False`.

    Each batch of `iter_with_plans` is a dict:

    - `"X"`, `"X_paired"`: float32, shape (pairs, `n_output_genes`); the first and the second cells.
    - `"pairs"`: list of `(int, int)`; `pairs[i]` are the rows of `X[i]` and `X_paired[i]`.
    - `"obs"`, `"obs_paired"`: for each of `obs_columns` an int64 or float64 array, or for a
      categorical `{"codes": int32 array, "categories": list of str}`, as in `TrainingDataset`.

    Batches may be kept: their memory is used again only when nothing refers to it any more.

    Parameters
    ----------
    path
        The file.
    hvg_indices
        Positions in var of the genes to keep, whole numbers in any integer dtype; None (default)
        for all. The columns are in ascending order of the position, each once: other input warns.
        Totals for `normalize` are taken over all genes all the same.
    obs_columns
        Names of the obs columns that batches carry, default none.
    normalize
        Scale each cell to `target_sum`, default True.
    log1p
        Take the natural logarithm of 1 + value, default True. Negative values and NaN count as 0.
    target_sum
        Total of a scaled cell, default 1e4.
    cache_shards
        The most decoded shards that are kept; 128 (default), also for None. The codec of this
        package's files decodes each row on its own, straight into the batch: nothing is kept, and
        nothing charged.
    sort_by_shard
        Reorder each plan by the lower of a pair's two shards, equal ones in the plan's order, so
        that reading goes forward in the file; True (default), or False for the plan's own order.
    lookahead
        How many plans may be under way, that is pulled from the iterable and not yet handed out as
        a batch; 4 (default), also for None. 0 pulls a plan when its batch is asked for, and decodes
        nothing ahead.
    max_plan_size
        How many pairs a plan may have; 16384 (default), also for None. A wider one is a
        RuntimeError.
    max_memory_mb
        What one running iterator may take beside the map of the file, in units of 2**20 bytes, with
        plans of `max_plan_size` pairs. Where it is too little, `lookahead` goes down to 1, then
        `cache_shards` to 1; where that is not enough, it is a RuntimeError. Left out, or None, it
        is 512, or what the least settings take, up to 4096; with still more, a `max_plan_size` that
        was left out as well is lowered.
    threads
        Decode threads, at most 64; None (default) for one per CPU that the process may use.
    modality
        Which modality of a multimodal file; its cells alone may be in plans. None (default) takes
        the first by the alphabet and warns. Without meaning in other files.
    source
        Which matrix: "X" (default), "layers/NAME", or "raw", which has genes of its own.
    pflog, pflog_alpha
        Take the shifted logarithm of counts instead of `normalize` and `log1p`, as in
        `TrainingDataset`; default False and None.
    scatter_block_index
        Decode parts of shards in files whose shards are cut into groups of rows; default False.
        True warns: the shards of this package's files have no groups, as each row is its own.

    Raises
    ------
    TypeError, ValueError
        An argument is not valid, the panel names what is not there, or the file has no such matrix.
    KeyError
        There is no such obs column, layer or modality; the message lists those there are.
    RuntimeError
        `max_memory_mb` is too little.
    CorruptFileError
        The file is damaged or cut off. Damage in a row shows when its batch is due.
    OSError
        The file cannot be opened.

    Warns
    -----
    UserWarning
        `hvg_indices` is not ascending and distinct, the file is multimodal and no modality was
        named, values that are no counts are normalised, or `scatter_block_index` is True.

    Notes
    -----
    A data set works in the process that built it. In another one (a worker of a DataLoader) it
    raises a RuntimeError: use `num_workers=0`, or build it in the worker, as
    `scx_train.torch.PlanIterable` does.

    Examples
    --------
    >>> dataset = IndexPlanDataset("atlas.scx", obs_columns=["cell_type"])  # doctest: +SKIP
    >>> plans = [[(0, 5), (2, 7)], [(10, 100), (50, 75)]]  # doctest: +SKIP
    >>> for batch in dataset.iter_with_plans(plans):  # doctest: +SKIP
    ...     loss = step(batch["X"], batch["X_paired"])
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        hvg_indices: npt.ArrayLike | None = None,
        obs_columns: Iterable[str] = (),
        normalize: bool = True,
        log1p: bool = True,
        target_sum: float = 1e4,
        cache_shards: int | None = DEFAULT_CACHE_SHARDS,
        sort_by_shard: bool = True,
        lookahead: int | None = DEFAULT_LOOKAHEAD,
        max_plan_size: int | None = DEFAULT_PLAN_SIZE,
        max_memory_mb: int | None = DEFAULT_MEMORY_MB,
        threads: int | None = None,
        modality: str | None = None,
        source: str = "X",
        pflog: bool = False,
        pflog_alpha: float | None = None,
        scatter_block_index: bool = False,
    ) -> None:
        super().__init__()
        transform = Transform.checked(
            normalize=normalize,
            log1p=log1p,
            target_sum=target_sum,
            pflog=pflog,
            pflog_alpha=pflog_alpha,
        )
        self._threads = arguments.threads(threads)
        self._lookahead = DEFAULT_LOOKAHEAD if lookahead is None else _lookahead(lookahead)
        self._cache_shards = DEFAULT_CACHE_SHARDS
        if cache_shards is not None:
            self._cache_shards = arguments.whole_number(cache_shards, "cache_shards", lowest=1)
        by_shard = arguments.flag(sort_by_shard, "sort_by_shard")
        plan_size = _or_default(
            max_plan_size, "max_plan_size", DEFAULT_PLAN_SIZE, highest=BATCH_ROWS_MAX // 2
        )
        limit_mb = _or_default(max_memory_mb, "max_memory_mb", DEFAULT_MEMORY_MB)
        names = arguments.column_names(obs_columns, "obs_columns")
        modality = None if modality is None else arguments.text(modality, "modality")
        if arguments.flag(scatter_block_index, "scatter_block_index"):
            warn(
                "scatter_block_index=True has no effect: no shard of the file is cut into groups "
                "of rows, and each row is decoded on its own",
            )
        opened = open_source(
            path, source=arguments.text(source, "source"), modality=modality, warns=True
        )
        self._keep_matrix(
            n_vars=opened.n_vars,
            panel=arguments.gene_panel(hvg_indices, n_vars=opened.n_vars),
            transform=transform.fitted(opened),
            modality=None if opened.modality is None else opened.modality.name,
            source=opened.label,
        )
        self._obs = opened.obs_columns(names)
        self._n_obs = opened.n_obs
        self._n_deleted = len(opened.experiment.deleted_rows)
        self._path = opened.path
        self._content = whole_digest(opened.experiment.file)
        self._shard_starts = opened.shard_starts[:-1]
        is_cell = _cells_of_modality(opened)
        self._demand, self._limit_mb = fit_plans(
            PlanDemand(
                max_plan_size=plan_size,
                lookahead=self._lookahead,
                cache_shards=self._cache_shards,
                shard_bytes=0,  # rows are decoded straight into their batch
                matrix=self._transform.demand(opened, n_output_genes=self.n_output_genes),
                threads=self._threads or usable_cpus(),
                metadata_bytes=(0 if is_cell is None else is_cell.nbytes)
                + sum(size_of(column) for column in self._obs.values()),
            ),
            limit_mb,
        )
        self._rules = PairRules(
            n_obs=self._n_obs,
            max_plan_size=self._demand.max_plan_size,
            shard_starts=self._shard_starts if by_shard else None,
            is_cell=is_cell,
            missing=_missing(opened),
        )
        self._counters = CacheCounters()
        self._source: Source | None = opened

    def iter_with_plans(
        self, plans: Iterable[Any], lookahead: int | None = None
    ) -> IndexPlanBatchIter:
        """An iterator over the batches of these plans.

        The plans are pulled in a thread, a few ahead of the batches that are handed out. A
        generator may wait for what becomes of the batch before: then it is asked for the next plan
        early, and no other batch is kept from coming. Several iterators may run at a time, each
        with threads and buffers of its own.

        Parameters
        ----------
        plans
            Any iterable of plans: lists or tuples of pairs, or integer arrays of shape (pairs, 2).
            Empty plans are skipped.
        lookahead
            How many plans may be under way, 0 to 1024; None (default) for that of the data set.
            Fewer are decoded ahead where their batches would take more memory than
            `effective_lookahead()` plans of `max_plan_size` pairs.

        Raises
        ------
        TypeError, ValueError
            `plans` is no iterable or `lookahead` is not valid; while iterating: a plan is no list
            of pairs of whole numbers.
        IndexError
            While iterating: a plan names a row that is not there.
        RuntimeError
            The data set is closed or was built in another process; while iterating: a plan is too
            wide, or the iterable raised an exception ("plan iterator raised: ...", with the
            exception as its cause). The batches of the plans before it come first.
        """
        self._check_usable()
        assert self._source is not None  # it is not closed
        ahead = self._lookahead if lookahead is None else _lookahead(lookahead)
        decoder = PairDecoder(
            self._rules,
            # It does not refer to the data set, so that the iterator outlives its close.
            self._transform.opener(
                self._source, panel=self._panel, batches=max(1, ahead), threads=self._threads
            ),
            matrix=self._demand.matrix,
            obs=self._obs,
            counters=self._counters,
        )
        return IndexPlanBatchIter(
            plans,
            decoder,
            lookahead=ahead,
            room_bytes=self._demand.room_bytes,
            counters=self._counters,
        )

    def effective_cache_shards(self) -> int:
        """What is left of `cache_shards` within `max_memory_mb`."""
        self._check_usable()
        return self._demand.cache_shards

    def effective_lookahead(self) -> int:
        """What is left of `lookahead` within `max_memory_mb`, for plans of `max_plan_size` pairs.

        Of smaller plans as many are under way as asked for, if their batches take no more memory.
        """
        self._check_usable()
        return self._demand.lookahead

    def suggested_cache_shards(self, plan: Any) -> int:
        """How many different shards the cells of a plan lie in.

        Raises TypeError, ValueError, IndexError or RuntimeError as iterating over it would.
        """
        self._check_usable()
        prepared = self._rules.prepare(plan)
        if prepared is None:
            return 0
        return len(np.unique(np.searchsorted(self._shard_starts, prepared.rows, side="right")))

    def memory_budget(self) -> dict[str, Any]:
        """What one running iterator takes with plans of `max_plan_size` pairs, as estimated.

        Returns
        -------
        `breakdown` in bytes (`cache_bytes`, `batch_buffer_bytes`, `lookahead_overhead_bytes`,
        `transient_bytes`, `python_overhead_bytes` and their sum `total_bytes`), the same sum as
        `estimated_mb`, `max_memory_mb` (both in units of 2**20 bytes), `max_plan_size`,
        `cache_shards` and `lookahead` as asked for and as `effective_...`, `shard_decoded_bytes`
        (what one shard takes in the cache), and `max_blocking_threads`, the decode threads of one
        iterator. Batches that are kept come on top.
        """
        self._check_usable()
        demand = self._demand
        breakdown = demand.breakdown
        return {
            "breakdown": breakdown,
            "max_memory_mb": self._limit_mb,
            "estimated_mb": breakdown["total_bytes"] / MB,
            "max_plan_size": int(demand.max_plan_size),
            "cache_shards": self._cache_shards,
            "effective_cache_shards": demand.cache_shards,
            "shard_decoded_bytes": demand.shard_bytes,
            "lookahead": self._lookahead,
            "effective_lookahead": demand.lookahead,
            "max_blocking_threads": demand.threads,
        }

    def cache_metrics(self) -> dict[str, int]:
        """Counters of the data set and all of its iterators since it was built.

        Those of the cache of decoded shards stay at 0, since rows are decoded without it;
        `rows_decoded_directly` counts these.
        """
        self._check_usable()
        return self._counters.report()

    @property
    def paths(self) -> tuple[str, ...]:
        """The file, as the one entry."""
        return (self._path,)

    @property
    def var_names(self) -> npt.NDArray[np.object_]:
        """The name of each column of `X` and `X_paired`, read from the file."""
        self._check_usable()
        assert self._source is not None  # it is not closed
        names = self._source.var_names()
        return names if self._panel is None else names[self._panel]

    @property
    def n_obs(self) -> int:
        """How many cells the file has, without those that are marked as deleted."""
        return self._n_obs - self._n_deleted

    @property
    def n_obs_physical(self) -> int:
        """How many rows the file has, those of deleted cells included."""
        return self._n_obs

    def __repr__(self) -> str:
        if not hasattr(self, "_source"):
            return "IndexPlanDataset(not built)"
        state = ", closed" if self.closed else ""
        return f"IndexPlanDataset({self._shown(self._path, self.n_obs)}{state})"

    def _release(self) -> None:
        self._source = None
        self._obs = {}


def _lookahead(value: Any) -> int:
    return arguments.whole_number(value, "lookahead", lowest=0, highest=BATCHES_MAX)


def _or_default(value: Any, argument: str, default: Adaptive, *, highest: int | None = None) -> int:
    """A positive whole number, or the default as it is, which may give way; also for None."""
    if value is None:
        return default
    if isinstance(value, Adaptive):
        return value
    return arguments.whole_number(value, argument, lowest=1, highest=highest)


def _missing(source: Source) -> str:
    """What is said of a row that is no cell."""
    reasons = []
    if len(source.experiment.deleted_rows):
        reasons.append("is marked as deleted")
    if source.modality is not None:
        reasons.append(f"modality {source.modality.name!r} does not have")
    return " or ".join(reasons)


def _cells_of_modality(source: Source) -> npt.NDArray[np.bool_] | None:
    """Which rows of the file are cells, of the modality and not deleted; None for all."""
    if source.rows is None:
        return None
    mask = np.zeros(source.n_obs, dtype=np.bool_)
    mask[source.rows] = True
    return mask
