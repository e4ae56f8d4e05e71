"""From Python objects to the JSON of uns; the envelopes are listed in `uns`."""

from __future__ import annotations

import datetime
import struct
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from . import _uns_arrays as arrays
from . import _uns_pandas as frames
from ._coordinates import is_compressed
from ._uns_arrays import Json
from ._uns_published import TAG as PUBLISHED_TAG
from ._values import plain_ndarray

TAG = "__scx__"

# Far beyond what people nest, and far below where Python's own recursion ends.
DEPTH_MAX = 64

# What other readers hold as a JSON number.
INT_MIN, INT_MAX = -(2**63), 2**64 - 1


class Unstorable(Exception):
    """A value has no place in the file; `path` says which one, `reason` why."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason


class Encoder:
    """Turns one uns into JSON and gathers what has to stay out of it.

    `problems` are pairs: what cannot be stored and why, and what has to be left out for it.
    """

    def __init__(self) -> None:
        self.problems: list[tuple[str, str]] = []
        self._open: list[int] = []  # the containers around the current value, by identity

    def encode(self, uns: Mapping[Any, Any], where: str) -> Json:
        """The whole of uns as JSON."""
        return self._container(uns, where)

    def _mapping(self, value: Mapping[Any, Any], path: str) -> Json:
        """A mapping as a JSON object; an entry that cannot be stored is left out and noted."""
        entries: dict[str, Json] = {}
        with_tag = False
        for key, item in value.items():
            item_path = f"{path}[{key!r}]"
            if not isinstance(key, str):
                kind = type(key).__name__
                reason = f"{item_path} has a key of type {kind}; keys must be text"
                self.problems.append((reason, "the entry"))
                continue
            with_tag |= key in (TAG, PUBLISHED_TAG)
            try:
                entries[str.__str__(key)] = self.value(item, item_path)
            except Unstorable as problem:
                what = "the entry" if problem.path == item_path else item_path
                self.problems.append((f"{problem.path} {problem.reason}", what))
        if with_tag:
            return {TAG: "dict", "items": [[key, entry] for key, entry in entries.items()]}
        return entries

    def value(self, value: Any, path: str) -> Json:
        """Any value as JSON; raises `Unstorable`."""
        if value is None or type(value) in (bool, str):
            return value
        if isinstance(value, np.generic):
            return self._numpy_scalar(value, path)
        if isinstance(value, str):
            return str.__str__(value)
        if isinstance(value, (int, float, complex, bytes)):
            return _number_or_bytes(value)
        if isinstance(value, (Mapping, list, tuple, set, frozenset)):
            return self._container(value, path)
        try:
            envelope = self._object(value, path)
        except (TypeError, ValueError) as error:
            raise Unstorable(path, f"cannot be stored: {error}") from error
        if envelope is None:
            kind = f"is of type {_type_name(value)}, which cannot be stored"
            raise Unstorable(path, getattr(value, "why_unstorable", kind))
        return envelope

    def _container(self, value: Any, path: str) -> Json:
        with self._inside(value, path):
            if isinstance(value, Mapping):
                return self._mapping(value, path)
            if isinstance(value, list) and arrays.is_plain_json(value):
                return list(value)
            if isinstance(value, (set, frozenset)):
                # A set has no order; sorted, equal ones give equal bytes.
                items = sorted(self._items(value, path), key=repr)
                return {TAG: "set" if isinstance(value, set) else "frozenset", "items": items}
            items = self._items(value, path)
            return items if isinstance(value, list) else {TAG: "tuple", "items": items}

    @contextmanager
    def _inside(self, container: Any, path: str) -> Iterator[None]:
        """While the contents of a container are encoded."""
        if id(container) in self._open:
            raise Unstorable(path, "contains itself")
        if len(self._open) >= DEPTH_MAX:
            raise Unstorable(path, f"is nested more than {DEPTH_MAX} levels deep")
        self._open.append(id(container))
        try:
            yield
        finally:
            self._open.pop()

    def _items(self, items: Iterable[Any], path: str) -> list[Json]:
        return [self.value(item, f"{path}[{position}]") for position, item in enumerate(items)]

    def _object(self, value: Any, path: str) -> Json:
        """Arrays, matrices, pandas objects and times; None for all that is none of those."""
        array = plain_ndarray(value)
        if array is not None:
            with self._inside(value, path):
                envelope = {TAG: "ndarray", **self._array(array, path)}
            return {**envelope, "record": True} if isinstance(value, np.recarray) else envelope
        if is_compressed(value):
            return {TAG: "sparse", **arrays.encode_sparse(value)}
        return self._pandas(value, path) or _time(value)

    def _array(self, array: Any, path: str) -> dict[str, Json]:
        return arrays.encode_array(
            array, lambda item, position: self.value(item, f"{path}[{position}]")
        )

    def _numpy_scalar(self, value: np.generic, path: str) -> Json:
        # As arrays, texts and bytes would lose the zeros at their end.
        if isinstance(value, np.str_):
            return {TAG: "numpy.str", "value": str.__str__(value)}
        if isinstance(value, np.bytes_):
            return {TAG: "numpy.bytes", "value": arrays.encode_bytes(bytes(value))}
        try:
            return {TAG: "numpy", **self._array(np.asarray(value), path)}
        except TypeError as error:
            raise Unstorable(path, f"cannot be stored: {error}") from error

    def _pandas(self, value: Any, path: str) -> Json:
        import pandas as pd

        if value is pd.NA:
            return {TAG: "NA"}
        if value is pd.NaT:
            return {TAG: "NaT"}
        if isinstance(value, (pd.Timestamp, pd.Timedelta)):
            return {TAG: "moment", **frames.encode_time_text(value, path)}
        if isinstance(value, pd.DataFrame):
            return {TAG: "dataframe", **frames.encode_frame_text(value, path, self.value)}
        if isinstance(value, pd.Series):
            name = self.value(value.name, f"{path}.name")
            return {TAG: "series", "name": name, **frames.encode_series_text(value, path)}
        if isinstance(value, pd.Index):
            return {TAG: "index", **frames.encode_index_text(value, path, self.value)}
        if isinstance(value, pd.api.extensions.ExtensionArray):
            return {TAG: "array", **frames.encode_array_text(value, path)}
        return None


def _number_or_bytes(value: Any) -> Json:
    if isinstance(value, bytes):
        return {TAG: "bytes", "value": arrays.encode_bytes(value)}
    if isinstance(value, complex):
        return {TAG: "complex", "bits": struct.pack(">dd", value.real, value.imag).hex()}
    if isinstance(value, float):
        number = float.__float__(value)
        # JSON has no word for infinities and NaN.
        if number - number == 0.0:
            return number
        return {TAG: "float", "bits": struct.pack(">d", number).hex()}
    whole = int.__int__(value)
    if INT_MIN <= whole <= INT_MAX:
        return whole
    return {TAG: "int", "hex": f"{whole:x}"}


def _time(value: Any) -> Json:
    """A standard datetime, date, time or timedelta; None for anything else."""
    import zoneinfo

    kind = type(value)
    if kind is datetime.timedelta:
        parts = [value.days, value.seconds, value.microseconds]
        return {TAG: "timedelta", "parts": parts}
    if kind is datetime.date:
        return {TAG: "date", "value": value.isoformat()}
    if kind not in (datetime.datetime, datetime.time):
        return None
    envelope = {TAG: kind.__name__, "value": value.isoformat()}
    if value.fold:
        envelope["fold"] = 1
    zone = value.tzinfo
    if isinstance(zone, zoneinfo.ZoneInfo) and zone.key is not None:
        naive = value.replace(tzinfo=None)
        return {**envelope, "value": naive.isoformat(), "zone": zone.key}
    if zone is None or type(zone) is datetime.timezone:
        return envelope
    raise TypeError(f"its time zone is a {type(zone).__name__}, which has no name to store")


def _type_name(value: Any) -> str:
    kind = type(value)
    module = kind.__module__
    return kind.__name__ if module == "builtins" else f"{module}.{kind.__qualname__}"
