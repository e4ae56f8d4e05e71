"""From the JSON of uns to Python objects; the envelopes are listed in `uns`."""

from __future__ import annotations

import datetime
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from scx_core._user_warnings import warn_user

from . import _uns_arrays as arrays
from . import _uns_pandas as frames
from . import _uns_published as published
from ._uns_arrays import Json
from ._uns_encode import DEPTH_MAX, TAG
from ._zones import zone_from_text


class Damaged(ValueError):
    """An entry is not what its envelope says; the message begins with its path."""


def decode_value(value: Json, path: str, depth: int = 0) -> Any:
    """The object of any JSON value; raises `Damaged`."""
    # A container in an envelope takes two levels.
    if depth > 2 * DEPTH_MAX + 2:
        raise Damaged(f"{path} is nested too deeply")
    if isinstance(value, list):
        return _items(value, path, depth)
    if not isinstance(value, dict):
        return value
    if TAG not in value and not _is_published(value, path):
        return {
            key: decode_value(item, f"{path}[{key!r}]", depth + 1) for key, item in value.items()
        }
    is_own = TAG in value
    kind = value[TAG] if is_own else value[published.TAG]
    decode = (DECODERS.get(kind) if isinstance(kind, str) else None) if is_own else _published
    if decode is None:
        raise Damaged(f"{path} is of the kind {kind!r}, which this version does not know")
    try:
        return decode(value, path, depth + 1)
    except Damaged:
        raise
    except Exception as error:
        reason = str(error) or type(error).__name__
        raise Damaged(f"{path} is damaged ({kind}): {reason}") from error


def _is_published(value: dict[str, Json], path: str) -> bool:
    """Whether an object is an envelope of other writers; warns where its kind is unknown."""
    if published.TAG not in value:
        return False
    kind = value[published.TAG]
    if not published.is_known(kind):
        warn_user(f"{path} is of the kind {kind!r}, which this version does not know: left a dict")
        return False
    return published.is_complete(value)


def _items(items: Json, path: str, depth: int) -> list[Any]:
    if not isinstance(items, list):
        raise Damaged(f"{path} has no list of items")
    if arrays.is_plain_json(items):
        return items
    return [decode_value(item, f"{path}[{i}]", depth + 1) for i, item in enumerate(items)]


def _dict(value: Json, path: str, depth: int) -> dict[str, Any]:
    result = {}
    for key, item in value["items"]:
        if not isinstance(key, str):
            raise Damaged(f"{path} has a key that is no text")
        result[key] = decode_value(item, f"{path}[{key!r}]", depth + 1)
    return result


def _array(value: Json, path: str, depth: int) -> Any:
    return arrays.decode_array(
        value, lambda item, position: decode_value(item, f"{path}[{position}]", depth + 1)
    )


def _ndarray(value: Json, path: str, depth: int) -> Any:
    array = _array(value, path, depth)
    return array.view(np.recarray) if value.get("record") else array


def _numpy_scalar(value: Json, path: str, depth: int) -> Any:
    array = _array(value, path, depth)
    if array.ndim or array.dtype.kind in "OSU":
        raise ValueError("an array instead of a single number")
    return array[()]


def _zoned(value: Json, kind: type) -> Any:
    moment = kind.fromisoformat(value["value"])  # type: ignore[attr-defined]
    zone = moment.tzinfo
    if "zone" in value:
        zone = zone_from_text(value["zone"], {"zoneinfo": True})
    return moment.replace(tzinfo=zone, fold=value.get("fold", 0))


def _series(value: Json, path: str, depth: int) -> Any:
    name = decode_value(value["name"], f"{path}.name", depth + 1)
    return frames.decode_series_text(value, name)


def _inner(path: str, depth: int) -> Callable[[Json], Any]:
    return lambda value: decode_value(value, path, depth + 1)


def _published(value: Json, path: str, depth: int) -> Any:
    return published.decode_envelope(value, _inner(path, depth))


def _missing(name: str) -> Any:
    import pandas as pd

    return getattr(pd, name)


DECODERS: dict[str, Callable[[Json, str, int], Any]] = {
    "dict": _dict,
    "tuple": lambda value, path, depth: tuple(_items(value["items"], path, depth)),
    "set": lambda value, path, depth: set(_items(value["items"], path, depth)),
    "frozenset": lambda value, path, depth: frozenset(_items(value["items"], path, depth)),
    "bytes": lambda value, path, depth: arrays.decode_bytes(value["value"]),
    "int": lambda value, path, depth: int(value["hex"], 16),
    "float": lambda value, path, depth: struct.unpack(">d", bytes.fromhex(value["bits"]))[0],
    "complex": lambda value, path, depth: complex(
        *struct.unpack(">dd", bytes.fromhex(value["bits"]))
    ),
    "numpy": _numpy_scalar,
    "numpy.str": lambda value, path, depth: np.str_(value["value"]),
    "numpy.bytes": lambda value, path, depth: np.bytes_(arrays.decode_bytes(value["value"])),
    "ndarray": _ndarray,
    "sparse": lambda value, path, depth: arrays.decode_sparse(value),
    "dataframe": lambda value, path, depth: frames.decode_frame_text(value, _inner(path, depth)),
    "series": _series,
    "index": lambda value, path, depth: frames.decode_index_text(value, _inner(path, depth)),
    "array": lambda value, path, depth: frames.decode_array_text(value),
    "moment": lambda value, path, depth: frames.decode_time_text(value),
    "NA": lambda value, path, depth: _missing("NA"),
    "NaT": lambda value, path, depth: _missing("NaT"),
    "datetime": lambda value, path, depth: _zoned(value, datetime.datetime),
    "time": lambda value, path, depth: _zoned(value, datetime.time),
    "date": lambda value, path, depth: datetime.date.fromisoformat(value["value"]),
    "timedelta": lambda value, path, depth: datetime.timedelta(*value["parts"]),
}
