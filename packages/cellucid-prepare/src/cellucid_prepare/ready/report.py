"""What was found of a file."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from cellucid_prepare._faults import Fault, Faults

PLACES_SHOWN_MAX = 3
PREPARE = "write it anew with cellucid-prepare"


class NotJudgedError(ValueError):
    """The file is none that can be judged, or too damaged for it."""


@dataclass(frozen=True)
class CheckReport:
    """What `check` found.

    `faults` are the reasons why a browser does not read the file, or not with few small requests;
    `notes` what could be better and does no harm. Each has a place, a problem and what mends it.
    """

    path: str
    container: str
    """"HDF5", "Zarr 2" or "Zarr 3", the last two also "in a zip"."""
    holds: str
    """"AnnData" or "MuData"."""
    n_cells: int
    n_genes: int
    faults: list[Fault] = field(default_factory=list)
    notes: list[Fault] = field(default_factory=list)

    @property
    def is_ready(self) -> bool:
        """Whether there is no fault."""
        return not self.faults

    def __bool__(self) -> bool:
        """See `is_ready`."""
        return self.is_ready

    def as_json(self) -> dict[str, Any]:
        """All of it as JSON values."""
        listed = {
            name: [
                {"where": fault.where, "problem": fault.problem, "mend": fault.mend}
                for fault in getattr(self, name)
            ]
            for name in ("faults", "notes")
        }
        return {
            "path": self.path,
            "container": self.container,
            "holds": self.holds,
            "n_cells": self.n_cells,
            "n_genes": self.n_genes,
            "is_ready": self.is_ready,
            **listed,
        }

    def __str__(self) -> str:
        size = f"{self.n_cells:,} cells x {self.n_genes:,} genes"
        head = f"{self.path}: {self.holds} of {size} in {self.container}"
        faults, notes = _merged(self.faults), _merged(self.notes)
        if not faults:
            lines = [f"{head}: ready for browsers"]
        else:
            count = f"{len(faults)} reason{'' if len(faults) == 1 else 's'}"
            lines = [f"{head}: not ready for browsers, for {count}"]
        lines += [f"  {line}" for line in faults]
        if notes:
            lines += ["  could be better:", *(f"    {line}" for line in notes)]
        return "\n".join(lines)


def _merged(found: list[Fault]) -> list[str]:
    """A line for each problem, with the places that share it."""
    places: dict[tuple[str, str], list[str]] = {}
    for fault in found:
        places.setdefault((fault.problem, fault.mend), []).append(fault.where)
    lines = []
    for (problem, mend), where in places.items():
        shown = ", ".join(where[:PLACES_SHOWN_MAX])
        if len(where) > PLACES_SHOWN_MAX:
            shown += f" and {len(where) - PLACES_SHOWN_MAX} more"
        if len(where) > 1:
            problem = _of_several(problem)
        lines.append(f"{shown}: {problem}" + (f"; {mend}" if mend else ""))
    return lines


def _of_several(problem: str) -> str:
    verb, space, rest = problem.partition(" ")
    return {"is": "are", "has": "have", "takes": "take"}.get(verb, verb) + space + rest


@dataclass
class Findings:
    """Faults and notes, as rules come upon them."""

    faults: Faults = field(default_factory=Faults)
    notes: Faults = field(default_factory=Faults)

    def fault(self, where: str, problem: str, mend: str = PREPARE) -> None:
        """A reason why the file is not ready."""
        self.faults.add(where, problem, mend)

    def note(self, where: str, problem: str, mend: str = "") -> None:
        """Something that could be better."""
        self.notes.add(where, problem, mend)
