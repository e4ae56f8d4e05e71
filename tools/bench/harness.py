"""Measuring and comparing: alternated runs, medians with their spread, ratios within pairs.

A *run* is a function that does some work and returns a `Sample`: how much it did, and in how many
seconds. Whatever is set-up happens before, outside the clock. Two runs are compared by alternating
them (A B A B ...): each B stands beside the A before it, so a change of the machine's mood hits
both, and the ratio of the two is taken pair by pair.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal


@dataclass(frozen=True)
class Sample:
    """One run: units of work done (cells, stored values) and the seconds that it took."""

    work: float
    seconds: float

    @property
    def rate(self) -> float:
        return self.work / self.seconds


Run = Callable[[], Sample]


@dataclass(frozen=True)
class Spread:
    """The middle of several figures, and how far they lie apart."""

    median: float
    low: float
    high: float
    quartile_1: float
    quartile_3: float
    n: int

    @classmethod
    def of(cls, figures: Sequence[float]) -> Spread:
        if not figures:
            raise ValueError("no figures to summarise")
        quartiles = [figures[0]] * 3
        if len(figures) > 1:
            quartiles = statistics.quantiles(figures, n=4, method="inclusive")
        return cls(
            statistics.median(figures),
            min(figures),
            max(figures),
            quartiles[0],
            quartiles[2],
            len(figures),
        )


@dataclass(frozen=True)
class Limit:
    """What a figure has to reach: at least, or at most, `value`."""

    kind: Literal["at least", "at most"]
    value: float
    aim: float | None = None

    def met_by(self, figure: float) -> bool:
        return figure >= self.value if self.kind == "at least" else figure <= self.value


@dataclass(frozen=True)
class Figure:
    """A line of the report."""

    name: str
    spread: Spread
    unit: str
    limit: Limit | None = None
    note: str = ""

    @property
    def met(self) -> bool | None:
        return None if self.limit is None else self.limit.met_by(self.spread.median)


@dataclass
class Result:
    """What a benchmark gives back."""

    name: str
    figures: list[Figure] = field(default_factory=list)
    checks: list[str] = field(default_factory=list)
    """What was compared with the truth, and came out equal."""
    skipped: dict[str, str] = field(default_factory=dict)
    """Peers (or figures) that are missing, and why."""
    facts: dict[str, Any] = field(default_factory=dict)
    """Versions, sizes, settings."""

    def add(
        self,
        name: str,
        figures: float | Sequence[float] | Spread,
        unit: str,
        limit: Limit | None = None,
        note: str = "",
    ) -> None:
        """Add a figure, or the spread of several."""
        if isinstance(figures, int | float):
            figures = [figures]
        spread = figures if isinstance(figures, Spread) else Spread.of(figures)
        self.figures.append(Figure(name, spread, unit, limit, note))

    def as_json(self) -> dict[str, Any]:
        plain = asdict(self)
        for line, figure in zip(plain["figures"], self.figures, strict=True):
            line["met"] = figure.met
        return plain


@dataclass(frozen=True)
class Comparison:
    """Alternated runs of two subjects."""

    ours: list[Sample]
    theirs: list[Sample]

    @property
    def ratios(self) -> list[float]:
        """Our rate over theirs, pair by pair."""
        return [a.rate / b.rate for a, b in zip(self.ours, self.theirs, strict=True)]


def timed(work: float, function: Callable[[], Any]) -> Sample:
    """Run the function once under the clock."""
    start = time.perf_counter()
    function()
    return Sample(work, time.perf_counter() - start)


def repeat(run: Run, n: int, *, warm_up: int = 1) -> list[Sample]:
    """Run it n times, after runs that do not count."""
    for _ in range(warm_up):
        run()
    return [run() for _ in range(n)]


def alternate(ours: Run, theirs: Run, n_pairs: int, *, warm_up: int = 1) -> Comparison:
    """Run the two in turn, n_pairs times, after a turn that does not count."""
    for _ in range(warm_up):
        ours()
        theirs()
    pairs = [(ours(), theirs()) for _ in range(n_pairs)]
    return Comparison([a for a, _ in pairs], [b for _, b in pairs])
