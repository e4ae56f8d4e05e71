"""Arrow IPC files as other writers make them, with pyarrow alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa


def ipc_file(batch: pa.RecordBatch, *, metadata: Mapping[str, str] | None = None) -> bytes:
    if metadata is not None:
        batch = batch.replace_schema_metadata(metadata)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def shard(index: int, start: int, total: int, columns: Mapping[str, Any], **changed: str) -> bytes:
    """A row shard; `changed` replaces entries of its metadata."""
    batch = pa.record_batch(dict(columns))
    metadata = {
        "shard_idx": str(index),
        "row_start": str(start),
        "n_shard_rows": str(batch.num_rows),
        "n_rows_total": str(total),
    }
    return ipc_file(batch, metadata={**metadata, **changed})


def text(*values: str | None) -> pa.Array:
    return pa.array(values, type=pa.large_string())


def labels(codes: list[int | None], categories: list[str], *, ordered: bool = False) -> pa.Array:
    return pa.DictionaryArray.from_arrays(
        pa.array(codes, type=pa.int8()), text(*categories), ordered=ordered
    )
