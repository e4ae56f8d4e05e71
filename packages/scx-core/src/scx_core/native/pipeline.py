"""Batches that threads of the library decode ahead, and the shuffle that orders them.

Thin classes over the `scx_pipeline_*` functions of scx.h. What a batch array sees is the library's
own memory: it goes back to the pipeline when the last array or view on it is gone.
"""

from __future__ import annotations

import atexit
import os
import re
import threading
import weakref
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from scx_core import _errors
from scx_core._closing import Closing
from scx_core._errors import CorruptFileError
from scx_core.native import binding
from scx_core.native.binding import CData, call, native
from scx_core.native.members import OUTPUT_DTYPES, Member
from scx_core.native.threads import THREADS_MAX as THREADS_MAX

BATCHES_MAX = 1024  # SCX_PIPELINE_BATCHES_MAX
BATCH_ROWS_MAX = 16_777_216  # SCX_BATCH_ROWS_MAX

TAG_SHARD_ORDER = 0x5343585348524431  # SCX_TAG_SHARD_ORDER
TAG_ROW_ORDER = 0x534358524F575F32  # SCX_TAG_ROW_ORDER

# How long a call of the library may last before Python looks for Ctrl-C.
WAIT_MS = 50
CLOSE_MS = 5_000

_IN_USE: dict[int, tuple[Any, ...]] = {}
"""The matrices that threads read from, by the handle of their pipeline.

A matrix and its file must not be let go before the threads have ended. A reference from the
pipeline alone does not see to that: in a cycle of garbage anything may be finalised first. What a
thread reads that does not end in time stays here for good.
"""
_PIPELINES: weakref.WeakSet[MatrixPipeline[Any]] = weakref.WeakSet()
"""Those that may have threads."""


def epoch_stream(*, seed: int, tag: int, epoch: int) -> int:
    """The random stream of one epoch for one purpose; all three and the result are 64-bit."""
    return int(native().lib.scx_epoch_stream(seed, tag, epoch))


def shuffle(values: npt.NDArray[np.int64], *, stream: int, position: int = 0) -> int:
    """Shuffle `values` in place with the words of `stream` from `position` on.

    Returns
    -------
    The position after the last word used, where the next shuffle of the same stream begins.
    """
    place = native().ffi.new("uint64_t *", position)
    call(
        "scx_shuffle", stream, place, binding.output_array(values, np.int64, "values"), values.size
    )
    return int(place[0])


@dataclass(frozen=True)
class CsrBatch:
    """Rows in CSR: int32 `indptr` from 0, int32 `indices` ascending in each row, float32 `values`.

    The three are views of one buffer, which goes back to the pipeline with the last of them.
    """

    indptr: npt.NDArray[np.int32]
    indices: npt.NDArray[np.int32]
    values: npt.NDArray[np.float32]
    n_columns: int


BatchT = TypeVar("BatchT", npt.NDArray[Any], CsrBatch)


_FILE = re.compile(r"file (\d+): ")


