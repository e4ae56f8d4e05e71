"""The report of a run: a table to read and JSON to keep."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.harness import Figure, Limit, Result


def format_number(value: float) -> str:
    """Three significant digits at least, thousands apart, no exponents for everyday sizes."""
    size = abs(value)
    if size >= 1e6:
        return f"{value / 1e6:,.1f} M" if size < 1e9 else f"{value / 1e9:,.2f} G"
    if size >= 1000 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.3g}" if size < 1 else f"{value:.2f}"


def format_result(result: Result) -> str:
    """A benchmark's figures as a table, then its checks and gaps."""
    rows = [_row(figure) for figure in result.figures]
    lines = [f"== {result.name}"]
    lines += _table(["", "median", "min", "max", "unit", "wanted", ""], rows)
    lines += [f"   checked: {check}" for check in result.checks]
    lines += [f"   without {name}: {reason}" for name, reason in result.skipped.items()]
    return "\n".join(lines)


def format_machine(machine: dict[str, Any], commit: str) -> str:
    """Two lines on what was measured where."""
    flags = " ".join(machine["cpu_flags"])
    return (
        f"{machine['cpu']}, {machine['cores']} cores, {machine['ram_gib']} GiB; "
        f"{machine['system']}, Python {machine['python']}, commit {commit}\n"
        f"flags: {flags}; load before: {machine['load_before']}"
    )


def write_json(
    path: Path, machine: dict[str, Any], commit: str, settings: Any, results: Sequence[Result]
) -> None:
    """Keep everything that was measured."""
    document = {
        "commit": commit,
        "machine": machine,
        "settings": settings,
        "benchmarks": [result.as_json() for result in results],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=2) + "\n")


def _row(figure: Figure) -> list[str]:
    spread = figure.spread
    several = spread.n > 1
    return [
        figure.name,
        format_number(spread.median),
        format_number(spread.low) if several else "",
        format_number(spread.high) if several else "",
        figure.unit,
        _wanted(figure.limit),
        {None: "", True: "met", False: "MISSED"}[figure.met]
        + (f"  {figure.note}" if figure.note else ""),
    ]


def _wanted(limit: Limit | None) -> str:
    if limit is None:
        return ""
    sign = ">=" if limit.kind == "at least" else "<="
    aim = "" if limit.aim is None else f" (aim {format_number(limit.aim)})"
    return f"{sign} {format_number(limit.value)}{aim}"


def _table(head: list[str], rows: list[list[str]]) -> list[str]:
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    right = {1, 2, 3}
    return [
        "   "
        + "  ".join(
            cell.rjust(width) if i in right else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in [head, *rows]
    ]
