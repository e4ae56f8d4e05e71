"""numpy arrays as Arrow arrays and back, without pandas.

Covered are the types whose values are plain bits: booleans, integers and floats of every width,
complex numbers (a fixed-size list of two floats), datetimes and durations in s, ms, us or ns, and
text (LargeUtf8). Missing values are a boolean mask beside the values, true where missing, and
`None` when nothing is missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ._ipc import validated

if TYPE_CHECKING:
    import pyarrow as pa

Values: TypeAlias = npt.NDArray[Any]
Mask: TypeAlias = npt.NDArray[np.bool_]

FLOAT_NAMES = {"halffloat": "float16", "float": "float32", "double": "float64"}
"""Arrow's names of the floats and numpy's."""

TIME_UNITS = ("s", "ms", "us", "ns")


def is_plain(dtype: np.dtype[Any]) -> bool:
    """Whether arrays of this dtype are held bit for bit by `to_arrow`."""
    if dtype.kind in "Mm":
        unit, step = np.datetime_data(dtype)
        return unit in TIME_UNITS and step == 1
    # Longer floats and complex numbers have no fixed layout across machines.
    return dtype.kind in "biufc" and dtype.char not in "gG"


def plain_ndarray(value: Any) -> Values | None:
    """A numpy array as a plain `ndarray`; None for anything that says more than one.

    Masked arrays, arrays with units and the like are subclasses whose meaning would be lost;
    memory maps, matrices, records and AnnData's views are not.
    """
    if not isinstance(value, np.ndarray):
        return None
    kind = type(value)
    known = kind in (np.ndarray, np.memmap, np.matrix, np.recarray)
    if not known and kind.__module__.partition(".")[0] != "anndata":
        return None
    return value.view(np.ndarray)


def to_arrow(values: Values, missing: Mask | None = None) -> pa.Array:
    """A one-dimensional array of a plain dtype as an Arrow array, without a copy where possible.

    Bytes come out in the machine's (little-endian) order. Values under the mask should be zero,
    so that equal data gives equal bytes.
    """
    import pyarrow as pa

    values = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("="))
    validity = None if missing is None else pa.py_buffer(np.packbits(~missing, bitorder="little"))
    if values.dtype.kind == "c":
        parts = to_arrow(values.view(np.dtype(f"f{values.dtype.itemsize // 2}")))
        list_type = pa.list_(parts.type, 2)
        return pa.Array.from_buffers(list_type, len(values), [validity], children=[parts])
    if values.dtype.kind == "b":
        data = np.packbits(values, bitorder="little")
    else:
        data = values.view(np.uint8)
    arrow_type = pa.from_numpy_dtype(values.dtype)
    return pa.Array.from_buffers(arrow_type, len(values), [validity, pa.py_buffer(data)])


def text_to_arrow(values: Values, missing: Mask | None = None) -> pa.Array:
    """A one-dimensional object array of `str` as LargeUtf8; elements under the mask are skipped.

    Raises
    ------
    UnicodeEncodeError
        A text holds half of a surrogate pair, which UTF-8 cannot express.
    """
    import pyarrow as pa

    return pa.array(values, type=pa.large_string(), mask=missing)


def plain_dtype(arrow_type: pa.DataType) -> np.dtype[Any] | None:
    """The numpy dtype of an Arrow type that `from_arrow` reads; None for any other type."""
    import pyarrow as pa

    types = pa.types
    if types.is_timestamp(arrow_type):
        return np.dtype(f"M8[{arrow_type.unit}]")
    if types.is_duration(arrow_type):
        return np.dtype(f"m8[{arrow_type.unit}]")
    if types.is_fixed_size_list(arrow_type) and arrow_type.list_size == 2:
        if types.is_float32(arrow_type.value_type):
            return np.dtype(np.complex64)
        if types.is_float64(arrow_type.value_type):
            return np.dtype(np.complex128)
        return None
    if types.is_boolean(arrow_type):
        return np.dtype(np.bool_)
    if types.is_integer(arrow_type) or types.is_floating(arrow_type):
        # `to_pandas_dtype` would import pandas. Arrow's names of the integers are numpy's.
        return np.dtype(FLOAT_NAMES.get(str(arrow_type), str(arrow_type)))
    return None


def is_text(arrow_type: pa.DataType) -> bool:
    """Whether the type is one of Arrow's three layouts of UTF-8 text."""
    import pyarrow as pa

    types = pa.types
    is_view = types.is_string_view(arrow_type)
    return bool(types.is_string(arrow_type) or types.is_large_string(arrow_type) or is_view)


