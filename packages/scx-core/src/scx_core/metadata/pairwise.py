"""obsp and varp: a matrix over pairs of cells or of genes."""

from __future__ import annotations

from typing import Any

from ._coordinates import (
    decode_coordinates,
    encode_compressed,
    encode_dense,
    is_compressed,
    is_number,
)
from ._decoding import decoding
from ._ipc import read_batch
from ._refusals import refuse_matrix
from ._values import plain_ndarray


def encode_pairwise(value: Any, n: int, where: str = "obsp") -> bytes:
    """A square matrix as an Arrow IPC file with the columns `row`, `col` and `data`.

    Parameters
    ----------
    value
        A CSR or CSC matrix or array of scipy, or a two-dimensional numpy array; of booleans,
        integers, floats or complex numbers.
    n
        The length of the axis: the matrix must be n x n.
    where
        What messages call the matrix, for example "obsp['distances']".

    Stored zeros and repeated entries are kept as they are; entries of a row (or column) that were
    not sorted come back sorted. See `decode_pairwise`.

    Raises
    ------
    TypeError
        Another kind of object or of values; the message says how to convert it.
    ValueError
        The shape is not n x n.
    """
    if is_compressed(value) and is_number(value.dtype):
        _check_shape(value, n, where)
        return encode_compressed(value, where)
    array = plain_ndarray(value)
    if array is not None and array.ndim == 2 and is_number(array.dtype):
        _check_shape(array, n, where)
        return encode_dense(array)
    refuse_matrix(value, where)


def decode_pairwise(buffer: Any, *, n: int | None = None, where: str = "obsp") -> Any:
    """The matrix of `encode_pairwise`, in the class and with the dtypes that it had.

    Parameters
    ----------
    buffer
        Anything with the buffer protocol. The result owns its memory.
    n
        The length of the axis where it is known: any other shape is refused before memory is
        taken for it.

    Files of other writers give a `scipy.sparse.csr_matrix`.

    Raises
    ------
    ValueError
        The bytes hold no such matrix, or coordinates outside of it.
    """
    with decoding(f"{where} cannot be read"):
        expected = None if n is None else (n, n)
        return decode_coordinates(read_batch(buffer), expected)


def _check_shape(matrix: Any, n: int, where: str) -> None:
    if matrix.shape != (n, n):
        raise ValueError(f"{where} has the shape {matrix.shape}; it must be ({n}, {n})")
