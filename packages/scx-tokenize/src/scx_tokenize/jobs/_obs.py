"""Which cells of a file a job takes, and what it notes of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from scx_core._errors import NameNotFoundError

from ._obs_query import evaluated

if TYPE_CHECKING:
    import pandas as pd

CELL_NAME = "cell_name"
"""What stands for the index of obs among its columns, where no column has that name."""


def kept_positions(obs: pd.DataFrame, query: str | None, *, path: str) -> npt.NDArray[np.int64]:
    """The places of the cells for which `query`, an expression as `evaluated` takes it, is true.

    Raises
    ------
    ValueError
        It names a column that is not there, or is no expression that is true or false for each
        cell; the message names the file, the expression and the columns there are.
    """
    if query is None:
        return np.arange(len(obs), dtype=np.int64)
    try:
        chosen: Any = evaluated(query, obs)
    except Exception as error:  # any kind: what pandas makes of columns and texts differs
        columns = ", ".join(map(str, obs.columns)) or "none"
        reason = str(error) or type(error).__name__
        raise ValueError(
            f"obs_filter={query!r} fails for {path}: {reason}; its obs columns are {columns}"
        ) from None
    mask = np.asarray(chosen)
    if mask.shape != (len(obs),) or not _is_boolean(chosen):
        raise ValueError(
            f"obs_filter={query!r} gives {_described(chosen)} for {path}, not true or false for "
            'each cell; compare a column with something, such as "n_counts >= 500"'
        )
    if mask.dtype == object:  # nullable: a gap is not true
        mask = np.array([entry is True or entry is np.True_ for entry in mask], dtype=np.bool_)
    return np.flatnonzero(mask)


def _is_boolean(values: Any) -> bool:
    import pandas as pd

    return hasattr(values, "dtype") and bool(pd.api.types.is_bool_dtype(values.dtype))


def _described(values: Any) -> str:
    dtype = getattr(values, "dtype", None)
    return type(values).__name__ if dtype is None else f"values of {dtype}"


def obs_arrays(obs: pd.DataFrame, columns: Sequence[str], *, path: str) -> dict[str, Any]:
    """Columns of obs as arrays of pyarrow: int64, float64, bool, text, or what Arrow makes of them.

    Raises
    ------
    KeyError
        There is no such column; the message names the file and lists those there are.
    ValueError
        Arrow has no type for what a column holds.
    """
    return {name: _array(_column(obs, name, path), name, path) for name in columns}


def _column(obs: pd.DataFrame, name: str, path: str) -> Any:
    if name in obs.columns:
        return obs[name]
    if name == CELL_NAME:
        return obs.index
    there = ", ".join(map(str, obs.columns)) or "none"
    raise NameNotFoundError(
        f"{path} has no obs column {name!r}; it has {there} (and {CELL_NAME}, the names of cells)"
    )


def _array(values: Any, name: str, path: str) -> Any:
    import pyarrow as pa

    try:
        array = pa.array(values, from_pandas=True)
        if isinstance(array, pa.ChunkedArray):
            array = array.combine_chunks()
        kind = array.type
        if pa.types.is_dictionary(kind):
            array = array.cast(kind.value_type)
            kind = array.type
        return array.cast(_plain_type(kind))
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"obs column {name!r} of {path} cannot be kept: {reason}") from None


def _plain_type(kind: Any) -> Any:
    import pyarrow as pa

    if pa.types.is_integer(kind) and kind != pa.uint64():
        return pa.int64()
    if pa.types.is_floating(kind):
        return pa.float64()
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    return kind


def common_types(types: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """One type for each column over all files.

    Parameters
    ----------
    types
        By file: by column, its type.

    Raises
    ------
    ValueError
        Two files hold different things in a column; both are named.
    """
    import pyarrow as pa

    result: dict[str, Any] = {}
    since: dict[str, str] = {}
    for path, columns in types.items():
        for name, kind in columns.items():
            before = result.get(name)
            if before is None or pa.types.is_null(before):
                result[name], since[name] = kind, path
            elif kind == before or pa.types.is_null(kind):
                continue
            elif {kind, before} == {pa.int64(), pa.float64()}:
                result[name] = pa.float64()
            else:
                raise ValueError(
                    f"obs column {name!r} is {before} in {since[name]} and {kind} in {path}; "
                    "leave it out, or make their tokens in runs of their own"
                )
    return result
