"""Errors of several files, or of several columns, of which the user is told at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from scx_core._errors import CorruptFileError, NameNotFoundError

Read = TypeVar("Read")

KINDS = (CorruptFileError, FileNotFoundError, OSError, KeyError, ValueError)


class Faults:
    """What is wrong with files, kept until all of them have been looked at."""

    def __init__(self) -> None:
        self._errors: list[Exception] = []

    @contextmanager
    def kept(self) -> Iterator[None]:
        """In it an error about a file is kept instead of raised."""
        try:
            yield
        except KINDS as error:
            self._errors.append(error)

    def raise_kept(self) -> None:
        """Raise what was kept.

        A single error is raised as it is. Several become one of the kind of the first, which has
        the messages of all.
        """
        if not self._errors:
            return
        first = self._errors[0]
        if len(self._errors) == 1:
            raise first
        texts = dict.fromkeys(
            str(error.args[0]) if isinstance(error, KeyError) else str(error)
            for error in self._errors
        )
        kind = next(kind for kind in KINDS if isinstance(first, kind))
        # Python shows the message of a plain KeyError as a literal, without its line breaks.
        raise (NameNotFoundError if kind is KeyError else kind)("\n".join(texts)) from first


def each_of(names: Iterable[str], read: Callable[[str], Read]) -> dict[str, Read]:
    """What is read for each name; raises as `Faults.raise_kept`."""
    result, faults = {}, Faults()
    for name in names:
        with faults.kept():
            result[name] = read(name)
    faults.raise_kept()
    return result
