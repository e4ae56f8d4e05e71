"""What stands for parts of an input that cannot be read, until it is known who wants them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

from scx_core.sources.base import CsrBlock, DenseBlock, IndexDtypes, MatrixForm


class UnknownEncodingError(ValueError):
    """Nobody here knows how an element is encoded; it may be as sound as can be."""


class UnreadableEntry:
    """An entry of uns: it is left out as one that cannot be stored.

    Attributes
    ----------
    why_unstorable
        The end of a sentence about it.
    """

    def __init__(self, reason: object) -> None:
        self.why_unstorable = f"cannot be read: {reason}"


@dataclass(frozen=True)
class UnreadableMatrix:
    """A matrix: whatever is asked of it raises the error, which says how to do without it.

    Attributes
    ----------
    error
        Why it cannot be read.
    name
        What `skip` calls it.
    """

    error: ValueError
    name: str

    @property
    def shape(self) -> tuple[int, int]:
        """Raises the error, as do all others."""
        self._fail()

    @property
    def dtype(self) -> Any:
        self._fail()

    @property
    def form(self) -> MatrixForm:
        self._fail()

    @property
    def index_dtypes(self) -> IndexDtypes | None:
        self._fail()

    def row_blocks(self, block_bytes: int) -> Iterator[CsrBlock | DenseBlock]:
        self._fail()

    def _fail(self) -> NoReturn:
        said = str(self.error).rstrip(".")
        raise ValueError(f"{said}; or leave it out, with skip={self.name!r}") from self.error
