"""Changing a .scx file by appending to it: the appender functions of scx.h."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scx_core._closing import Closing
from scx_core.native import binding
from scx_core.native.binding import CData, call, native
from scx_core.native.container import FileReader


class FileAppender(Closing):
    """A file that is locked to be changed; nothing is written before `commit`.

    Parameters
    ----------
    file
        The file as it is to be changed. It keeps showing its old content.

    Raises
    ------
    FileBusyError
        Somebody else is changing the file, or it is no longer the one that was opened: open it
        again and try again.
    OSError
        It cannot be opened for writing.
    """

    def __init__(self, file: FileReader) -> None:
        library = native()
        out = library.ffi.new("scx_appender **")
        self._path = file.path
        self._file_handle = file.handle
        call("scx_appender_open", self._file_handle, out, path=self._path)
        self._handle: CData | None = binding.owned(out[0], library.lib.scx_appender_close)

    def set_deleted(self, bitmaps: Sequence[tuple[int, bytes]]) -> None:
        """Replace the deletion vectors.

        `bitmaps` holds the number of a row range (see `FileReader.row_range_ends`) and a Roaring
        bitmap, in the portable form, of rows inside it.
        """
        numbers = np.array([number for number, _ in bitmaps], dtype=np.uint32)
        lengths = np.array([len(bitmap) for _, bitmap in bitmaps], dtype=np.uint32)
        data = b"".join(bitmap for _, bitmap in bitmaps)
        call(
            "scx_appender_set_deleted",
            self._own_handle,
            len(bitmaps),
            binding.input_array(numbers, np.uint32, "numbers"),
            binding.input_array(lengths, np.uint32, "lengths"),
            native().ffi.from_buffer("uint8_t[]", data),
            path=self._path,
        )

    def commit(self) -> None:
        """Make the change; when this fails the file is as before."""
        call("scx_appender_commit", self._own_handle, path=self._path)

    def close(self) -> None:
        """End the lock."""
        handle, self._handle = self._handle, None
        if handle is not None:
            native().ffi.release(handle)

    @property
    def _own_handle(self) -> CData:
        if self._handle is None:
            raise RuntimeError(f"{self._path}: the appender is closed")
        return self._handle
