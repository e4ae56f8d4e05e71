"""Frames whose rows are spread over several Arrow IPC files, as other writers make them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ._coordinates import ROWS_KEY, complete_column
from ._decoding import decoding
from ._fields import field_ordered, field_tag
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
    `n_shard_rows`, `n_rows_total`) must place them one after another over all rows. Of the number
    of all rows the last shard's counts: shards that were added later know of more. Categories
    that differ between shards are joined in order of appearance; those of an ordered categorical
    must each be the beginning of the longest. Text that has categories in some of the shards gets
    them in all.

    The shards of a matrix over pairs are lists of its entries (`row`, `col`, `data`), which lie
    in the rows that the shard spans, however many they are.

    Raises
    ------
    ValueError
        A shard is damaged, is missing or comes twice, or its columns are not those of the first.
    """
    with decoding(f"the row shards of {where} cannot be joined"):
        shards = sorted((_read_shard(buffer) for buffer in buffers), key=lambda s: s.index)
        if not shards:
            raise ValueError("there is none")
        schema = shards[0].batch.schema
        is_coordinates = (
            schema.names == ["row", "col", "data"] and ROWS_KEY.encode() in schema.metadata
        )
        for shard in shards:
            _check_rows(shard, is_coordinates=is_coordinates)
            _check_columns(shard, schema)
        _check_tiling(shards)
        fields, arrays = [], []
        for position, field in enumerate(schema):
            chunks = [validated(shard.batch.column(position)) for shard in shards]
            array = _joined(chunks, field)
            fields.append(field.with_type(array.type))
            arrays.append(array)
        metadata = {
            key.decode(): text.decode()
            for key, text in shards[-1].batch.schema.metadata.items()
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
        if index > 0 and shard.rows_total < shards[index - 1].rows_total:
            raise ValueError(f"shard {index} knows of fewer rows in all than the one before it")
        row += shard.row_count
    if row != shards[-1].rows_total:
        raise ValueError(f"they hold {row} rows of {shards[-1].rows_total}")


def _check_rows(shard: _Shard, *, is_coordinates: bool) -> None:
    """Whether a shard holds the rows that it says; of coordinates, rows of the matrix."""
    held = shard.batch.num_rows
    if not is_coordinates:
        if shard.row_count != held:
            raise ValueError(f"shard {shard.index} says {shard.row_count} rows and holds {held}")
        return
    rows = complete_column(shard.batch, "row")
    stop = shard.row_start + shard.row_count
    if held and not shard.row_start <= int(rows.min()) <= int(rows.max()) < stop:
        raise ValueError(
            f"shard {shard.index} spans the rows {shard.row_start} to {stop} and holds an entry "
            f"of row {int(rows.min() if rows.min() < shard.row_start else rows.max())}"
        )


def _check_columns(shard: _Shard, schema: pa.Schema) -> None:
    """Each column as in the first shard, but for the width of category codes and of text."""
    import pyarrow as pa

    own = shard.batch.schema
    if own.names != schema.names:
        raise ValueError(f"the columns of shard {shard.index} are not those of shard 0")
    for field, first in zip(own, schema, strict=True):
        types = [_value_type(one.type) for one in (field, first)]
        same_type = types[0] == types[1] or all(map(_is_text, types))
        same_marks = field_tag(field) == field_tag(first) and (
            field_ordered(field) == field_ordered(first)
            or pa.types.is_dictionary(field.type) != pa.types.is_dictionary(first.type)
        )
        if not same_type or not same_marks:
            raise ValueError(
                f"the column {field.name!r} is {field.type} in shard {shard.index} and "
                f"{first.type} in shard 0, or is marked differently"
            )


def _joined(chunks: list[pa.Array], field: pa.Field) -> pa.Array:
    import pyarrow as pa

    if not any(pa.types.is_dictionary(chunk.type) for chunk in chunks):
        return pa.concat_arrays([chunk.cast(field.type) for chunk in chunks])
    ordered = field_ordered(field)
    chunks = [_with_categories(chunk, _value_type(field.type)) for chunk in chunks]
    if ordered:
        longest = max((chunk.dictionary for chunk in chunks), key=len)
        for chunk in chunks:
            if not chunk.dictionary.equals(longest.slice(0, len(chunk.dictionary))):
                raise ValueError(f"the ordered categories of {field.name!r} differ")
    same_width = [
        pa.DictionaryArray.from_arrays(
            chunk.indices.cast(pa.int32()), chunk.dictionary, ordered=ordered
        )
        for chunk in chunks
    ]
    unified = pa.chunked_array(same_width).unify_dictionaries()
    return pa.concat_arrays(unified.chunks)


def _with_categories(chunk: pa.Array, value_type: pa.DataType) -> pa.DictionaryArray:
    """A column of categories of that type; plain text in the order in which it appears."""
    import pyarrow as pa

    if not pa.types.is_dictionary(chunk.type):
        return chunk.cast(value_type).dictionary_encode()
    categories = chunk.dictionary.cast(value_type)
    codes = chunk.indices
    if categories.null_count:  # a gap that has a code
        kept = categories.is_valid()
        places = pa.compute.if_else(kept, pa.compute.cumulative_sum(kept.cast(pa.int32())), None)
        codes = pa.compute.subtract(places, 1).take(codes)
        categories = categories.drop_null()
    return pa.DictionaryArray.from_arrays(codes, categories)


def _value_type(kind: pa.DataType) -> pa.DataType:
    import pyarrow as pa

    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _is_text(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or str(kind) == "string_view"