class MatrixPipeline(Closing, Generic[BatchT]):
    """Batches of the rows of matrices, decoded ahead by threads of its own.

    `submit` lists of rows, and `wait` for the batches in the same order. Threads start with the
    first `submit`. One thread at a time may submit and wait; any may close.

    Parameters
    ----------
    members
        The matrices, put end to end: row numbers count on over all of them. Their files stay mapped
        as long as the pipeline lives.
    batches
        How many batches may be submitted and not received, 1 to `BATCHES_MAX`.
    threads
        Decode threads, at most `THREADS_MAX`; 0 for one per CPU that the process may use.
    """

    def __init__(self, members: Sequence[Member], *, batches: int = 4, threads: int = 0) -> None:
        self._start(members, None, batches=batches, threads=threads)

    def _start(
        self, members: Sequence[Member], changes: CData | None, *, batches: int, threads: int
    ) -> None:
        if not members:
            raise ValueError("there is no matrix to read from")
        self._paths = [member.path for member in members]
        self._path = self._paths[0] if len(members) == 1 else None
        self._process = os.getpid()
        self._lock = threading.RLock()
        self._closing = False
        self._n_columns = members[0].columns.n_output
        self._dtype = members[0].columns.dtype
        library = native()
        handles = library.ffi.new("scx_member[]", len(members))
        for handle, member in zip(handles, members, strict=True):
            handle.matrix, handle.columns = member.matrix.handle, member.columns.handle
            handle.file_identity = member.file_identity
        options = binding.new_struct("scx_pipeline_options", threads=threads, batches=batches)
        out = library.ffi.new("scx_pipeline **")
        call(
            "scx_pipeline_open",
            self._layout(),
            handles,
            len(members),
            library.ffi.NULL if changes is None else changes,
            options,
            out,
            path=self._path,
        )
        key = int(library.ffi.cast("uintptr_t", out[0]))
        _IN_USE[key] = tuple(members)
        self._end = _closer(key)
        self._handle: CData | None = binding.owned(out[0], self._end)
        _PIPELINES.add(self)

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closing

    def submit(self, rows: npt.NDArray[np.int64]) -> None:
        """Put a batch of these rows at the end of the queue; `rows` is copied.

        Raises
        ------
        IndexError
            A row is out of range.
        RuntimeError
            As many batches as the pipeline was opened for are under way.
        """
        pointer = binding.input_array(rows, np.int64, "rows")
        self._call("scx_pipeline_submit", pointer, rows.size)

    def wait(self) -> BatchT:
        """The oldest batch, as soon as it is ready.

        Ctrl-C interrupts the wait. The batch stays in the queue, unless it had come just then.

        Raises
        ------
        CorruptFileError
            A row of the batch is damaged. The next call gives the batch after it.
        KeyError
            No batch was submitted.
        """
        library = native()
        # Released at its end in any case: Ctrl-C may come when the library has just filled it.
        batch = binding.owned(binding.new_struct("scx_batch"), library.lib.scx_batch_release)
        error = library.ffi.new("scx_error *")
        self._check_process()
        while True:
            with self._lock:
                status = library.lib.scx_pipeline_wait(self._open(), WAIT_MS, batch, error)
            if status != _errors.TIMEOUT:
                try:
                    binding.check(status, error, path=self._path)
                except (CorruptFileError, ValueError) as failure:
                    raise self._placed(failure) from None
                return self._array(batch)

    def cancel(self) -> None:
        """Forget all batches that were submitted and not received."""
        self._call("scx_pipeline_cancel")

    def will_need(self, row_start: int, row_end: int, *, hold: bool = False) -> None:
        """Have a thread read the bytes of these rows, which are needed soon.

        With `hold`, no batch is decoded until those that were not in memory are there.
        """
        self._call("scx_pipeline_will_need", row_start, row_end, int(hold))

    def expect_scattered(self, *, scattered: bool = True) -> None:
        """Whether batches take rows from anywhere.

        Then a thread asks for the bytes of each before its rows are decoded, unless they seem to be
        in memory, and where a row is touched all the same, only its own pages are read.
        """
        self._call("scx_pipeline_expect_scattered", int(scattered))

    def close(self) -> None:
        """End the threads. Batches that were received stay valid. Closing again does nothing."""
        self._closing = True  # ends a wait in another thread
        if self._process != os.getpid():
            return  # the lock may be held by a thread that only the parent has
        with self._lock:
            handle, self._handle = self._handle, None
            if handle is not None:
                # Not as its destructor, in which a Ctrl-C would do nothing; that one follows.
                self._end(handle)

    def _call(self, function: str, *arguments: Any) -> None:
        self._check_process()
        with self._lock:
            call(function, self._open(), *arguments, path=self._path)

    def _check_process(self) -> None:
        # Before the lock, which another thread of the parent may have held at the fork.
        if self._process != os.getpid():
            raise RuntimeError(
                f"this pipeline belongs to process {self._process}; its threads stayed there when "
                f"process {os.getpid()} was forked from it: open a new one in this process"
            )

    def _open(self) -> CData:
        if self._closing or self._handle is None:
            raise RuntimeError("the pipeline is closed")
        return self._handle

    def _placed(self, error: CorruptFileError | ValueError) -> Exception:
        """The same error with the path of its file instead of the number."""
        message = str(error.args[0])
        match = _FILE.match(message)
        if match is None:
            return error
        path, message = self._paths[int(match[1])], message[match.end() :]
        if not isinstance(error, CorruptFileError):
            return ValueError(f"{path}: {message}")
        return CorruptFileError(
            message, path=path, section=error.section, shard=error.shard, row=error.row
        )

    @staticmethod
    @abstractmethod
    def _layout() -> int: ...

    @abstractmethod
    def _array(self, batch: CData) -> BatchT: ...


