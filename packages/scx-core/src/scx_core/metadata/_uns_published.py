"""The envelopes that other writers put into uns: objects with the key `__scx_type__`.

| kind | more keys |
|---|---|
| ndarray | dtype, shape, encoding, data: base64 of the elements ("base64le") or a list ("json") |
| scalar | dtype, data: base64 of the one element |
| tuple | data |
| recarray | descr, shape, encoding; data: base64 of the records, or fields: a list for each name |
| categorical | categories, codes (-1 is a gap), ordered |
| pandas.Index, pandas.Series | name, data |
| pandas.DataFrame | index, columns, data: a list for each column; columns_name |

An object that lacks a key of its kind is no envelope, and stays the dict that it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ._uns_arrays import Json, decode_bytes, decode_shape

TAG = "__scx_type__"

Inner = Callable[[Json], Any]
"""Decodes what lies in an envelope."""


def is_complete(value: dict[str, Json]) -> bool:
    """Whether an object of a known kind has the keys of its kind."""
    return all(key in value for key in _KEYS[value[TAG]])


def is_known(kind: Json) -> bool:
    """Whether this version decodes that kind."""
    return isinstance(kind, str) and kind in _KEYS


def decode_envelope(value: dict[str, Json], inner: Inner) -> Any:
    """The object of a complete envelope; any exception means that it is damaged."""
    return _DECODERS[value[TAG]](value, inner)


def _dtype(text: Json) -> np.dtype[Any]:
    # the bytes are little-endian on every machine
    return np.dtype(text).newbyteorder("<")


def _from_bytes(text: Json, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Any:
    if dtype.hasobject:
        raise ValueError(f"bytes cannot be objects of dtype {dtype}")
    flat = np.frombuffer(decode_bytes(text), dtype=dtype)
    return flat.reshape(shape).astype(dtype.newbyteorder("="))


def _from_list(items: Json, dtype: np.dtype[Any], shape: tuple[int, ...], inner: Inner) -> Any:
    """An array of a list that is nested as the shape says, or flat."""
    level = items if shape else [items]
    for _ in shape[1:]:
        if len(level) != math.prod(shape):
            level = [item for row in level for item in row]
    if len(level) != math.prod(shape):
        raise ValueError(f"{len(level)} items do not make an array of shape {shape}")
    flat = np.empty(len(level), dtype=object)
    for place, item in enumerate(level):
        flat[place] = inner(item)
    return flat.astype(dtype).reshape(shape)


def _ndarray(value: dict[str, Json], inner: Inner) -> Any:
    shape = decode_shape(value["shape"])
    if value["encoding"] == "base64le":
        return _from_bytes(value["data"], _dtype(value["dtype"]), shape)
    if value["encoding"] != "json":
        raise ValueError(f"the encoding {value['encoding']!r} is unknown")
    return _from_list(value["data"], np.dtype(value["dtype"]), shape, inner)


def _scalar(value: dict[str, Json], inner: Inner) -> Any:
    return _from_bytes(value["data"], _dtype(value["dtype"]), ())[()]


def _recarray(value: dict[str, Json], inner: Inner) -> Any:
    fields = [(name, form) for name, form, *_ in value["descr"]]
    shape = decode_shape(value["shape"])
    if value["encoding"] == "base64le":
        return _from_bytes(value["data"], np.dtype([(n, _dtype(f)) for n, f in fields]), shape)
    if value["encoding"] != "fields_json":
        raise ValueError(f"the encoding {value['encoding']!r} is unknown")
    columns = {
        name: _from_list(value["fields"][name], np.dtype(form), shape, inner)
        for name, form in fields
    }
    records = np.empty(shape, dtype=fields)
    for name, column in columns.items():
        records[name] = column
    return records


def _categorical(value: dict[str, Json], inner: Inner) -> Any:
    import pandas as pd

    categories = _index_of(value["categories"], inner)
    codes = np.asarray(inner(value["codes"]), dtype=np.int64)
    return pd.Categorical.from_codes(codes, categories, ordered=bool(value["ordered"]))


def _index_of(items: Json, inner: Inner, name: Any = None) -> Any:
    import pandas as pd

    return pd.Index(inner(items), name=name)


def _index(value: dict[str, Json], inner: Inner) -> Any:
    return _index_of(value["data"], inner, inner(value["name"]))


def _series(value: dict[str, Json], inner: Inner) -> Any:
    import pandas as pd

    return pd.Series(inner(value["data"]), name=inner(value["name"]))


def _frame(value: dict[str, Json], inner: Inner) -> Any:
    import pandas as pd

    index = _index_of(value["index"], inner)
    names = inner(value["columns"])
    columns = [pd.Series(inner(value["data"][str(name)]), index=index) for name in names]
    frame = pd.concat(columns, axis=1) if columns else pd.DataFrame(index=index)
    frame.columns = pd.Index(names, name=inner(value.get("columns_name")))
    return frame


def _tuple(value: dict[str, Json], inner: Inner) -> Any:
    return tuple(inner(value["data"]))


_KEYS: dict[str, tuple[str, ...]] = {
    "ndarray": ("dtype", "shape", "encoding", "data"),
    "scalar": ("dtype", "data"),
    "tuple": ("data",),
    "recarray": ("descr", "shape", "encoding"),
    "categorical": ("categories", "codes", "ordered"),
    "pandas.Index": ("name", "data"),
    "pandas.Series": ("name", "data"),
    "pandas.DataFrame": ("index", "columns", "data"),
}

_DECODERS: dict[str, Callable[[dict[str, Json], Inner], Any]] = {
    "ndarray": _ndarray,
    "scalar": _scalar,
    "tuple": _tuple,
    "recarray": _recarray,
    "categorical": _categorical,
    "pandas.Index": _index,
    "pandas.Series": _series,
    "pandas.DataFrame": _frame,
}
