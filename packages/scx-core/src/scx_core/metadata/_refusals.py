"""What cannot be stored, said so that the user can mend it: where, what, which row, how."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from ._values import Values

if TYPE_CHECKING:
    import pandas as pd

    Column = pd.Series[Any] | pd.Index[Any]

SHOWN_CHARACTERS = 60

REMEDIES = {
    frozenset({"bool"}): '.astype("boolean")',
    frozenset({"int"}): '.astype("Int64")',
    frozenset({"float"}): ".astype(float)",
    frozenset({"int", "float"}): ".astype(float)",
    frozenset({"bytes"}): '.str.decode("utf-8")',
}


def shown(value: Any) -> str:
    """A value for a message: its repr, cut when long, whatever its repr does."""
    try:
        text = repr(value)
    except Exception:
        return f"an object of type {type(value).__name__}"
    return text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 3] + "..."


def refuse_objects(column: Column, where: str) -> NoReturn:
    """Raise the `TypeError` for an object column that is not text.

    The message names the types, the first row that breaks the rule, and a conversion.
    """
    elements = column.to_numpy().tolist()
    filled = [(row, item) for row, item in enumerate(elements) if not _is_missing(item)]
    kinds = list(dict.fromkeys(type(item) for _, item in filled))
    names = ", ".join(kind.__name__ for kind in kinds)
    remedy = REMEDIES.get(frozenset(kind.__name__.rstrip("_") for kind in kinds), ".astype(str)")
    if len(kinds) == 1:
        row, value = filled[0]
        what = f"is of dtype object but holds no text: its values are of type {names}, the first"
    else:
        # Beside text, all else is odd; otherwise what differs from the first.
        usual = str if str in kinds else kinds[0]
        row, value = next((row, item) for row, item in filled if type(item) is not usual)
        what = f"mixes values of several types ({names}); the first odd one"
    raise TypeError(
        f"{where} {what} is {shown(value)}, of type {type(value).__name__}, "
        f"{row_name(column, row)}. Give it one type first, for example with "
        f"{where} = {where}{remedy}."
    )


def refuse_surrogates(values: Values, where: str) -> NoReturn:
    """Raise the `ValueError` for text that UTF-8 cannot express."""
    for row, text in enumerate(values.tolist()):
        if isinstance(text, str) and not text.isascii():
            try:
                text.encode()
            except UnicodeEncodeError:
                raise ValueError(
                    f"{where} holds {shown(text)} in row {row}: half of a surrogate pair, which "
                    "is no character. Replace it first, for example with "
                    'text.encode("utf-8", "replace").decode().'
                ) from None
    raise AssertionError("text was refused, but every element of it can be encoded")


def refuse_dtype(dtype: Any, where: str, remedy: str) -> NoReturn:
    """Raise the `TypeError` for a dtype that has no place in the file."""
    raise TypeError(f"{where} has the dtype {dtype}, which cannot be stored; {remedy}.")


def refuse_matrix(value: Any, where: str) -> NoReturn:
    """Raise the `TypeError` for an object that is no matrix we store."""
    name = type(value).__name__
    dtype = getattr(value, "dtype", None)
    described = name if dtype is None else f"{name} of dtype {dtype}"
    if isinstance(value, np.ma.MaskedArray):
        remedy = "Fill its gaps first, with filled()."
    elif type(value).__module__.partition(".")[0] == "awkward":
        remedy = "Its rows may differ in length. Where they do not, awkward.to_numpy makes an array"
    elif hasattr(value, "tocsr"):
        remedy = "Convert it first, with tocsr()."
    elif hasattr(value, "to_memory"):
        remedy = "Load it first, with to_memory()."
    elif hasattr(value, "compute"):
        remedy = "Load it first, with compute()."
    elif hasattr(value, "to_numpy"):
        remedy = "Convert it first, with to_numpy()."
    else:
        remedy = "Convert it to an array of numbers first, or keep it in uns."
    raise TypeError(f"{where} is a {described}, which cannot be stored there. {remedy}")


def storable_name(name: Any, where: str) -> str | int:
    """The name of an index, when JSON holds it exactly.

    Raises
    ------
    TypeError
        The name is neither text nor a whole number.
    """
    if isinstance(name, str):
        return str.__str__(name)
    if type(name) is int:
        return name
    raise TypeError(
        f"{where} is named {shown(name)}, of type {type(name).__name__}; only text can be stored. "
        f"Rename it first, for example with {where}.name = None."
    )


def row_name(column: Column, row: int) -> str:
    """How to find a row: its number and, for a column of a frame, its name."""
    import pandas as pd

    if isinstance(column, pd.Series):
        return f"in row {row} ({shown(column.index[row])})"
    return f"at position {row}"


def _is_missing(value: Any) -> bool:
    import pandas as pd

    if value is None or value is pd.NA:
        return True
    return isinstance(value, (float, np.floating)) and bool(value != value)
