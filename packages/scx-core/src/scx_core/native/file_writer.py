"""Writing a .scx file: plain sections, modalities, and shards that are filled row by row."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from scx_core._value_types import dtype_of
from scx_core.native import binding
from scx_core.native.binding import CData, call, native


@dataclass(frozen=True)
class Mended:
    """What was done to, or noticed in, rows that were appended."""

    unsorted_rows: int = 0
    duplicate_entries: int = 0
    explicit_zeros: int = 0
    non_finite_values: int = 0
    negative_values: int = 0
    fractional_values: int = 0


class FileWriter:
    """Writes a new .scx file, or the next generation of one that is there (`change`).

    Threads take turns: a call waits until that of another has ended. The bytes of a new file go to
    a hidden file beside `path`. `finish` gives it that name in one step; until then, and when
    anything fails, what was under `path` stays as it was. As a context manager it finishes when
    the block ends and drops everything when an exception leaves the block.

    Parameters
    ----------
    path
        The file to write. What a symbolic link points to is replaced, not the link.
    n_obs, n_vars
        Shape; of several modalities the largest `n_vars`.
    shard_target_rows
        Rows in a shard, noted in the header.
    codec
        Number of the codec that most shards use, noted in the header.
    overwrite
        Whether an existing file may be replaced.

    Raises
    ------
    FileExistsError
        When `path` exists and `overwrite` is False; again in `finish`, when it has appeared since.
    OSError
        When the folder cannot be written to.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        n_obs: int,
        n_vars: int,
        shard_target_rows: int = 16_384,
        codec: int = 0,
        overwrite: bool = False,
    ) -> None:
        raw_path = binding.path_bytes(path, writing=True)
        self.path = os.fspath(path)
        options = binding.new_struct(
            "scx_writer_options",
            overwrite=int(overwrite),
            shard_target_rows=shard_target_rows,
            codec_id=codec,
            n_obs=n_obs,
            n_vars=n_vars,
        )
        library = native()
        out = library.ffi.new("scx_writer **")
        call("scx_writer_create", raw_path, options, out, path=self.path)
        self._begin(out)

    def _begin(self, out: CData) -> None:
        self._handle: CData | None = binding.owned(out[0], native().lib.scx_writer_close)
        # reentrant, because a signal handler may close while a call is being prepared
        self._lock = threading.RLock()
        self._process_id = os.getpid()
        self._value_type: int | None = None
        self._n_cols = 0

    @classmethod
    def change(cls, path: str | os.PathLike[str], *, note: str = "") -> FileWriter:
        """Lock a file and change it by appending: sections that are added, replaced or dropped.

        `finish` commits all of it at once, as a new generation; until then, and when anything
        fails, the file is as it was. The generation before stays readable until the file is
        written anew (`FileReader(path, generations_back=1)`), and whoever has the file open goes
        on seeing what it held.

        Parameters
        ----------
        path
            The file.
        note
            Text about the change that is kept in the file.

        Raises
        ------
        FileBusyError
            Somebody else is changing the file.
        OSError
            It cannot be opened for writing.
        """
        writer = cls.__new__(cls)
        raw_path = binding.path_bytes(path)
        writer.path = os.fspath(path)
        out = native().ffi.new("scx_writer **")
        raw_note = binding.name_bytes(note, "note")
        call("scx_writer_change", raw_path, raw_note, out, path=writer.path)
        writer._begin(out)
        return writer

    def add_modality(
        self, name: str, *, modality_type: int, n_vars: int, codec: int = 0, value_type: int = 0
    ) -> None:
        """Declare the next modality, before its first section; ids count from 1."""
        self._call(
            "scx_writer_add_modality",
            binding.name_bytes(name, "name"),
            modality_type,
            codec,
            value_type,
            n_vars,
        )

    def add_section(self, name: str, data: Any, *, section_type: int, modality_id: int = 0) -> None:
        """Write a section.

        Parameters
        ----------
        name
            Must be the only one of its type and modality.
        data
            Anything with a contiguous buffer: bytes, memoryview, a numpy or Arrow buffer.
        section_type, modality_id
            Numbers of the format.
        """
        # an empty buffer has no address that a pointer could take
        pointer = native().ffi.from_buffer("uint8_t[]", data)
        self._call(
            "scx_writer_add_section",
            int(section_type),
            modality_id,
            binding.name_bytes(name, "name"),
            pointer,
            len(pointer),
        )

    def drop_section(self, name: str, *, section_type: int, modality_id: int = 0) -> None:
        """Leave a section of the file that is changed out of the next generation.

        Raises
        ------
        KeyError
            There is no such section.
        """
        self._call(
            "scx_writer_drop_section",
            int(section_type),
            modality_id,
            binding.name_bytes(name, "name"),
        )

    def set_deleted(self, bitmaps: Sequence[tuple[int, bytes]]) -> None:
        """Replace the deletion vectors.

        `bitmaps` holds the number of a row range (see `FileReader.row_range_ends`) and a Roaring
        bitmap, in the portable form, of rows inside it.
        """
        numbers = np.array([number for number, _ in bitmaps], dtype=np.uint32)
        lengths = np.array([len(bitmap) for _, bitmap in bitmaps], dtype=np.uint32)
        data = b"".join(bitmap for _, bitmap in bitmaps)
        self._call(
            "scx_writer_set_deleted",
            len(bitmaps),
            binding.input_array(numbers, np.uint32, "numbers"),
            binding.input_array(lengths, np.uint32, "lengths"),
            native().ffi.from_buffer("uint8_t[]", data),
        )

    def begin_shard(
        self,
        name: str,
        *,
        section_type: int,
        codec: int,
        value_type: int,
        row_start: int,
        n_rows: int,
        n_cols: int,
        modality_id: int = 0,
        threads: int = 0,
        keep_zeros: bool = False,
    ) -> None:
        """Begin a shard of `n_rows` rows, the first of which is row `row_start` of the file.

        `threads` 0 takes as many as the machine has; `keep_zeros` keeps explicit zeros.
        """
        raw_name = native().ffi.new("char[]", binding.name_bytes(name, "name"))
        options = binding.new_struct(
            "scx_shard_options",
            section_type=int(section_type),
            modality_id=modality_id,
            codec_id=codec,
            value_type=value_type,
            threads=threads,
            keep_zeros=int(keep_zeros),
            row_start=row_start,
            n_rows=n_rows,
            n_cols=n_cols,
            name=raw_name,
        )
        self._call("scx_shard_begin", options)
        self._value_type = value_type
        self._n_cols = n_cols

    def append_csr(
        self,
        indptr: npt.NDArray[np.int64],
        indices: npt.NDArray[Any],
        values: npt.NDArray[Any],
    ) -> Mended:
        """Append the next rows of the shard that is open.

        Parameters
        ----------
        indptr
            int64, one entry more than there are rows; it may start at any number.
        indices
            int32 or int64, from the first row on: `indices[0]` belongs to `indptr[0]`.
        values
            Of the shard's dtype, beside `indices`.

        Returns
        -------
        Mended
            What was wrong with these rows.
        """
        dtype = self._shard_dtype()
        pointers = binding.input_array(indptr, np.int64, "indptr")
        if indptr.ndim != 1 or indptr.size == 0:
            raise ValueError("indptr must have one dimension and at least one entry")
        n_values = int(indptr[-1]) - int(indptr[0])
        if n_values < 0 or bool(np.any(indptr[1:] < indptr[:-1])):
            raise ValueError("indptr decreases")
        wide = indices.dtype == np.int64
        mended = native().ffi.new("scx_mended *")
        self._call(
            "scx_shard_append_csr",
            indptr.size - 1,
            pointers,
            binding.input_array(
                indices, np.int64 if wide else np.int32, "indices", length=n_values
            ),
            8 if wide else 4,
            binding.input_array(values, dtype, "values", length=n_values),
            mended,
        )
        return _mended(mended)

    def append_dense(self, values: npt.NDArray[Any]) -> Mended:
        """Append the next rows of the shard that is open, shape (rows, columns of the shard)."""
        pointer = binding.input_array(values, self._shard_dtype(), "values")
        if values.ndim != 2 or values.shape[1] != self._n_cols:
            raise ValueError(f"values has shape {values.shape}, expected (rows, {self._n_cols})")
        mended = native().ffi.new("scx_mended *")
        self._call("scx_shard_append_dense", values.shape[0], pointer, mended)
        return _mended(mended)

    def finish_shard(self) -> None:
        """Complete the shard; all its rows must have been appended."""
        self._call("scx_shard_finish")
        self._value_type = None

    def finish(self) -> None:
        """Complete the file and put it in place; afterwards the writer is closed."""
        try:
            self._call("scx_writer_finish")
        finally:
            self.close()

    def close(self) -> None:
        """Drop what was written, unless `finish` has put it in place."""
        if os.getpid() != self._process_id:
            self._handle = None  # the file is the parent's, and so may be who holds the lock
            return
        with self._lock:  # a call of another thread ends first
            handle, self._handle = self._handle, None
            if handle is not None:
                native().ffi.release(handle)

    @property
    def closed(self) -> bool:
        """Whether `finish` or `close` was called."""
        return self._handle is None

    def __enter__(self) -> FileWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None and not self.closed:
            self.finish()
        self.close()

    def _call(self, function: str, *arguments: Any) -> None:
        if os.getpid() != self._process_id:
            raise RuntimeError(
                f"{self.path}: the writer belongs to process {self._process_id}, this is process "
                f"{os.getpid()}: write in the process that began the file"
            )
        with self._lock:
            if self._handle is None:
                raise RuntimeError(f"{self.path}: the writer is closed")
            call(function, self._handle, *arguments, path=self.path)

    def _shard_dtype(self) -> np.dtype[Any]:
        if self._value_type is None:
            raise ValueError(f"{self.path}: no shard is open; begin one first")
        dtype = dtype_of(self._value_type)
        assert dtype is not None  # begin_shard has accepted it
        return dtype


def _mended(struct: CData) -> Mended:
    return Mended(**{name: int(getattr(struct, name)) for name in Mended.__dataclass_fields__})


def total_mended(parts: Iterable[Mended]) -> Mended:
    """The sum over several calls."""
    sums = dict.fromkeys(Mended.__dataclass_fields__, 0)
    for part in parts:
        for name in sums:
            sums[name] += getattr(part, name)
    return Mended(**sums)
