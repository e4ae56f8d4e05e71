"""Rows and what normalises them, as the search for medians takes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from scx_core.native.csr_rows import CsrRows
from scx_tokenize._genes import brought_to
from scx_tokenize._values import library_size
from scx_tokenize.jobs._fractions import any_fractions


@dataclass(frozen=True)
class Values:
    """The values of some rows at the places of their genes, and what they are scaled with.

    Attributes
    ----------
    rows
        Counts; genes ascend in each row.
    factors
        float64; `target_sum / library_size` of each row, 0 where that is 0.
    whole_numbers
        Whether all values are, as counts are.
    """

    rows: CsrRows
    factors: npt.NDArray[np.float64]
    whole_numbers: bool


def scaled_rows(
    indptr: npt.NDArray[np.int64],
    indices: npt.NDArray[Any],
    values: npt.NDArray[Any],
    *,
    places: npt.NDArray[np.int32] | None,
    n_genes: int,
    target_sum: float,
    threads: int | None,
    where: str,
    row_numbers: npt.NDArray[np.int64],
    find_fractions: bool,
) -> Values:
    """Rows in CSR as `MedianSearch.count` takes them.

    The library size is the row's sum over all that it stores, also of genes without a place, in
    float64; negative values and NaN count as 0.

    Parameters
    ----------
    indptr, indices, values
        The rows; `indptr` may start anywhere, rows may be unsorted.
    places, n_genes
        Where the columns' genes are among all genes, as of `brought_to`.
    where, row_numbers
        File and rows of it, for messages.
    find_fractions
        Look whether all are whole numbers; else they are taken for such.

    Raises
    ------
    ValueError
        A value is infinite; the message names file and row.
    """
    with np.errstate(over="ignore"):
        single = np.ascontiguousarray(values, dtype=np.float32)
    sizes = library_size(indptr - indptr[0], single, threads=threads)
    endless = np.flatnonzero(np.isinf(sizes))
    if len(endless):
        raise ValueError(
            f"{where}: row {row_numbers[endless[0]]} holds an infinite value, so its values "
            "cannot be normalised"
        )
    with np.errstate(divide="ignore"):
        factors = np.where(sizes > 0, target_sum / sizes, 0.0)
    rows = CsrRows(*brought_to(places, n_genes, indptr, indices, values))
    return Values(rows, factors, whole_numbers=not (find_fractions and any_fractions(single)))
