"""What every data set is about the order of its cells: epochs, places in them, and its life."""

from __future__ import annotations

import functools
import threading
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Generic, NoReturn, TypeVar

import numpy as np
import numpy.typing as npt

from scx_core._closing import Closing
from scx_core.native.pipeline import epoch_stream
from scx_train import _arguments as arguments
from scx_train._process import REMEDY, HomeProcess, usable_cpus
from scx_train._warn import warn
from scx_train.inputs.cells import Cells, in_both
from scx_train.inputs.obs import size_of, take
from scx_train.streams.budget import Demand, MatrixDemand, fit
from scx_train.streams.cutting import Cutting
from scx_train.streams.epoch import EpochIterator
from scx_train.streams.options import StreamOptions
from scx_train.streams.order import EpochOrder, Rows, ShardGroups, ShardRows
from scx_train.streams.page_cache import RowByRow, available_bytes, reading_of
from scx_train.streams.pipelines import PipelineShelf
from scx_train.streams.places import FilePlaces, contents_of
from scx_train.streams.progress import Progress, digest, progress_of
from scx_train.streams.sampling import (
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

BatchT = TypeVar("BatchT")


CellsT = TypeVar("CellsT", bound=Cells)


class CellStream(FilePlaces, Closing, Generic[CellsT, BatchT]):
    """Epochs over the cells of files; what a batch of them holds is for the classes below it.

    Parameters
    ----------
    cells
        The open file or files.
    options
        Which cells come, and how.
    matrices
        What the batches of each matrix take.
    metadata_bytes
        What the class below keeps of each cell.
    """

    def __init__(
        self,
        cells: CellsT,
        options: StreamOptions,
        *,
        matrices: tuple[MatrixDemand, ...],
        metadata_bytes: int = 0,
    ) -> None:
        self._home = HomeProcess()
        self._options = options
        self._obs = cells.obs_columns(options.obs_columns)
        self._obsm = cells.embeddings(options.obsm)
        self._path = cells.path
        self._keep_places(cells)
        self._fingerprint = cells.fingerprint
        self._n_obs_physical = cells.n_obs
        chosen = arguments.row_selection(
            options.rows, n_obs=cells.n_obs, deleted=cells.deleted_rows
        )
        self._rows = ShardRows(cells.shard_starts, in_both(chosen, cells.rows))
        self._budget = fit(self._demand(matrices, metadata_bytes), options.max_memory_mb)
        self._mmap_bytes = cells.file_bytes
        self._batch_size = self._budget.demand.batch_size
        self._cutting: Cutting | CuttingByLabel = options.cutting(
            n_rows=self._rows.n_rows, batch_size=self._batch_size
        )
        self._sample(cells)
        if self._budget.exceeded:
            warn(
                f"max_memory_mb={self._budget.limit_mb} is too little: at the smallest settings "
                f"{self._budget.demand.total_bytes / 2**20:.0f} MB are needed",
            )
        elif self._batch_size < options.batch_size:
            warn(
                f"batches have {self._batch_size} cells instead of batch_size="
                f"{options.batch_size}, whose batches do not fit into max_memory_mb="
                f"{self._budget.limit_mb}: raise it, or pass this batch_size to say that it is "
                "meant",
            )
        # Reentrant: a garbage collection under it may end an epoch.
        self._lock = threading.RLock()
        self._next = Progress(0)
        # Where the iterator that was begun last stands, or, before it, where the next begins.
        self._progress = self._next
        self._shelf: PipelineShelf | None = self._shelf_for(cells)

    @abstractmethod
    def _open_cells(self) -> CellsT:
        """The file, opened again as it was by the constructor."""

    @abstractmethod
    def _shelf_for(self, cells: CellsT) -> PipelineShelf:
        """Where the pipelines come from."""

    @abstractmethod
    def _batch(self, values: Any, rows: Rows) -> BatchT:
        """A batch out of what a pipeline made and the rows of its cells."""

    @property
    @abstractmethod
    def _matrix_settings(self) -> dict[str, Any]:
        """Which matrices are read, and what becomes of their values, for the state."""

    def __iter__(self) -> Iterator[BatchT]:
        self._home.check(type(self).__name__)
        with self._lock:
            if self._shelf is None:
                self._shelf = self._shelf_for(self._reopened())
            progress = Progress(self._next.epoch, self._next.batch)
            epoch = self._epoch(self._shelf, progress)
            self._progress, self._next = progress, Progress(progress.epoch + 1)
            return epoch

    def __getitem__(self, place: Any) -> NoReturn:
        name = type(self).__name__
        raise TypeError(
            f"a {name} has no places to choose from: iterate over it, or give a DataLoader "
            f"scx_train.torch.{name.removesuffix('Dataset')}Iterable(...), with batch_size=None"
        )

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
            batch size, panel, transform, or the like. The message names what differs. Which obs
            columns and embeddings batches carry may differ, as may threads and memory.
        """
        progress = progress_of(state, self._settings, batches_max=len(self))
        with self._lock:
            self._next = self._progress = progress

    @property
    def n_obs(self) -> int:
        """How many cells an epoch has over all processes: those of the file, or of `rows`.

        Cells that are marked as deleted do not count.
        """
        return self._rows.n_rows

    @property
    def n_obs_physical(self) -> int:
        """How many rows the file has, those of deleted cells included."""
        return self._n_obs_physical

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
        A last batch that is larger by a merged tail counts: in time every buffer has held one.
        `cache_bytes` are 0: cells are decoded straight into their batch.
        """
        return self._budget.report(mmap_bytes=self._mmap_bytes)

    @property
    def closed(self) -> bool:
        """True from `close` until the next epoch begins. Never raises."""
        return getattr(self, "_shelf", None) is None

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

    def __reduce__(self) -> NoReturn:
        raise RuntimeError(
            f"a {type(self).__name__} cannot be sent to another process or copied: {REMEDY}"
        )

    def __repr__(self) -> str:
        name = type(self).__name__
        if not hasattr(self, "_shelf"):
            return f"{name}(not built)"
        batches = "1 batch" if len(self) == 1 else f"{len(self)} batches"
        state = ", closed" if self.closed else ""
        return f"{name}({self._contents}, {batches} of {self._batch_size}{state})"

    @property
    @abstractmethod
    def _contents(self) -> str:
        """The file, its matrices and their shapes, for `repr`."""

    def _epoch(self, shelf: PipelineShelf, progress: Progress) -> Iterator[BatchT]:
        if progress.batch == len(self):
            progress.finished = True
            return iter(())
        order, cutting = self._order(progress.epoch)
        row_bytes = self._mmap_bytes / max(1, self._n_obs_physical)
        reading = reading_of(order, row_bytes=row_bytes, available=available_bytes())
        keeps_group_size = self._budget.demand.shard_group_size == self._options.shard_group_size
        return EpochIterator(
            shelf,
            order if reading.whole else RowByRow(order),
            cutting,
            progress=progress,
            prefetch_batches=self._budget.demand.prefetch_batches,
            reads_ahead=keeps_group_size and reading.ahead,
            scattered=reading.scattered,
            make_batch=self._batch,
            owner=type(self).__name__,
        )

    def _order(self, epoch: int) -> tuple[EpochOrder, Cutting | CuttingByLabel]:
        """The cells of an epoch and how they are cut."""

        def stream(tag: int) -> int:
            return epoch_stream(seed=self._options.seed, tag=tag, epoch=epoch)

        if self._weights is not None:
            draws = WeightedDraws(self._rows, self._weights, stream=stream(TAG_DRAWS))
            return draws, self._cutting
        order = ShardGroups(
            self._rows,
            group_size=self._options.shard_group_size,
            seed=self._options.seed,
            epoch=epoch,
            shuffled=self._options.shuffle,
        )
        if self._labels is None:
            return order, self._cutting
        assert isinstance(self._cutting, CuttingByLabel)
        mixed = stream(TAG_BATCHES) if self._options.shuffle else None
        return OrderByLabel(order, self._labels), replace(self._cutting, stream=mixed)

    def _sample(self, cells: CellsT) -> None:
        """Prepare draws by weight or batches by label, if any."""
        options = self._options
        weights, balance_by, batch_by = options.weights, options.balance_by, options.batch_by
        given = {"weights": weights, "balance_by": balance_by, "batch_by": batch_by}
        names = [name for name, value in given.items() if value is not None]
        if len(names) > 1:
            raise ValueError(f"{' and '.join(names)} exclude each other")
        if names and names[0] != "batch_by" and not self._options.shuffle:
            raise ValueError(f"{names[0]} draws at random, which shuffle=False excludes")
        self._weights: npt.NDArray[np.float64] | None = None
        self._labels: npt.NDArray[np.int64] | None = None
        rows = self._rows.all_rows()
        if weights is not None:
            self._weights = checked_weights(weights, n_obs=cells.n_obs, rows=rows)
        elif names:
            name = arguments.text(given[names[0]], names[0])
            labels = label_numbers(cells.obs_columns((name,))[name], name, names[0])
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

    def _demand(self, matrices: tuple[MatrixDemand, ...], metadata_bytes: int) -> Demand:
        options = self._options
        return Demand(
            batch_size=options.batch_size,
            prefetch_batches=options.prefetch_batches,
            shard_group_size=options.shard_group_size,
            matrices=matrices,
            group_rows=self._rows.largest_group(options.shard_group_size),
            threads=options.threads or usable_cpus(),
            metadata_bytes=metadata_bytes
            + self._rows.chosen_bytes
            + (SAMPLING_BYTES * self.n_obs if options.samples else 0)
            + sum(size_of(column) for column in (*self._obs.values(), *self._obsm.values())),
            largest_batch=functools.partial(options.largest_batch, n_rows=self.n_obs),
        )

    def _with_obs(self, batch: dict[str, Any], rows: Rows) -> dict[str, Any]:
        """Add what a batch says of its cells."""
        batch["obs"] = {name: take(column, rows) for name, column in self._obs.items()}
        batch["cell_indices"] = rows
        if self._obsm:
            batch["obsm"] = {name: array[rows] for name, array in self._obsm.items()}
        self._add_file_ids(batch, rows)
        return batch

    @functools.cached_property
    def _settings(self) -> dict[str, Any]:
        """What the batches follow from, besides the epoch; files and choices as digests."""
        cutting, options = self._cutting_base, self._options
        weights = self._weights if options.weights is not None else None
        return {
            "path": self._content,
            **self._matrix_settings,
            "rows": digest(self._rows.all_rows().tobytes()),
            "weights": None if weights is None else digest(weights.tobytes()),
            "balance_by": options.balance_by,
            "batch_by": options.batch_by,
            "seed": options.seed,
            "shuffle": options.shuffle,
            "shard_group_size": options.shard_group_size,
            "batch_size": cutting.batch_size,
            "drop_last": cutting.drop_last,
            "min_batch": cutting.min_batch,
            "tail": cutting.tail,
            "world_size": cutting.world_size,
            "num_shards": cutting.num_shards,
        }

    @property
    def _content(self) -> str:
        """Equal for files of equal content, of which the same rows are deleted."""
        return digest(repr(self._fingerprint).encode())

    def _reopened(self) -> CellsT:
        cells = self._open_cells()
        if cells.fingerprint != self._fingerprint:
            raise RuntimeError(self._replaced(contents_of(cells), "data set"))
        return cells
