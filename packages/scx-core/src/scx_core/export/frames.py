"""Frames as .h5ad files can hold them: names of columns, and text.

From pandas 3 on, columns and indexes of text have a string dtype of their own. anndata would write
them in its encoding of nullable strings, which older releases and other readers cannot open, not
even where no text is missing. Such text goes out as objects. Objects with gaps among the text have
no place in a file but as categories.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from scx_core._user_warnings import warn_user

if TYPE_CHECKING:
    import pandas as pd


def check_columns(label: str, frame: pd.DataFrame) -> None:
    """Refuse columns that a reader of HDF5 would not find again by their names.

    A slash makes groups of what precedes it, so "G1/S" is found again, and "/S" is not.

    Raises
    ------
    ValueError
        Names the column, what it collides with, and what to do.
    """
    index_key = "_index" if frame.index.name is None else str(frame.index.name)
    keys = {str(name): f"{label}[{name!r}]" for name in frame.columns}
    if frame.index.name not in keys:
        keys[index_key] = f"{label}.index"
    for key, what in keys.items():
        parts = key.split("/")
        if "\0" in key or any(part in ("", ".") for part in parts):
            raise ValueError(
                f"{what} cannot have the name {key!r} in an HDF5 file, where it would be read back "
                "as something else: rename it"
            )
        for n_parts in range(1, len(parts)):
            shorter = "/".join(parts[:n_parts])
            if shorter in keys:
                raise ValueError(
                    f"{what} cannot have the name {key!r} in an HDF5 file, where it would lie "
                    f"inside {keys[shorter]}: rename one of them"
                )


def storable_text(value: Any, label: str) -> Any:
    """`value` itself, or a changed copy where it, or what a mapping holds, is text of such kinds.

    Columns that become categorical are named in a warning.
    """
    import pandas as pd

    if isinstance(value, pd.DataFrame):
        return _frame(value, label)
    if isinstance(value, Mapping):
        return {key: storable_text(member, f"{label}[{key!r}]") for key, member in value.items()}
    dtype = getattr(value, "dtype", None)
    if isinstance(value, pd.api.extensions.ExtensionArray) and _is_default_text(dtype):
        return value if value.isna().any() else value.to_numpy(dtype=object)
    return value


def _frame(df: pd.DataFrame, label: str) -> pd.DataFrame:
    changed = df.copy(deep=False)
    if _is_default_text(df.index.dtype) and not df.index.hasnans:
        changed.index = df.index.astype(object)
    with_gaps = []
    for position, dtype in enumerate(df.dtypes):
        column = df.iloc[:, position]
        if _is_default_text(dtype) and not column.hasnans:
            # a Series keeps its dtype, where of an array pandas would infer text once more
            plain: Any = column.astype(object).set_axis(changed.index)
            changed.isetitem(position, plain)
        elif dtype == np.dtype(object) and _is_text_with_gaps(column):
            categorical: Any = column.astype("category").set_axis(changed.index)
            changed.isetitem(position, categorical)
            with_gaps.append(f"{label}[{df.columns[position]!r}]")
    if with_gaps:
        warn_user(
            f"{', '.join(with_gaps)}: text with gaps, which an .h5ad file holds as categories "
            "alone; written as categorical"
        )
    return changed


def _is_text_with_gaps(column: pd.Series[Any]) -> bool:
    present = column[column.notna()]
    return len(present) < len(column) and all(isinstance(text, str) for text in present)


def _is_default_text(dtype: Any) -> bool:
    """Whether it is the string dtype that text gets by itself; "string", with NA, is asked for."""
    import pandas as pd

    return isinstance(dtype, pd.StringDtype) and dtype.na_value is not pd.NA


def column_remedies(frame: pd.DataFrame, label: str) -> Sequence[str]:
    """Of columns that anndata has no way to store: what they are, and what to do."""
    import pandas as pd

    found = []
    for name, dtype in zip(frame.columns, frame.dtypes, strict=True):
        column = f"{label}[{name!r}]"
        kinds: Any = dtype.categories.dtype if isinstance(dtype, pd.CategoricalDtype) else dtype
        if kinds is not dtype and kinds.kind in "mM":
            remedy = f"{column}.cat.rename_categories(str)"
        elif kinds is dtype and kinds.kind in "mM":
            remedy = f'{column}.astype("string")'
        elif isinstance(dtype, pd.Float32Dtype | pd.Float64Dtype):
            remedy = f"{column}.astype(float)"
        elif isinstance(dtype, pd.ArrowDtype):
            remedy = f'{column}.convert_dtypes(dtype_backend="numpy_nullable")'
        else:
            continue
        found.append(f"{column} is of dtype {dtype}, store {remedy} instead")
    return found