class DensePipeline(MatrixPipeline[npt.NDArray[Any]]):
    """Dense batches: `dtype` of shape (rows, columns)."""

    @staticmethod
    def _layout() -> int:
        return int(native().lib.SCX_LAYOUT_DENSE)

    def _array(self, batch: CData) -> npt.NDArray[Any]:
        ffi = native().ffi
        # An array keeps the buffer object, which keeps the pointer, which keeps the batch.
        data = binding.keeping(ffi.cast("char *", batch.data), batch)
        dtype = OUTPUT_DTYPES[self._dtype]
        flat = np.frombuffer(ffi.buffer(data, batch.data_bytes), dtype=dtype)
        return flat.reshape(int(batch.n_rows), self._n_columns)


class CsrPipeline(MatrixPipeline[CsrBatch]):
    """CSR batches. Values that the transform makes 0 stay stored.

    `changes` is an `scx_row_changes` that says what happens to values before they are transformed.
    """

    def __init__(
        self,
        members: Sequence[Member],
        *,
        changes: CData | None = None,
        batches: int = 4,
        threads: int = 0,
    ) -> None:
        self._start(members, changes, batches=batches, threads=threads)

    @staticmethod
    def _layout() -> int:
        return int(native().lib.SCX_LAYOUT_CSR)

    def _array(self, batch: CData) -> CsrBatch:
        ffi = native().ffi
        # From the front of the buffer to the end of what is used: indptr, indices, values.
        start = int(ffi.cast("uintptr_t", batch.indptr))
        end = int(ffi.cast("uintptr_t", batch.data)) + int(batch.data_bytes)
        memory = binding.keeping(ffi.cast("char *", batch.indptr), batch)
        whole = memoryview(ffi.buffer(memory, end - start))

        def part(pointer: CData, count: int, dtype: type[Any]) -> npt.NDArray[Any]:
            first = int(ffi.cast("uintptr_t", pointer)) - start
            # Each over memory of its own length: scipy copies arrays that see a part of a larger
            # one. A view, since it asks for the size of what the array is a view of.
            return np.frombuffer(whole[first : first + count * 4], dtype=dtype)[:]

        n_values = int(batch.n_values)
        return CsrBatch(
            indptr=part(batch.indptr, int(batch.n_rows) + 1, np.int32),
            indices=part(batch.indices, n_values, np.int32),
            values=part(batch.data, n_values, np.float32),
            n_columns=self._n_columns,
        )


@atexit.register
def _close_all() -> None:
    """Ends all threads while the interpreter is still whole."""
    for pipeline in list(_PIPELINES):
        pipeline.close()


# A destructor may run when the interpreter ends and modules are empty: it holds all that it uses.


def _closer(key: int) -> Callable[[CData], None]:
    """Ends the threads, and only then lets go of what they read from; once, however often called.

    In a cycle of garbage the handle may be finalised before the pipeline that closes it.
    """
    close, in_use = native().lib.scx_pipeline_close, _IN_USE
    deadline_ms, timeout = CLOSE_MS, _errors.TIMEOUT
    pending = [key]

    def run(pipeline: CData) -> None:
        if not pending:
            return
        pending.clear()
        if close(pipeline, deadline_ms) != timeout:
            in_use.pop(key, None)

    return run
