"""A frame of an open file, in which nothing can be assigned.

What pandas makes of it (copies, selections, results) are plain frames.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, NoReturn

import pandas as pd


class _LikeAnyFrame(type):
    def __instancecheck__(cls, instance: object) -> bool:
        # pandas.testing asks whether the frame that this one is compared with is of its type
        return isinstance(instance, pd.DataFrame)


class ReadOnlyFrame(pd.DataFrame, metaclass=_LikeAnyFrame):
    """obs or var of an open file. `copy()` is a frame that can be changed."""

    @classmethod
    def of(cls, frame: pd.DataFrame) -> ReadOnlyFrame:
        """The same values as `frame`, which stays what it is."""
        result: Any = frame.copy(deep=False)
        # an index is shared, and has a name that can be set
        result.index, result.columns = result.index.view(), result.columns.view()
        result.__class__ = cls
        return result  # type: ignore[no-any-return]

    @property
    def _constructor(self) -> Callable[..., pd.DataFrame]:
        return pd.DataFrame

    def __setattr__(self, name: str, value: Any) -> None:
        if not name.startswith("_"):  # pandas keeps its own notes
            _refuse()
        super().__setattr__(name, value)

    def __reduce_ex__(self, _protocol: Any) -> Any:
        return pd.DataFrame, (self.copy(deep=False),)

    @property
    def loc(self) -> Any:
        return _locked(super().loc)

    @property
    def iloc(self) -> Any:
        return _locked(super().iloc)

    @property
    def at(self) -> Any:
        return _locked(super().at)

    @property
    def iat(self) -> Any:
        return _locked(super().iat)


def _refuse(*_arguments: object, **_named: object) -> NoReturn:
    raise TypeError(
        "obs and var of an open file cannot be changed: take a copy, such as "
        "`obs = experiment.obs.copy()`, or `to_anndata()`, and write that into a file of its own"
    )


def _locked(indexer: Any) -> Any:
    indexer.__class__ = type("Indexer", (type(indexer),), {"__setitem__": _refuse})
    return indexer


def _refusing_inplace(name: str) -> Callable[..., Any]:
    method = getattr(pd.DataFrame, name)
    signature = inspect.signature(method)

    @wraps(method)
    def checked(self: pd.DataFrame, *arguments: Any, **named: Any) -> Any:
        if signature.bind(self, *arguments, **named).arguments.get("inplace"):
            _refuse()
        return method(self, *arguments, **named)

    return checked


# the last is what `obs += 1` comes to
REFUSED = ("__setitem__", "__delitem__", "insert", "isetitem", "pop", "update", "_update_inplace")
for _name in REFUSED:
    setattr(ReadOnlyFrame, _name, _refuse)
for _name, _method in inspect.getmembers(pd.DataFrame, inspect.isfunction):
    if not _name.startswith("_") and "inplace" in inspect.signature(_method).parameters:
        setattr(ReadOnlyFrame, _name, _refusing_inplace(_name))
