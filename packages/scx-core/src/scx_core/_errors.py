"""Exceptions: what the native library reports, as Python's own kinds of errors."""

from __future__ import annotations

import errno as errno_numbers
import os
import re
from dataclasses import dataclass, replace


class CorruptFileError(ValueError):
    """A file is damaged or cut off: it contradicts itself, a checksum, or its own length.

    Attributes
    ----------
    path
        The file, or None when it is not known.
    section
        Name of the damaged section, or None.
    shard
        Index of the damaged shard in its matrix, or None.
    row
        Physical row in the file, or None.
    """

    def __init__(
        self,
        message: str,
        *,
        path: str | None = None,
        section: str | None = None,
        shard: int | None = None,
        row: int | None = None,
    ) -> None:
        super().__init__(message)
        self.path = path
        self.section = section
        self.shard = shard
        self.row = row

    def __str__(self) -> str:
        places = [
            self.path,
            None if self.section is None else f"section {self.section}",
            None if self.shard is None else f"shard {self.shard}",
            None if self.row is None else f"row {self.row}",
        ]
        where = ", ".join(place for place in places if place is not None)
        message = str(self.args[0])
        return f"{where}: {message}" if where else message

    def __reduce__(self) -> tuple[object, ...]:
        place = (self.path, self.section, self.shard, self.row)
        return (_rebuild, (self.args[0], *place))


def _rebuild(
    message: str, path: str | None, section: str | None, shard: int | None, row: int | None
) -> CorruptFileError:
    return CorruptFileError(message, path=path, section=section, shard=shard, row=row)


@dataclass(frozen=True)
class Failure:
    """What a failing call of the native library left behind."""

    status: int
    message: str
    os_error: int = 0
    section: str | None = None
    shard: int | None = None
    row: int | None = None


HDF5_SHOWN = r"'\x89HDF'"
"""The first bytes of an HDF5 file, as messages show them."""

# path_bytes_max of quoted.zig
PATH_BYTES_SHOWN = 128

# the numbers of scx.h
BAD_ARGUMENT = 1
OUT_OF_RANGE = 2
UNSUPPORTED = 3
TRUNCATED = 4
CORRUPT = 5
IO = 6
NO_MEMORY = 7
LIMIT = 8
CLOSED = 9
WRONG_PROCESS = 10
NOT_FOUND = 11
TIMEOUT = 12
EXISTS = 13
BUSY = 14


class NameNotFoundError(KeyError):
    """There is nothing of a name: a KeyError whose message is text, without quotes around it."""

    def __str__(self) -> str:
        return str(self.args[0])


class FileBusyError(TimeoutError):
    """Another process changes the file, or has changed it since it was opened."""


_PLAIN: dict[int, type[Exception]] = {
    BAD_ARGUMENT: ValueError,
    OUT_OF_RANGE: IndexError,
    UNSUPPORTED: ValueError,
    NO_MEMORY: MemoryError,
    LIMIT: RuntimeError,
    CLOSED: RuntimeError,
    WRONG_PROCESS: RuntimeError,
    NOT_FOUND: NameNotFoundError,
    TIMEOUT: TimeoutError,
    BUSY: FileBusyError,
}


def exception_for(failure: Failure, path: str | None) -> Exception:
    """The exception to raise for a failed call; `path` is the file that it was about."""
    failure = _without_repeats(failure, path)
    if failure.status in (TRUNCATED, CORRUPT):
        return CorruptFileError(
            failure.message,
            path=path,
            section=failure.section,
            shard=failure.shard,
            row=failure.row,
        )
    if failure.status == EXISTS:
        return FileExistsError(errno_numbers.EEXIST, failure.message, path)
    if failure.status == IO:
        # OSError picks the subclass, such as FileNotFoundError, by the number
        return OSError(failure.os_error or errno_numbers.EIO, failure.message, path)
    message = failure.message if path is None else f"{os.fspath(path)}: {failure.message}"
    return _PLAIN.get(failure.status, RuntimeError)(message)


def _without_repeats(failure: Failure, path: str | None) -> Failure:
    """The failure with a message that leaves out what the exception itself will say."""
    message = re.sub(r" \(errno \d+\)$", "", failure.message)
    if path is not None:
        shown = _as_the_library_shows(path)
        message = message.removeprefix(f"{shown} ").replace(f" {shown}", "", 1)
    if message.startswith("not an .scx file") and HDF5_SHOWN in message:
        message += (
            ", as HDF5 does: convert it first, with scx_core.from_h5ad, from_h5mu or from_10x, or "
            "`scx convert`"
        )
    return replace(failure, message=message)


def _as_the_library_shows(path: str) -> str:
    """A path in its messages, which are ASCII without backslashes and have room for so much."""
    raw = os.fsencode(path)
    text = "".join(
        chr(byte) if 0x20 <= byte < 0x7F and byte != ord("\\") else f"\\x{byte:02x}"
        for byte in raw[:PATH_BYTES_SHOWN]
    )
    return f"'{text}...'" if len(raw) > PATH_BYTES_SHOWN else f"'{text}'"
