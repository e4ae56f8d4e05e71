"""Which fields of an Arrow schema are the columns and which is the index; needs no pandas."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ._decoding import json_object, named

if TYPE_CHECKING:
    import pyarrow as pa

FRAME_KEY = "scx.frame"
TAG_KEY = "scx.dtype"
ORDERED_KEY = "scx.categorical.ordered"
PANDAS_KEY = "pandas"

FRAME_VERSION = 1

# What other writers call a field that holds an index.
FOREIGN_INDEX_FIELDS = ("_index", "__index_level_0__")


def metadata_object(metadata: dict[bytes, bytes] | None, key: str) -> dict[str, Any]:
    """The JSON object under `key` of Arrow metadata, empty when there is none."""
    return json_object((metadata or {}).get(key.encode()), key)


def field_tag(field: pa.Field) -> dict[str, Any]:
    """What the file says about a column beyond its Arrow type (see `_arrays`)."""
    return metadata_object(field.metadata, TAG_KEY)


def field_ordered(field: pa.Field) -> bool:
    """Whether a dictionary field holds an ordered categorical."""
    mark = (field.metadata or {}).get(ORDERED_KEY.encode())
    if mark is None:
        return bool(getattr(field.type, "ordered", False))
    if mark not in (b"true", b"false"):
        raise ValueError(f"{ORDERED_KEY} is neither true nor false on the column {field.name!r}")
    return bool(mark == b"true")


@dataclass(frozen=True)
class FrameLayout:
    """The fields of a frame by their role."""

    index: int | None
    """The field of the index; None when the rows are only numbered."""
    columns: list[int]
    """The fields of the columns, in order."""
    index_name: Any
    details: dict[str, Any]
    """The whole `scx.frame` object; empty for files of other writers."""

    @classmethod
    def of(cls, schema: pa.Schema) -> FrameLayout:
        """The layout that a schema's metadata describes.

        Raises
        ------
        ValueError
            Two fields share a name, the index field is missing, or the version is unknown.
        """
        names = schema.names
        repeated = [name for name, count in Counter(names).items() if count > 1]
        if repeated:
            raise ValueError(f"several columns share a name: {named(repeated)}")
        details = metadata_object(schema.metadata, FRAME_KEY)
        if details:
            if details.get("version") != FRAME_VERSION:
                raise ValueError(f"version {details.get('version')!r} of a frame is unknown")
            index_field, index_name = details["index"], details.get("index_name")
        else:
            index_field = _foreign_index(schema)
            index_name = None if index_field in FOREIGN_INDEX_FIELDS else index_field
        if index_field is not None and index_field not in names:
            raise ValueError(f"the index field {index_field!r} is missing")
        index = None if index_field is None else names.index(index_field)
        columns = [position for position in range(len(names)) if position != index]
        return cls(index, columns, index_name, details)

    def column(self, schema: pa.Schema, name: object) -> int | None:
        """The field of the column called `name`, or None."""
        # pyarrow fails for what is no text, and for text that UTF-8 cannot hold
        if not isinstance(name, str) or name not in schema.names:
            return None
        position: int = schema.get_field_index(name)
        return None if position < 0 or position == self.index else position


def _foreign_index(schema: pa.Schema) -> str | None:
    marked = metadata_object(schema.metadata, PANDAS_KEY).get("index_columns")
    # pandas describes a range by an object instead of a field's name.
    if isinstance(marked, list) and len(marked) == 1 and isinstance(marked[0], str):
        return marked[0]
    return next((name for name in FOREIGN_INDEX_FIELDS if name in schema.names), None)
