"""A matrix of an open file that looks like a matrix: X, a layer or raw.X."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
import numpy.typing as npt

from scx_core._codecs import codec_name
from scx_core._errors import NameNotFoundError
from scx_core.experiment._indexing import Axis, Positions
from scx_core.experiment._memory import (
    GatheredRows,
    as_csr_matrix,
    as_dense,
    as_form,
)
from scx_core.experiment._provenance import HeldAs
from scx_core.native.container import FileReader
from scx_core.native.mapped_rows import gather_mapped
from scx_core.native.matrix import Matrix
from scx_core.native.packing import CsrArrays
from scx_core.sources.base import CsrBlock, IndexDtypes, MatrixForm

if TYPE_CHECKING:
    import scipy.sparse as sp

# values that one step of a selection of columns holds before the columns are picked
COLUMN_STEP_VALUES = 2**24


@dataclass(frozen=True)
class Address:
    """Where in a file a matrix is; enough to find it again in another process."""

    kind: Literal["X", "layers", "raw"]
    modality: str = ""
    key: str = ""

    @property
    def label(self) -> str:
        """The path that a user would write."""
        part = {"X": "X", "raw": "raw.X", "layers": f"layers[{self.key!r}]"}[self.kind]
        return f"mod[{self.modality!r}].{part}" if self.modality else part


@dataclass(frozen=True)
class ViewRows:
    """The rows of a view: those of the file at `selection`, None for all `n_physical` of them."""

    n_physical: int
    selection: Positions | None = None

    def __len__(self) -> int:
        return self.n_physical if self.selection is None else len(self.selection)

    def in_file(self, rows: Positions) -> Positions:
        """The rows of the file that stand at places of the view."""
        return rows if self.selection is None else self.selection[rows]

    def left_out(self) -> Positions:
        """The rows of the file that the view does not have."""
        if self.selection is None:
            return np.empty(0, dtype=np.int64)
        out = np.ones(self.n_physical, dtype=np.bool_)
        out[self.selection] = False
        return np.flatnonzero(out)


def open_view(
    path: str,
    verify: bool,  # noqa: FBT001
    include_deleted: bool,  # noqa: FBT001
    n_rows: int,
    address: Address,
) -> MatrixView:
    """The view at `address`, in a file that is opened for it; how views are unpickled."""
    from scx_core.experiment._experiment import Experiment

    experiment = Experiment(path, verify=verify, include_deleted=include_deleted)
    if experiment.n_obs != n_rows:
        raise RuntimeError(
            f"{path} has {experiment.n_obs} cells, and {n_rows} when the view of its "
            f"{address.label} was sent here: the file has been changed meanwhile"
        )
    holder = experiment.modality(address.modality) if address.modality else experiment
    if address.kind == "layers":
        return holder.layers[address.key]
    view = holder.X
    if address.kind == "raw":
        view = None if holder.raw is None else holder.raw.X
    if view is None:
        raise NameNotFoundError(f"{path} has no {address.label}")
    return view


class MatrixView:
    """Rows of a matrix, decoded from the file as they are asked for.

    `view[rows]` and `view[rows, columns]` give scipy CSR matrices in the order asked for; rows and
    columns are names of cells and genes, whole numbers from 0, boolean masks, sequences of names or
    numbers (with repeats), and slices. A single number and a slice may count from the end; in a
    sequence a negative number is refused, because it stands for a name that was not found.
    `to_memory()` gives the whole matrix in the form that was written. Calls from several threads
    at once are fine.

    A `MatrixView` is a source of row blocks too, so that files can be written from it.
    """

    def __init__(
        self,
        file: FileReader,
        matrix: Matrix | None,
        *,
        rows: ViewRows,
        cells: Axis,
        genes: Axis,
        stored_dtype: np.dtype[Any],
        held: HeldAs,
        address: Address,
    ) -> None:
        self._file = file
        self._opened = matrix
        self._rows = rows
        self._cells = cells
        self._genes = genes
        self._shape = cells.length, genes.length
        self._stored_dtype = stored_dtype
        self._held = held
        self._address = address

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self._shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype that was written; the file may store a wider one."""
        return self._held.dtype

    @property
    def form(self) -> MatrixForm:
        """How the matrix was held when it was written; `to_memory` gives this form."""
        return self._held.form

    @property
    def index_dtypes(self) -> IndexDtypes | None:
        """The widths of `indices` and `indptr` that `to_memory` gives; None for a dense matrix."""
        return self._held.index_dtypes

    @property
    def name(self) -> str:
        """What messages call the matrix, for example `layers['counts']`."""
        return self._address.label

    @property
    def nnz(self) -> int:
        """How many values the file stores for these rows."""
        matrix = self._matrix
        return 0 if matrix is None else matrix.nnz - self._nnz_left_out

    @cached_property
    def _nnz_left_out(self) -> int:
        rows = self._rows.left_out()
        return int(self._opened.row_counts(rows).sum()) if self._opened and len(rows) else 0

    @property
    def codec(self) -> str:
        """What packs the values: "rowpack", "none", or the number of another codec."""
        matrix = self._matrix
        return "none" if matrix is None else codec_name(matrix.info.codec)

    def __len__(self) -> int:
        return self._shape[0]

    def __repr__(self) -> str:
        n_rows, n_cols = self._shape
        return f"{self.name}: {n_rows} x {n_cols} {self.dtype}, {self.nnz} stored values"

    def __reduce__(self) -> tuple[object, ...]:
        include_deleted = self._rows.selection is None
        reopening = (self._file.path, self._file.verify, include_deleted, len(self), self._address)
        return open_view, reopening

    def __getitem__(self, index: Any) -> sp.csr_matrix:
        if not isinstance(index, tuple):
            return self.gather_rows(index)
        if len(index) != 2:
            raise IndexError(f"a matrix has two axes, not {len(index)}")
        rows = self._cells.positions(index[0])
        columns = self._genes.positions(index[1])
        if (
            isinstance(index[1], slice)
            and len(columns) == self._shape[1]
            and index[1].step
            in (
                None,
                1,
            )
        ):
            return self._csr(rows)
        return self._columns_of(rows, columns)

    def gather_rows(self, rows: Any, *, threads: int = 0) -> sp.csr_matrix:
        """The given rows as a scipy CSR matrix, in their order, repeats included.

        Parameters
        ----------
        rows
            Whole numbers from 0 or names of cells, in any order; a slice or a boolean mask.
        threads
            How many threads decode; 0 for as many as the machine has.

        Returns
        -------
        A matrix of `len(rows)` x `n_vars` with ascending columns in each row. Its values have
        `dtype`, except that float16, which scipy has no sparse matrix of, becomes float32.
        """
        return self._csr(self._cells.positions(rows), threads=threads)

    def gather(self, rows: Positions, *, threads: int = 0) -> GatheredRows:
        """Like `gather_rows` for positions that are in range, as plain arrays in `dtype`."""
        matrix = self._matrix
        if matrix is None:
            gathered = GatheredRows.empty(len(rows), self._shape[1], self._stored_dtype)
        else:
            gathered = GatheredRows(
                *matrix.gather_csr(self._rows.in_file(rows), threads=threads),
                n_cols=self._shape[1],
            )
        return gathered.astype(self.dtype)

    def gather_mapped(
        self, rows: Positions, places: npt.NDArray[np.int32], *, threads: int = 0
    ) -> CsrArrays:
        """Rows with each value at the place of its column; see `native.mapped_rows`."""
        matrix = self._matrix
        if matrix is None:
            indptr = np.zeros(len(rows) + 1, dtype=np.int64)
            return indptr, np.empty(0, dtype=np.int32), np.empty(0, dtype=np.float32)
        in_file = self._rows.in_file(rows)
        return gather_mapped(matrix, in_file, places, threads=threads, path=self._file.path)

    def to_memory(self, *, rows: Positions | None = None) -> Any:
        """The matrix, or the given rows of it, in the form, dtype and widths that were written."""
        if rows is None:
            rows = np.arange(self._shape[0], dtype=np.int64)
        return as_form(self.gather(rows), self.form, self.index_dtypes)

    def toarray(self) -> npt.NDArray[Any]:
        """The matrix as a dense array of `dtype`."""
        return as_dense(self.gather(np.arange(self._shape[0], dtype=np.int64)))

    def __array__(
        self, dtype: npt.DTypeLike | None = None, *, copy: bool | None = None
    ) -> npt.NDArray[Any]:
        # without it numpy would decode the rows one by one, into an array of matrices
        if copy is False:
            raise ValueError(f"{self.name} is packed in a file: an array of it is always a copy")
        return self.toarray().astype(self.dtype if dtype is None else np.dtype(dtype), copy=False)

    def taking(self, rows: Positions) -> MatrixView:
        """The same matrix with these of its rows alone, in their order."""
        return MatrixView(
            self._file,
            self._opened,
            rows=ViewRows(self._rows.n_physical, self._rows.in_file(rows)),
            cells=self._cells.taking(rows),
            genes=self._genes,
            stored_dtype=self._stored_dtype,
            held=self._held,
            address=self._address,
        )

    def validate(self) -> None:
        """Decode and check every row of the file; CorruptFileError names the first damaged one."""
        matrix = self._matrix
        if matrix is not None:
            matrix.validate()

    def row_blocks(self, block_bytes: int) -> Iterator[CsrBlock]:
        """All rows in order, in blocks of about `block_bytes`."""
        for start, stop in self.row_ranges(block_bytes):
            rows = self.gather(np.arange(start, stop, dtype=np.int64))
            yield CsrBlock(rows.indptr, rows.indices, rows.values)

    def row_ranges(self, block_bytes: int) -> Iterator[tuple[int, int]]:
        """Ranges of rows whose indices and values take about `block_bytes`, at least a row each."""
        n_rows = self._shape[0]
        matrix = self._matrix
        if matrix is None:
            return
        value_bytes = 4 + self._stored_dtype.itemsize
        step = 2**16
        for first in range(0, n_rows, step):
            last = min(n_rows, first + step)
            rows = self._rows.in_file(np.arange(first, last, dtype=np.int64))
            counts = matrix.row_counts(rows)
            ends = np.cumsum(counts * value_bytes + 8)
            start = 0
            while start < last - first:
                done = int(ends[start - 1]) if start else 0
                stop = int(np.searchsorted(ends, done + block_bytes, "right"))
                stop = max(stop, start + 1)
                yield first + start, first + stop
                start = stop

    @property
    def _matrix(self) -> Matrix | None:
        if self._file.closed:
            raise RuntimeError(f"{self._file.path}: the file is closed; open it again")
        return self._opened

    def _csr(self, rows: Positions, *, threads: int = 0) -> sp.csr_matrix:
        return as_csr_matrix(self.gather(rows, threads=threads))

    def _columns_of(self, rows: Positions, columns: Positions) -> sp.csr_matrix:
        import scipy.sparse as sp

        mean_values = self.nnz // max(1, self._shape[0]) + 1
        step = max(1, COLUMN_STEP_VALUES // mean_values)
        parts = [
            self._csr(rows[start : start + step])[:, columns]
            for start in range(0, max(1, len(rows)), step)
        ]
        stacked = parts[0] if len(parts) == 1 else sp.vstack(parts, format="csr")
        stacked.sort_indices()
        return cast("sp.csr_matrix", stacked)
