"""Arrow IPC files of one record batch, in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ._decoding import compact_json

if TYPE_CHECKING:
    import pyarrow as pa

# Readers hand out views of the buffer, so values must lie where their type may lie.
ALIGNMENT_BYTES = 8


def metadata_text(entries: Mapping[str, Any]) -> dict[str, str]:
    """Metadata values as text: strings stay as they are, mappings become compact JSON."""
    return {
        key: value if isinstance(value, str) else compact_json(value)
        for key, value in entries.items()
    }


def write_batch(
    fields: Sequence[pa.Field], arrays: Sequence[pa.Array], metadata: Mapping[str, Any]
) -> bytes:
    """The bytes of an uncompressed Arrow IPC file that holds `arrays` as one record batch."""
    import pyarrow as pa

    schema = pa.schema(fields, metadata=metadata_text(metadata))
    batch = pa.RecordBatch.from_arrays(list(arrays), schema=schema)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, schema) as writer:
        writer.write_batch(batch)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def read_batch(buffer: Any) -> pa.RecordBatch:
    """The one record batch of an Arrow IPC file, as views of `buffer`.

    The arrays are not validated yet: pass each one through `validated` before its values are
    used. `buffer` is anything with the buffer protocol; the batch keeps it alive.

    Raises
    ------
    ValueError
        The bytes are no Arrow IPC file, or hold another number of record batches than one.
    """
    import pyarrow as pa

    source = pa.py_buffer(buffer)
    if source.address % ALIGNMENT_BYTES:
        source = pa.py_buffer(source.to_pybytes())
    reader = pa.ipc.open_file(source)
    if reader.num_record_batches != 1:
        raise ValueError(f"one record batch was expected, found {reader.num_record_batches}")
    batch = reader.get_batch(0)
    if batch.num_rows > 8 * source.size:
        _check_row_count(batch, source.size)
    return batch


def _check_row_count(batch: pa.RecordBatch, file_bytes: int) -> None:
    """Refuse a row count that no column bears out.

    A column without buffers (type null) has any length that the file claims; every other plain
    column costs at least a bit a row, though compression may hide it. This bounds what a decoder
    can be made to allocate.
    """
    import pyarrow as pa

    types = pa.types
    for column in batch.columns:
        text = types.is_string(column.type) or types.is_large_string(column.type)
        if text or types.is_primitive(column.type) or types.is_dictionary(column.type):
            column.validate()
            return
    raise ValueError(f"{batch.num_rows} rows are claimed by a file of {file_bytes} bytes")


def validated(array: pa.Array) -> pa.Array:
    """`array`, once its lengths, offsets, dictionary codes and UTF-8 have been checked."""
    array.validate(full=True)
    return array
