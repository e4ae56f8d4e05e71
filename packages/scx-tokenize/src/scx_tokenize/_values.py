"""Kernels that need no ranking: changed values, library sizes, measured genes, the sentinels."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from scx_core._memory import check_room
from scx_core.native import binding
from scx_core.native.csr_rows import CsrRows, csr_rows, numbers, whole_numbers

from . import _arguments as arguments
from ._batches import takes_batches

ValueMode = Literal["pass_through", "log1p_raw", "normalize_log1p", "pflog_raw"]
MODES: dict[str, int] = {  # SCX_PASS_THROUGH and its like
    "pass_through": 0,
    "log1p_raw": 1,
    "normalize_log1p": 2,
    "pflog_raw": 3,
}


def gene_mask_id(n_genes_total: int) -> int:
    """The id of GENE_MASK, one above the last gene: `n_genes_total` itself.

    Raises
    ------
    ValueError
        `n_genes_total` is not from 1 to 2^31 - 2, so that both sentinels are 32-bit ids.
    TypeError
        It is no whole number.
    """
    return arguments.n_genes_total(n_genes_total, who="gene_mask_id")


def pad_id(n_genes_total: int) -> int:
    """The id of PAD, two above the last gene: `n_genes_total + 1`.

    Raises
    ------
    ValueError, TypeError
        As `gene_mask_id`.
    """
    return arguments.n_genes_total(n_genes_total, who="pad_id") + 1


@takes_batches("indptr", "data")
def transform_values(
    indptr: npt.ArrayLike,
    data: npt.ArrayLike,
    mode: ValueMode,
    target_sum: float = 1e4,
    pflog_alpha: float | None = None,
    n_measured: int | npt.ArrayLike | None = None,
    *,
    threads: int | None = None,
) -> npt.NDArray[np.float32]:
    """The values of a batch, changed as collation changes them.

    Negative values and NaN are 0 first, and results of finite values are finite. An infinite value
    is no error: its result is infinite, or NaN where its row is scaled or centred by it. By `mode`,
    the result for v is

    - "pass_through": v;
    - "log1p_raw": ln(1 + v);
    - "normalize_log1p": ln(1 + v * f) with f = target_sum / sum of the row, rounded to float32
      (left in float64 where it is beyond its normal numbers), or 1 where the sum is not positive;
    - "pflog_raw": ln(1 + 4 a v) less the row's sum of that over `n_measured` (PFlog, version 4). A
      gene that is not stored would have the negative second term.

    Parameters
    ----------
    indptr, data
        The batch; or the batch as a whole in one argument, as in `top_k`.
    mode
        One of the above.
    target_sum
        For "normalize_log1p": positive, and finite as float32.
    pflog_alpha
        For "pflog_raw", and required there: the overdispersion a, positive, and finite as float32.
    n_measured
        For "pflog_raw", and required there: genes that were measured, at least 1; one number, or
        one for each row.
    threads
        None for all CPUs that the process may use.

    Returns
    -------
    float32, parallel to `data`.

    Raises
    ------
    ValueError
        `indptr` does not fit, a mode is unknown, or an argument is missing or out of range.
    TypeError
        An argument holds something else than numbers.
    """
    who = "transform_values"
    batch = _without_ids(indptr, data, who=who)
    if mode not in MODES:
        raise ValueError(f"{who}: mode={mode!r} must be one of {', '.join(map(repr, MODES))}")
    alpha, measured = 0.0, None
    if mode == "pflog_raw":
        if pflog_alpha is None or n_measured is None:
            raise ValueError(f"{who}: mode='pflog_raw' requires pflog_alpha and n_measured")
        alpha = arguments.positive(pflog_alpha, "pflog_alpha", who=who)
        measured = _measured(n_measured, batch.n_rows, who=who)
    options = binding.new_struct(
        "scx_transform_options",
        threads=arguments.threads(threads, who=who),
        mode=MODES[mode],
        target_sum=arguments.positive(target_sum, "target_sum", who=who),
        pflog_alpha=alpha,
        n_measured=arguments.pointer(measured, "n_measured"),
    )
    out = np.empty(len(batch.data), dtype=np.float32)
    binding.call("scx_tokens_transform", batch.pointer(), options, arguments.output(out, "out"))
    return out


def _measured(value: Any, n_rows: int, *, who: str) -> npt.NDArray[np.int64]:
    if np.ndim(value) == 0:
        number = arguments.whole_number(
            value, "n_measured", who=who, lowest=1, highest=np.iinfo(np.int64).max
        )
        return np.full(n_rows, number, dtype=np.int64)
    measured: npt.NDArray[np.int64] = whole_numbers(value, np.int64, "n_measured", who=who)
    if len(measured) != n_rows:
        raise ValueError(f"{who}: n_measured has {len(measured)} entries for {n_rows} rows")
    return measured


@takes_batches("indptr", "data")
def library_size(
    indptr: npt.ArrayLike, data: npt.ArrayLike, *, threads: int | None = None
) -> npt.NDArray[np.float64]:
    """The sum of each row in float64, negative values and NaN counting as 0.

    It is the sum of the row *as given*: after a projection to a panel, that is the library size
    of the panel's genes, not the cell's sequencing depth.

    Parameters
    ----------
    indptr, data
        The batch; or the batch as a whole in one argument, as in `top_k`.
    threads
        None for all CPUs that the process may use.

    Returns
    -------
    float64 of n_rows.

    Raises
    ------
    ValueError
        `indptr` does not fit, or `threads` is out of range.
    TypeError
        An argument holds something else than numbers.
    """
    who = "library_size"
    batch = _without_ids(indptr, data, who=who)
    n_threads = arguments.threads(threads, who=who)
    out = np.empty(batch.n_rows, dtype=np.float64)
    binding.call(
        "scx_tokens_library_size", batch.pointer(), arguments.output(out, "out"), n_threads
    )
    return out


@takes_batches("indptr", "indices")
def measured_mask(
    indptr: npt.ArrayLike,
    indices: npt.ArrayLike,
    panel: npt.ArrayLike,
    *,
    threads: int | None = None,
) -> npt.NDArray[np.uint8]:
    """Which genes of a panel each row carries.

    "Carries" is not "is not zero": a gene that is stored with the value 0 was measured. A gene that
    is not in the CSR at all may be unmeasured, where rows of several panels meet in a batch.

    Parameters
    ----------
    indptr, indices
        The batch; or the batch as a whole in one argument, as in `top_k`.
    panel
        Gene ids, in any order, repeats allowed; none negative.
    threads
        None for all CPUs that the process may use.

    Returns
    -------
    uint8 of n_rows * len(panel), row after row: 1 where the row carries the gene.

    Raises
    ------
    ValueError
        Ids are out of order, a gene of the panel is negative, lengths do not fit, `threads` is out
        of range, or the result is larger than memory; rows and ids are named.
    TypeError
        An argument holds something else than numbers.
    """
    who = "measured_mask"
    batch = _without_values(indptr, indices, who=who)
    genes = whole_numbers(panel, np.int32, "panel", who=who)
    if genes.size and genes.min() < 0:
        raise ValueError(f"{who}: panel holds gene id {int(genes.min())}, but none is negative")
    n_threads = arguments.threads(threads, who=who)
    check_room(
        batch.n_rows * len(genes),
        what=f"{who}: a panel of {len(genes)} genes for {batch.n_rows} rows",
        advice="take fewer rows at a time",
    )
    ascending, places = np.unique(genes, return_inverse=True)
    out = np.zeros(batch.n_rows * len(ascending), dtype=np.uint8)
    binding.call(
        "scx_tokens_measured",
        batch.pointer(),
        arguments.pointer(ascending, "panel"),
        len(ascending),
        arguments.output(out, "out"),
        n_threads,
    )
    if np.array_equal(ascending, genes):
        return out
    return np.ascontiguousarray(out.reshape(batch.n_rows, len(ascending))[:, places]).ravel()


def _without_ids(indptr: Any, data: Any, *, who: str) -> CsrRows:
    """A batch for kernels that do not look at the ids; the values stand in for them."""
    values = numbers(data, "data", who=who)
    return CsrRows(_pointers(indptr, who=who), values.view(np.int32), values)


def _without_values(indptr: Any, indices: Any, *, who: str) -> CsrRows:
    """A batch for kernels that do not look at the values; the ids stand in for them."""
    n_values = len(np.asarray(indices)) if np.ndim(indices) == 1 else 0
    # it is neither written nor read, so that it takes no memory
    unread: npt.NDArray[np.float32] = np.empty(n_values, dtype=np.float32)
    ids = csr_rows(indptr, indices, unread, who=who).indices
    return CsrRows(_pointers(indptr, who=who), ids, ids.view(np.float32))


def _pointers(indptr: Any, *, who: str) -> npt.NDArray[np.int64]:
    pointers: npt.NDArray[np.int64] = whole_numbers(indptr, np.int64, "indptr", who=who)
    if len(pointers) == 0:
        raise ValueError(f"{who}: indptr is empty, but it has one entry more than there are rows")
    return pointers
