"""pandas columns and indexes as Arrow arrays and back.

An Arrow array says most of what a column is. What it cannot say stands in a tag, a small JSON
object in the field's metadata under `scx.dtype`, absent when it is empty:

- `dtype`: "masked" for pandas' nullable dtypes (`Int64`, `boolean`, ...), "arrow" for
  `pd.ArrowDtype`, and the names of `_text`; absent for numpy dtypes;
- `numpy`: the numpy dtype where it is not the Arrow type's own (big-endian numbers);
- `zoneinfo`: true where a time zone is held by `zoneinfo` though this pandas would take `pytz`;
- `categories`, `categories_name`: tag and name of a categorical's categories;
- `range`, `freq`: start, stop and step of a RangeIndex, the frequency of a time index.

Categoricals are dictionary arrays whose codes are as wide as pandas has them, null where missing;
the field's metadata says under `scx.categorical.ordered` whether the order means something.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from scx_core._label_codes import codes_problem

from ._ipc import validated
from ._refusals import refuse_dtype, storable_name
from ._text import decode_text, encode_object_text, encode_string_dtype
from ._values import (
    Values,
    as_plain,
    dictionary_codes,
    from_arrow,
    is_plain,
    is_text,
    missing_mask,
    owned,
    plain_dtype,
    to_arrow,
)
from ._zones import zone_from_text, zone_tag

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    Column = pd.Series[Any] | pd.Index[Any]

MASKED_DTYPES = {
    "boolean": "bool",
    "Int8": "int8",
    "Int16": "int16",
    "Int32": "int32",
    "Int64": "int64",
    "UInt8": "uint8",
    "UInt16": "uint16",
    "UInt32": "uint32",
    "UInt64": "uint64",
    "Float32": "float32",
    "Float64": "float64",
}
"""pandas' nullable dtypes and the numpy dtype of their values."""


@dataclass(frozen=True)
class EncodedArray:
    """A column as Arrow holds it, with what Arrow cannot say."""

    array: pa.Array
    tag: dict[str, Any] = field(default_factory=dict)
    ordered: bool | None = None
    """Whether a categorical is ordered; None for all other columns."""


def encode_array(column: Column, where: str) -> EncodedArray:
    """A column or an index as an Arrow array.

    Raises
    ------
    TypeError
        The dtype, or what an object column holds, has no place in the file; the message begins
        with `where`.
    ValueError
        A text cannot be expressed in UTF-8.
    """
    import pandas as pd
    import pyarrow as pa

    dtype: Any = column.dtype
    values: Any = column.array
    if isinstance(dtype, np.dtype):
        return _encode_numpy(column, where)
    if isinstance(dtype, pd.CategoricalDtype):
        return _encode_categorical(values, where)
    if isinstance(dtype, pd.StringDtype):
        return EncodedArray(*encode_string_dtype(column, where))
    if dtype.name in MASKED_DTYPES:
        return _encode_masked(column)
    if isinstance(dtype, pd.DatetimeTZDtype):
        instants = values.tz_convert(None).to_numpy()
        zoned = pa.timestamp(dtype.unit, tz=str(dtype.tz))
        return EncodedArray(_encode_times(instants).view(zoned), zone_tag(dtype, where))
    if isinstance(dtype, pd.ArrowDtype) and _is_flat(dtype.pyarrow_dtype):
        chunks = values.__arrow_array__().chunks
        return EncodedArray(pa.concat_arrays(chunks), {"dtype": "arrow"})
    if isinstance(dtype, pd.SparseDtype):
        refuse_dtype(dtype, where, f"make it dense first, with {where}.sparse.to_dense()")
    refuse_dtype(dtype, where, f"convert it first, for example with {where}.astype(str)")


