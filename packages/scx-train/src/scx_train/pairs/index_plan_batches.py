"""The iterator of an IndexPlanDataset."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from scx_train.pairs.pairs import PairBatch, PairDecoder, PairPlan
from scx_train.plans.engine import PlanBatches
from scx_train.plans.metrics import CacheCounters, prefetch_report


class IndexPlanBatchIter(PlanBatches[PairPlan, PairBatch]):
    """The batches of one `IndexPlanDataset.iter_with_plans`.

    Parameters
    ----------
    plans, decoder, lookahead, room_bytes
        As `PlanBatches` has them.
    counters
        Those of the data set.
    """

    def __init__(
        self,
        plans: Iterable[Any],
        decoder: PairDecoder,
        *,
        lookahead: int,
        room_bytes: int,
        counters: CacheCounters,
    ) -> None:
        self._counters = counters
        super().__init__(
            plans, decoder, lookahead=lookahead, room_bytes=room_bytes, owner="IndexPlanDataset"
        )

    def metrics(self) -> dict[str, dict[str, int]]:
        """Counters; also after the end.

        Returns
        -------
        `"cache"` as `IndexPlanDataset.cache_metrics` gives it, and `"prefetch"` of this iterator
        alone: `prefetch_tasks_spawned` and its `prefetch_skipped_...` count shards that are decoded
        ahead into the cache, and stay at 0 since rows go around it; `plans_decoded_ahead` counts
        plans whose decoding began before their batch was due.
        """
        ahead = prefetch_report(plans_decoded_ahead=self._n_decoded_ahead)
        return {"cache": self._counters.report(), "prefetch": ahead}
