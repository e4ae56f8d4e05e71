"""Normalised values of rows, as the search for medians takes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from scx_tokenize._genes import brought_to
from scx_tokenize._values import library_size


@dataclass(frozen=True)
class Values:
    """The positive values of some rows, in row order.

    Attributes
    ----------
    genes
        int32; the gene of each.
    bits
        uint32; the bits of each normalised value in float32.
    counts
        float32; the values before they were normalised.
    """

    genes: npt.NDArray[np.int32]
    bits: npt.NDArray[np.uint32]
    counts: npt.NDArray[np.float32]


def normalised_values(
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
) -> Values:
    """`float32(max(v, 0) * (target_sum / library_size))` of rows in CSR, where it is positive.

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
    starts, genes, counts = brought_to(places, n_genes, indptr, indices, values)
    scaled = (counts * np.repeat(factors, np.diff(starts))).astype(np.float32)
    positive = scaled > 0
    if not positive.all():
        genes, scaled, counts = genes[positive], scaled[positive], counts[positive]
    return Values(genes, scaled.view(np.uint32), counts)
