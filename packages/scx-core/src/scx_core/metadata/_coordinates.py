"""Matrices as coordinates: the columns `row`, `col` and `data`, rows ascending, then columns.

The schema's metadata holds `n_rows` and `n_cols`, and under `scx.matrix` a JSON object:

- `version`: 1;
- `class`: csr_matrix, csr_array, csc_matrix, csc_array or ndarray;
- `dtype`: the numpy dtype of the values;
- `indices`, `indptr`: the integer widths of a compressed matrix.

Coordinates are int32, or int64 when an axis is longer than int32 can count. A stored zero is an
entry like any other, and an element that is stored twice is two entries in their order: both come
back as they were. What is not kept is the order of entries within a row (or column) of a matrix
whose indices were not sorted; they come back sorted. A dense matrix has an entry for every value
that is not a positive zero.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ._fields import metadata_object
from ._ipc import write_batch
from ._values import Values, from_arrow, is_plain, to_arrow

if TYPE_CHECKING:
    import pyarrow as pa

MATRIX_KEY = "scx.matrix"
ROWS_KEY = "n_rows"
COLUMNS_KEY = "n_cols"
MATRIX_VERSION = 1

INT32_MAX = 2**31 - 1
SPARSE_CLASSES = ("csr_matrix", "csr_array", "csc_matrix", "csc_array")


def is_compressed(value: Any) -> bool:
    """Whether a value is a two-dimensional CSR or CSC of scipy."""
    import scipy.sparse

    if not scipy.sparse.issparse(value):
        return False
    matrix: Any = value
    return matrix.format in ("csr", "csc") and matrix.ndim == 2


def is_number(dtype: np.dtype[Any]) -> bool:
    """Whether matrices of this dtype can be stored."""
    return is_plain(dtype) and dtype.kind in "biufc"


def coordinate_dtype(shape: tuple[int, int]) -> np.dtype[np.signedinteger[Any]]:
    """The width of stored coordinates for a matrix of this shape."""
    return np.dtype(np.int32) if max(shape) <= INT32_MAX else np.dtype(np.int64)


def encode_compressed(matrix: Any, where: str) -> bytes:
    """A CSR or CSC matrix of numbers as an Arrow IPC file of coordinates.

    Raises
    ------
    ValueError
        The pointers and indices of the matrix contradict its shape.
    """
    import scipy.sparse

    try:
        check_compressed(matrix.indptr, matrix.indices, matrix.data, matrix.shape, matrix.format)
    except ValueError as error:
        raise ValueError(f"{where} cannot be stored: {error}") from None
    rows, columns, data = _by_rows(matrix)
    kind = "array" if isinstance(matrix, scipy.sparse.sparray) else "matrix"
    details = {
        "class": f"{matrix.format}_{kind}",
        "dtype": matrix.dtype.str,
        "indices": matrix.indices.dtype.name,
        "indptr": matrix.indptr.dtype.name,
    }
    return _write(rows, columns, data, matrix.shape, details)


def encode_dense(matrix: Values) -> bytes:
    """A two-dimensional array of numbers as an Arrow IPC file of coordinates."""
    stored = matrix != 0
    if matrix.dtype.kind == "f":
        stored |= np.signbit(matrix)
    if matrix.dtype.kind == "c":
        stored |= np.signbit(matrix.real) | np.signbit(matrix.imag)
    rows, columns = np.nonzero(stored)
    details = {"class": "ndarray", "dtype": matrix.dtype.str}
    return _write(rows, columns, matrix[rows, columns], matrix.shape, details)


def decode_coordinates(batch: pa.RecordBatch, expected: tuple[int, int | None] | None) -> Any:
    """The matrix of a batch of coordinates, in the class that it had; it owns its memory.

    `expected` is the shape that the caller knows (None for an axis of any length): another one is
    refused before anything of that size is allocated.
    """
    metadata = batch.schema.metadata or {}
    shape = axis_length(metadata, ROWS_KEY), axis_length(metadata, COLUMNS_KEY)
    if expected is not None:
        for length, wanted in zip(shape, expected, strict=True):
            if wanted is not None and length != wanted:
                raise ValueError(f"it is a matrix of shape {shape} where {expected} is expected")
    details = metadata_object(metadata, MATRIX_KEY)
    if details and details.get("version") != MATRIX_VERSION:
        raise ValueError(f"version {details.get('version')!r} of a matrix is unknown")
    rows = _coordinates(batch, "row", shape[0])
    columns = _coordinates(batch, "col", shape[1])
    data = complete_column(batch, "data")
    if "dtype" in details:
        dtype = np.dtype(str(details["dtype"]))
        if dtype.newbyteorder("=") != data.dtype:
            raise ValueError(f"values of dtype {data.dtype} are said to be {dtype}")
        data = data.astype(dtype)
    else:
        data = data.copy()
    if details.get("class") == "ndarray":
        dense = np.zeros(shape, dtype=data.dtype)
        dense[rows, columns] = data
        return dense
    return _compressed(rows, columns, data, shape, details)


def check_compressed(
    indptr: Values, indices: Values, data: Values, shape: tuple[int, int], form: str
) -> None:
    """Whether three arrays are a CSR or CSC matrix of this shape; scipy itself trusts them.

    Raises
    ------
    ValueError
        They contradict the shape or each other.
    """
    n_major, n_minor = shape if form == "csr" else shape[::-1]
    if len(indptr) != n_major + 1 or indptr[0] != 0 or bool((indptr[1:] < indptr[:-1]).any()):
        raise ValueError(f"its pointers do not describe {n_major} rows or columns")
    n_entries = int(indptr[-1])
    if len(indices) < n_entries or len(data) < n_entries:
        raise ValueError(f"its pointers describe {n_entries} entries, and it has fewer")
    used = indices[:n_entries]
    if n_entries and not 0 <= int(used.min()) <= int(used.max()) < n_minor:
        raise ValueError(f"an index of it leaves the range from 0 to {n_minor - 1}")


def _by_rows(matrix: Any) -> tuple[Values, Values, Values]:
    """Rows, columns and values of a compressed matrix, by row, then column."""
    indptr, n_entries = matrix.indptr, int(matrix.indptr[-1])
    n_major, n_minor = matrix.shape if matrix.format == "csr" else matrix.shape[::-1]
    minor, data = matrix.indices[:n_entries], matrix.data[:n_entries]
    major = np.repeat(np.arange(n_major), np.diff(indptr))
    if matrix.format == "csc":
        order = _minor_order(indptr, minor, (n_major, n_minor))
        return minor[order], major[order], data[order]
    if _sorted_within_rows(major, minor):
        return major, minor, data
    order = np.lexsort((minor, major))
    return major[order], minor[order], data[order]


def _compressed(
    rows: Values, columns: Values, data: Values, shape: tuple[int, int], details: dict[str, Any]
) -> Any:
    import scipy.sparse

    name = details.get("class", "csr_matrix")
    if name not in SPARSE_CLASSES:
        raise ValueError(f"{name!r} is no class of matrices")
    # Writers other than ours say no widths: scipy's own choice then.
    fitting = np.int32 if max(*shape, len(data)) <= INT32_MAX else np.int64
    indices_dtype = _width(details.get("indices", np.dtype(fitting).name), max(shape))
    indptr_dtype = _width(details.get("indptr", np.dtype(fitting).name), len(data))

    if not _sorted_within_rows(rows, columns):
        order = np.lexsort((columns, rows))
        rows, columns, data = rows[order], columns[order], data[order]
    indptr, minor = _pointers(rows, shape[0]), columns
    if name.startswith("csc"):
        order = _minor_order(indptr, columns, shape)
        indptr, minor, data = _pointers(columns, shape[1]), rows[order], data[order]
    matrix = getattr(scipy.sparse, name)(shape, dtype=data.dtype)
    # The constructor would choose the widths anew.
    matrix.data = data
    matrix.indices = minor.astype(indices_dtype)
    matrix.indptr = indptr.astype(indptr_dtype)
    return matrix


def _sorted_within_rows(rows: Values, columns: Values) -> bool:
    same_row = rows[1:] == rows[:-1]
    ascending = np.where(same_row, columns[1:] >= columns[:-1], rows[1:] > rows[:-1])
    return bool(ascending.all())


def _pointers(major: Values, n_major: int) -> npt.NDArray[np.int64]:
    indptr = np.zeros(n_major + 1, dtype=np.int64)
    np.cumsum(np.bincount(major, minlength=n_major), out=indptr[1:])
    return indptr


def _minor_order(indptr: Values, minor: Values, shape: tuple[int, int]) -> Values:
    """The order of a compressed matrix's entries by minor, then major axis; stable.

    A transposition in scipy is a counting sort, and far faster than sorting the coordinates.
    """
    import scipy.sparse

    numbered = scipy.sparse.csr_matrix((np.arange(len(minor)), minor, indptr), shape=shape)
    order: Values = numbered.tocsc().data
    return order


def _write(
    rows: Values, columns: Values, data: Values, shape: tuple[int, int], details: dict[str, Any]
) -> bytes:
    import pyarrow as pa

    width = coordinate_dtype(shape)
    arrays = [to_arrow(rows.astype(width)), to_arrow(columns.astype(width)), to_arrow(data)]
    fields = [
        pa.field(name, array.type)
        for name, array in zip(("row", "col", "data"), arrays, strict=True)
    ]
    metadata = {
        ROWS_KEY: str(shape[0]),
        COLUMNS_KEY: str(shape[1]),
        MATRIX_KEY: {"version": MATRIX_VERSION, **details},
    }
    return write_batch(fields, arrays, metadata)


def axis_length(metadata: dict[bytes, bytes], key: str) -> int:
    text = metadata.get(key.encode())
    if text is None or not text.isdigit():
        raise ValueError(f"the metadata {key!r} is {text!r}, not a number of rows or columns")
    return int(text)


def complete_column(batch: pa.RecordBatch, name: str) -> Values:
    """The values of a column of numbers without gaps."""
    column = batch.column(name)
    if column.null_count:
        raise ValueError(f"the column {name!r} has gaps")
    return from_arrow(column)


def _coordinates(batch: pa.RecordBatch, name: str, length: int) -> Values:
    values = complete_column(batch, name)
    if values.dtype.kind not in "iu":
        raise ValueError(f"the column {name!r} holds {values.dtype}, not whole numbers")
    if values.size and not 0 <= int(values.min()) <= int(values.max()) < length:
        raise ValueError(f"the column {name!r} leaves the range from 0 to {length - 1}")
    return values


def _width(name: Any, largest: int) -> np.dtype[Any]:
    if name not in ("int32", "int64"):
        raise ValueError(f"{name!r} is no integer width of a matrix")
    dtype: np.dtype[Any] = np.dtype(name)
    if largest > np.iinfo(dtype).max:
        raise ValueError(f"{name} cannot count to {largest}")
    return dtype
