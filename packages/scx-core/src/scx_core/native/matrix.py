"""A matrix of an open file: rows out of its shards, in any order.

A thin class over the `scx_matrix_*` functions of scx.h. Arguments are checked here; threads may
share a matrix.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from scx_core._arguments import positive
from scx_core._value_types import dtype_of, value_type
from scx_core.native import binding
from scx_core.native.binding import CData, call, native
from scx_core.native.container import FileReader
from scx_core.native.threads import checked_threads

NORMALIZE = 1  # SCX_NORMALIZE
LOG1P = 2  # SCX_LOG1P
# what any matrix can be gathered as, besides its own dtype
CONVERTED = (np.dtype(np.float32), np.dtype(np.float64))
# what is gathered in one native call: a tenth of a second where memory is slow, mostly far less
VALUES_PER_CALL = 2**23
ROWS_PER_CALL = 2**20


@dataclass(frozen=True)
class MatrixInfo:
    """What a matrix is; `codec` is the number of the codec of its first shard."""

    n_rows: int
    n_cols: int
    nnz: int
    n_shards: int
    codec: int
    dtype: np.dtype[Any]


class Matrix:
    """One matrix of a file that is open for reading.

    Parameters
    ----------
    file
        The file; the matrix keeps it mapped.
    section_type, modality_id, name
        Which one: `name` is "X", "raw/X", a layer's name or a graph's key.

    Raises
    ------
    KeyError
        The file has no such matrix.
    ValueError
        A shard has a codec or a value type that this version cannot decode.
    CorruptFileError
        The shards do not fit each other.
    """

    def __init__(
        self, file: FileReader, *, section_type: int, name: str, modality_id: int = 0
    ) -> None:
        library = native()
        self._path = file.path
        # the library reads through the file as long as the matrix lives
        self._file_handle = file.handle
        out = library.ffi.new("scx_matrix **")
        raw_name = binding.name_bytes(name, "name")
        call(
            "scx_matrix_open",
            self._file_handle,
            int(section_type),
            modality_id,
            raw_name,
            out,
            path=self._path,
        )
        self._handle: CData | None = binding.owned(out[0], library.lib.scx_matrix_close)
        self.info = self._read_info()

    @property
    def handle(self) -> CData:
        """The `scx_matrix` pointer. Who passes it on keeps this object."""
        if self._handle is None:
            raise RuntimeError(f"{self._path}: the matrix is closed")
        return self._handle

    @property
    def shape(self) -> tuple[int, int]:
        """Physical rows and columns."""
        return self.info.n_rows, self.info.n_cols

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the stored values."""
        return self.info.dtype

    @property
    def nnz(self) -> int:
        """How many values are stored."""
        return self.info.nnz

    def row_counts(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """How many values each of the rows stores, int64."""
        counts = np.empty(len(rows), dtype=np.int64)
        call(
            "scx_matrix_row_counts",
            self.handle,
            _rows_pointer(rows),
            len(rows),
            binding.output_array(counts, np.int64, "counts"),
            path=self._path,
        )
        return counts

    def row_totals(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Each row's total (its library size) in float64; negative values and NaN count as 0."""
        totals = np.empty(len(rows), dtype=np.float64)
        call(
            "scx_matrix_row_totals",
            self.handle,
            _rows_pointer(rows),
            len(rows),
            binding.output_array(totals, np.float64, "totals"),
            path=self._path,
        )
        return totals

    def gather_csr(
        self,
        rows: npt.NDArray[np.int64],
        *,
        dtype: npt.DTypeLike | None = None,
        threads: int = 0,
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32], npt.NDArray[Any]]:
        """The given rows in CSR, in their order.

        Parameters
        ----------
        rows
            int64, physical rows in any order, repeats allowed.
        dtype
            None for the matrix's own, or float32 or float64, rounded as a cast would.
        threads
            How many threads decode; 0 for as many as `decoding_threads` says or the machine has.

        Returns
        -------
        indptr, indices, values
            int64 of `len(rows) + 1` from 0, int32 ascending in each row, and values of `dtype`.

        Raises
        ------
        IndexError
            A row is out of range.
        CorruptFileError
            A row is damaged.
        """
        wanted = self.dtype if dtype is None else np.dtype(dtype)
        if wanted != self.dtype and wanted not in CONVERTED:
            raise ValueError(f"dtype={wanted} is neither {self.dtype} nor float32 nor float64")
        threads = checked_threads(threads)
        counts = self.row_counts(rows)
        indptr = np.zeros(len(rows) + 1, dtype=np.int64)
        np.cumsum(counts, out=indptr[1:])
        indices = np.empty(int(indptr[-1]), dtype=np.int32)
        values = np.empty(int(indptr[-1]), dtype=wanted)
        for start, stop in _pieces(indptr):
            first, last = int(indptr[start]), int(indptr[stop])
            call(
                "scx_matrix_gather_csr",
                self.handle,
                _rows_pointer(rows[start:stop]),
                stop - start,
                binding.input_array(indptr[start : stop + 1] - first, np.int64, "indptr"),
                binding.output_array(indices[first:last], np.int32, "indices"),
                value_type(wanted),
                binding.output_array(values[first:last], wanted, "values"),
                threads,
                path=self._path,
            )
        return indptr, indices, values

    def gather_dense(
        self,
        rows: npt.NDArray[np.int64],
        *,
        columns: npt.NDArray[np.uint32] | None = None,
        normalize: bool = False,
        log1p: bool = False,
        target_sum: float = 1e4,
        out: npt.NDArray[np.float32] | None = None,
        threads: int = 0,
    ) -> npt.NDArray[np.float32]:
        """The given rows as a dense float32 array.

        Parameters
        ----------
        rows
            int64, physical rows in any order, repeats allowed.
        columns
            uint32, ascending and distinct; None for all.
        normalize
            Scale each row to `target_sum`, by its total over all columns.
        log1p
            Take the natural logarithm of 1 + value, negative values and NaN counting as 0.
        out
            C-contiguous float32 of the result's shape, to be filled; None for a new array.
        threads
            How many threads decode; 0 for as many as `decoding_threads` says or the machine has.

        Returns
        -------
        Shape (len(rows), len(columns)); `out` where it was given.
        """
        threads = checked_threads(threads)
        if normalize:
            positive(target_sum, "target_sum")
        shape = (len(rows), self.info.n_cols if columns is None else len(columns))
        if out is None:
            out = np.empty(shape, dtype=np.float32)
        elif out.shape != shape:
            raise ValueError(f"out has shape {out.shape}, expected {shape}")
        ffi = native().ffi
        panel = ffi.NULL
        if columns is not None:
            panel = binding.input_array(columns, np.uint32, "columns")
        options = binding.new_struct(
            "scx_dense_options",
            transform=(NORMALIZE if normalize else 0) | (LOG1P if log1p else 0),
            target_sum=target_sum,
            panel=panel,
            n_panel=0 if columns is None else len(columns),
        )
        call(
            "scx_matrix_gather_dense",
            self.handle,
            _rows_pointer(rows),
            len(rows),
            options,
            binding.output_array(out, np.float32, "out"),
            threads,
            path=self._path,
        )
        return out

    def validate(self) -> None:
        """Hash every shard, decode every row and check canonical form and statistics.

        Raises CorruptFileError at the first thing that is wrong.
        """
        for shard in range(self.info.n_shards):
            call("scx_matrix_validate_shard", self.handle, shard, path=self._path)

    def close(self) -> None:
        """Free what the matrix holds; nothing may be in a call of it."""
        handle, self._handle = self._handle, None
        if handle is not None:
            native().ffi.release(handle)

    def _read_info(self) -> MatrixInfo:
        struct = binding.new_struct("scx_matrix_info")
        call("scx_matrix_get_info", self.handle, struct, path=self._path)
        dtype = dtype_of(int(struct.value_type))
        if dtype is None:
            raise ValueError(
                f"{self._path}: value type {struct.value_type} is unknown to this version"
            )
        return MatrixInfo(
            n_rows=int(struct.n_rows),
            n_cols=int(struct.n_cols),
            nnz=int(struct.nnz),
            n_shards=int(struct.n_shards),
            codec=int(struct.codec_id),
            dtype=dtype,
        )


def _pieces(indptr: npt.NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Runs of rows that are gathered in one call; between calls Python can react to Ctrl-C."""
    n_rows = len(indptr) - 1
    start = 0
    while start < n_rows:
        stop = int(np.searchsorted(indptr, indptr[start] + VALUES_PER_CALL, side="right")) - 1
        stop = min(max(stop, start + 1), start + ROWS_PER_CALL, n_rows)
        yield start, stop
        start = stop


def _rows_pointer(rows: npt.NDArray[np.int64]) -> CData:
    if rows.ndim != 1:
        raise ValueError(f"rows has {rows.ndim} dimensions, expected one")
    return binding.input_array(rows, np.int64, "rows")
