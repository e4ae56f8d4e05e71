"""Room on the disk, asked for before HDF5 writes.

HDF5 may crash the process when it cannot write what it still holds as a file is closed. So a full
disk or a limit of file size has to be met by a call of our own, while HDF5 still has room to close.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

# for what HDF5 holds back, and its metadata at the close
RESERVE_BYTES = 1 << 20
# one question for many small writes
STEP_BYTES = 16 << 20

_UNSUPPORTED = frozenset({errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS, errno.ENODEV})


class Room:
    """How far the file at `path` can grow; makes the file if it is missing."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._is_made = False
        self._known_end = 0
        self._filled_end = 0
        self._can_ask = hasattr(os, "posix_fallocate")

    def need(self, end: int) -> None:
        """Make sure that the file can have `end` bytes and the reserve.

        The file keeps its size. Space is asked for and given back at once: HDF5 alone decides
        where its file ends.

        Raises
        ------
        OSError
            There is no such room.
        """
        end += RESERVE_BYTES
        if not self._can_ask or end <= self._known_end:
            return
        try:
            self._ask(end + STEP_BYTES)
        except OSError:
            self._ask(end)

    def _ask(self, end: int) -> None:
        # made once: a file that is gone was taken away by another writer of the same output
        made, self._is_made = self._is_made, True
        descriptor = os.open(self._path, os.O_RDWR | (0 if made else os.O_CREAT), 0o666)
        try:
            size = os.fstat(descriptor).st_size
            # holes that HDF5 left since the last time are filled too
            start = min(size, self._filled_end)
            try:
                os.posix_fallocate(descriptor, start, end - start)
            except OSError as error:
                if error.errno not in _UNSUPPORTED:
                    raise
                self._can_ask = False
            finally:
                os.ftruncate(descriptor, size)
        finally:
            os.close(descriptor)
        self._known_end, self._filled_end = end, size
