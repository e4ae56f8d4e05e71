"""A new HDF5 file, filled or given up in a way that HDF5 survives."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import h5py


@contextmanager
def new_hdf5(hidden: Path, target: Path, *, user_block_bytes: int = 0) -> Iterator[h5py.File]:
    """Open `hidden` for writing; `target` is what a message calls it.

    HDF5 crashes the process, a little later, when it cannot write what it still holds at the close
    of a dataset or of the file, because the disk is full. So datasets hold nothing back, and a
    failure gives the space of the file back before it is closed: what is written into the emptied
    file nobody reads.

    Raises
    ------
    OSError
        The system refuses to write, with its number and `target`.
    """
    file = _create(hidden, user_block_bytes)
    try:
        yield file
        file.flush()
    except BaseException as error:
        with suppress(OSError):
            os.truncate(hidden, 0)
        with suppress(Exception):
            file.close()
        number = _refusal(error)
        if number is None:
            raise
        # h5py's own text is long and names the hidden file
        reason = f"cannot be written: {os.strerror(number)}"
        raise OSError(number, reason, os.fspath(target)) from error
    file.close()


def _create(path: Path, user_block_bytes: int) -> h5py.File:
    import h5py

    access: Any = h5py.h5p.create(h5py.h5p.FILE_ACCESS)
    access.set_fclose_degree(h5py.h5f.CLOSE_STRONG)
    access.set_sieve_buf_size(0)
    slots, _, preemption = access.get_cache()[1:]
    access.set_cache(0, slots, 0, preemption)
    creation: Any = h5py.h5p.create(h5py.h5p.FILE_CREATE)
    creation.set_userblock(user_block_bytes)
    identifier = h5py.h5f.create(os.fsencode(path), h5py.h5f.ACC_TRUNC, creation, access)
    return h5py.File(identifier)


def _refusal(error: BaseException) -> int | None:
    """The number that the system gave HDF5, whichever way h5py tells it; None for other errors."""
    if isinstance(error, OSError) and error.filename is None and error.errno:
        return error.errno
    match = re.search(r"\berrno = (\d+)", str(error)) if isinstance(error, RuntimeError) else None
    return None if match is None else int(match[1])
