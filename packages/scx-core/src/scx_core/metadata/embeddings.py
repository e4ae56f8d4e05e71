"""obsm and varm: arrays, sparse matrices and data frames with a row for each cell or gene.

A dense array is one Arrow column per component, named "0", "1", ... in C order of the components,
with a JSON object in the schema's metadata under `scx.embedding`: `version` (1), `shape` and the
numpy `dtype`. Sparse matrices are coordinates as in `_coordinates`, data frames as in `frames`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ._coordinates import ROWS_KEY, decode_coordinates, encode_compressed, is_compressed, is_number
from ._decoding import decoding
from ._fields import FRAME_KEY, PANDAS_KEY, metadata_object
from ._ipc import read_batch, write_batch
from ._refusals import refuse_matrix
from ._text import text_array
from ._values import (
    Values,
    as_plain,
    from_arrow,
    is_text,
    plain_ndarray,
    text_from_arrow,
    to_arrow,
)
from .frames import encode_frame, frame_from_batch

if TYPE_CHECKING:
    import pyarrow as pa

EMBEDDING_KEY = "scx.embedding"
EMBEDDING_VERSION = 1

# Rows turned at a time, so that a block of them stays in the cache.
ROWS_PER_BLOCK = 1024

# Texts of a fixed width may be this wide whatever they hold; wider ones must be that long.
TEXT_WIDTH_MAX = 1024


def encode_embedding(value: Any, n_rows: int, where: str = "obsm") -> bytes:
    """An entry of obsm or varm as an Arrow IPC file.

    Parameters
    ----------
    value
        A numpy array of one or more dimensions, of booleans, integers, floats, complex numbers or
        text; a CSR or CSC matrix or array of scipy; or a data frame. Numbers keep their bits.
    n_rows
        The length of the axis.
    where
        What messages call the entry, for example "obsm['X_pca']".

    Raises
    ------
    TypeError
        Another kind of object or of values; the message says how to convert it.
    ValueError
        The entry has another number of rows than the axis.
    """
    shape = getattr(value, "shape", None)
    if shape and shape[0] != n_rows:
        raise ValueError(f"{where} has {shape[0]} rows; it must have {n_rows}")
    if is_compressed(value) and is_number(value.dtype):
        return encode_compressed(value, where)
    if _is_frame(value):
        return encode_frame(value, where=where)
    array = plain_ndarray(value)
    if array is not None and array.ndim and (is_number(array.dtype) or _is_text_array(array)):
        return _encode_array(array, where)
    refuse_matrix(value, where)


def decode_embedding(buffer: Any, *, n_rows: int | None = None, where: str = "obsm") -> Any:
    """The entry of `encode_embedding`: an equal array, sparse matrix or data frame.

    Parameters
    ----------
    buffer
        Anything with the buffer protocol. The result owns its memory.
    n_rows
        The length of the axis where it is known: any other is refused before memory is taken.

    Files of other writers give a data frame when pandas made them, and otherwise an array, when
    all columns have one type.

    Raises
    ------
    ValueError
        The bytes hold no such entry.
    """
    with decoding(f"{where} cannot be read"):
        batch = read_batch(buffer)
        metadata = batch.schema.metadata or {}
        if ROWS_KEY.encode() in metadata:
            return decode_coordinates(batch, None if n_rows is None else (n_rows, None))
        if FRAME_KEY.encode() in metadata or PANDAS_KEY.encode() in metadata:
            value: Any = frame_from_batch(batch, copy=True)
        else:
            value = _decode_array(batch)
        if n_rows is not None and value.shape[0] != n_rows:
            raise ValueError(f"it has {value.shape[0]} rows where {n_rows} are expected")
        return value


def _is_frame(value: Any) -> bool:
    import pandas as pd

    return isinstance(value, pd.DataFrame)


def _is_text_array(array: Values) -> bool:
    if array.dtype.kind == "U":
        return _text_width_allowed(array, array.dtype)
    return array.dtype.kind == "O" and all(isinstance(item, str) for item in array.flat)


def _encode_array(array: Values, where: str) -> bytes:
    import pyarrow as pa

    n_components = math.prod(array.shape[1:])
    table = array.reshape(array.shape[0], n_components)
    if array.dtype.kind in "UO":
        columns = [text_array(component.astype(object), None, where) for component in table.T]
    else:
        columns = [to_arrow(component) for component in _turned(table)]
    fields = [pa.field(str(i), column.type) for i, column in enumerate(columns)]
    details = {
        "version": EMBEDDING_VERSION,
        "shape": list(array.shape),
        "dtype": array.dtype.str,
    }
    return write_batch(fields, columns, {EMBEDDING_KEY: details})


def _turned(table: Values) -> Values:
    """The transposed table in C order."""
    turned = np.empty(table.shape[::-1], dtype=table.dtype)
    for start in range(0, len(table), ROWS_PER_BLOCK):
        turned[:, start : start + ROWS_PER_BLOCK] = table[start : start + ROWS_PER_BLOCK].T
    return turned


def _decode_array(batch: pa.RecordBatch) -> Values:
    details = metadata_object(batch.schema.metadata, EMBEDDING_KEY)
    if details and details.get("version") != EMBEDDING_VERSION:
        raise ValueError(f"version {details.get('version')!r} of an embedding is unknown")
    columns = [_component(column) for column in batch.columns]
    shape = details.get("shape", [batch.num_rows, len(columns)])
    _check_shape(shape, batch.num_rows, len(columns))
    if "dtype" in details:
        dtype = np.dtype(str(details["dtype"]))
    else:
        dtype = columns[0].dtype if columns else np.dtype(np.float32)
    for column in columns:
        if not _fits(column, dtype):
            raise ValueError(f"components of dtype {column.dtype} in an array of dtype {dtype}")
    array = np.empty((shape[0], len(columns)), dtype=dtype)
    for start in range(0, shape[0], ROWS_PER_BLOCK):
        for position, column in enumerate(columns):
            array[start : start + ROWS_PER_BLOCK, position] = column[start : start + ROWS_PER_BLOCK]
    return array.reshape(shape)


def _component(column: pa.Array) -> Values:
    if column.null_count:
        raise ValueError("a component has gaps")
    if is_text(column.type):
        return text_from_arrow(column)
    values = from_arrow(as_plain(column))
    if not is_number(values.dtype):
        raise ValueError(f"components of the Arrow type {column.type} are not supported")
    return values


def _check_shape(shape: Any, n_rows: int, n_components: int) -> None:
    is_shape = isinstance(shape, list) and all(type(length) is int for length in shape)
    if not is_shape or not shape or min(shape) < 0:
        raise ValueError(f"{shape!r} is no shape")
    if math.prod(shape[1:]) != n_components:
        raise ValueError(f"{n_components} components for an array of shape {shape}")
    # Without components the batch has no rows, and the shape alone tells how many there were.
    if n_components and shape[0] != n_rows:
        raise ValueError(f"{n_rows} rows for an array of shape {shape}")


def _fits(column: Values, dtype: np.dtype[Any]) -> bool:
    if column.dtype.kind != "O":
        return dtype.newbyteorder("=") == column.dtype
    if dtype.kind == "O":
        return True
    return dtype.kind == "U" and _text_width_allowed(column, dtype)


def _text_width_allowed(values: Values, dtype: np.dtype[Any]) -> bool:
    """Whether the longest text fits, and the width is no claim to absurdly more memory."""
    width = dtype.itemsize // 4
    longest = max(map(len, values.flat), default=0)
    return longest <= width <= max(TEXT_WIDTH_MAX, longest)
