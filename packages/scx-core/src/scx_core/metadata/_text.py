"""Columns of text: object arrays of `str` and pandas' string dtypes.

All of them are LargeUtf8 in the file. The dtype that pandas itself gives to text (object up to
pandas 2, `str` from pandas 3) goes unmarked, so that the same data gives the same bytes under
either; any other dtype is marked in the tag (see `_arrays`):

- `dtype`: "object", "string" (missing values are `pd.NA`) or "str" (missing values are NaN);
- `storage`: "python" or "pyarrow", where it differs from what this pandas would choose;
- `gaps`: what an object column holds where it has no text: N for None, f for NaN, A for `pd.NA`.
  One letter when all gaps are alike, otherwise one for each gap in row order. NaN when absent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ._ipc import validated
from ._refusals import refuse_objects, refuse_surrogates
from ._values import Mask, Values, missing_mask, owned, text_from_arrow, text_to_arrow

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    Column = pd.Series[Any] | pd.Index[Any]

NAN_GAP = "f"


def default_text_dtype() -> Any:
    """The dtype that this pandas, as it is set up now, gives to a column of text."""
    import pandas as pd

    return pd.Series(["text"]).dtype


def text_dtype_tag(dtype: Any) -> dict[str, Any]:
    """The tag of a text dtype; empty for pandas' default one."""
    import pandas as pd

    if dtype == default_text_dtype():
        return {}
    if dtype == np.dtype(object):
        return {"dtype": "object"}
    if dtype.na_value is pd.NA:
        usual, tag = pd.StringDtype(), {"dtype": "string"}
    else:
        usual, tag = _nan_text_dtype(None), {"dtype": "str"}
    if dtype.storage != usual.storage:
        tag["storage"] = dtype.storage
    return tag


def text_dtype_from_tag(tag: dict[str, Any]) -> Any:
    """The dtype that `text_dtype_tag` described."""
    import pandas as pd

    kind = tag.get("dtype")
    if kind is None:
        return default_text_dtype()
    if kind == "object":
        return np.dtype(object)
    if kind == "string":
        return pd.StringDtype(tag.get("storage"))
    if kind == "str":
        return _nan_text_dtype(tag.get("storage"))
    raise ValueError(f"{kind!r} is no dtype of text")


def _nan_text_dtype(storage: str | None) -> Any:
    """The string dtype whose missing values are NaN."""
    import pandas as pd

    try:
        return pd.StringDtype(storage, na_value=np.nan)
    except TypeError:  # before pandas 2.3 there was one storage for it, by this name
        return pd.StringDtype("pyarrow_numpy")


def encode_string_dtype(column: Column, where: str) -> tuple[pa.Array, dict[str, Any]]:
    """A column of a pandas string dtype as LargeUtf8 and its tag."""
    missing = np.asarray(column.isna(), dtype=np.bool_)
    values = column.to_numpy(dtype=np.dtype(object))
    array = text_array(values, missing if missing.any() else None, where)
    return array, text_dtype_tag(column.dtype)


def encode_object_text(column: Column, where: str) -> tuple[pa.Array, dict[str, Any]]:
    """An object column of text, with or without gaps, as LargeUtf8 and its tag.

    Raises
    ------
    TypeError
        The column holds anything but `str`, None, NaN and `pd.NA`.
    """
    values = column.to_numpy()
    elements = values.tolist()
    gap_letters = {kind: _gap_letter(kind) for kind in set(map(type, elements))}
    tag = text_dtype_tag(column.dtype)
    if all(letter == "" for letter in gap_letters.values()):
        return text_array(values, None, where), tag

    missing = np.fromiter((gap_letters[type(element)] != "" for element in elements), np.bool_)
    gaps = values[missing].tolist()
    # `gap != gap` is only true of NaN: a number is no gap.
    if not all(_is_gap(gap, gap_letters[type(gap)]) for gap in gaps):
        refuse_objects(column, where)
    if missing.all():
        # Nothing shows that this was text: the dtype is kept as it stands under any pandas.
        tag["dtype"] = "object"
    letters = "".join(str(gap_letters[type(gap)]) for gap in gaps)
    if len(set(letters)) == 1:
        letters = letters[0]
    if letters != NAN_GAP:
        tag["gaps"] = letters
    return text_array(values, missing, where), tag


def decode_text(array: pa.Array, tag: dict[str, Any], *, copy: bool) -> Any:
    """The pandas array of a text column: an object array or a string array.

    Strings that pandas keeps in Arrow arrays are views of the file unless `copy` is set.
    """
    import pandas as pd
    import pyarrow as pa

    dtype = text_dtype_from_tag(tag)
    if dtype == np.dtype(object):
        values = text_from_arrow(array)
        missing = missing_mask(array)
        if missing is None:
            return values
        values = values.copy()
        values[missing] = _gap_values(tag.get("gaps", NAN_GAP), int(missing.sum()))
        return values
    if dtype.storage == "python":
        return pd.array(text_from_arrow(array), dtype=dtype)
    large = validated(array).cast(pa.large_string())
    return dtype.__from_arrow__(owned(large) if copy else large)


def _gap_letter(kind: type) -> str | None:
    """The letter of a type that fills gaps, "" for text, None for everything else."""
    import pandas as pd

    if issubclass(kind, str):
        return ""
    if kind is type(None):
        return "N"
    if kind is type(pd.NA):
        return "A"
    return NAN_GAP if issubclass(kind, (float, np.floating)) else None


def _is_gap(element: Any, letter: str | None) -> bool:
    if letter is None:
        return False
    return letter != NAN_GAP or bool(element != element)


def _gap_values(letters: str, count: int) -> Values:
    import pandas as pd

    if len(letters) == 1:
        letters *= count
    if len(letters) != count:
        raise ValueError(f"{count} gaps, but marks for {len(letters)}")
    meanings = {"N": None, NAN_GAP: np.nan, "A": pd.NA}
    values = np.empty(count, dtype=object)
    values[:] = [meanings[letter] for letter in letters]
    return values


def text_array(values: Values, missing: Mask | None, where: str) -> pa.Array:
    """An object array of `str` as LargeUtf8; a text that UTF-8 cannot hold raises `ValueError`."""
    try:
        return text_to_arrow(values, missing)
    except UnicodeEncodeError:
        refuse_surrogates(values, where)
