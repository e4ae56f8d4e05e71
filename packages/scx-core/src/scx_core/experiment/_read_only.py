"""What an open file hands out, so that a change of it is refused, or is one of a copy alone.

Nothing that is assigned can reach the file. A part is decoded once and kept, with arrays that are
read-only. Frames and sparse matrices are handed out as a new object each time, which shares these
arrays. obs and var refuse all changes. Frames in obsm and uns are plain, since anndata writes no
others: columns may be added to such a copy, and pandas warns where the copy has no name.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

Value = TypeVar("Value")


class kept(cached_property[Value]):
    """A cached property that cannot be assigned to."""

    def __set__(self, instance: object, value: object) -> NoReturn:
        raise AttributeError(
            f"{self.attrname} cannot be set: the file is open for reading; to change a copy, "
            "take `to_anndata()` (or `to_mudata()`), and write that into a file of its own"
        )


def locked(value: Value) -> Value:
    """The same value, whose arrays are read-only, and dicts and lists in it refuse changes."""
    result: Any = value
    if isinstance(value, dict):
        result = ReadOnlyDict({key: locked(item) for key, item in value.items()})
    elif isinstance(value, list):
        result = ReadOnlyList([locked(item) for item in value])
    elif type(value) is tuple:
        result = tuple(locked(item) for item in result)
    elif isinstance(value, np.ndarray):
        value.setflags(write=False)
    elif hasattr(value, "indptr"):
        for array in (result.data, result.indices, result.indptr):
            array.setflags(write=False)
    elif hasattr(value, "iloc"):
        _lock_columns(result)
    return result  # type: ignore[no-any-return]


def read_only_frame(frame: Value) -> Value:
    """A locked obs or var as it is given away; None where there is none."""
    if frame is None:
        return frame
    from scx_core.experiment._read_only_frame import ReadOnlyFrame

    return ReadOnlyFrame.of(frame)  # type: ignore[arg-type,return-value]


def handed_out(value: Value) -> Value:
    """A locked value as it is given away."""
    result: Any = value
    if hasattr(value, "iloc"):
        result = result.copy(deep=False)
        # an index is shared, and has a name that can be set
        result.index = result.index.view()
        if hasattr(value, "columns"):
            result.columns = result.columns.view()
    elif hasattr(value, "indptr"):
        result = copy.copy(value)
    return result  # type: ignore[no-any-return]


def _lock_columns(frame: pd.DataFrame | pd.Series) -> None:
    # With copy-on-write pandas copies what is shared before it writes, without it it does not.
    indexes = [frame.index, getattr(frame, "columns", None)]
    for values in frame._mgr.arrays:
        _lock_array(values)
        indexes.append(getattr(values, "categories", None))
    for index in indexes:
        if index is not None:
            _lock_array(index.values)


def _lock_array(values: Any) -> None:
    # a plain array, that of categories, or those of numbers with gaps
    parts = [getattr(values, name, None) for name in ("_ndarray", "_data", "_mask")]
    for array in (values, *parts):
        if isinstance(array, np.ndarray):
            array.setflags(write=False)


def _refuse(self: object, *arguments: object, **named: object) -> NoReturn:
    raise TypeError(
        "what an open file holds cannot be changed; `copy.deepcopy(...)` of it is your own, "
        "as is `to_anndata().uns`"
    )


class ReadOnlyDict(dict[str, Any]):
    """A dict of an open file; copies of it are plain dicts."""

    def __getitem__(self, key: str) -> Any:
        return handed_out(super().__getitem__(key))

    # those of dict give what is kept itself
    get = Mapping.get  # type: ignore[assignment]
    items = Mapping.items  # type: ignore[assignment]
    values = Mapping.values  # type: ignore[assignment]

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[object, ...]:
        return dict, (list(self.items()),)

    def __deepcopy__(self, memo: dict[int, Any]) -> dict[str, Any]:
        return {key: copy.deepcopy(item, memo) for key, item in self.items()}


class ReadOnlyList(list[Any]):
    """A list of an open file; copies of it are plain lists."""

    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse
    append = clear = extend = insert = pop = _refuse
    remove = reverse = sort = _refuse

    def __reduce__(self) -> tuple[object, ...]:
        return list, (tuple(self),)

    def __deepcopy__(self, memo: dict[int, Any]) -> list[Any]:
        return [copy.deepcopy(item, memo) for item in self]
