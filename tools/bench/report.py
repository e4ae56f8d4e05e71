"""The report of a run: a table to read and JSON to keep."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.harness import Figure, Limit, Result

BUSY_LOAD = 0.5
"""A load average above this before the start: something else takes time from what is measured."""


def format_number(value: float) -> str:
    """Three significant digits at least, thousands apart, no exponents for everyday sizes."""
    size = abs(value)
    if size >= 1e6:
        return f"{value / 1e6:,.1f} M" if size < 1e9 else f"{value / 1e9:,.2f} G"
    if size >= 1000 or value == int(value):
        return f"{value:,.0f}"
    if size < 0.1:
        return f"{value:.3g}"
    return f"{value:.3f}" if size < 1 else f"{value:.2f}"


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
    load = machine["load_before"]
    busy = load is not None and load > BUSY_LOAD
    return (
        f"{machine['cpu']}, {machine['cores']} cores, {machine['ram_gib']} GiB; "
        f"{machine['system']}, Python {machine['python']}, commit {commit}\n"
        f"flags: {flags}; load before: {load}"
        + ("\nOther programs are running: the figures will be too low." if busy else "")
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


DOCS_BEGIN, DOCS_END = "<!-- figures:begin -->\n", "<!-- figures:end -->"


def update_docs(
    page: Path, machine: dict[str, Any], commit: str, results: Sequence[Result]
) -> None:
    """Replace the block of figures in the documentation page.

    Raises ValueError when the page has no such block; the page then stays as it is.
    """
    text = page.read_text(encoding="utf-8")
    before, begin, rest = text.partition(DOCS_BEGIN)
    _, end, after = rest.partition(DOCS_END)
    if not begin or not end:
        raise ValueError(f"{page} lacks the marks {DOCS_BEGIN.strip()} and {DOCS_END}")
    block = format_markdown(machine, commit, results)
    page.write_text(f"{before}{begin}{block}\n{end}{after}", encoding="utf-8")


def format_markdown(machine: dict[str, Any], commit: str, results: Sequence[Result]) -> str:
    """The machine, a table for each benchmark, and the versions of what was compared."""
    lines = [
        f"Measured at commit `{commit}` on: {machine['cpu']}, {machine['cores']} cores, "
        f"{machine['ram_gib']} GiB, {machine['system']}, Python {machine['python']}.",
    ]
    for result in results:
        lines += ["", f"### {result.name}", "", "| | median | min | max | unit | wanted |"]
        lines.append("|---|---:|---:|---:|---|---|")
        for figure in result.figures:
            *cells, state = _row(figure)
            cells[-1] += f" {state.lower()}" if state else ""
            lines.append(f"| {' | '.join(cells)} |")
        versions = _versions(result)
        if versions:
            lines += ["", f"Versions: {versions}."]
        for name, reason in result.skipped.items():
            lines += ["", f"Without {name}: {reason}."]
    return "\n".join(lines)


def _versions(result: Result) -> str:
    """The packages of all loaders, each version once."""
    found = {
        (name, version)
        for facts in result.facts.values()
        if isinstance(facts, dict)
        for name, version in facts.get("versions", {}).items()
    }
    return ", ".join(f"{name} {version}" for name, version in sorted(found))


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
