"""How much memory a data set of cell sets takes."""

from __future__ import annotations

from dataclasses import dataclass

from scx_train.streams.budget import ADAPTIVE_MAX_MB, ADAPTIVE_MIN_MB, MB


@dataclass(frozen=True)
class CellSetDemand:
    """What the memory follows from.

    Attributes
    ----------
    max_plan_rows
        Rows of the widest plan; None where that is not known, and batches are not counted.
    mean_values
        Stored values of a row on average.
    lookahead
        Plans under way.
    needs_second_buffer
        Whether the files, a remap or downsampling make a batch be put together in two steps.
    metadata_bytes
        What is held for the files: their shapes, shards and remap tables.
    """

    max_plan_rows: int | None
    mean_values: float
    lookahead: int
    needs_second_buffer: bool
    metadata_bytes: int

    @property
    def batch_bytes(self) -> int:
        """The CSR arrays of the widest batch: an eighth above the mean; 0 where it is not known."""
        if self.max_plan_rows is None:
            return 0
        n_values = int(self.max_plan_rows * self.mean_values * 1.125)
        return n_values * 8 + (self.max_plan_rows + 1) * 8

    @property
    def breakdown(self) -> dict[str, int]:
        """Bytes by purpose, and their total."""
        batch = self.batch_bytes
        parts = {
            "cache_bytes": 0,  # rows are decoded straight into their batch: no shard is kept
            "batch_buffer_bytes": batch,
            # Those under way beside it, and the one before it, which the loop still holds.
            "lookahead_overhead_bytes": max(1, self.lookahead) * batch,
            "transient_bytes": batch if self.needs_second_buffer else 0,
            "python_overhead_bytes": self.metadata_bytes,
        }
        return {**parts, "total_bytes": sum(parts.values())}

    def room_bytes(self, limit_mb: int) -> int:
        """What batches that are decoded at a time may take within a limit: the loop holds one."""
        return max(1, limit_mb * MB - self.metadata_bytes - self.batch_bytes)

    def limit_mb(self, max_memory_mb: int | None) -> int:
        """The limit: what was given, or what is needed, from 512 to 4096."""
        if max_memory_mb is not None:
            return max_memory_mb
        needed = -(-self.breakdown["total_bytes"] // MB)
        return min(max(needed, ADAPTIVE_MIN_MB), ADAPTIVE_MAX_MB)
