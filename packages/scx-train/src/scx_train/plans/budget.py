"""How much memory a plan-driven data set takes, and what gives way when that is more than it may.

As for `TrainingDataset`, the map of the file is not counted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from scx_train.streams.budget import ADAPTIVE_MAX_MB, MB, MatrixDemand

# Of one pair, in a plan that is under way: its place in a list, a tuple and two ints, two rows.
PAIR_BYTES = 8 + 56 + 2 * 32 + 2 * 8


class Adaptive(int):
    """A default that may give way, told apart from the same number given by the user."""


DEFAULT_CACHE_SHARDS = 128
DEFAULT_LOOKAHEAD = 4
DEFAULT_MEMORY_MB = Adaptive(512)
DEFAULT_PLAN_SIZE = Adaptive(16_384)


@dataclass(frozen=True)
class PlanDemand:
    """What the memory of a data set follows from.

    Attributes
    ----------
    max_plan_size
        Pairs of the widest plan.
    lookahead
        How many such plans may be under way.
    cache_shards, shard_bytes
        How many decoded shards are kept, and the bytes of one: 0 where rows are decoded directly.
    matrix
        What a batch of the matrix takes.
    threads
        Decode threads.
    metadata_bytes
        obs columns, and what else is held for each cell.
    """

    max_plan_size: int
    lookahead: int
    cache_shards: int
    shard_bytes: int
    matrix: MatrixDemand
    threads: int
    metadata_bytes: int

    @property
    def batch_bytes(self) -> int:
        """The arrays of the widest batch."""
        return self.matrix.buffer_bytes(2 * self.max_plan_size)

    @property
    def room_bytes(self) -> int:
        """What batches that are being decoded may take."""
        return max(1, self.lookahead) * self.batch_bytes

    @property
    def breakdown(self) -> dict[str, int]:
        """Bytes by purpose, and their total."""
        n_under_way = max(1, self.lookahead)
        parts = {
            "cache_bytes": self.cache_shards * self.shard_bytes,
            # The one that is due, and the one before it, which the loop still holds.
            "batch_buffer_bytes": 2 * self.batch_bytes,
            "lookahead_overhead_bytes": (n_under_way - 1) * self.batch_bytes,
            "transient_bytes": self.threads * self.matrix.scratch_bytes,
            "python_overhead_bytes": self.metadata_bytes
            + (n_under_way + 1) * PAIR_BYTES * self.max_plan_size,
        }
        return {**parts, "total_bytes": sum(parts.values())}

    @property
    def total_bytes(self) -> int:
        """All of it."""
        return self.breakdown["total_bytes"]


def fit_plans(demand: PlanDemand, max_memory_mb: int) -> tuple[PlanDemand, int]:
    """Reduce a demand until it fits: `lookahead` down to 1, then `cache_shards` down to 1.

    The default limit grows to what that takes at least, up to 4096 MB; if it takes more than that,
    the default of `max_plan_size` shrinks. What the user gave is kept to.

    Returns
    -------
    What is left of the demand, and the limit.

    Raises
    ------
    RuntimeError
        The least is too much still.
    """
    least = replace(
        demand, lookahead=min(demand.lookahead, 1), cache_shards=min(demand.cache_shards, 1)
    )
    limit = int(max_memory_mb)
    if isinstance(max_memory_mb, Adaptive):
        limit = min(max(limit, -(-least.total_bytes // MB)), ADAPTIVE_MAX_MB)
        if least.total_bytes > limit * MB and isinstance(demand.max_plan_size, Adaptive):
            size = widest_plan(least, limit)
            demand, least = (replace(part, max_plan_size=size) for part in (demand, least))
    if least.total_bytes > limit * MB or demand.max_plan_size < 1:
        raise RuntimeError(_too_little(least, limit))
    while demand.total_bytes > limit * MB and demand.lookahead > 1:
        demand = replace(demand, lookahead=demand.lookahead - 1)
    if demand.total_bytes > limit * MB:
        excess = demand.total_bytes - limit * MB
        n_less = -(-excess // demand.shard_bytes)
        demand = replace(demand, cache_shards=demand.cache_shards - n_less)
    return demand, limit


def widest_plan(least: PlanDemand, limit_mb: int) -> int:
    """How many pairs a plan may have within a limit; 0 for none."""
    low, high = 0, least.max_plan_size
    while low < high:
        middle = (low + high + 1) // 2
        if replace(least, max_plan_size=middle).total_bytes <= limit_mb * MB:
            low = middle
        else:
            high = middle - 1
    return low


def _too_little(least: PlanDemand, limit_mb: int) -> str:
    needed = -(-least.total_bytes // MB)
    size = widest_plan(least, limit_mb)
    narrower = f"max_plan_size={size} (fewer pairs in a plan), " if size else ""
    return (
        f"max_memory_mb={limit_mb} is too little: plans of max_plan_size={least.max_plan_size} "
        f"pairs of {least.matrix.n_output_genes} genes take {needed} MB at the least, with "
        f"lookahead and cache_shards at 1; pass {narrower}hvg_indices with fewer genes, or "
        f"max_memory_mb={needed}"
    )
