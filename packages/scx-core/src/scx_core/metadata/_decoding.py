"""How damaged bytes become one kind of error.

The decoders of this package read bytes that anyone may have written. Whatever goes wrong in
pyarrow, pandas, numpy or json while they do so means the same to the caller: these bytes do not
hold what they should. `decoding` says so with a `ValueError` that names the part.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any


@contextmanager
def decoding(what: str) -> Iterator[None]:
    """Turn every error of the block into a `ValueError` that begins with `what`."""
    try:
        yield
    except Exception as error:
        reason = str(error) or type(error).__name__
        raise ValueError(f"{what}: {reason}") from error


def json_object(text: bytes | None, key: str) -> dict[str, Any]:
    """The JSON object under a metadata key; an empty one when the key is absent."""
    if text is None:
        return {}
    value = json.loads(text)
    if not isinstance(value, dict):
        raise ValueError(f"the metadata {key!r} is not a JSON object")
    return value


def compact_json(value: Mapping[str, Any]) -> str:
    """`value` as JSON text, the same for equal mappings in the same order."""
    return json.dumps(value, separators=(",", ":"))


def named(names: list[str], shown: int = 20) -> str:
    """A list of names for a message, cut after `shown` of them."""
    if not names:
        return "none"
    text = ", ".join(repr(name) for name in names[:shown])
    return text if len(names) <= shown else f"{text} and {len(names) - shown} more"