def encode_index(index: pd.Index[Any], where: str) -> EncodedArray:
    """An index as an Arrow array; ranges and the frequency of times are kept in the tag."""
    import pandas as pd

    if isinstance(index, pd.MultiIndex):
        raise TypeError(
            f"{where} has {index.nlevels} levels, and only one can be stored. Turn the levels "
            "into columns first, with reset_index()."
        )
    encoded = encode_array(index, where)
    extra: dict[str, Any] = {}
    if isinstance(index, pd.RangeIndex):
        extra["range"] = [index.start, index.stop, index.step]
    freq = getattr(index, "freq", None)
    # Frequencies with more to them than their name (a calendar of holidays) cannot be named.
    if freq is not None and pd.tseries.frequencies.to_offset(freq.freqstr) == freq:
        extra["freq"] = freq.freqstr
    return EncodedArray(encoded.array, {**encoded.tag, **extra}, encoded.ordered)


def decode_array(encoded: EncodedArray, *, copy: bool) -> Any:
    """The numpy or pandas array of a column.

    Numbers are views of the file's bytes where they can be, and so read-only; with `copy=True`
    they are the caller's own.
    """
    import pandas as pd
    import pyarrow as pa

    array, tag = encoded.array, encoded.tag
    kind = tag.get("dtype")
    validated(array)
    if kind == "arrow" and _is_flat(array.type):
        array = owned(array) if copy else array
        return pd.arrays.ArrowExtensionArray(pa.chunked_array([array]))
    if pa.types.is_dictionary(array.type):
        return _decode_categorical(encoded, copy=copy)
    if is_text(array.type):
        return decode_text(array, tag, copy=copy)
    if pa.types.is_null(array.type):
        return np.full(len(array), None, dtype=object)
    array = as_plain(array)
    values = from_arrow(array)
    if copy and not values.flags.writeable:
        values = values.copy()
    if values.dtype.kind in "Mm":
        return _decode_times(values, array, tag)
    return _decode_numbers(values, array, tag)


def decode_index(encoded: EncodedArray, name: Any, *, copy: bool) -> pd.Index[Any]:
    """The index of a frame or the categories of a categorical."""
    import pandas as pd

    if "range" in encoded.tag:
        start, stop, step = encoded.tag["range"]
        counted = pd.RangeIndex(start, stop, step, name=name)
        if len(counted) != len(encoded.array):
            raise ValueError(f"a range of {len(counted)} for {len(encoded.array)} rows")
        return counted
    values = decode_array(encoded, copy=copy)
    index: pd.Index[Any] = pd.Index(values, dtype=values.dtype, name=name, copy=False)
    freq = encoded.tag.get("freq")
    if freq is None:
        return index
    if not isinstance(index, (pd.DatetimeIndex, pd.TimedeltaIndex)):
        raise ValueError("a frequency for values that are no times")
    timed: pd.Index[Any] = type(index)(index, freq=freq, name=name)
    return timed


def _encode_numpy(column: Column, where: str) -> EncodedArray:
    values = column.to_numpy()
    if values.dtype.kind == "O":
        return EncodedArray(*encode_object_text(column, where))
    if not is_plain(values.dtype):
        remedy = "convert it first, for example to float64"
        if values.dtype.kind == "S":
            remedy = f"decode it first, with {where} = {where}.astype(object).str.decode('utf-8')"
        refuse_dtype(values.dtype, where, remedy)
    if values.dtype.kind in "Mm":
        return EncodedArray(_encode_times(values))
    native = values.dtype.isnative
    return EncodedArray(to_arrow(values), {} if native else {"numpy": values.dtype.str})


def _encode_times(values: Values) -> pa.Array:
    missing = np.isnat(values)
    if not missing.any():
        return to_arrow(values)
    return to_arrow(np.where(missing, np.zeros((), dtype=values.dtype), values), missing)


def _encode_masked(column: Column) -> EncodedArray:
    numpy_dtype = MASKED_DTYPES[column.dtype.name]
    missing = np.asarray(column.isna(), dtype=np.bool_)
    values = column.to_numpy(dtype=numpy_dtype, na_value=0)
    return EncodedArray(to_arrow(values, missing if missing.any() else None), {"dtype": "masked"})


