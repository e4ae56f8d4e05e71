"""Bins of expression values."""

from __future__ import annotations

from typing import Literal, TypedDict

import numpy as np
import numpy.typing as npt

from scx_core.native import binding
from scx_core.native.csr_rows import csr_rows, vector

from . import _arguments as arguments
from ._batches import takes_batches

Tie = Literal["left", "right", "seeded"]
TIES: dict[str, int] = {"left": 0, "right": 1, "seeded": 2}  # SCX_TIE_LEFT and its like
N_BINS_MIN = 3
N_BINS_MAX = 2**16


class BinValues(TypedDict):
    """What `bin_values` gives: a bin for each stored value, and the two numbers."""

    bins: npt.NDArray[np.int32]
    n_rows: int
    n_bins: int


@takes_batches("indptr", "indices", "data")
def bin_values(
    indptr: npt.ArrayLike,
    indices: npt.ArrayLike,
    data: npt.ArrayLike,
    n_bins: int,
    edges: npt.ArrayLike | None = None,
    tie: Tie = "left",
    seed: int = 0,
    file_identity: int = 0,
    rows: npt.ArrayLike | None = None,
    *,
    threads: int | None = None,
) -> BinValues:
    """The bin of each value: 0 for what is not positive, else from the edges that it lies between.

    With "left" the bin is the number of edges that are not above the value, with "right" the number
    of edges below it (the two bounds of `numpy.digitize`), which is 0 for a value that equals the
    first edge, such as the smallest of a row. "seeded" draws between the two:
    ceil(u * (right - left) + left), with a u for each positive value of the row in turn. The draws
    of a row follow from seed, file identity and row number alone.

    Parameters
    ----------
    indptr, indices, data
        The batch; or the batch as a whole in one argument, as in `top_k`.
    n_bins
        From 3 to 65,536, bin 0 included.
    edges
        Exactly `n_bins - 1` finite, non-decreasing numbers; a positive value below the first of
        them is refused. None for the quantiles of each row's own positive values:
        `numpy.quantile(positive, numpy.linspace(0, 1, n_bins - 1))`.
    tie
        "left", "right" or "seeded".
    seed, file_identity
        For "seeded": 64-bit numbers.
    rows
        For "seeded": the rows' numbers in their file; None for their places in the batch, which
        makes the draws reproducible for this very batch only.
    threads
        None for all CPUs that the process may use. The result does not depend on it.

    Returns
    -------
    dict
        `bins` (int32, parallel to `data`), `n_rows` and `n_bins`.

    Raises
    ------
    ValueError
        Ids are out of order, lengths do not fit, an argument is out of range, a value lies below
        the first edge, or a row without edges holds an infinite value; rows and ids are named.
    TypeError
        An argument holds something else than numbers.
    """
    who = "bin_values"
    batch = csr_rows(indptr, indices, data, who=who)
    number = arguments.whole_number(
        n_bins, "n_bins", who=who, lowest=N_BINS_MIN, highest=N_BINS_MAX
    )
    if tie not in TIES:
        allowed = ", ".join(map(repr, TIES))
        raise ValueError(f"{who}: unknown tie {tie!r}: it must be one of {allowed}")
    given = None
    if edges is not None:
        array = vector(edges, "edges", who=who)
        if array.dtype.kind not in "iuf":
            raise TypeError(f"{who}: edges has dtype {array.dtype}, but numbers are needed")
        given = np.ascontiguousarray(array, dtype=np.float64)
    numbers = arguments.row_numbers(rows, n_rows=batch.n_rows, who=who)
    options = binding.new_struct(
        "scx_bin_options",
        threads=arguments.threads(threads, who=who),
        n_bins=number,
        tie=TIES[tie],
        edges=arguments.pointer(given, "edges"),
        n_edges=0 if given is None else len(given),
        seed=arguments.u64(seed, "seed", who=who),
        file_identity=arguments.u64(file_identity, "file_identity", who=who),
        row_numbers=arguments.pointer(numbers, "rows"),
    )
    bins = np.empty(len(batch.data), dtype=np.int32)
    binding.call("scx_tokens_bin", batch.pointer(), options, arguments.output(bins, "bins"))
    return {"bins": bins, "n_rows": batch.n_rows, "n_bins": number}
