"""How much memory a data set takes, and what gives way when that is more than it may.

Counted is what the process holds for itself; the map of the file is the system's to evict, and is
reported but not counted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

MB = 2**20
ADAPTIVE_MIN_MB = 512
ADAPTIVE_MAX_MB = 4096
PREFETCH_MIN = 2
GROUP_MIN = 1
BATCH_MIN = 64
# Batches beyond those made ahead: the one just received and the one that the loop still holds.
HELD_BATCHES = 2
HUGE_PAGE = 2 * MB
# Of one decoding thread: arrays over the genes, and the stack it touches.
SCRATCH_PER_GENE = 28
SCRATCH_FIXED = 64 * 1024
# The room of CSR batches follows from the rows of each; theirs vary.
CSR_MARGIN = 1.125


@dataclass(frozen=True)
class MatrixDemand:
    """What a batch of one matrix takes.

    Attributes
    ----------
    n_vars, n_output_genes
        Genes of the matrix, and columns of a dense batch.
    mean_values
        Stored values of a cell on average for CSR batches; None for dense ones.
    value_bytes
        Of an element of a dense batch.
    """

    n_vars: int
    n_output_genes: int
    mean_values: float | None
    value_bytes: int = 4

    def buffer_bytes(self, batch_size: int) -> int:
        """Bytes of one batch."""
        if self.mean_values is None:
            size = self.value_bytes * batch_size * self.n_output_genes
        else:
            size = int(batch_size * (8 + 8 * CSR_MARGIN * self.mean_values))
        return size if size < 2 * HUGE_PAGE else -(-size // HUGE_PAGE) * HUGE_PAGE

    @property
    def scratch_bytes(self) -> int:
        """Bytes of one decoding thread."""
        return SCRATCH_PER_GENE * self.n_vars + SCRATCH_FIXED


@dataclass(frozen=True)
class Demand:
    """What the memory of a data set follows from.

    Attributes
    ----------
    batch_size, prefetch_batches, shard_group_size
        What may be reduced.
    matrices
        Those that are read, each with decode threads of its own.
    group_rows
        Cells of the largest group of shards.
    threads
        Decode threads of each matrix.
    metadata_bytes
        obs columns, embeddings and the choice of rows.
    largest_batch
        The cells of the largest batch for a `batch_size`. Memory that one such batch took is kept,
        and another takes more where that is in use, so that in time every buffer is of its size.
    """

    batch_size: int
    prefetch_batches: int
    shard_group_size: int
    matrices: tuple[MatrixDemand, ...]
    group_rows: int
    threads: int
    metadata_bytes: int
    largest_batch: Callable[[int], int]

    @property
    def breakdown(self) -> dict[str, int]:
        """Bytes by purpose, and their total."""
        n_cells = self.largest_batch(self.batch_size)
        parts = {
            # Rows are decoded straight into their batch.
            "cache_bytes": 0,
            "batch_buffer_bytes": (self.prefetch_batches + HELD_BATCHES)
            * sum(matrix.buffer_bytes(n_cells) for matrix in self.matrices),
            # The order of the group that is read, before and after it is shuffled.
            "lookahead_overhead_bytes": 2 * 8 * self.group_rows,
            "transient_bytes": self.threads * sum(matrix.scratch_bytes for matrix in self.matrices),
            "python_overhead_bytes": self.metadata_bytes + 8 * n_cells,
        }
        return {**parts, "total_bytes": sum(parts.values())}

    @property
    def total_bytes(self) -> int:
        """All of it."""
        return self.breakdown["total_bytes"]


@dataclass(frozen=True)
class Budget:
    """A demand that was fitted to a limit.

    Attributes
    ----------
    demand
        What is left of it.
    limit_mb
        The limit, in units of 2**20 bytes.
    """

    demand: Demand
    limit_mb: int

    @property
    def exceeded(self) -> bool:
        """Whether it is too much still."""
        return self.demand.total_bytes > self.limit_mb * MB

    def report(self, *, mmap_bytes: int) -> dict[str, Any]:
        """The estimate and what it holds for."""
        breakdown = self.demand.breakdown
        return {
            "breakdown": breakdown,
            "shard_group_size": self.demand.shard_group_size,
            "prefetch_batches": self.demand.prefetch_batches,
            "batch_size": self.demand.batch_size,
            "max_memory_mb": self.limit_mb,
            "estimated_mb": breakdown["total_bytes"] / MB,
            "mmap_mb": mmap_bytes / MB,
            "budget_exceeded": self.exceeded,
        }


def fit(demand: Demand, max_memory_mb: int | None) -> Budget:
    """Reduce a demand until it fits, as little as it takes.

    First `prefetch_batches` down to 2, then `shard_group_size` down to 1, then `batch_size` halved
    down to 64. Without a limit there is one all the same: what the demand takes, but from 512 to
    4096 MB.
    """
    limit = max_memory_mb
    if limit is None:
        limit = min(max(-(-demand.total_bytes // MB), ADAPTIVE_MIN_MB), ADAPTIVE_MAX_MB)
    budget = Budget(demand, limit)
    while budget.exceeded:
        smaller = _reduced(budget.demand)
        if smaller is None:
            break
        budget = Budget(smaller, limit)
    return budget


def _reduced(demand: Demand) -> Demand | None:
    if demand.prefetch_batches > PREFETCH_MIN:
        return replace(demand, prefetch_batches=demand.prefetch_batches - 1)
    if demand.shard_group_size > GROUP_MIN:
        return replace(demand, shard_group_size=GROUP_MIN)
    if demand.batch_size > BATCH_MIN:
        return replace(demand, batch_size=max(BATCH_MIN, demand.batch_size // 2))
    return None