def as_plain(array: pa.Array) -> pa.Array:
    """The array itself when `from_arrow` reads its type, or dates as datetimes at midnight.

    Raises
    ------
    ValueError
        The type is none of those.
    """
    import pyarrow as pa

    if pa.types.is_date32(array.type):
        return array.cast(pa.timestamp("s"))
    if pa.types.is_date64(array.type):
        return array.cast(pa.timestamp("ms"))
    if plain_dtype(array.type) is None:
        raise ValueError(f"columns of the Arrow type {array.type} are not supported")
    return array


def _bits(buffer: pa.Buffer, start: int, count: int) -> Mask:
    first_byte = start // 8
    packed = np.frombuffer(buffer, dtype=np.uint8)[first_byte : (start + count + 7) // 8]
    skipped = start - 8 * first_byte
    bits = np.unpackbits(packed, count=skipped + count, bitorder="little")
    return bits[skipped:].view(np.bool_)


def missing_mask(array: pa.Array) -> Mask | None:
    """True where the array is null; None when nothing is."""
    if array.null_count == 0:
        return None
    validity = array.buffers()[0]
    if validity is None:  # type null has no buffers at all
        return np.ones(len(array), dtype=np.bool_)
    return ~_bits(validity, array.offset, len(array))


def from_arrow(array: pa.Array) -> Values:
    """The values of a plain Arrow array, as a read-only view where the layout allows.

    Nulls hold whatever the file has in their place; `missing_mask` tells where they are.
    """
    import pyarrow as pa

    validated(array)
    dtype = plain_dtype(array.type)
    assert dtype is not None
    if dtype.kind == "c":
        if array.values.null_count:
            raise ValueError("a complex number with a missing part")
        parts = from_arrow(array.values)
        return parts.view(dtype)[array.offset : array.offset + len(array)]
    buffer = array.buffers()[1]
    if buffer is None or len(array) == 0:
        return np.empty(0, dtype=dtype)
    if pa.types.is_boolean(array.type):
        return _bits(buffer, array.offset, len(array))
    start = array.offset * dtype.itemsize
    return np.frombuffer(buffer, dtype=dtype, count=len(array), offset=start)


def owned(array: pa.Array) -> pa.Array:
    """A copy of a flat Arrow array in memory of its own."""
    import pyarrow as pa

    buffers = [
        None if buffer is None else pa.py_buffer(buffer.to_pybytes()) for buffer in array.buffers()
    ]
    return pa.Array.from_buffers(array.type, len(array), buffers, offset=array.offset)


def text_from_arrow(array: pa.Array) -> Values:
    """Text as an object array of `str`, None where missing."""
    validated(array)
    values = np.empty(len(array), dtype=object)
    # `to_numpy` would import pandas.
    values[:] = array.to_pylist()
    return values


def dictionary_codes(array: pa.Array, *, copy: bool) -> Values:
    """The codes of a dictionary array in their own width, -1 where missing.

    A read-only view where nothing is missing, unless `copy` is set.
    """
    codes = from_arrow(array.indices)
    missing = missing_mask(array.indices)
    if codes.dtype.kind == "u":
        # Other writers count from 0 without a sign; -1 needs one.
        codes = codes.astype(np.int64)
    if missing is not None:
        return np.where(missing, codes.dtype.type(-1), codes)
    return codes.copy() if copy else codes
