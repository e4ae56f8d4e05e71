"""The matrices that batches take rows of, and where their columns go.

Thin classes over `scx_columns_*` of scx.h.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from scx_core._arguments import positive
from scx_core.native import binding
from scx_core.native.binding import CData, call, native
from scx_core.native.matrix import LOG1P, NORMALIZE, Matrix

NOT_KEPT = -1
"""In a map of columns: one that batches leave out."""

OUTPUT_DTYPES: dict[str, type[np.generic]] = {
    "float32": np.float32,
    "float16": np.float16,
    "bfloat16": np.uint16,  # numpy has no such type: the bits
}
"""The elements of dense batches, by the numbers SCX_OUTPUT_*, and what numpy holds them as."""


class Columns:
    """Where the columns of a matrix go, and what happens to its values.

    Parameters
    ----------
    n_columns
        Columns of the matrix.
    targets
        int32, the output column of each, or `NOT_KEPT`; None for each column as itself. Raw values
        of columns that share an output column are added, before anything else happens to them.
    n_output
        Columns of a batch; of CSR batches there may be more than the matrix has.
    normalize, log1p, target_sum
        As in `Matrix.gather_dense`. Totals are over all columns of the matrix.
    pflog_alpha
        For PFlog: the overdispersion a. Values become ln(1 + 4 a v), less the mean of that over all
        genes of their cell. 0 for none; it excludes `normalize` and `log1p`.
    dtype
        Elements of dense batches, one of `OUTPUT_DTYPES`: rounded to the nearest, ties to even, and
        infinite beyond the type. Values are worked out in float32 all the same.

    Raises
    ------
    IndexError
        A column goes to an output column that does not exist.
    ValueError
        Without a map, the numbers of columns differ, or `target_sum` is wrong.
    """

    def __init__(
        self,
        n_columns: int,
        targets: npt.NDArray[np.int32] | None,
        n_output: int,
        *,
        normalize: bool = False,
        log1p: bool = False,
        target_sum: float = 1e4,
        pflog_alpha: float = 0.0,
        dtype: str = "float32",
    ) -> None:
        library = native()
        pointer = library.ffi.NULL
        if targets is not None:
            pointer = binding.input_array(targets, np.int32, "targets", length=n_columns)
        values = _value_options(
            normalize=normalize,
            log1p=log1p,
            target_sum=target_sum,
            pflog_alpha=pflog_alpha,
            dtype=dtype,
        )
        out = library.ffi.new("scx_columns **")
        call("scx_columns_open", n_columns, pointer, n_output, values, out)
        self.handle: CData = binding.owned(out[0], library.lib.scx_columns_close)
        self.n_output = n_output
        self.dtype = dtype


def into_panel(
    columns: npt.NDArray[np.int32] | None, panel: npt.NDArray[np.uint32], n_columns: int
) -> npt.NDArray[np.int32]:
    """Where each column goes when of `n_columns` common ones only those of `panel` are kept.

    `columns` is the common column of each, or `NOT_KEPT`; None for each as itself.
    """
    # One more place at the end: NOT_KEPT finds itself there.
    places = np.full(n_columns + 1, NOT_KEPT, dtype=np.int32)
    places[panel] = np.arange(len(panel), dtype=np.int32)
    return places[:-1] if columns is None else places[columns]


@dataclass(frozen=True)
class Member:
    """One of the matrices.

    Attributes
    ----------
    matrix, columns
        The matrix, and where its columns go.
    path
        Its file, for messages; None where nobody knows.
    file_identity
        What stands for the file where counts are drawn.
    """

    matrix: Matrix
    columns: Columns
    path: str | None = None
    file_identity: int = 0

    @classmethod
    def whole(cls, matrix: Matrix, *, path: str | None = None, **values: Any) -> Member:
        """All columns of a matrix; `values` are those of `Columns`."""
        n_columns = matrix.info.n_cols
        return cls(matrix, Columns(n_columns, None, n_columns, **values), path)


def _value_options(
    *, normalize: bool, log1p: bool, target_sum: float, pflog_alpha: float, dtype: str
) -> CData:
    """What happens to values, as the library takes it; ValueError for a wrong `target_sum`."""
    if normalize:
        positive(target_sum, "target_sum")
    return binding.new_struct(
        "scx_dense_options",
        transform=(NORMALIZE if normalize else 0) | (LOG1P if log1p else 0),
        target_sum=target_sum,
        pflog_alpha=pflog_alpha,
        output=list(OUTPUT_DTYPES).index(dtype),
    )
