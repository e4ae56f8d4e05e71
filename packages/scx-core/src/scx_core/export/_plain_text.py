"""Text without gaps as objects, which every reader of .h5ad files knows.

From pandas 3 on, columns and indexes of text have a string dtype of their own. anndata would write
them in its encoding of nullable strings, which older releases and other readers cannot open, not
even where no text is missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd


def with_plain_text(value: Any) -> Any:
    """`value` itself, or with objects where it, or what a mapping holds, is such text."""
    import pandas as pd

    if isinstance(value, pd.DataFrame):
        return _frame(value)
    if isinstance(value, Mapping):
        return {key: with_plain_text(member) for key, member in value.items()}
    dtype = getattr(value, "dtype", None)
    if isinstance(value, pd.api.extensions.ExtensionArray) and _is_default_text(dtype):
        return value if value.isna().any() else value.to_numpy(dtype=object)
    return value


def _frame(df: pd.DataFrame) -> pd.DataFrame:
    changed = df.copy(deep=False)
    if _is_default_text(df.index.dtype) and not df.index.hasnans:
        changed.index = df.index.astype(object)
    for position, dtype in enumerate(df.dtypes):
        if _is_default_text(dtype):
            column = df.iloc[:, position]
            if not column.hasnans:
                # a Series keeps its dtype, where of an array pandas would infer text once more
                plain: Any = column.astype(object).set_axis(changed.index)
                changed.isetitem(position, plain)
    return changed


def _is_default_text(dtype: Any) -> bool:
    """Whether it is the string dtype that text gets by itself; "string", with NA, is asked for."""
    import pandas as pd

    return isinstance(dtype, pd.StringDtype) and dtype.na_value is not pd.NA
