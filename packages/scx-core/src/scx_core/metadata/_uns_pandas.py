"""pandas objects inside the JSON of uns: the Arrow bytes of `frames`, as base64."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ._uns_arrays import Json, decode_bytes, encode_bytes
from .frames import decode_frame, encode_frame, encode_index_alone

if TYPE_CHECKING:
    import pandas as pd

EncodeValue: TypeAlias = Callable[[Any, str], Json]
"""Encodes any value of uns, given its path."""
DecodeValue: TypeAlias = Callable[[Json], Any]
"""Decodes any value of uns."""

# The one column of the frame that holds a Series or an array.
VALUES = "values"


def encode_frame_text(df: pd.DataFrame, path: str, encode_value: EncodeValue) -> dict[str, Json]:
    """A frame; its columns may have any names, the same ones too."""
    import pandas as pd

    names = df.columns
    if names.is_unique and _is_text(names):
        return {"data": encode_bytes(encode_frame(df, where=path))}
    numbered = df.copy(deep=False)
    numbered.columns = pd.Index([str(position) for position in range(len(names))])
    data = encode_bytes(encode_frame(numbered, where=path))
    return {"data": data, "columns": encode_value(names, f"{path}.columns")}


def decode_frame_text(value: dict[str, Json], decode_value: DecodeValue) -> pd.DataFrame:
    """The frame of `encode_frame_text`."""
    df = decode_frame(decode_bytes(value["data"]), copy=True)
    if "columns" in value:
        df.columns = decode_value(value["columns"])
    return df


def encode_index_text(
    index: pd.Index[Any], path: str, encode_value: EncodeValue
) -> dict[str, Json]:
    """An index of one level; objects other than text are a list of their own."""
    import pandas as pd

    objects = index.dtype == np.dtype(object) and not isinstance(index, pd.MultiIndex)
    if not objects or _is_text(index):
        return {"data": encode_bytes(encode_index_alone(index, path))}
    values = encode_value(index.to_numpy(), path)
    return {"values": values, "name": encode_value(index.name, f"{path}.name")}


def decode_index_text(value: dict[str, Json], decode_value: DecodeValue) -> pd.Index[Any]:
    """The index of `encode_index_text`."""
    import pandas as pd

    if "data" in value:
        return decode_frame(decode_bytes(value["data"]), copy=True).index
    return pd.Index(decode_value(value["values"]), dtype=object, name=decode_value(value["name"]))


def _is_text(index: pd.Index[Any]) -> bool:
    import pandas as pd

    dtype: Any = index.dtype
    if isinstance(dtype, pd.StringDtype):
        return not index.hasnans
    return len(index) == 0 or (
        dtype == np.dtype(object) and all(isinstance(name, str) for name in index)
    )


def encode_array_text(values: Any, path: str) -> dict[str, Json]:
    """A pandas array: categorical, nullable, text, times."""
    import pandas as pd

    column = pd.Series(values, dtype=values.dtype, copy=False)
    return {"data": encode_bytes(encode_frame(column.to_frame(VALUES), where=path))}


def decode_array_text(value: dict[str, Json]) -> Any:
    """The array of `encode_array_text`."""
    return _values(value).array


def encode_series_text(series: pd.Series[Any], path: str) -> dict[str, Json]:
    """A Series without its name, which is encoded like any value."""
    return {"data": encode_bytes(encode_frame(series.to_frame(VALUES), where=path))}


def decode_series_text(value: dict[str, Json], name: Any) -> pd.Series[Any]:
    """The Series of `encode_series_text`."""
    return _values(value).rename(name)


def _values(value: dict[str, Json]) -> pd.Series[Any]:
    return decode_frame(decode_bytes(value["data"]), copy=True)[VALUES]


def encode_time_text(value: Any, path: str) -> dict[str, Json]:
    """A `pd.Timestamp` or `pd.Timedelta`, in its unit, as an index of one."""
    import pandas as pd

    if isinstance(value, pd.Timedelta):
        index: Any = pd.TimedeltaIndex(np.array([value.to_timedelta64()]))
    else:
        index = pd.DatetimeIndex(np.array([value.to_datetime64()]))
        if value.tz is not None:
            index = index.tz_localize("UTC").tz_convert(value.tz)
    return {"data": encode_bytes(encode_index_alone(index, path))}


def decode_time_text(value: dict[str, Json]) -> Any:
    """The moment or duration of `encode_time_text`."""
    import pandas as pd

    index = decode_frame(decode_bytes(value["data"]), copy=True).index
    if not isinstance(index, (pd.DatetimeIndex, pd.TimedeltaIndex)) or len(index) != 1:
        raise ValueError("one moment or duration is expected")
    return index[0]
