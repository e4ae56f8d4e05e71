"""Frames whose rows are spread over several Arrow IPC files, as other writers make them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ._decoding import decoding
from ._fields import field_ordered
from ._ipc import read_batch, validated, write_batch

if TYPE_CHECKING:
    import pyarrow as pa

SHARD_KEYS = ("shard_idx", "row_start", "n_shard_rows", "n_rows_total")


@dataclass(frozen=True)
class _Shard:
    index: int
    row_start: int
    row_count: int
    rows_total: int
    batch: pa.RecordBatch


def merge_frame_shards(buffers: Sequence[Any], *, where: str = "frame") -> bytes:
    """The row shards of a frame joined into one Arrow IPC file.

    The result is read by `decode_frame`, `read_column` and the others like a frame that was
    written whole. Shards may come in any order; their schema metadata (`shard_idx`, `row_start`,
    `n_shard_rows`, `n_rows_total`) must place them one after another over all rows. Categories
    that differ between shards are joined in order of appearance; those of an ordered categorical
    must each be the beginning of the longest.

    Raises
    ------
    ValueError
        A shard is damaged, is missing or comes twice, or its columns are not those of the first.
    """
    with decoding(f"the row shards of {where} cannot be joined"):
        shards = sorted((_read_shard(buffer) for buffer in buffers), key=lambda s: s.index)
        if not shards:
            raise ValueError("there is none")
        _check_tiling(shards)
        schema = shards[0].batch.schema
        for shard in shards:
            _check_columns(shard, schema)
        fields, arrays = [], []
        for position, field in enumerate(schema):
            chunks = [validated(shard.batch.column(position)) for shard in shards]
            array = _joined(chunks, field)
            fields.append(field.with_type(array.type))
            arrays.append(array)
        metadata = {
            key.decode(): text.decode()
            for key, text in schema.metadata.items()
            if key.decode() not in SHARD_KEYS
        }
        return write_batch(fields, arrays, metadata)


def _read_shard(buffer: Any) -> _Shard:
    batch = read_batch(buffer)
    metadata = batch.schema.metadata or {}
    numbers = []
    for key in SHARD_KEYS:
        text = metadata.get(key.encode())
        if text is None or not text.isdigit():
            raise ValueError(f"a shard's metadata {key!r} is {text!r}, not a row number")
        numbers.append(int(text))
    index, row_start, row_count, rows_total = numbers
    return _Shard(index, row_start, row_count, rows_total, batch)


def _check_tiling(shards: list[_Shard]) -> None:
    row = 0
    for index, shard in enumerate(shards):
        if shard.index != index:
            what = "is missing" if shard.index > index else "comes twice"
            raise ValueError(f"shard {min(index, shard.index)} {what}")
        if shard.row_start != row:
            raise ValueError(f"shard {index} starts at row {shard.row_start} instead of {row}")
        if shard.row_count != shard.batch.num_rows:
            raise ValueError(
                f"shard {index} says {shard.row_count} rows and holds {shard.batch.num_rows}"
            )
        if shard.rows_total != shards[0].rows_total:
            raise ValueError(f"shard {index} and shard 0 differ in the number of all rows")
        row += shard.row_count
    if row != shards[0].rows_total:
        raise ValueError(f"they hold {row} rows of {shards[0].rows_total}")


def _check_columns(shard: _Shard, schema: pa.Schema) -> None:
    """Each column as in the first shard; only the width of category codes may differ."""
    import pyarrow as pa

    own = shard.batch.schema
    if own.names != schema.names:
        raise ValueError(f"the columns of shard {shard.index} are not those of shard 0")
    for field, first in zip(own, schema, strict=True):
        same_type = field.type == first.type or (
            pa.types.is_dictionary(field.type)
            and pa.types.is_dictionary(first.type)
            and field.type.value_type == first.type.value_type
        )
        if not same_type or (field.metadata or {}) != (first.metadata or {}):
            raise ValueError(
                f"the column {field.name!r} is {field.type} in shard {shard.index} and "
                f"{first.type} in shard 0, or is marked differently"
            )


def _joined(chunks: list[pa.Array], field: pa.Field) -> pa.Array:
    import pyarrow as pa

    if not pa.types.is_dictionary(field.type):
        return pa.concat_arrays(chunks)
    ordered = field_ordered(field)
    if ordered:
        longest = max((chunk.dictionary for chunk in chunks), key=len)
        for chunk in chunks:
            if not chunk.dictionary.equals(longest.slice(0, len(chunk.dictionary))):
                raise ValueError(f"the ordered categories of {field.name!r} differ")
    same_width = [
        pa.DictionaryArray.from_arrays(
            chunk.indices.cast(pa.int32()), chunk.dictionary, ordered=field.type.ordered
        )
        for chunk in chunks
    ]
    unified = pa.chunked_array(same_width).unify_dictionaries()
    return pa.concat_arrays(unified.chunks)
