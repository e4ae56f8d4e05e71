"""Genes of each cell in the order of their normalised value over a statistic of the gene."""

from __future__ import annotations

from typing import TypedDict

import numpy as np
import numpy.typing as npt

from scx_core.native import binding
from scx_core.native.csr_rows import csr_rows, numbers

from . import _arguments as arguments
from ._batches import takes_batches
from ._outputs import kept


class RankTokens(TypedDict):
    """What `rank_tokens` gives: ids of n_rows * l_max, row after row, and lengths of n_rows."""

    ids: npt.NDArray[np.int32]
    lengths: npt.NDArray[np.int32]
    norm_identity: int
    n_rows: int
    l_max: int


@takes_batches("indptr", "indices", "data")
def rank_tokens(
    indptr: npt.ArrayLike,
    indices: npt.ArrayLike,
    data: npt.ArrayLike,
    gene_stats: npt.ArrayLike,
    l_max: int,
    vocabulary_version: str,
    target_sum: float = 1e4,
    *,
    threads: int | None = None,
) -> RankTokens:
    """The genes of each row, ranked by normalised value over a statistic of the gene.

    A gene ranks by float32(max(v, 0) * (target_sum / total) / gene_stats[gene]), computed in
    float64 with the total of the row as given. What is not positive is left out; the largest comes
    first, and of equal ones the smaller gene id. At most `l_max` genes are kept. A row with an
    infinite value has an infinite total, and no tokens.

    Parameters
    ----------
    indptr, indices, data
        The batch; or the batch as a whole in one argument, as in `top_k`.
    gene_stats
        For each gene id, a statistic such as the gene's median over its non-zero values: finite and
        strictly positive. Rounded to float32.
    l_max
        The most tokens of a row, at least 1. The result has 4 bytes for each, whatever rows hold.
    vocabulary_version
        The name of the gene numbering; it goes into `norm_identity`.
    target_sum
        The total that rows are normalised to: positive, and finite as float32.
    threads
        None for all CPUs that the process may use. The result does not depend on it.

    Returns
    -------
    dict
        `ids` (int32, n_rows * l_max), `lengths` (int32, n_rows), `norm_identity`, `n_rows` and
        `l_max`. What stands in a row behind its length is not specified: padding is the caller's.
        `norm_identity` is the first eight bytes, little-endian, of the BLAKE3 of the statistics (as
        little-endian float32) followed by the version (UTF-8): keep it with what was made.

    Raises
    ------
    ValueError
        Ids are out of order or outside the vocabulary, lengths do not fit, an argument is out of
        range, or the result is larger than memory; rows, ids and genes are named.
    TypeError
        An argument holds something else than numbers.
    """
    who = "rank_tokens"
    batch = csr_rows(indptr, indices, data, who=who)
    statistics = numbers(gene_stats, "gene_stats", who=who)
    width = arguments.width(l_max, "l_max", who=who)
    if not isinstance(vocabulary_version, str):
        raise TypeError(f"{who}: vocabulary_version={vocabulary_version!r} must be a str")
    options = binding.new_struct(
        "scx_rank_options",
        threads=arguments.threads(threads, who=who),
        gene_stats=arguments.pointer(statistics, "gene_stats"),
        n_genes=len(statistics),
        target_sum=arguments.positive(target_sum, "target_sum", who=who),
        l_max=width,
    )
    arguments.check_slots(batch.n_rows, width, "l_max", slot_bytes=4, who=who)
    ids = kept.empty(batch.n_rows * width, np.int32)
    lengths = np.empty(batch.n_rows, dtype=np.int32)
    binding.call(
        "scx_tokens_rank",
        batch.pointer(),
        options,
        arguments.output(ids, "ids"),
        arguments.output(lengths, "lengths"),
    )
    return {
        "ids": ids,
        "lengths": lengths,
        "norm_identity": norm_identity(statistics, vocabulary_version),
        "n_rows": batch.n_rows,
        "l_max": width,
    }


def norm_identity(statistics: npt.NDArray[np.float32], vocabulary_version: str) -> int:
    """The stamp of statistics and version."""
    stamped = statistics.astype("<f4").tobytes() + vocabulary_version.encode("utf-8")
    return int(binding.native().lib.scx_hash64(stamped, len(stamped)))
