"""One shard of a job: cells in, a Parquet file out."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from scx_core._memory import check_room

from ._description import BinOptions, Job, SampleOptions, Task
from ._files import Stopped, sha256_of, whole_file
from ._fractions import any_fractions
from ._opened import opened_input
from ._ragged import Tokens
from ._tokens import Tokeniser

BATCH_ROWS = 1024
"""Cells in memory at a time, and in a row group."""
SLOT_BYTES = 16
"""What a token takes on its way: as an id, as a token, with its value and padding."""
METADATA_KEY = b"scx_tokenize"


@dataclass(frozen=True)
class ShardRecord:
    """What became of a task.

    Attributes
    ----------
    number, file_id, file_name
        As of the task.
    n_cells, n_tokens, n_empty_cells
        How many; cells are empty that have no token but special ones.
    whole_numbers
        Whether all values were whole numbers, as counts are.
    n_bytes, sha256
        Of the file.
    """

    number: int
    file_id: int
    file_name: str
    n_cells: int
    n_tokens: int
    n_empty_cells: int
    whole_numbers: bool
    n_bytes: int
    sha256: str


def check_memory(job: Job, threads: int) -> None:
    """ValueError where the slots of a batch of cells, one for each thread, are beyond memory."""
    options, framing = job.options, job.framing
    if isinstance(options, SampleOptions):
        argument, given = "n", options.n
        width = given + framing.n_around
    else:
        argument, width = "l_max", options.l_max
        given = width
        if framing.pad is None:  # no cell has more tokens than there are genes
            width = min(width, len(job.vocabulary) + framing.n_around)
    check_room(
        BATCH_ROWS * width * SLOT_BYTES * threads,
        what=f"{argument}={given} for {BATCH_ROWS} cells in each of {threads} threads",
        advice=f"take a smaller {argument}, or fewer threads",
    )


def make_shard(
    job: Job,
    task: Task,
    *,
    threads: int = 1,
    on_cells: Callable[[int], object] | None = None,
    stop: threading.Event | None = None,
) -> ShardRecord:
    """Tokenise the cells of a task into the shard's file.

    The bytes of the file follow from `job` and `task` alone, whatever process on whatever machine
    runs this, and with how many threads. The file appears under its name once it is whole.

    Parameters
    ----------
    job
        What to do.
    task
        One of `job.tasks`.
    threads
        Threads that decode and tokenise.
    on_cells
        Called with the number of cells after each batch.
    stop
        Ends the work between two batches, with `Stopped`.

    Raises
    ------
    RuntimeError
        The input has changed since the job was planned.
    ValueError, OSError
        A row cannot be read or tokenised, or the shard cannot be written.
    """
    opened = opened_input(job, task.file_id)
    tokeniser = Tokeniser(job, job.files[task.file_id])
    places, n_tokens, n_empty, whole_numbers = tokeniser.places, 0, 0, True
    with whole_file(job.data_folder / task.file_name) as path:
        with _writer(job, task, path) as writer:
            for start in range(task.start, task.stop, BATCH_ROWS):
                if stop is not None and stop.is_set():
                    raise Stopped
                taken = slice(start, min(task.stop, start + BATCH_ROWS))
                positions = opened.positions[taken]
                rows = opened.cells.rows[positions]
                csr = opened.cells.gather(positions, places, tokeniser.n_places, threads=threads)
                whole_numbers = whole_numbers and not any_fractions(csr[2])
                tokens = tokeniser.tokens(csr, rows, threads=threads)
                columns = {
                    name: array.slice(taken.start, len(rows)) for name, array in opened.obs.items()
                }
                writer.write_table(_table(job, task, tokens, rows, columns))
                n_tokens += int(tokens.lengths.sum())
                n_empty += int(np.count_nonzero(tokens.lengths <= job.framing.n_around))
                if on_cells is not None:
                    on_cells(len(rows))
        opened.check_unchanged()
        n_bytes, sha256 = path.stat().st_size, sha256_of(path)
    return ShardRecord(
        number=task.number,
        file_id=task.file_id,
        file_name=task.file_name,
        n_cells=task.n_cells,
        n_tokens=n_tokens,
        n_empty_cells=n_empty,
        whole_numbers=whole_numbers,
        n_bytes=n_bytes,
        sha256=sha256,
    )


def schema_of(job: Job) -> Any:
    """The columns of the shards, as a schema of pyarrow."""
    import pyarrow as pa

    fields = [pa.field("input_ids", pa.list_(pa.int32())), pa.field("length", pa.int32())]
    if isinstance(job.options, BinOptions):
        fields.append(pa.field("values", pa.list_(pa.int32())))
    fields += [pa.field("row_id", pa.int64()), pa.field("file_id", pa.int32())]
    fields += [pa.field(name, kind) for name, kind in job.obs_types.items()]
    return pa.schema(fields)


def _table(
    job: Job,
    task: Task,
    tokens: Tokens,
    rows: npt.NDArray[np.int64],
    columns: dict[str, Any],
) -> Any:
    import pyarrow as pa

    offsets = tokens.offsets
    if job.framing.pad is not None:
        width = len(tokens.ids) // max(1, len(rows))
        offsets = np.arange(len(rows) + 1, dtype=np.int32) * np.int32(width)
    arrays = {
        "input_ids": pa.ListArray.from_arrays(offsets, tokens.ids),
        "length": pa.array(tokens.lengths.astype(np.int32)),
        "row_id": pa.array(rows),
        "file_id": pa.array(np.full(len(rows), task.file_id, dtype=np.int32)),
    }
    if tokens.values is not None:
        arrays["values"] = pa.ListArray.from_arrays(offsets, tokens.values)
    arrays |= {name: array.cast(job.obs_types[name]) for name, array in columns.items()}
    schema = schema_of(job).with_metadata({METADATA_KEY: _metadata(job, task)})
    return pa.table([arrays[name] for name in schema.names], schema=schema)


def _metadata(job: Job, task: Task) -> bytes:
    described = {"job": job.identity, "shard": task.number, "start": task.start, "stop": task.stop}
    return json.dumps(described).encode()


def _writer(job: Job, task: Task, path: Path) -> Any:
    import pyarrow.parquet as pq

    # Few distinct numbers: with a dictionary they take some 14 bits each, and compression on top
    # of that would cost time for nothing.
    return pq.ParquetWriter(
        path,
        schema_of(job).with_metadata({METADATA_KEY: _metadata(job, task)}),
        compression="NONE",
        use_dictionary=True,
        write_statistics=["length", "row_id", "file_id"],
    )
