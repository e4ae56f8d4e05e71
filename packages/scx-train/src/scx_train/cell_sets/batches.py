"""Batches of cell sets, and what decodes them for one iterator."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, Protocol, TypedDict

import numpy as np
import numpy.typing as npt

from scx_core.native.pipeline import CsrPipeline
from scx_train.cell_sets.gather import RowGather
from scx_train.cell_sets.plans import CellSetPlan, CellSetRules
from scx_train.cell_sets.readers import Readers
from scx_train.plans.engine import PlanBatches
from scx_train.plans.metrics import CacheCounters, prefetch_report
from scx_train.plans.puller import WAIT_SECONDS

# Of a row beside its values: indptr, file id, cell index, role tag, and the plan's own copies.
ROW_BYTES = 8 * 8
VALUE_BYTES = 4 + 4


class CellSetBatch(TypedDict):
    """What `SparseCellSetDataset` yields.

    Row i of the CSR arrays `indptr` (int64), `indices` (int32, ascending in each row) and `data`
    (float32) is row `cell_indices[i]` of file `file_ids[i]`, with the tag `role_tags[i]`. Set j has
    the rows from `set_offsets[j]` to `set_offsets[j + 1]`. These four are int64. `shape` has the
    numbers of rows and columns.
    """

    indptr: npt.NDArray[np.int64]
    indices: npt.NDArray[np.int32]
    data: npt.NDArray[np.float32]
    set_offsets: npt.NDArray[np.int64]
    file_ids: npt.NDArray[np.int64]
    cell_indices: npt.NDArray[np.int64]
    role_tags: npt.NDArray[np.int64]
    shape: tuple[int, int]


class CellSetCounters:
    """The counters of a data set and of all of its iterators."""

    def __init__(self, readers: Readers) -> None:
        self._readers = readers
        self._cache = CacheCounters()

    def add_rows(self, count: int) -> None:
        """Count rows that were decoded."""
        self._cache.add_rows(count)

    def report(self) -> dict[str, int]:
        """All of them; for `cache_metrics`."""
        return {**self._cache.report(), **self._readers.report()}


def batch_of(
    plan: CellSetPlan,
    indptr: npt.NDArray[np.int64],
    indices: npt.NDArray[np.int32],
    data: npt.NDArray[np.float32],
    *,
    n_cols: int,
) -> CellSetBatch:
    """The batch of a plan whose rows are decoded."""
    return {
        "indptr": indptr,
        "indices": indices,
        "data": data,
        "set_offsets": plan.set_offsets,
        "file_ids": plan.file_ids,
        "cell_indices": plan.rows,
        "role_tags": plan.role_tags,
        "shape": (len(plan.rows), n_cols),
    }


def batch_bytes(n_rows: int, mean_values: float) -> int:
    """Memory of a batch and its plan, about."""
    return int(n_rows * (ROW_BYTES + VALUE_BYTES * mean_values))


class CellSetSource:
    """What makes a batch of a checked plan.

    Attributes
    ----------
    n_cols
        How many columns batches have.
    counters
        Those of the data set.
    row_offsets
        int64, for each file: what is added to its row numbers for `open_pipeline`.
    """

    def __init__(self, gather: RowGather, counters: CellSetCounters, *, n_cols: int) -> None:
        self._gather = gather
        self.n_cols = n_cols
        self.counters = counters
        self.row_offsets = gather.row_offsets

    @property
    def keeps_all_open(self) -> bool:
        """Whether all files may be open at once."""
        return self._gather.keeps_all_open

    def fits(self, plan: CellSetPlan) -> bool:
        """Whether all files of a plan may be open at once."""
        return self._gather.fits(plan)

    def batch(self, plan: CellSetPlan, *, threads: int) -> CellSetBatch:
        """Decode a plan; `threads` is 0 for one per CPU."""
        indptr, indices, data = self._gather.gather(plan, threads=threads)
        self.counters.add_rows(len(plan.rows))
        return batch_of(plan, indptr, indices, data, n_cols=self.n_cols)

    def open_pipeline(self, *, batches: int, threads: int) -> CsrPipeline:
        """What decodes rows of all files, which have to stay open, in threads of its own."""
        return self._gather.open_pipeline(batches=batches, threads=threads)


class CellSetDecoder(Protocol):
    """What decodes plans of cell sets for one iterator: a `PlanDecoder` that counts.

    Attributes
    ----------
    n_on_demand
        Plans that were not decoded ahead.
    n_over_reader_limit
        Those of them that touch more files than may be open.
    """

    n_on_demand: int
    n_over_reader_limit: int

    def prepare(self, plan: Any) -> CellSetPlan | None: ...
    def batch_bytes(self, prepared: CellSetPlan) -> int: ...
    def submit(self, prepared: CellSetPlan) -> None: ...
    def receive(self) -> CellSetBatch: ...
    def close(self) -> None: ...


class RuledDecoder:
    """What decoders of cell sets share: what plans have to be, and what decodes them.

    Parameters
    ----------
    rules
        What plans have to be.
    source
        What decodes.
    lookahead
        How many plans may be under way; with 0 each is decoded when its batch is asked for.
    threads
        How many threads decode.
    """

    def __init__(
        self, rules: CellSetRules, source: CellSetSource, *, lookahead: int, threads: int
    ) -> None:
        self._rules = rules
        self._source = source
        self._lookahead = lookahead
        self._threads = threads

    def prepare(self, plan: Any) -> CellSetPlan | None:
        """Check a plan; None for an empty one."""
        prepared = self._rules.prepare(plan)
        return prepared if len(prepared.rows) else None

    def batch_bytes(self, prepared: CellSetPlan) -> int:
        """Memory of the batch, by the mean of the files."""
        return batch_bytes(len(prepared.rows), self._rules.mean_values)


class LeasingDecoder(RuledDecoder):
    """Decodes plans where only some files may be open: each opens what it needs.

    Several plans are decoded at a time. Parameters are those of `RuledDecoder`.
    """

    def __init__(
        self,
        rules: CellSetRules,
        source: CellSetSource,
        *,
        lookahead: int,
        threads: int,
    ) -> None:
        super().__init__(rules, source, lookahead=lookahead, threads=threads)
        # As many plans at a time as there are threads; a single one is decoded by all of them.
        self._workers = min(lookahead, threads)
        self._executor: ThreadPoolExecutor | None = None
        self._submitted: deque[Future[CellSetBatch] | CellSetPlan] = deque()
        self._closed = False
        self._changing = threading.RLock()
        self.n_on_demand = 0
        self.n_over_reader_limit = 0

    def submit(self, prepared: CellSetPlan) -> None:
        """Begin to decode, or remember the plan where that is not allowed."""
        is_wide = not self._source.fits(prepared)
        if self._workers == 0 or is_wide:
            self.n_on_demand += self._workers > 0
            self.n_over_reader_limit += is_wide and self._workers > 0
            self._submitted.append(prepared)
            return
        with self._changing:
            if self._closed:
                raise RuntimeError("the iterator was closed")
            if self._executor is None:
                self._executor = ThreadPoolExecutor(self._workers, thread_name_prefix="scx-sets")
            threads = max(1, self._threads // self._workers)
            self._submitted.append(
                self._executor.submit(self._source.batch, prepared, threads=threads)
            )

    def receive(self) -> CellSetBatch:
        """The oldest batch, as soon as it is ready."""
        item = self._submitted[0]
        if isinstance(item, CellSetPlan):
            batch = self._source.batch(item, threads=self._threads)
        else:
            while not item.done():
                wait([item], timeout=WAIT_SECONDS)
            batch = item.result()
        self._submitted.popleft()
        return batch

    def close(self) -> None:
        """End the threads as soon as they have decoded what they are at."""
        with self._changing:
            self._closed = True
            executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown(wait=False, cancel_futures=True)


class SparseCellSetBatchIter(PlanBatches[CellSetPlan, CellSetBatch]):
    """The batches of one `SparseCellSetDataset.iter_with_plans`.

    Parameters
    ----------
    plans, decoder, lookahead, room_bytes
        As `PlanBatches` has them.
    counters
        A report of those of the data set.
    """

    def __init__(
        self,
        plans: Iterable[Any],
        decoder: CellSetDecoder,
        *,
        lookahead: int,
        room_bytes: int,
        counters: Callable[[], dict[str, int]],
    ) -> None:
        self._counters = counters
        self._own_decoder = decoder
        super().__init__(
            plans,
            decoder,
            lookahead=lookahead,
            room_bytes=room_bytes,
            owner="SparseCellSetDataset",
        )

    def metrics(self) -> dict[str, dict[str, int]]:
        """Counters; also after the end.

        Returns
        -------
        `"cache"` as `SparseCellSetDataset.cache_metrics` gives it, and `"prefetch"` of this
        iterator alone: `prefetch_skipped_reader_limit` counts plans that touch more files than may
        be open at once, and so were not decoded ahead; `plans_decoded_ahead` counts plans whose
        decoding began before their batch was due; the others count shards that are decoded ahead
        into the cache, and stay at 0 since rows go around it.
        """
        decoder = self._own_decoder
        ahead = prefetch_report(
            plans_decoded_ahead=max(0, self._n_decoded_ahead - decoder.n_on_demand),
            reader_limit_skips=decoder.n_over_reader_limit,
        )
        return {"cache": self._counters(), "prefetch": ahead}