def _encode_categorical(values: pd.Categorical[Any], where: str) -> EncodedArray:
    import pandas as pd
    import pyarrow as pa

    categories_where = f"{where}.cat.categories"
    categories: pd.Index[Any] = values.categories
    if isinstance(categories.dtype, (pd.IntervalDtype, pd.PeriodDtype, pd.CategoricalDtype)) or (
        categories.dtype == np.dtype(object) and not all(isinstance(x, str) for x in categories)
    ):
        kinds = ", ".join(dict.fromkeys(type(category).__name__ for category in categories))
        raise TypeError(
            f"the categories of {where} are of type {kinds}, which cannot be stored. Rename them "
            f"first, for example with {where}.cat.rename_categories(str)."
        )
    encoded = encode_index(categories, categories_where)
    codes = np.asarray(values.codes)
    problem = codes_problem(codes, len(categories))
    if problem is not None:
        raise ValueError(f"{where}: {problem}. Make the column anew from its labels.")
    missing = codes < 0
    if missing.any():
        indices = to_arrow(np.where(missing, codes.dtype.type(0), codes), missing)
    else:
        indices = to_arrow(codes)
    ordered = bool(values.ordered)
    dictionary = pa.DictionaryArray.from_arrays(indices, encoded.array, ordered=ordered)
    tag: dict[str, Any] = {"categories": encoded.tag} if encoded.tag else {}
    if categories.name is not None:
        tag["categories_name"] = storable_name(categories.name, categories_where)
    return EncodedArray(dictionary, tag, ordered)


def _decode_categorical(encoded: EncodedArray, *, copy: bool) -> pd.Categorical[Any]:
    import pandas as pd

    array, tag = encoded.array, encoded.tag
    categories = decode_index(
        EncodedArray(array.dictionary, tag.get("categories", {})),
        tag.get("categories_name"),
        copy=copy,
    )
    dtype = pd.CategoricalDtype(categories, ordered=encoded.ordered)
    return pd.Categorical.from_codes(dictionary_codes(array, copy=copy), dtype=dtype)


def _decode_times(values: Values, array: pa.Array, tag: dict[str, Any]) -> Any:
    import pandas as pd

    missing = missing_mask(array)
    if missing is not None:
        values = np.where(missing, np.array("NaT", dtype=values.dtype), values)
    zone = getattr(array.type, "tz", None)
    if zone is None:
        return values
    instants = pd.DatetimeIndex(values, copy=False).tz_localize("UTC")
    return instants.tz_convert(zone_from_text(zone, tag)).array


def _decode_numbers(values: Values, array: pa.Array, tag: dict[str, Any]) -> Any:
    import pandas as pd

    kind = tag.get("dtype")
    if kind not in (None, "masked"):
        raise ValueError(f"{kind!r} is no dtype of numbers")
    missing = missing_mask(array)
    # Other writers mark gaps by validity alone: integers and booleans then have only one home.
    if kind == "masked" or (missing is not None and values.dtype.kind in "biu"):
        mask = np.zeros(len(values), dtype=np.bool_) if missing is None else missing
        if values.dtype.kind == "b":
            return pd.arrays.BooleanArray(values, mask)
        if values.dtype.kind == "f":
            return pd.arrays.FloatingArray(values, mask)
        return pd.arrays.IntegerArray(values, mask)
    if missing is not None:
        return np.where(missing, values.dtype.type(np.nan), values)
    if "numpy" not in tag:
        return values
    dtype = np.dtype(str(tag["numpy"]))
    if dtype.newbyteorder("=") != values.dtype:
        raise ValueError(f"the Arrow type {array.type} for a column of dtype {dtype}")
    return values.astype(dtype)


def _is_flat(arrow_type: pa.DataType) -> bool:
    import pyarrow as pa

    if is_text(arrow_type):
        return not pa.types.is_string_view(arrow_type)
    dtype = plain_dtype(arrow_type)
    return dtype is not None and dtype.kind != "c"
