"""pandas objects inside the JSON of uns: the Arrow bytes of `frames`, as base64."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ._uns_arrays import Json, decode_bytes, encode_bytes
from .frames import decode_frame, encode_frame

if TYPE_CHECKING:
    import pandas as pd

# The one column of the frame that holds a Series or an array.
VALUES = "values"


def encode_frame_text(df: pd.DataFrame, path: str) -> dict[str, Json]:
    """A frame; its columns may have any names, the same ones too."""
    import pandas as pd

    names = df.columns
    dtype: Any = names.dtype
    plain = isinstance(dtype, pd.StringDtype) or dtype == np.dtype(object) or len(names) == 0
    if plain and names.is_unique and all(isinstance(name, str) for name in names):
        return {"data": encode_bytes(encode_frame(df, where=path))}
    numbered = df.copy(deep=False)
    numbered.columns = pd.Index([str(position) for position in range(len(names))])
    data = encode_bytes(encode_frame(numbered, where=path))
    return {"data": data, "columns": encode_index_text(names, f"{path}.columns")}


def decode_frame_text(value: dict[str, Json]) -> pd.DataFrame:
    """The frame of `encode_frame_text`."""
    df = decode_frame(decode_bytes(value["data"]), copy=True)
    if "columns" in value:
        df.columns = decode_index_text(value["columns"])
    return df


def encode_index_text(index: pd.Index[Any], path: str) -> dict[str, Json]:
    """An index of one level, with its name where that is text or a whole number."""
    import pandas as pd

    return {"data": encode_bytes(encode_frame(pd.DataFrame(index=index), where=path))}


def decode_index_text(value: dict[str, Json]) -> pd.Index[Any]:
    """The index of `encode_index_text`."""
    return decode_frame(decode_bytes(value["data"]), copy=True).index


def encode_array_text(values: Any, path: str) -> dict[str, Json]:
    """A pandas array: categorical, nullable, text, times."""
    import pandas as pd

    column = pd.Series(values, dtype=values.dtype, copy=False)
    return encode_frame_text(column.to_frame(VALUES), path)


def decode_array_text(value: dict[str, Json]) -> Any:
    """The array of `encode_array_text`."""
    return decode_frame_text(value)[VALUES].array


def encode_series_text(series: pd.Series[Any], path: str) -> dict[str, Json]:
    """A Series without its name, which is encoded like any value."""
    return encode_frame_text(series.to_frame(VALUES), path)


def decode_series_text(value: dict[str, Json], name: Any) -> pd.Series[Any]:
    """The Series of `encode_series_text`."""
    return decode_frame_text(value)[VALUES].rename(name)


def encode_time_text(value: Any, path: str) -> dict[str, Json]:
    """A `pd.Timestamp` or `pd.Timedelta`, in its unit, as an index of one."""
    import pandas as pd

    if isinstance(value, pd.Timedelta):
        index: Any = pd.TimedeltaIndex(np.array([value.to_timedelta64()]))
    else:
        index = pd.DatetimeIndex(np.array([value.to_datetime64()]))
        if value.tz is not None:
            index = index.tz_localize("UTC").tz_convert(value.tz)
    return encode_index_text(index, path)


def decode_time_text(value: dict[str, Json]) -> Any:
    """The moment or duration of `encode_time_text`."""
    import pandas as pd

    index = decode_index_text(value)
    if not isinstance(index, (pd.DatetimeIndex, pd.TimedeltaIndex)) or len(index) != 1:
        raise ValueError("one moment or duration is expected")
    return index[0]
