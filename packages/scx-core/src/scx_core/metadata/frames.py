"""obs, var and other data frames as Arrow IPC files.

The index is the first field. Its field is called `_index`, with more underscores in front when a
column has that name already, so that field names never collide and every reader finds the columns
under their own names. The schema's metadata `scx.frame` is a JSON object:

- `version`: 1;
- `index`: the field that holds the index, `index_name`: its name in pandas, or null;
- `columns`: the tag of the column names' own dtype (see `_text`; "range" for the empty range that
  pandas gives to a frame without columns), and `columns_name` when they have a name.

Field metadata is described in `_arrays`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ._arrays import EncodedArray, decode_array, decode_index, encode_array, encode_index
from ._decoding import compact_json, decoding
from ._fields import (
    FRAME_KEY,
    FRAME_VERSION,
    ORDERED_KEY,
    TAG_KEY,
    FrameLayout,
    field_ordered,
    field_tag,
)
from ._ipc import read_batch, write_batch
from ._refusals import shown, storable_name
from ._shards import merge_frame_shards
from ._text import text_dtype_from_tag, text_dtype_tag

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


def encode_frame(df: pd.DataFrame, *, where: str = "frame") -> bytes:
    """A data frame as an Arrow IPC file of one record batch.

    `decode_frame` gives an equal frame: values, dtypes, index and its name, order of the columns,
    categories and their order. Held are numpy's booleans, integers, floats, complex numbers,
    datetimes and durations; text, with or without gaps, as object or string columns; pandas'
    nullable dtypes; categoricals; time zones; flat `pd.ArrowDtype` columns.

    Parameters
    ----------
    df
        Any number of rows and columns; repeated index entries are kept, column names are distinct
        text.
    where
        What messages call the frame, for example "obs".

    Raises
    ------
    TypeError
        A column name is no text, or a column holds what has no place in the file (mixed types,
        nested objects, periods, intervals, ...). The message names the column, the types, the
        first odd row and a remedy.
    ValueError
        Two columns have the same name, or a text cannot be expressed in UTF-8.
    """
    names = _column_names(df, where)
    columns = [
        (name, encode_array(df.iloc[:, position], f"{where}[{name!r}]"))
        for position, name in enumerate(names)
    ]
    return _encode(df.index, f"{where}.index", columns, _columns_tag(df.columns, where))


def encode_index_alone(index: pd.Index[Any], where: str) -> bytes:
    """An index as a frame without columns; messages call it `where`."""
    return _encode(index, where, [], {"dtype": "range"})


def decode_frame(buffer: Any, *, copy: bool = False, where: str = "frame") -> pd.DataFrame:
    """The data frame in an Arrow IPC file.

    Parameters
    ----------
    buffer
        Anything with the buffer protocol: bytes, a memoryview of a map, a pyarrow buffer. The
        frame keeps it alive while it holds views of it.
    copy
        False (the default) gives numbers and codes as read-only views of the buffer where their
        layout allows; True gives a frame that owns all it holds and can be changed in place.
    where
        What messages call the frame.

    Files of other writers are read as well: without our metadata the index is what the pandas
    metadata names, or a column called `_index` or `__index_level_0__`, else the row numbers.

    Raises
    ------
    ValueError
        The bytes are no such file or hold something that contradicts itself.
    """
    with decoding(f"{where} cannot be read"):
        return frame_from_batch(read_batch(buffer), copy=copy)


def decode_frame_shards(
    buffers: Sequence[Any], *, copy: bool = False, where: str = "frame"
) -> pd.DataFrame:
    """The data frame whose rows are spread over several Arrow IPC files.

    See `merge_frame_shards` for what the shards must fulfil and `decode_frame` for the result.
    """
    return decode_frame(merge_frame_shards(buffers, where=where), copy=copy, where=where)


def _encode(
    index: pd.Index[Any],
    index_where: str,
    columns: list[tuple[str, EncodedArray]],
    columns_tag: dict[str, Any],
) -> bytes:
    names = {name for name, _ in columns}
    index_field = "_index"
    while index_field in names:
        index_field = "_" + index_field
    layout = {
        "version": FRAME_VERSION,
        "index": index_field,
        "index_name": None if index.name is None else storable_name(index.name, index_where),
        "columns": columns_tag,
    }
    named = [(index_field, encode_index(index, index_where)), *columns]
    fields = [_field(name, encoded) for name, encoded in named]
    return write_batch(fields, [encoded.array for _, encoded in named], {FRAME_KEY: layout})


def frame_from_batch(batch: pa.RecordBatch, *, copy: bool) -> pd.DataFrame:
    """The frame of a batch; any exception means that the file is damaged."""
    import pandas as pd

    layout = FrameLayout.of(batch.schema)
    if layout.index is None:
        index: pd.Index[Any] = pd.RangeIndex(batch.num_rows)
    else:
        index = decode_index(_encoded(batch, layout.index), layout.index_name, copy=copy)
    # A Series of explicit dtype keeps object columns as they are under every pandas.
    data = {}
    for key, position in enumerate(layout.columns):
        values = decode_array(_encoded(batch, position), copy=copy)
        data[key] = pd.Series(values, index=index, dtype=values.dtype, copy=False)
    df = pd.DataFrame(data, index=index, copy=False)
    df.columns = _columns_index([batch.schema.names[i] for i in layout.columns], layout.details)
    return df


def _encoded(batch: pa.RecordBatch, position: int) -> EncodedArray:
    field = batch.schema.field(position)
    return EncodedArray(batch.column(position), field_tag(field), field_ordered(field))


def _field(name: str, encoded: EncodedArray) -> pa.Field:
    import pyarrow as pa

    metadata = {}
    if encoded.ordered is not None:
        metadata[ORDERED_KEY] = "true" if encoded.ordered else "false"
    if encoded.tag:
        metadata[TAG_KEY] = compact_json(encoded.tag)
    return pa.field(name, encoded.array.type, metadata=metadata or None)


def _column_names(df: pd.DataFrame, where: str) -> list[str]:
    seen: set[str] = set()
    for position, name in enumerate(df.columns):
        if not isinstance(name, str):
            raise TypeError(
                f"{where} has a column named {shown(name)}, of type {type(name).__name__} (column "
                f"{position}); column names must be text. Rename them first, for example with "
                f"{where}.columns = {where}.columns.astype(str)."
            )
        if name in seen:
            raise ValueError(
                f"{where} has two columns named {name!r}; the second is column {position}. Rename "
                "or drop one of them first."
            )
        if not name.isascii():
            try:
                name.encode()
            except UnicodeEncodeError:
                raise ValueError(
                    f"{where} has a column named {name!r}, with half of a surrogate pair, which "
                    "is no character. Rename it first."
                ) from None
        seen.add(name)
    return [str.__str__(name) for name in df.columns]


def _columns_tag(columns: pd.Index[Any], where: str) -> dict[str, Any]:
    import pandas as pd

    dtype: Any = columns.dtype
    tag: dict[str, Any]
    if dtype == np.dtype(object) or isinstance(dtype, pd.StringDtype):
        tag = text_dtype_tag(dtype)
    elif isinstance(columns, pd.RangeIndex):  # only without columns: their names would be numbers
        tag = {"dtype": "range"}
    elif isinstance(dtype, np.dtype):  # likewise
        tag = {"numpy": dtype.str}
    else:
        raise TypeError(
            f"{where}.columns has the dtype {dtype}, which cannot be stored. Convert it first, "
            f"with {where}.columns = {where}.columns.astype(str)."
        )
    if columns.name is not None:
        tag["columns_name"] = storable_name(columns.name, f"{where}.columns")
    return tag


def _columns_index(names: list[str], details: dict[str, Any]) -> pd.Index[Any]:
    import pandas as pd

    tag = details.get("columns", {})
    name = tag.get("columns_name")
    index: pd.Index[Any] = pd.RangeIndex(0, name=name)
    if names or ("numpy" not in tag and tag.get("dtype") != "range"):
        index = pd.Index(names, dtype=text_dtype_from_tag(tag), name=name)
    elif "numpy" in tag:
        index = pd.Index([], dtype=np.dtype(str(tag["numpy"])), name=name)
    return index
