"""Single columns of an encoded frame as numpy arrays, without pandas."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict

import numpy as np
import numpy.typing as npt

from scx_core._errors import NameNotFoundError

from ._decoding import decoding, named
from ._fields import FrameLayout, field_tag
from ._ipc import read_batch, validated
from ._values import (
    Mask,
    Values,
    as_plain,
    dictionary_codes,
    from_arrow,
    is_text,
    missing_mask,
    text_from_arrow,
)

if TYPE_CHECKING:
    import pyarrow as pa

# Whole numbers up to here survive as float64, gaps beside them as NaN.
EXACT_IN_FLOAT64 = 2**53


class CategoricalColumn(TypedDict):
    """A categorical column: `categories[codes[row]]`, -1 where the row has none."""

    codes: npt.NDArray[np.int32]
    categories: list[Any]


Column: TypeAlias = npt.NDArray[Any] | CategoricalColumn


def column_names(buffer: Any, *, where: str = "frame") -> list[str]:
    """The names of an encoded frame's columns in their order, without the index.

    Raises
    ------
    ValueError
        The bytes hold no encoded frame.
    """
    with decoding(f"{where} cannot be read"):
        schema = read_batch(buffer).schema
        return [schema.names[position] for position in FrameLayout.of(schema).columns]


def read_column(buffer: Any, name: str, *, where: str = "frame") -> Column:
    """One column of an encoded frame as a training loop wants it; the others are not touched.

    Returns
    -------
    A categorical gives `{"codes": int32 array, "categories": list}`, -1 for missing. Everything
    else gives a one-dimensional array with an entry for each row:

    - numbers and booleans keep their dtype, as read-only views of the buffer where the layout
      allows;
    - numbers and booleans *with gaps* become floats with NaN in the gaps: float16 and float32
      stay, all others give float64;
    - text is an object array of `str`, None in the gaps;
    - datetimes and durations are `datetime64` and `timedelta64` in their unit, NaT in the gaps,
      in UTC when they have a time zone.

    Raises
    ------
    KeyError
        There is no such column; the message lists those there are.
    ValueError
        The bytes are damaged.
    OverflowError
        The column has gaps and whole numbers that float64 cannot hold; `decode_frame` gives it
        exactly.
    """
    with decoding(f"{where} cannot be read"):
        batch = read_batch(buffer)
        layout = FrameLayout.of(batch.schema)
        position = layout.column(batch.schema, name)
    if position is None:
        there = [batch.schema.names[i] for i in layout.columns]
        raise NameNotFoundError(f"{where} has no column {name!r}; it has {named(there)}")
    with decoding(f"{where}[{name!r}] cannot be read"):
        field = batch.schema.field(position)
        column = _read(batch.column(position), field_tag(field))
    return _filled(column, f"{where}[{name!r}]")


def read_index(buffer: Any, *, where: str = "frame") -> npt.NDArray[np.object_]:
    """The index of an encoded frame (cell or gene names) as an object array.

    Raises
    ------
    ValueError
        The bytes hold no encoded frame.
    """
    with decoding(f"{where} cannot be read"):
        batch = read_batch(buffer)
        layout = FrameLayout.of(batch.schema)
        if layout.index is None:
            return np.arange(batch.num_rows).astype(object)
        field = batch.schema.field(layout.index)
        column = _read(batch.column(layout.index), field_tag(field))
        if isinstance(column, _Numbers):
            names = column.values.astype(object)
            if column.missing is not None:
                names[column.missing] = None
            return names
        if isinstance(column, np.ndarray):
            return column
        # One more place at the end: code -1 finds None there.
        labels = np.array([*column["categories"], None], dtype=object)
        return labels[column["codes"]]


@dataclass(frozen=True)
class _Numbers:
    """Numbers, booleans or times, and where they are missing."""

    values: Values
    missing: Mask | None


def _read(array: pa.Array, tag: dict[str, Any]) -> Values | CategoricalColumn | _Numbers:
    import pyarrow as pa

    validated(array)
    if pa.types.is_dictionary(array.type):
        codes = dictionary_codes(array, copy=False)
        categories = _read(array.dictionary, tag.get("categories", {}))
        if isinstance(categories, _Numbers):
            categories = categories.values
        if array.dictionary.null_count or not isinstance(categories, np.ndarray):
            raise ValueError("a category is missing or is itself categorical")
        # `tolist` would turn moments into counts of their unit.
        listed = list(categories) if categories.dtype.kind in "Mm" else categories.tolist()
        return {"codes": codes.astype(np.int32), "categories": listed}
    if is_text(array.type):
        return text_from_arrow(array)
    if pa.types.is_null(array.type):
        return np.full(len(array), None, dtype=object)
    array = as_plain(array)
    return _Numbers(from_arrow(array), missing_mask(array))


def _filled(column: Values | CategoricalColumn | _Numbers, where: str) -> Column:
    """The column with NaT or NaN where numbers are missing."""
    if not isinstance(column, _Numbers):
        return column
    values, missing = column.values, column.missing
    if missing is None:
        return values
    dtype = values.dtype
    if dtype.kind in "Mm":
        return np.where(missing, np.array("NaT", dtype=dtype), values)
    if dtype.kind in "fc":
        return np.where(missing, dtype.type(np.nan), values)
    present = np.where(missing, dtype.type(0), values)
    if dtype.kind in "iu" and present.size and _magnitude(present) > EXACT_IN_FLOAT64:
        raise OverflowError(
            f"{where} has gaps, and values such as {_magnitude(present)} that float64 cannot hold "
            "beside NaN; read the whole frame instead, where the column is nullable"
        )
    return np.where(missing, np.nan, present.astype(np.float64))


def _magnitude(values: Values) -> int:
    return max(abs(int(values.min())), abs(int(values.max())))
