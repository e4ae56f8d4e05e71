"""The text of Matrix Market files, plain or gzipped, parsed in pieces by scipy."""

from __future__ import annotations

import functools
import gzip
import inspect
import io
import re
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import IO, Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt

Entries: TypeAlias = tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], npt.NDArray[Any]]

# what banners call the numbers, and what they are here: scipy writes uint32 as unsigned-integer,
# and STARsolo fractions as float
FIELDS = {
    "integer": "integer",
    "unsigned-integer": "integer",
    "real": "real",
    "double": "real",
    "float": "real",
    "pattern": "pattern",
}
# scipy reads a number as far as it can and leaves the rest of the line, "0,5" as 0 for example, so
# that every line is looked at before
_SPACE = rb"[ \t]++"
_PLACE = rb"[ \t]*+\d++" + _SPACE + rb"\d++"
_WHOLE = _SPACE + rb"-?\d++"
_REAL = _SPACE + rb"-?(?:(?:\d++(?:\.\d*+)?|\.\d++)(?:[eE][-+]?\d++)?|(?i:nan|inf(?:inity)?))"
ENTRY_LINES = {
    field: re.compile(rb"(?:" + _PLACE + value + rb"[ \t\r]*+\n)*+")
    for field, value in (("integer", _WHOLE), ("real", _REAL), ("pattern", b""))
}
# characters that one entry takes, for sizing the pieces: "12345 1234567 1"
TYPICAL_ENTRY_BYTES = 14
PIECE_BYTES_AT_MOST = 1 << 24


@contextmanager
def open_text(path: Path) -> Iterator[IO[bytes]]:
    """The bytes of a text file, unpacked where its content is gzip."""
    with ExitStack() as stack:
        plain = stack.enter_context(path.open("rb"))
        packed = plain.read(2) == b"\x1f\x8b"
        plain.seek(0)
        if packed:
            yield cast("IO[bytes]", stack.enter_context(gzip.open(plain, "rb")))
        else:
            yield plain


