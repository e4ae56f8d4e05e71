"""One shard of a job: cells in, a Parquet file out."""

from __future__ import annotations

import json
import os
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ._cells import Cells, open_cells
from ._description import BinOptions, Job, Task
from ._obs import kept_positions, obs_arrays
from ._ragged import Tokens
from ._tokens import Tokeniser

BATCH_ROWS = 1024
"""Cells in memory at a time, and in a row group."""
METADATA_KEY = b"scx_tokenize"
PARTIAL_SUFFIX = ".tmp"


@dataclass(frozen=True)
class ShardRecord:
    """What became of a task."""

    number: int
    file_id: int
    file_name: str
    n_cells: int
    n_tokens: int
    n_empty_cells: int


class Stopped(Exception):
    """The job ends before this shard is done."""


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
    opened = _opened(job, task.file_id)
    tokeniser = Tokeniser(job, job.files[task.file_id])
    places, n_tokens, n_empty = tokeniser.places, 0, 0
    with _whole_file(job.data_folder / task.file_name) as path, _writer(job, task, path) as writer:
        for start in range(task.start, task.stop, BATCH_ROWS):
            if stop is not None and stop.is_set():
                raise Stopped
            taken = slice(start, min(task.stop, start + BATCH_ROWS))
            positions = opened.positions[taken]
            rows = opened.cells.rows[positions]
            csr = opened.cells.gather(positions, places, tokeniser.n_places, threads=threads)
            tokens = tokeniser.tokens(csr, rows, threads=threads)
            columns = {
                name: array.slice(taken.start, len(rows)) for name, array in opened.obs.items()
            }
            writer.write_table(_table(job, task, tokens, rows, columns))
            n_tokens += int(tokens.lengths.sum())
            n_empty += int(np.count_nonzero(tokens.lengths <= job.framing.n_around))
            if on_cells is not None:
                on_cells(len(rows))
    return ShardRecord(task.number, task.file_id, task.file_name, task.n_cells, n_tokens, n_empty)


def shard_record(job: Job, task: Task) -> ShardRecord | None:
    """The record of a shard that is there already; None where it is not, or is another job's."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = job.data_folder / task.file_name
    if not path.is_file():
        return None
    try:
        with pq.ParquetFile(path) as file:
            metadata = (file.schema_arrow.metadata or {}).get(METADATA_KEY)
            if file.metadata.num_rows != task.n_cells or metadata != _metadata(job, task):
                return None
            n_tokens, n_empty = 0, 0
            for group in range(file.num_row_groups):
                lengths = file.read_row_group(group, columns=["length"])["length"].to_numpy()
                n_tokens += int(lengths.sum())
                n_empty += int(np.count_nonzero(lengths <= job.framing.n_around))
    except (pa.ArrowInvalid, OSError):
        return None
    return ShardRecord(task.number, task.file_id, task.file_name, task.n_cells, n_tokens, n_empty)


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


@contextmanager
def _whole_file(target: Path) -> Iterator[Path]:
    """A path to write to, which becomes `target` when the block ends well, and else is removed."""
    partial = target.with_name(f".{target.name}.{uuid.uuid4().hex}{PARTIAL_SUFFIX}")
    try:
        yield partial
        with partial.open("rb") as file:
            os.fsync(file.fileno())
        partial.replace(target)
    except BaseException as error:
        partial.unlink(missing_ok=True)
        raise naming(target, error) from None


def naming(path: Path, error: BaseException) -> BaseException:
    """The error, with the file in it where the system told none: no space left, of which disk?"""
    if not isinstance(error, OSError) or error.errno is None or error.filename is not None:
        return error
    return OSError(error.errno, os.strerror(error.errno), str(path))


# ---- input files, which several tasks of one process share ----


@dataclass(frozen=True)
class OpenedInput:
    """A file with what all its shards need.

    Attributes
    ----------
    cells
        Its cells.
    positions
        int64, places in `cells.rows` of those that are taken.
    obs
        The columns that are kept, as arrays of pyarrow, an entry for each of `positions`.
    """

    cells: Cells
    positions: npt.NDArray[np.int64]
    obs: dict[str, Any]


_LOCK = threading.Lock()
_OPENED: dict[tuple[int, str, int], OpenedInput] = {}
OPENED_AT_MOST = 4


def _opened(job: Job, file_id: int) -> OpenedInput:
    # a handle belongs to the process that opened it
    key = (os.getpid(), job.identity, file_id)
    with _LOCK:
        if key not in _OPENED:
            while len(_OPENED) >= OPENED_AT_MOST:
                # not closed: another thread may be reading, and the last one to do so lets it go
                _OPENED.pop(next(iter(_OPENED)))
            _OPENED[key] = _open(job, file_id)
        return _OPENED[key]


def forget_inputs() -> None:
    """Let go of the input files that this process has kept open for further shards."""
    with _LOCK:
        _OPENED.clear()


def _open(job: Job, file_id: int) -> OpenedInput:
    from ._inputs import identity_of

    file = job.files[file_id]
    changed = RuntimeError(f"{file.path} has been changed since the job was planned: start it anew")
    if os.path.getsize(file.path) != file.size:
        raise changed
    cells = open_cells(file.path, source=job.source, modality=job.modality, turned=file.turned)
    if file.kind == "scx" and identity_of(cells) != file.identity:
        raise changed
    n_cells, columns = len(cells.rows), list(job.obs_types)
    if job.obs_filter is None and not columns:
        positions: npt.NDArray[np.int64] = np.arange(n_cells, dtype=np.int64)
        return OpenedInput(cells, positions, {})
    obs = cells.obs()
    positions = kept_positions(obs, job.obs_filter, path=file.path)
    if len(positions) != file.n_cells:
        raise changed
    taken = obs if len(positions) == len(obs) else obs.iloc[positions]
    return OpenedInput(cells, positions, obs_arrays(taken, columns, path=file.path))
