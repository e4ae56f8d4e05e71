"""TrainingDataset: shuffled batches of one file, epoch after epoch."""

from __future__ import annotations

import functools
import hashlib
import os
import threading
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from types import TracebackType
from typing import Any, Literal, NoReturn

import numpy as np
import numpy.typing as npt

from scx_core._pipeline import CsrPipeline, DensePipeline, epoch_stream

from . import _arguments as arguments
from ._batch import Batch
from ._budget import Demand, fit
from ._counts import overdispersion, warn_unless_counts
from ._cutting import Cutting, Tail
from ._epoch import EpochIterator
from ._obs import size_of
from ._order import EpochOrder, ShardGroups, ShardRows
from ._pipelines import Pipeline, PipelineShelf
from ._process import REMEDY, HomeProcess, usable_cpus
from ._progress import Progress, progress_of
from ._sampling import (
    SAMPLING_BYTES,
    TAG_BATCHES,
    TAG_DRAWS,
    CuttingByLabel,
    OrderByLabel,
    WeightedDraws,
    balancing_weights,
    checked_weights,
    label_numbers,
)
from ._source import Source, open_source


class TrainingDataset:
    """Batches of the cells of one .scx file, shuffled unless `shuffle=False`.

    Each `for batch in dataset:` is one epoch: every cell once, in a new order, in batches that are
    full but for the last. **Values are normalised and logged by default**; models of counts need
    `normalize=False, log1p=False`.

    Each batch is a dict:

    - `"X"`: float32, shape (cells, `n_output_genes`); a numpy array, or with `layout="csr"` a
      `scipy.sparse.csr_matrix`.
    - `"obs"`: for each of `obs_columns` an int64 or float64 array, or for a categorical
      `{"codes": int32 array, "categories": list of str}` with code -1 for a gap. Text becomes a
      categorical with sorted labels, booleans become int64, numbers and booleans with gaps become
      float64 with NaN.
    - `"cell_indices"`: int64, the cells' rows in the file.
    - `"obsm"`, only with `obsm`: for each of its names an array of shape (cells, dimensions).

    Batches may be kept: the memory of `X` is used again only when nothing refers to it any more.

    The order of an epoch follows from the file's shards, `seed`, the number of the epoch and
    `shard_group_size` alone; the threads and the time they take do not matter. The shards are
    shuffled and cut into groups, and the rows of a group are shuffled together, so a file that is
    sorted by some label mixes as far as a group reaches. The exact rule stands in
    `scx_train._order`.

    Every `iter(dataset)` begins the next epoch. An iterator that is dropped half-way leaves no
    trace; two at the same time are two epochs, each with threads and buffers of its own.

    Several processes that train together share the cells of an epoch: with `rank` and `world_size`
    each gets batches of its own, all of them the same number, no cell twice. `scx_train._cutting`
    says which.

    Parameters
    ----------
    path
        The file.
    batch_size
        Cells in a batch, default 1024.
    hvg_indices
        Positions in var of the genes to keep, whole numbers in any integer dtype; None (default)
        for all. The columns of `X` are in ascending order of the position, each once: other input
        warns. Totals for `normalize` are taken over all genes all the same.
    obs_columns
        Names of the obs columns that batches carry, default none.
    normalize
        Scale each cell to `target_sum`, default True.
    log1p
        Take the natural logarithm of 1 + value, default True. Negative values and NaN count as 0.
    target_sum
        Total of a scaled cell, default 1e4.
    shard_group_size
        Shards that are shuffled together, default 8. More mix better; fewer need less of the file
        in the page cache at once.
    prefetch_batches
        Batches that are made ahead, default 4. Each takes `batch_size * n_output_genes * 4` bytes.
    seed
        0 to 2**64 - 1, default 42.
    threads
        Decode threads, at most 64; None (default) for one per CPU that the process may use.
    shuffle
        False for the cells in the order of the file, default True.
    rows
        Rows of the file to stream: whole numbers, each once, or a boolean mask over all rows. None
        (default) for all. They need no order; `shuffle` says in which they come.
    drop_last
        Leave out the tail, the cells at the end of an epoch that do not fill a batch (of every
        rank), default False.
    min_batch
        Cells that the tail needs to be a batch of its own, 1 to `batch_size`, default 1.
    tail
        What happens to a tail that is shorter: "drop" (default) leaves it out, "merge" adds it to
        the batch before it (where there is none, it is a batch), "keep" makes it a batch.
    rank, world_size
        Which of how many processes that share an epoch; rank 0 to `world_size - 1`. None (default)
        takes them from torch.distributed where it is initialised, else one process. The tail is
        divided evenly; with fewer cells in it than processes it is left out unless it is merged.
    shard, num_shards
        Which of how many workers that share the batches of this process, default 0 of 1: worker
        `shard` gets batches `shard`, `shard + num_shards`, ...
    modality
        Which modality of a multimodal file; its cells alone are streamed. None (default) takes the
        first by the alphabet and warns. Without meaning in other files.
    source
        Which matrix: "X" (default), "layers/NAME", or "raw", which has genes of its own.
    obsm
        Names of embeddings that batches carry, default none.
    pflog
        Take the shifted logarithm of counts instead of `normalize` and `log1p`, which then do not
        matter: `ln(1 + 4 a v)` less the mean of that over all genes of the cell, also under
        `hvg_indices`. Absent genes get the negative mean. Default False.
    pflog_alpha
        The overdispersion a, positive. None (default) estimates it from the counts when the data
        set is built, as `scx_train._counts.overdispersion` says; the property tells it.
    layout
        "dense" (default), or "csr" for `X` as a `scipy.sparse.csr_matrix` of the same values, with
        int32 indices. Needs scipy, and excludes `pflog`, which leaves no value at zero.
    max_memory_mb
        What the data set may take beside the map of the file, in units of 2**20 bytes. Where it is
        too little, first `prefetch_batches` goes down to 2, then `shard_group_size` to 1, then
        `batch_size` is halved down to 64, as far as it takes; the order of the cells stays that of
        the `shard_group_size` asked for, and only reading ahead is reduced. None (default) stands
        for what the arguments take, but at least 512 and at most 4096.
    weights
        A weight for each row of the file, not negative: an epoch then draws as many cells as there
        are with replacement, each by its weight, so that some come several times and others not at
        all. None (default) for every cell once.
    balance_by
        An obs column: draws as with `weights`, every label equally often; cells without a label
        never come.
    batch_by
        An obs column: each batch has cells of one label alone, every cell once; cells without a
        label are a label of their own. `min_batch`, `tail` and `drop_last` hold for each label.

    Raises
    ------
    TypeError, ValueError
        An argument is not valid, the panel or `rows` names what is not there, or the file has no
        such matrix.
    KeyError
        There is no such obs column, embedding, layer or modality; the message lists those there
        are.
    CorruptFileError
        The file is damaged or cut off. Damage in a row shows when its batch is due.
    OSError
        The file cannot be opened.

    Warns
    -----
    UserWarning
        `hvg_indices` is not ascending and distinct, the file is multimodal and no modality was
        named, values that are no counts (negative, or no whole numbers) are normalised, or
        `max_memory_mb` is too little.

    Notes
    -----
    A data set works in the process that built it. In another one (a worker of a DataLoader)
    iterating is a RuntimeError: use `num_workers=0`, or build the data set in the worker.

    Examples
    --------
    >>> dataset = TrainingDataset("atlas.scx", obs_columns=["cell_type"])  # doctest: +SKIP
    >>> for epoch in range(3):  # doctest: +SKIP
    ...     for batch in dataset:
    ...         loss = step(batch["X"], batch["obs"]["cell_type"]["codes"])
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        batch_size: int = 1024,
        *,
        hvg_indices: npt.ArrayLike | None = None,
        obs_columns: Iterable[str] = (),
        normalize: bool = True,
        log1p: bool = True,
        target_sum: float = 1e4,
        shard_group_size: int = 8,
        prefetch_batches: int = 4,
        seed: int = 42,
        threads: int | None = None,
        shuffle: bool = True,
        rows: npt.ArrayLike | None = None,
        drop_last: bool = False,
        min_batch: int = 1,
        tail: Tail = "drop",
        rank: int | None = None,
        world_size: int | None = None,
        shard: int = 0,
        num_shards: int = 1,
        modality: str | None = None,
        source: str = "X",
        obsm: Iterable[str] = (),
        pflog: bool = False,
        pflog_alpha: float | None = None,
        layout: Literal["dense", "csr"] = "dense",
        max_memory_mb: int | None = None,
        weights: npt.ArrayLike | None = None,
        balance_by: str | None = None,
        batch_by: str | None = None,
    ) -> None:
        self._home = HomeProcess()
        self._batch_size = arguments.batch_size(batch_size)
        self._group_size = arguments.shard_group_size(shard_group_size)
        self._prefetch_batches = arguments.prefetch_batches(prefetch_batches)
        self._seed = arguments.seed(seed)
        self._threads = arguments.threads(threads)
        self._normalize = arguments.flag(normalize, "normalize")
        self._log1p = arguments.flag(log1p, "log1p")
        self._target_sum = arguments.positive(target_sum, "target_sum")
        pflog = arguments.flag(pflog, "pflog")
        if pflog_alpha is not None:
            pflog_alpha = arguments.positive(pflog_alpha, "pflog_alpha")
        limit_mb = arguments.max_memory_mb(max_memory_mb)
        layout = arguments.layout(layout, pflog=pflog)
        if pflog:
            self._normalize = self._log1p = False
        self._shuffle = arguments.flag(shuffle, "shuffle")
        names = arguments.column_names(obs_columns, "obs_columns")
        drop_last = arguments.flag(drop_last, "drop_last")
        min_batch = arguments.min_batch(min_batch, batch_size=self._batch_size)
        tail = arguments.tail(tail)
        rank, world_size = arguments.rank_and_world_size(rank, world_size)
        shard, num_shards = arguments.place_among(
            shard, num_shards, argument="shard", count_argument="num_shards"
        )

        obsm_names = arguments.column_names(obsm, "obsm")
        modality = None if modality is None else arguments.text(modality, "modality")

        opened = open_source(
            path, source=arguments.text(source, "source"), modality=modality, stacklevel=3
        )
        self._panel = arguments.gene_panel(hvg_indices, n_vars=opened.n_vars, stacklevel=3)
        if (pflog or self._normalize) and opened.matrix is not None:
            warn_unless_counts(opened.matrix, label=opened.label, path=opened.path, stacklevel=3)
        self._layout = layout
        self._pflog_alpha = pflog_alpha if pflog else None
        if pflog and pflog_alpha is None and opened.matrix is not None:
            self._pflog_alpha = overdispersion(opened.matrix, path=opened.path)
        self._obs = opened.obs_columns(names)
        self._obsm = opened.embeddings(obsm_names)
        self._path = opened.path
        self._source = opened.label
        self._modality = None if opened.modality is None else opened.modality.name
        self._n_vars = opened.n_vars
        self._fingerprint = opened.fingerprint
        self._var_names: npt.NDArray[np.object_] | None = None
        chosen = arguments.row_selection(rows, n_obs=opened.n_obs)
        self._rows = ShardRows(opened.shard_starts, _common(chosen, opened.rows))
        sampled = any(value is not None for value in (weights, balance_by, batch_by))
        self._budget = fit(self._demand(opened, sampled=sampled), limit_mb)
        self._mmap_bytes = os.path.getsize(opened.path)
        self._batch_size = self._budget.demand.batch_size
        self._prefetch_batches = self._budget.demand.prefetch_batches
        self._cutting: Cutting | CuttingByLabel = Cutting(
            n_rows=self._rows.n_rows,
            batch_size=self._batch_size,
            drop_last=drop_last,
            min_batch=min_batch,
            tail=tail,
            rank=rank,
            world_size=world_size,
            shard=shard,
            num_shards=num_shards,
        )
        self._sample(opened, weights, balance_by, batch_by)
        if self._budget.exceeded:
            warnings.warn(
                f"max_memory_mb={self._budget.limit_mb} is too little: at the smallest settings "
                f"{self._budget.demand.total_bytes / 2**20:.0f} MB are needed",
                UserWarning,
                stacklevel=2,
            )
        # Reentrant: a garbage collection under it may end an epoch.
        self._lock = threading.RLock()
        self._next = Progress(0)
        # Where the iterator that was begun last stands, or, before it, where the next begins.
        self._progress = self._next
        self._shelf: PipelineShelf | None = self._shelf_for(opened)

    def __iter__(self) -> Iterator[Batch]:
        self._home.check("TrainingDataset")
        with self._lock:
            if self._shelf is None:
                self._shelf = self._shelf_for(self._reopened())
            progress = Progress(self._next.epoch, self._next.batch)
            epoch = self._epoch(self._shelf, progress)
            self._progress, self._next = progress, Progress(progress.epoch + 1)
            return epoch

    def __len__(self) -> int:
        """How many batches an epoch has, of this process and worker."""
        return len(self._cutting)

    @property
    def epoch(self) -> int:
        """The number of the epoch that the next `iter(dataset)` begins, or goes on with."""
        return self._next.epoch

    def set_epoch(self, epoch: int) -> None:
        """Let the next `iter(dataset)` begin this epoch, from 0; iterators that run go on.

        Where `load_state_dict` has chosen a place in the same epoch, that place stays.
        """
        number = arguments.epoch(epoch)
        with self._lock:
            if number != self._next.epoch:
                self._next = self._progress = Progress(number)

    def state_dict(self) -> dict[str, Any]:
        """Where the iterator that was begun last stands, for `load_state_dict`.

        Numbers and strings that json, pickle and torch.save can hold. Batches that are made ahead
        and were not received do not count. The states of all ranks at the same step are equal.
        """
        return self._progress.state(self._settings)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Let the next `iter(dataset)` give exactly the batches that would have followed.

        It goes on in the middle of the epoch; when all of its batches had been received, it gives
        none, and the one after it begins the next epoch.

        Raises
        ------
        TypeError, ValueError
            It is no state, or one of a data set with other batches: of another file, `rows`, seed,
            batch size, or the like. The message names what differs.
        """
        progress = progress_of(state, self._settings, batches_max=len(self))
        with self._lock:
            self._next = self._progress = progress

    @property
    def n_obs(self) -> int:
        """How many cells an epoch has over all processes: those of the file, or of `rows`."""
        return self._rows.n_rows

    @property
    def n_vars(self) -> int:
        """How many genes the matrix has."""
        return self._n_vars

    @property
    def n_output_genes(self) -> int:
        """How many columns the `X` of a batch has."""
        return self.n_vars if self._panel is None else len(self._panel)

    @property
    def gene_indices(self) -> npt.NDArray[np.int64]:
        """The position in var of each column of `X`."""
        if self._panel is None:
            return np.arange(self.n_vars, dtype=np.int64)
        return self._panel.astype(np.int64)

    @property
    def var_names(self) -> npt.NDArray[np.object_]:
        """The name of each column of `X`; the first use reads them from the file."""
        if self._var_names is None:
            names = self._reopened().var_names()
            self._var_names = names if self._panel is None else names[self._panel]
        return self._var_names.copy()

    @property
    def modality(self) -> str | None:
        """Which modality is read; None in a single-modality file."""
        return self._modality

    @property
    def pflog_alpha(self) -> float | None:
        """The overdispersion that `pflog` uses, given or estimated; None without `pflog`."""
        return self._pflog_alpha

    @property
    def effective_batch_size(self) -> int:
        """How many cells a full batch has."""
        return self._batch_size

    @property
    def budget_exceeded(self) -> bool:
        """Whether the data set needs more than `max_memory_mb` at its smallest settings."""
        return self._budget.exceeded

    def memory_budget(self) -> dict[str, Any]:
        """What one running epoch takes, as estimated.

        Returns
        -------
        `breakdown` in bytes (`cache_bytes`, `batch_buffer_bytes`, `lookahead_overhead_bytes`,
        `transient_bytes`, `python_overhead_bytes` and their sum `total_bytes`), the same sum as
        `estimated_mb`, the size of the mapped file as `mmap_mb`, which is not counted,
        `max_memory_mb` (all three in units of 2**20 bytes), `budget_exceeded`, and what is left of
        `shard_group_size`, `prefetch_batches` and `batch_size`. Batches that are kept come on top.
        """
        return self._budget.report(mmap_bytes=self._mmap_bytes)

    @property
    def closed(self) -> bool:
        """True from `close` until the next epoch begins. Never raises."""
        return self._shelf is None

    def close(self) -> None:
        """End the threads and let the file go; epochs that are running end with a RuntimeError.

        Closing again does nothing. It is not final: the next `iter(dataset)` opens the file again
        and goes on with the next epoch.
        """
        if not self._home.is_here:
            self._shelf = None  # neither threads nor locks are those of this process
            return
        with self._lock:
            shelf, self._shelf = self._shelf, None
        if shelf is not None:
            shelf.close()

    def __enter__(self) -> TrainingDataset:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        genes = f"{self.n_output_genes} genes"
        if self._panel is not None:
            genes = f"{self.n_output_genes} of {self.n_vars} genes"
        state = ", closed" if self.closed else ""
        parts = [self._modality, None if self._source == "X" else self._source]
        where = "".join(f"[{part}]" for part in parts if part is not None)
        return (
            f"TrainingDataset({self._path!r}{where}: {self.n_obs} cells × {genes}, "
            f"{len(self)} batches of {self._batch_size}{state})"
        )

    def __reduce__(self) -> NoReturn:
        raise RuntimeError(
            f"a TrainingDataset cannot be sent to another process or copied: {REMEDY}"
        )

    def _epoch(self, shelf: PipelineShelf, progress: Progress) -> Iterator[Batch]:
        if progress.batch == len(self):
            progress.finished = True
            return iter(())
        order, cutting = self._order(progress.epoch)
        return EpochIterator(
            shelf,
            order,
            cutting,
            progress=progress,
            prefetch_batches=self._prefetch_batches,
            reads_ahead=self._budget.demand.shard_group_size == self._group_size,
            obs=self._obs,
            obsm=self._obsm,
        )

    def _order(self, epoch: int) -> tuple[EpochOrder, Cutting | CuttingByLabel]:
        """The cells of an epoch and how they are cut."""

        def stream(tag: int) -> int:
            return epoch_stream(seed=self._seed, tag=tag, epoch=epoch)

        if self._weights is not None:
            rows = self._rows.all_rows()
            return WeightedDraws(rows, self._weights, stream=stream(TAG_DRAWS)), self._cutting
        order = ShardGroups(
            self._rows,
            group_size=self._group_size,
            seed=self._seed,
            epoch=epoch,
            shuffled=self._shuffle,
        )
        if self._labels is None:
            return order, self._cutting
        assert isinstance(self._cutting, CuttingByLabel)
        mixed = stream(TAG_BATCHES) if self._shuffle else None
        return OrderByLabel(order, self._labels), replace(self._cutting, stream=mixed)

    def _sample(
        self,
        source: Source,
        weights: npt.ArrayLike | None,
        balance_by: str | None,
        batch_by: str | None,
    ) -> None:
        """Prepare draws by weight or batches by label, if any."""
        given = {"weights": weights, "balance_by": balance_by, "batch_by": batch_by}
        names = [name for name, value in given.items() if value is not None]
        if len(names) > 1:
            raise ValueError(f"{' and '.join(names)} exclude each other")
        if names and names[0] != "batch_by" and not self._shuffle:
            raise ValueError(f"{names[0]} draws at random, which shuffle=False excludes")
        self._weights: npt.NDArray[np.float64] | None = None
        self._labels: npt.NDArray[np.int64] | None = None
        rows = self._rows.all_rows()
        if weights is not None:
            self._weights = checked_weights(weights, n_obs=source.n_obs, rows=rows)
        elif names:
            name = arguments.text(given[names[0]], names[0])
            labels = label_numbers(source.obs_columns([name])[name], name, names[0])
            if batch_by is not None:
                self._labels = labels
                counts = np.unique(labels[rows], return_counts=True)[1]
                self._cutting = CuttingByLabel(self._cutting_base, tuple(counts.tolist()))
            else:
                self._weights = balancing_weights(labels, rows)
                if len(rows) and not self._weights.any():
                    raise ValueError(f"no cell has a label in balance_by={name!r}")

    @property
    def _cutting_base(self) -> Cutting:
        return self._cutting if isinstance(self._cutting, Cutting) else self._cutting.base

    def _demand(self, source: Source, *, sampled: bool) -> Demand:
        mean_values = None
        if self._layout == "csr" and source.matrix is not None:
            mean_values = source.matrix.nnz / source.n_obs
        return Demand(
            batch_size=self._batch_size,
            prefetch_batches=self._prefetch_batches,
            shard_group_size=self._group_size,
            n_vars=self.n_vars,
            n_output_genes=self.n_output_genes,
            mean_values=mean_values,
            group_rows=self._rows.largest_group(self._group_size),
            threads=self._threads or usable_cpus(),
            metadata_bytes=self._rows.chosen_bytes
            + (SAMPLING_BYTES * self.n_obs if sampled else 0)
            + sum(size_of(column) for column in (*self._obs.values(), *self._obsm.values())),
        )

    @property
    def _settings(self) -> dict[str, Any]:
        """What the batches follow from, besides the epoch."""
        cutting = self._cutting_base
        return {
            "cells": self._cells_digest,
            "matrix": self._source
            if self._modality is None
            else f"{self._modality}/{self._source}",
            "seed": self._seed,
            "shuffle": self._shuffle,
            "shard_group_size": self._group_size,
            "batch_size": cutting.batch_size,
            "drop_last": cutting.drop_last,
            "min_batch": cutting.min_batch,
            "tail": cutting.tail,
            "world_size": cutting.world_size,
            "num_shards": cutting.num_shards,
        }

    @functools.cached_property
    def _cells_digest(self) -> str:
        """Tells files and choices of rows apart."""
        digest = hashlib.blake2b(repr(self._fingerprint).encode(), digest_size=16)
        digest.update(self._rows.all_rows().tobytes())
        for sampling in (self._weights, self._labels):
            digest.update(b"-" if sampling is None else sampling.tobytes())
        return digest.hexdigest()

    def _shelf_for(self, source: Source) -> PipelineShelf:
        kind = CsrPipeline if self._layout == "csr" else DensePipeline

        def open_pipeline() -> Pipeline:
            assert source.matrix is not None  # a file without cells has no epochs
            return kind(
                source.matrix,
                columns=self._panel,
                normalize=self._normalize,
                log1p=self._log1p,
                target_sum=self._target_sum,
                pflog_alpha=self._pflog_alpha or 0.0,
                batches=self._prefetch_batches,
                threads=self._threads,
                path=source.path,
            )

        return PipelineShelf(open_pipeline)

    def _reopened(self) -> Source:
        source = open_source(self._path, source=self._source, modality=self._modality)
        if source.fingerprint != self._fingerprint:
            raise RuntimeError(
                f"{self._path} was replaced by a file of other content since this data set was "
                "built: build a new one"
            )
        return source


def _common(
    one: npt.NDArray[np.int64] | None, other: npt.NDArray[np.int64] | None
) -> npt.NDArray[np.int64] | None:
    """Rows that are in both; None stands for all."""
    if one is None or other is None:
        return one if other is None else other
    return np.intersect1d(one, other)
