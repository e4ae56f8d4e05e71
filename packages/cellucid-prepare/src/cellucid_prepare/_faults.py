"""Faults of the input, collected so that one error names all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

FAULTS_SHOWN_MAX = 20
NAMES_SHOWN = 5

Result = TypeVar("Result")


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong, where, and what mends it.

    `where` is a path such as ``obs['a']`` or the name of an argument; `n_cells` how many cells (or
    values) it concerns, where that can be counted.
    """

    where: str
    problem: str
    mend: str = ""
    n_cells: int | None = None

    def __str__(self) -> str:
        mend = f"; {self.mend}" if self.mend else ""
        return f"{self.where}: {self.problem}{mend}"


class PrepareError(ValueError):
    """The input cannot be written as it is. `faults` lists all that was found wrong with it."""

    def __init__(self, faults: list[Fault]) -> None:
        self.faults = faults
        if len(faults) == 1:
            super().__init__(f"{faults[0]}. Nothing was written.")
            return
        shown = [f"  {fault}" for fault in faults[:FAULTS_SHOWN_MAX]]
        if len(faults) > FAULTS_SHOWN_MAX:
            shown.append(f"  and {len(faults) - FAULTS_SHOWN_MAX} more")
        lines = "\n".join(shown)
        super().__init__(f"the input has {len(faults)} faults, nothing was written:\n{lines}")


class PrepareTypeError(PrepareError, TypeError):
    """As `PrepareError`, where something is of a wrong type or missing."""


class Refused(Exception):
    """A check gives up on one part of the input; its fault is in the list already."""


@dataclass
class Faults:
    """The faults found so far."""

    found: list[Fault] = field(default_factory=list)
    wrong_types: bool = False

    def add(self, where: str, problem: str, mend: str = "", *, n_cells: int | None = None) -> None:
        """Note a value that is wrong."""
        self.found.append(Fault(where, problem, mend, n_cells))

    def add_type(
        self, where: str, problem: str, mend: str = "", *, n_cells: int | None = None
    ) -> None:
        """Note something of a wrong type, or missing."""
        self.wrong_types = True
        self.add(where, problem, mend, n_cells=n_cells)

    def attempt(self, check: Callable[[], Result]) -> Result | None:
        """What `check` gives, None where it gave up on its part."""
        try:
            return check()
        except Refused:
            return None

    def raise_any(self) -> None:
        """Raise one error for everything that was found."""
        if not self.found:
            return
        kind = PrepareTypeError if self.wrong_types else PrepareError
        raise kind(self.found)


def some(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    shown = ", ".join(map(repr, names[:NAMES_SHOWN]))
    more = len(names) - NAMES_SHOWN
    return f"{shown} and {more:,} more" if more > 0 else shown


def plural(count: int, noun: str, verb: str = "") -> str:
    """``1 cell``, ``2 cells``; with a verb ("are", "have") ``1 cell is``, ``2 cells are``."""
    one = {"are": "is", "have": "has", "": ""}[verb]
    words = [f"{count:,}", noun if count == 1 else f"{noun}s", one if count == 1 else verb]
    return " ".join(words).rstrip()
