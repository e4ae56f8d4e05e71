"""numpy arrays, scalars and sparse matrices inside the JSON of uns.

An array is `dtype`, `shape` and its elements in C order:

- `data`: base64 of the bytes, for all dtypes of fixed bits and fixed-width text and bytes;
- `items`: a list of encoded elements, for object arrays;
- `fields`: for structured dtypes, the elements of each field as an array of its own, in order.

A dtype is numpy's own string (byte order, kind, size), or for a structured one an object with its
`fields` (pairs of name and dtype) and whether it is `align`ed, or for a sub-array one with its
`base` and `shape`. Structured dtypes with free offsets come back packed.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from ._coordinates import SPARSE_CLASSES, check_compressed
from ._values import Values

Json: TypeAlias = Any
EncodeItem: TypeAlias = Callable[[Any, int], Json]
"""Encodes one element of an object array, given its position in C order."""
DecodeItem: TypeAlias = Callable[[Json, int], Any]

# Floats beyond 64 bits (and complex numbers of them) have no fixed layout across machines.
DTYPE_TEXT = re.compile(r"[<>|]([biufcSUV]\d+|[mM]8(\[\d*[A-Za-zμ]+\])?|O)")


def is_plain_json(items: list[Any]) -> bool:
    """Whether a list is its own JSON: text, booleans and None alone."""
    return {str, bool, type(None)}.issuperset(map(type, items))


def encode_dtype(dtype: np.dtype[Any]) -> Json:
    """A dtype as JSON.

    Raises
    ------
    TypeError
        The dtype has no fixed meaning outside of this process.
    """
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return {"base": encode_dtype(base), "shape": list(shape)}
    if dtype.names is not None:
        fields = [[name, encode_dtype(dtype[name])] for name in dtype.names]
        if any(len(dtype.fields[name]) > 2 for name in dtype.names):  # type: ignore[index]
            raise TypeError("its structured dtype has titles")
        return {"fields": fields, "align": dtype.isalignedstruct}
    if dtype.itemsize == 0 or dtype.char in "gG" or not DTYPE_TEXT.fullmatch(dtype.str):
        raise TypeError(f"the dtype {dtype} has no layout that all machines share")
    return dtype.str


def decode_dtype(value: Json) -> np.dtype[Any]:
    """The dtype of `encode_dtype`; `ValueError` or `TypeError` for anything else."""
    if isinstance(value, str):
        if not DTYPE_TEXT.fullmatch(value):
            raise ValueError(f"{value!r} is no dtype")
        dtype = np.dtype(value)
    elif "base" in value:
        dtype = np.dtype((decode_dtype(value["base"]), decode_shape(value["shape"])))
    else:
        fields = [(name, decode_dtype(form)) for name, form in value["fields"]]
        dtype = np.dtype(fields, align=bool(value["align"]))
    if dtype.itemsize == 0 or dtype.char in "gG":
        raise ValueError(f"{value!r} is no dtype that can be read")
    return dtype


def decode_shape(value: Json) -> tuple[int, ...]:
    """A shape from JSON."""
    if not isinstance(value, list) or not all(type(n) is int and n >= 0 for n in value):
        raise ValueError(f"{value!r} is no shape")
    return tuple(value)


def encode_array(array: Values, encode_item: EncodeItem) -> dict[str, Json]:
    """`dtype`, `shape` and elements of an array.

    Raises
    ------
    TypeError
        The dtype cannot be stored.
    """
    dtype = encode_dtype(array.dtype)
    return {"dtype": dtype, "shape": list(array.shape), **_elements(array, encode_item)}


def decode_array(value: dict[str, Json], decode_item: DecodeItem) -> Values:
    """The array of `encode_array`; any exception means that the JSON is damaged."""
    shape = decode_shape(value["shape"])
    return _array_of(value, decode_dtype(value["dtype"]), shape, decode_item)


def encode_bytes(data: bytes) -> str:
    """Bytes as base64 text."""
    return base64.b64encode(data).decode()


def decode_bytes(text: Json) -> bytes:
    """The bytes of `encode_bytes`."""
    if not isinstance(text, str):
        raise ValueError("bytes must be base64 text")
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(f"bytes are no base64: {error}") from None


def encode_sparse(matrix: Any) -> dict[str, Json]:
    """A CSR or CSC matrix of scipy by its three arrays, exactly as they are.

    Raises
    ------
    TypeError
        The dtype of the values cannot be stored.
    ValueError
        The arrays contradict each other.
    """
    import scipy.sparse

    check_compressed(matrix.indptr, matrix.indices, matrix.data, matrix.shape, matrix.format)
    kind = "array" if isinstance(matrix, scipy.sparse.sparray) else "matrix"
    parts = {name: getattr(matrix, name) for name in ("data", "indices", "indptr")}
    return {
        "class": f"{matrix.format}_{kind}",
        "shape": list(matrix.shape),
        **{name: encode_array(part, _no_objects) for name, part in parts.items()},
    }


def decode_sparse(value: dict[str, Json]) -> Any:
    """The matrix of `encode_sparse`; any exception means that the JSON is damaged."""
    import scipy.sparse

    name = value["class"]
    if name not in SPARSE_CLASSES:
        raise ValueError(f"{name!r} is no class of matrices")
    n_rows, n_columns = decode_shape(value["shape"])
    data, indices, indptr = (
        decode_array(value[part], _no_objects) for part in ("data", "indices", "indptr")
    )
    if data.ndim != 1 or data.dtype.kind not in "biufc":
        raise ValueError("the values of a sparse matrix must be numbers in one dimension")
    for part in (indices, indptr):
        if part.ndim != 1 or part.dtype not in (np.int32, np.int64):
            raise ValueError("the indices of a sparse matrix must be int32 or int64")
    shape = (n_rows, n_columns)
    check_compressed(indptr, indices, data, shape, name[:3])
    matrix = getattr(scipy.sparse, name)((data, indices, indptr), shape=shape)
    # The constructor chooses the widths of the indices anew.
    matrix.data, matrix.indices, matrix.indptr = data, indices, indptr
    return matrix


def _elements(array: Values, encode_item: EncodeItem) -> dict[str, Json]:
    if array.dtype.names is not None:
        return {"fields": [_elements(array[name], encode_item) for name in array.dtype.names]}
    if array.dtype.kind == "O":
        flat = array.ravel().tolist()
        if is_plain_json(flat):
            return {"items": flat}
        return {"items": [encode_item(item, position) for position, item in enumerate(flat)]}
    return {"data": encode_bytes(array.tobytes())}


def _array_of(
    value: dict[str, Json], dtype: np.dtype[Any], shape: tuple[int, ...], decode_item: DecodeItem
) -> Values:
    if dtype.subdtype is not None:
        base, inner = dtype.subdtype
        return _array_of(value, base, shape + inner, decode_item)
    count = math.prod(shape)
    if dtype.names is not None:
        fields = value["fields"]
        if len(fields) != len(dtype.names):
            raise ValueError(f"{len(fields)} fields for a dtype of {len(dtype.names)}")
        columns = [
            _array_of(part, dtype[name], shape, decode_item)
            for name, part in zip(dtype.names, fields, strict=True)
        ]
        array = np.zeros(shape, dtype=dtype)
        for name, column in zip(dtype.names, columns, strict=True):
            array[name] = column
        return array
    if dtype.kind == "O":
        items = value["items"]
        if len(items) != count:
            raise ValueError(f"{len(items)} elements for the shape {shape}")
        array = np.empty(count, dtype=object)
        array[:] = (
            items
            if is_plain_json(items)
            else [decode_item(item, position) for position, item in enumerate(items)]
        )
        return array.reshape(shape)
    data = decode_bytes(value["data"])
    if len(data) != count * dtype.itemsize:
        raise ValueError(f"{len(data)} bytes for the shape {shape} of {dtype}")
    array = np.frombuffer(data, dtype=dtype).reshape(shape).copy()
    if dtype.kind == "U":
        points = array.reshape(-1).view(dtype.newbyteorder("=").str[0] + "u4")
        if points.size and int(points.max()) > 0x10FFFF:
            raise ValueError("a text holds what is no character")
    return array


def _no_objects(item: Any, position: int) -> Any:
    raise TypeError(f"objects of type {type(item).__name__} cannot be stored here")
