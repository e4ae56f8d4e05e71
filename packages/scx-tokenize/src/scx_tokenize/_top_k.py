"""The k genes of each cell with the largest values."""

from __future__ import annotations

from typing import TypedDict

import numpy as np
import numpy.typing as npt

from scx_core.native import binding
from scx_core.native.csr_rows import csr_rows

from . import _arguments as arguments
from ._batches import takes_batches
from ._outputs import kept


class TopK(TypedDict):
    """What `top_k` gives: flat arrays of n_rows * k, row after row, and the two numbers."""

    ids: npt.NDArray[np.int32]
    values: npt.NDArray[np.float32]
    mask: npt.NDArray[np.uint8]
    pad: npt.NDArray[np.uint8]
    n_rows: int
    k: int


@takes_batches("indptr", "indices", "data")
def top_k(
    indptr: npt.ArrayLike,
    indices: npt.ArrayLike,
    data: npt.ArrayLike,
    k: int,
    n_genes_total: int,
    *,
    threads: int | None = None,
) -> TopK:
    """The k genes of each row with the largest positive values.

    They are ordered by value, the largest first, and by gene id where values are equal; mask and
    pad are 0. Slots that are left over hold PAD (`n_genes_total + 1`), value 0, mask 0 and pad 1. A
    row without a positive value has one GENE_MASK token (`n_genes_total`) with value 0, mask 1 and
    pad 0.

    Parameters
    ----------
    indptr, indices, data
        The batch in CSR, of any integer or float dtype, contiguous or not: gene ids non-negative,
        strictly ascending in each row and below `n_genes_total`. Values are rounded to float32.
        A batch may also be given in one argument, in place of the three: a scipy CSR matrix, an
        AnnData whose X is one, or the dict that a data set gives, with `X` in CSR or with
        `indptr`, `indices` and `data`.
    k
        Slots of a row, at least 1. The result has 10 bytes for each.
    n_genes_total
        Size of the vocabulary, at least 1.
    threads
        None for all CPUs that the process may use. The result does not depend on it.

    Returns
    -------
    dict
        `ids` (int32), `values` (float32), `mask` and `pad` (uint8), each n_rows * k, and `n_rows`
        and `k`.

    Raises
    ------
    ValueError
        Ids are out of order or outside the vocabulary, lengths do not fit, an argument is out of
        range, or the result is larger than memory; rows and ids are named.
    TypeError
        An argument holds something else than numbers.
    """
    who = "top_k"
    batch = csr_rows(indptr, indices, data, who=who)
    width = arguments.width(k, "k", who=who)
    n_genes = arguments.n_genes_total(n_genes_total, who=who)
    n_threads = arguments.threads(threads, who=who)
    arguments.check_slots(batch.n_rows, width, "k", slot_bytes=10, who=who)
    n_slots = batch.n_rows * width
    result: TopK = {
        "ids": kept.empty(n_slots, np.int32),
        "values": kept.empty(n_slots, np.float32),
        "mask": kept.empty(n_slots, np.uint8),
        "pad": kept.empty(n_slots, np.uint8),
        "n_rows": batch.n_rows,
        "k": width,
    }
    binding.call(
        "scx_tokens_top_k",
        batch.pointer(),
        width,
        n_genes,
        arguments.output(result["ids"], "ids"),
        arguments.output(result["values"], "values"),
        arguments.output(result["mask"], "mask"),
        arguments.output(result["pad"], "pad"),
        n_threads,
    )
    return result
