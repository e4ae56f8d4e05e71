"""What decodes cell sets where all files stay open: threads of the library, as fast as they can."""

from __future__ import annotations

from collections import deque

import numpy as np

from scx_core.native.mapped_rows import rows_max
from scx_core.native.pipeline import CsrPipeline
from scx_train.cell_sets.batches import CellSetBatch, CellSetSource, RuledDecoder, batch_of
from scx_train.cell_sets.plans import CellSetPlan, CellSetRules


class PipelineDecoder(RuledDecoder):
    """Decodes plans of cell sets for one iterator; parameters are those of `RuledDecoder`."""

    n_over_reader_limit = 0

    def __init__(
        self, rules: CellSetRules, source: CellSetSource, *, lookahead: int, threads: int
    ) -> None:
        super().__init__(rules, source, lookahead=lookahead, threads=threads)
        self._rows_max = rows_max(rules.n_cols_max)
        self._offsets = source.row_offsets
        self._pipeline: CsrPipeline | None = None
        self._submitted: deque[CellSetPlan] = deque()
        self.n_on_demand = 0

    def submit(self, prepared: CellSetPlan) -> None:
        """Have the threads decode it; a batch that may be too large for them waits."""
        self._submitted.append(prepared)
        if len(prepared.rows) > self._rows_max:
            self.n_on_demand += 1
            return
        if self._pipeline is None:
            self._pipeline = self._source.open_pipeline(
                batches=max(1, self._lookahead), threads=self._threads
            )
            self._pipeline.expect_scattered()
        rows = prepared.rows
        if len(self._offsets) > 1:
            rows = rows + self._offsets[prepared.file_ids]
        self._pipeline.submit(rows)

    def receive(self) -> CellSetBatch:
        """The oldest batch, as soon as it is ready."""
        plan = self._submitted[0]
        if len(plan.rows) > self._rows_max:
            batch = self._source.batch(plan, threads=self._threads)
        else:
            assert self._pipeline is not None  # the plan was submitted
            csr = self._pipeline.wait()
            self._source.counters.add_rows(len(plan.rows))
            indptr = csr.indptr.astype(np.int64)
            batch = batch_of(plan, indptr, csr.indices, csr.values, n_cols=self._source.n_cols)
        self._submitted.popleft()
        return batch

    def close(self) -> None:
        """End the threads; batches that were received stay valid."""
        if self._pipeline is not None:
            self._pipeline.close()
