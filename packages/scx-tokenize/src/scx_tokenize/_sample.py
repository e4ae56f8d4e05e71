"""Genes drawn from each cell, with replacement."""

from __future__ import annotations

from typing import Literal, TypedDict

import numpy as np
import numpy.typing as npt

from scx_core.native import binding
from scx_core.native.csr_rows import csr_rows

from . import _arguments as arguments
from ._batches import takes_batches
from ._outputs import kept

SampleWeight = Literal["log1p", "linear", "count"]
# SCX_WEIGHT_LOG1P and its like; the last two are two words for one weight.
WEIGHTS: dict[str, int] = {"log1p": 0, "linear": 1, "count": 1}


class SampleGenes(TypedDict):
    """What `sample_genes` gives: ids of n_rows * n, row after row, and lengths of n_rows."""

    ids: npt.NDArray[np.int32]
    lengths: npt.NDArray[np.int32]
    n_rows: int
    n: int


@takes_batches("indptr", "indices", "data")
def sample_genes(
    indptr: npt.ArrayLike,
    indices: npt.ArrayLike,
    data: npt.ArrayLike,
    n: int,
    seed: int,
    file_identity: int,
    weight: SampleWeight = "log1p",
    rows: npt.ArrayLike | None = None,
    *,
    threads: int | None = None,
) -> SampleGenes:
    """Draw n genes of each row with replacement, in proportion to their weights.

    The weight of a gene is log1p(count), or the count; negative counts and NaN weigh nothing, and
    an infinite count takes all draws. With the cumulative weights over their total as `cdf`, each
    draw u gives the gene at `numpy.searchsorted(cdf, u, side="right")`. The draws of a row follow
    from seed, file identity and row number alone.

    Parameters
    ----------
    indptr, indices, data
        The batch; or the batch as a whole in one argument, as in `top_k`.
    n
        Draws of each row, at least 1. The result has 4 bytes for each.
    seed
        A 64-bit number.
    file_identity
        That of the file the rows come from, a 64-bit number: see `scx_train`'s
        `downsample_file_identity`.
    weight
        "log1p", or "linear" for the count itself, which "count" means too.
    rows
        The rows' numbers in their file; None for their places in the batch, which makes the draws
        reproducible for this very batch only.
    threads
        None for all CPUs that the process may use. The result does not depend on it.

    Returns
    -------
    dict
        `ids` (int32, n_rows * n), `lengths` (int32, n_rows: n, or 0 for a row without a positive
        value, whose ids are not specified), `n_rows` and `n`.

    Raises
    ------
    ValueError
        Ids are out of order, lengths do not fit, an argument is out of range, or the result is
        larger than memory.
    TypeError
        An argument holds something else than numbers.
    """
    who = "sample_genes"
    batch = csr_rows(indptr, indices, data, who=who)
    width = arguments.width(n, "n", who=who)
    if weight not in WEIGHTS:
        allowed = ", ".join(map(repr, WEIGHTS))
        raise ValueError(f"{who}: weight={weight!r} must be one of {allowed}")
    numbers = arguments.row_numbers(rows, n_rows=batch.n_rows, who=who)
    options = binding.new_struct(
        "scx_sample_options",
        threads=arguments.threads(threads, who=who),
        weight=WEIGHTS[weight],
        n=width,
        seed=arguments.u64(seed, "seed", who=who),
        file_identity=arguments.u64(file_identity, "file_identity", who=who),
        row_numbers=arguments.pointer(numbers, "rows"),
    )
    arguments.check_slots(batch.n_rows, width, "n", slot_bytes=4, who=who)
    ids = kept.empty(batch.n_rows * width, np.int32)
    lengths = np.empty(batch.n_rows, dtype=np.int32)
    binding.call(
        "scx_tokens_sample",
        batch.pointer(),
        options,
        arguments.output(ids, "ids"),
        arguments.output(lengths, "lengths"),
    )
    return {"ids": ids, "lengths": lengths, "n_rows": batch.n_rows, "n": width}