def read_bytes(file: IO[bytes], n_bytes: int, path: Path) -> bytes:
    """The next bytes of the text; a gzip stream that ends early is a ValueError."""
    try:
        return file.read(n_bytes)
    except EOFError as error:
        raise ValueError(f"{path} is cut off: its gzip stream has no end") from error
    except (gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{path} is damaged: {error}") from error


def whole_text(file: IO[bytes], path: Path) -> str:
    """All of a small file as text."""
    content = read_bytes(file, -1, path)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is no UTF-8 text: {error}") from error


class MatrixMarketFile:
    """A sparse matrix as text: its size at once, its entries in pieces.

    Raises ValueError for anything but a general matrix of numbers in coordinates.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stack = ExitStack()
        self._header_lines = 0
        try:
            self._file = self._stack.enter_context(open_text(path))
            self.field = self._read_banner()
            self.n_rows, self.n_cols, self.n_entries = self._read_size()
        except BaseException:
            self._stack.close()
            raise

    def __enter__(self) -> MatrixMarketFile:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.close()

    def pieces(self, entries_at_most: int) -> Iterator[Entries]:
        """Yield rows, columns (both from 0) and values of consecutive entries.

        Raises
        ------
        ValueError
            There are more or fewer entries than announced, or a line that is none; the message
            names the line.
        """
        n_bytes = min(PIECE_BYTES_AT_MOST, max(64, entries_at_most * TYPICAL_ENTRY_BYTES))
        seen = 0
        for body in self._line_groups(n_bytes):
            n_lines = body.count(b"\n")
            if seen + n_lines > self.n_entries:
                raise ValueError(f"{self.path} announces {self.n_entries} entries but holds more")
            yield self._parsed(body, n_lines, seen)
            seen += n_lines
        if seen < self.n_entries:
            raise ValueError(
                f"{self.path} announces {self.n_entries} entries but holds {seen}: it is cut off"
            )

    def _line_groups(self, n_bytes: int) -> Iterator[bytes]:
        """The text in groups of whole lines, without empty ones."""
        rest = b""
        while piece := read_bytes(self._file, n_bytes, self.path):
            lines, newline, rest = (rest + piece).rpartition(b"\n")
            if newline:
                yield from _without_empty_lines(lines + newline)
        yield from _without_empty_lines(rest + b"\n")

    def _parsed(self, body: bytes, n_lines: int, lines_before: int) -> Entries:
        import scipy.io

        # some write whole numbers as 1e+05 in a file of integers, which scipy would take for 1
        as_text_of_reals = self.field == "integer" and any(
            mark in body for mark in (b"e", b"E", b".")
        )
        field = "real" if as_text_of_reals else self.field
        self._check_lines(body, field, lines_before)
        banner = f"%%MatrixMarket matrix coordinate {field} general\n"
        size = f"{self.n_rows} {self.n_cols} {n_lines}\n"
        try:
            text = io.BytesIO((banner + size).encode() + body)
            matrix: Any = scipy.io.mmread(text, **_mmread_options())
        except (ValueError, OverflowError) as error:
            raise ValueError(self._at_line(str(error), lines_before)) from error
        values = np.asarray(matrix.data)
        if as_text_of_reals:
            values = self._whole(values, lines_before)
        return matrix.row, matrix.col, values

    def _check_lines(self, body: bytes, field: str, lines_before: int) -> None:
        match = ENTRY_LINES[field].match(body)
        end = 0 if match is None else match.end()
        if end == len(body):
            return
        line = self._header_lines + lines_before + body.count(b"\n", 0, end) + 1
        text = body[end : end + 80].split(b"\n", 1)[0].decode("utf-8", errors="replace").strip()
        number = {"integer": " and a whole number", "pattern": ""}.get(field, " and a number")
        raise ValueError(
            f"{self.path}: about line {line}: {text!r} is no entry; a gene and a cell, counted "
            f"from 1,{number} are expected"
        )

    def _whole(self, values: npt.NDArray[Any], lines_before: int) -> npt.NDArray[Any]:
        fractions = np.flatnonzero(values != np.floor(values))
        if len(fractions):
            line = self._header_lines + lines_before + int(fractions[0]) + 1
            raise ValueError(
                f"{self.path}: about line {line}: {values[fractions[0]]} is no integer, which the "
                "first line promises"
            )
        return values.astype(np.int64)

    def _at_line(self, message: str, lines_before: int) -> str:
        """scipy's message, its line counted from the start of the file."""
        match = re.match(r"Line (\d+): (.*)", message)
        if match is None:
            return f"{self.path}: {message}"
        # scipy saw two lines before the first entry
        line = int(match.group(1)) - 2 + self._header_lines + lines_before
        return f"{self.path}: about line {line}: {match.group(2)}"

    def _read_line(self) -> bytes:
        try:
            line = self._file.readline(1 << 20)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise ValueError(f"{self.path} is cut off or damaged: {error}") from error
        self._header_lines += 1
        return line

    def _read_banner(self) -> str:
        words = self._read_line().decode("utf-8", errors="replace").lower().split()
        if len(words) != 5 or words[0] != "%%matrixmarket" or words[1] != "matrix":
            raise ValueError(
                f"{self.path} is no Matrix Market file: its first line must be like "
                "'%%MatrixMarket matrix coordinate integer general'"
            )
        layout, field, symmetry = words[2:]
        if layout != "coordinate":
            raise ValueError(
                f"{self.path} is a Matrix Market file with {layout!r} data; a count matrix has "
                "'coordinate' data. Load it with scipy.io.mmread and use from_anndata"
            )
        if field not in FIELDS or symmetry != "general":
            raise ValueError(
                f"{self.path} is a {symmetry} matrix of {field} entries; a count matrix is a "
                "general one of integer, real or pattern entries"
            )
        return FIELDS[field]

    def _read_size(self) -> tuple[int, int, int]:
        line = self._read_line()
        while line.startswith(b"%") or (line and not line.strip()):
            line = self._read_line()
        numbers = line.split()
        if len(numbers) != 3 or not all(number.isdigit() for number in numbers):
            raise ValueError(
                f"{self.path}: line {self._header_lines} must give rows, columns and entries; it "
                f"is {line[:80]!r}"
            )
        n_rows, n_cols, n_entries = (int(number) for number in numbers)
        return n_rows, n_cols, n_entries


@functools.cache
def _mmread_options() -> dict[str, Any]:
    """The class of the result, where scipy lets it be chosen: its default changes in 1.20."""
    import scipy.io

    known = inspect.signature(scipy.io.mmread).parameters
    return {"spmatrix": False} if "spmatrix" in known else {}


def _without_empty_lines(text: bytes) -> Iterator[bytes]:
    if text.startswith((b"\n", b"\r\n")) or b"\n\n" in text or b"\n\r\n" in text:
        text = b"".join(line for line in text.splitlines(keepends=True) if line.strip())
    if text:
        yield text
