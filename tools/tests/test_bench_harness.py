"""The harness: order of runs, spreads, limits, and the report."""

import json
from pathlib import Path

import pytest

from bench import report
from bench.harness import Limit, Result, Sample, Spread, alternate, repeat


def test_runs_alternate_and_ratios_are_taken_in_pairs() -> None:
    order: list[str] = []
    seconds = iter([9.0, 9.0, 1.0, 2.0, 2.0, 8.0])

    def run(name: str) -> Sample:
        order.append(name)
        return Sample(10, next(seconds))

    comparison = alternate(lambda: run("A"), lambda: run("B"), 2)
    assert order == ["A", "B", "A", "B", "A", "B"]
    assert [sample.rate for sample in comparison.ours] == [10, 5]
    assert comparison.ratios == [2.0, 4.0]


def test_repeat_drops_the_warm_up() -> None:
    seconds = iter([100.0, 1.0, 2.0])
    assert [s.seconds for s in repeat(lambda: Sample(1, next(seconds)), 2)] == [1.0, 2.0]


def test_spread() -> None:
    spread = Spread.of([5.0, 1.0, 2.0, 4.0, 3.0])
    assert (spread.median, spread.low, spread.high) == (3.0, 1.0, 5.0)
    assert (spread.quartile_1, spread.quartile_3, spread.n) == (2.0, 4.0, 5)
    single = Spread.of([7.0])
    assert (single.quartile_1, single.median, single.quartile_3) == (7.0, 7.0, 7.0)
    with pytest.raises(ValueError, match="no figures"):
        Spread.of([])


def test_limits() -> None:
    assert Limit("at least", 5).met_by(5)
    assert not Limit("at least", 5).met_by(4.9)
    assert Limit("at most", 1.1).met_by(1.1)
    assert not Limit("at most", 1.1).met_by(1.2)


def test_report(tmp_path: Path) -> None:
    result = Result("codec")
    result.add("fast", [8.1e8, 9e8], "values/s", Limit("at least", 8e8, aim=1.2e9))
    result.add("large", 1.2, "x", Limit("at most", 1.1))
    result.skipped["peer"] = "no Python 3.12 found"
    text = report.format_result(result)
    assert "855.0 M" in text
    assert ">= 800.0 M (aim 1.20 G)" in text
    assert "MISSED" in text.splitlines()[3]
    assert "without peer: no Python 3.12 found" in text

    path = tmp_path / "out" / "bench.json"
    report.write_json(path, {"cores": 2}, "abc", {"quick": True}, [result])
    kept = json.loads(path.read_text())
    figures = kept["benchmarks"][0]["figures"]
    assert [figure["met"] for figure in figures] == [True, False]
    assert figures[0]["spread"]["median"] == pytest.approx(8.55e8)


@pytest.mark.parametrize(("load", "busy"), [(0.1, False), (3.0, True), (None, False)])
def test_a_busy_machine_is_pointed_out(load: float | None, *, busy: bool) -> None:
    machine = {"cpu": "C", "cores": 2, "ram_gib": 4.0, "system": "S", "python": "3.11"}
    text = report.format_machine({**machine, "cpu_flags": [], "load_before": load}, "abc")
    assert ("Other programs are running" in text) == busy


def test_docs_get_the_figures_and_keep_the_rest(tmp_path: Path) -> None:
    machine = {"cpu": "C", "cores": 2, "ram_gib": 4.0, "system": "S", "python": "3.11"}
    result = Result("train", facts={"scx": {"versions": {"numpy": "2.1"}}})
    result.add("scx", [10.0, 30.0], "cells/s", Limit("at least", 5))
    page = tmp_path / "page.md"
    page.write_text(f"before\n{report.DOCS_BEGIN}old\n{report.DOCS_END}\nafter\n")
    report.update_docs(page, machine, "abc", [result])
    text = page.read_text()
    assert text.startswith(f"before\n{report.DOCS_BEGIN}Measured at commit `abc`")
    assert text.endswith(f"{report.DOCS_END}\nafter\n")
    assert "| scx | 20 | 10 | 30 | cells/s | >= 5 met |" in text
    assert "numpy 2.1" in text
    assert "old" not in text
    bare = tmp_path / "bare.md"
    bare.write_text("nothing here")
    with pytest.raises(ValueError, match="lacks the marks"):
        report.update_docs(bare, machine, "abc", [result])
    assert bare.read_text() == "nothing here"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0123456, "0.0123"),
        (1.0362, "1.04"),
        (12.0, "12"),
        (71718.4, "71,718"),
        (8.1e8, "810.0 M"),
        (1.234e9, "1.23 G"),
        (0.0, "0"),
    ],
)
def test_numbers(value: float, text: str) -> None:
    assert report.format_number(value) == text
