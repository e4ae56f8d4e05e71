"""Counters of the plan-driven data sets.

Most of them count what a cache of decoded shards does. Rows that can be decoded on their own need
none, and go around it: then these counters stay at zero, and `rows_decoded_directly` counts.
"""

from __future__ import annotations

import threading

# Entries of whole shards, entries of groups of rows, and what of either was let in.
_CACHE_COUNTERS = (
    "hits",
    "misses",
    "evictions",
    "bytes_inserted",
    "bytes_in_cache",
    "peak_bytes_in_cache",
    "duplicate_waiters",
    "full_shard_groups",
    "block_index_groups",
    "row_group_hits",
    "row_group_misses",
    "row_group_evictions",
    "row_group_bytes_inserted",
    "row_group_duplicate_waiters",
    "reuse_admissions",
    "admitted_group_bytes",
    "rejected_group_bytes",
)
_PREFETCH_COUNTERS = (
    "prefetch_tasks_spawned",
    "prefetch_skipped_cache_hit",
    "prefetch_skipped_in_flight",
    "prefetch_skipped_block_index",
    "prefetch_skipped_reader_limit",
)


class CacheCounters:
    """What a data set and all of its iterators have read so far."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rows_decoded_directly = 0

    def add_rows(self, count: int) -> None:
        """Count rows that were decoded on their own."""
        with self._lock:
            self._rows_decoded_directly += count

    def report(self) -> dict[str, int]:
        """All counters; for `cache_metrics`."""
        return {
            **dict.fromkeys(_CACHE_COUNTERS, 0),
            "rows_decoded_directly": self._rows_decoded_directly,
        }


def prefetch_report(*, plans_decoded_ahead: int, reader_limit_skips: int = 0) -> dict[str, int]:
    """The counters of one iterator: its shards that were warmed (none), its plans, and skips."""
    return {
        **dict.fromkeys(_PREFETCH_COUNTERS, 0),
        "prefetch_skipped_reader_limit": reader_limit_skips,
        "plans_decoded_ahead": plans_decoded_ahead,
    }
