"""The functions of scx.h that this package calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from scx_core._value_types import VALUE_TYPES, value_type
from scx_core.native import binding
from scx_core.sources.base import CsrBlock

# values without a number in scx.h, and a type that holds them exactly
WIDENED = {"int8": np.int32, "int16": np.int32}


@dataclass
class Scan:
    """What was seen of a matrix; see `scx_column_scan` in scx.h."""

    stored_zeros: int = 0
    nan_values: int = 0
    positive_infinities: int = 0
    negative_infinities: int = 0
    beyond_f32: int = 0
    fractional_values: int = 0
    above_whole_f32: int = 0
    unordered_rows: int = 0

    def plus(self, other: Scan) -> Scan:
        """What was seen of both."""
        return Scan(**{name: count + getattr(other, name) for name, count in vars(self).items()})


def plain_values(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The values in a type that the library takes."""
    if values.dtype == np.bool_:
        return values.view(np.uint8)
    values = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("="))
    if values.dtype.name in VALUE_TYPES:
        return values
    return values.astype(WIDENED.get(values.dtype.name, np.float64))


def _rows(block: CsrBlock, n_cols: int, places: npt.NDArray[np.int32] | None) -> Any:
    values = plain_values(block.values)
    indices = np.ascontiguousarray(block.indices)
    indptr = np.ascontiguousarray(block.indptr)
    parts = (indptr, indices, values, places)
    struct = binding.new_struct(
        "scx_cell_rows",
        index_bytes=indices.itemsize,
        value_type=value_type(values.dtype),
        n_rows=block.n_rows,
        n_cols=n_cols,
        indptr=binding.input_array(indptr, np.int64, "indptr"),
        indices=binding.input_array(indices, indices.dtype, "indices"),
        values=binding.input_array(values, values.dtype, "values"),
        places=binding.native().ffi.NULL
        if places is None
        else binding.input_array(places, np.int32, "places", length=n_cols),
    )
    return struct, parts


def scan_columns(
    block: CsrBlock,
    n_cols: int,
    places: npt.NDArray[np.int32] | None,
    counts: npt.NDArray[np.int64],
    scan: Scan,
) -> None:
    """Add what `block` holds to `counts` (values other than 0 a column) and `scan`."""
    rows, parts = _rows(block, n_cols, places)
    names = Scan.__dataclass_fields__
    struct = binding.new_struct("scx_column_scan")
    counted = binding.output_array(counts, np.int64, "counts")
    binding.call("scx_columns_scan", rows, counted, len(counts), struct)
    del parts
    for name in names:
        setattr(scan, name, getattr(scan, name) + int(getattr(struct, name)))


def scatter_columns(
    block: CsrBlock,
    n_cols: int,
    places: npt.NDArray[np.int32] | None,
    *,
    row_start: int,
    column_start: int,
    cursors: npt.NDArray[np.int64],
    rows_out: npt.NDArray[np.int32],
    values_out: npt.NDArray[Any],
    threads: int,
) -> None:
    """Put the values of `len(cursors)` columns where `cursors` says, and move these on."""
    rows, parts = _rows(block, n_cols, places)
    struct = binding.new_struct(
        "scx_column_range",
        value_type=value_type(values_out.dtype),
        row_start=row_start,
        column_start=column_start,
        n_columns=len(cursors),
        n_values=len(rows_out),
        cursors=binding.output_array(cursors, np.int64, "cursors"),
        rows_out=binding.output_array(rows_out, np.int32, "rows_out"),
        values_out=binding.output_array(values_out, values_out.dtype, "values_out"),
    )
    binding.call("scx_columns_scatter", rows, struct, threads)
    del parts


class Stretches:
    """The values of rows in memory by column, from the first on."""

    def __init__(
        self,
        block: CsrBlock,
        n_cols: int,
        places: npt.NDArray[np.int32] | None,
        indptr: npt.NDArray[np.int64],
    ) -> None:
        self._rows, self._parts = _rows(block, n_cols, places)
        self._row_at = np.array(block.indptr[:-1], np.int64)
        self._cursors = indptr[:-1].copy()
        self._ends = indptr[1:]

    def fill(
        self, first: int, rows_out: npt.NDArray[np.int32], values_out: npt.NDArray[Any]
    ) -> None:
        """Fill the outputs with what comes next; `first` values have been given already."""
        struct = binding.new_struct(
            "scx_column_stretch",
            value_type=value_type(values_out.dtype),
            first=first,
            n_values=len(rows_out),
            n_columns=len(self._cursors),
            row_at=binding.output_array(self._row_at, np.int64, "row_at"),
            cursors=binding.output_array(self._cursors, np.int64, "cursors"),
            rows_out=binding.output_array(rows_out, np.int32, "rows_out"),
            values_out=binding.output_array(values_out, values_out.dtype, "values_out"),
        )
        binding.call("scx_columns_stretch", self._rows, struct)

    def check_end(self) -> None:
        """Every column has all of its values.

        Raises
        ------
        RuntimeError
            The rows are no longer those that were counted.
        """
        if not np.array_equal(self._cursors, self._ends):
            raise RuntimeError("the matrix has changed while it was written")


def outlier_shares(
    coordinates: npt.NDArray[np.float32],
    codes: npt.NDArray[np.int32],
    n_categories: int,
    *,
    cells_min: int,
) -> npt.NDArray[np.float32]:
    """For each cell the share of its category that lies as close to the centre, or closer."""
    n_cells, n_axes = coordinates.shape
    shares = np.empty(n_cells, np.float32)
    binding.call(
        "scx_outlier_shares",
        n_cells,
        n_axes,
        binding.input_array(coordinates, np.float32, "coordinates"),
        binding.input_array(codes, np.int32, "codes", length=n_cells),
        n_categories,
        cells_min,
        binding.output_array(shares, np.float32, "shares"),
    )
    return shares
