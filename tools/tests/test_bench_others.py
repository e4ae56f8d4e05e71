"""Runs beside other programs: made again, and the least disturbed kept."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench import others
from bench.harness import Result, Sample
from bench.others import Undisturbed


def kept_of(monkeypatch: pytest.MonkeyPatch, shares: list[float]) -> list[float]:
    """Which of several runs of a second is kept, and the reported share, beside others' shares."""
    seconds, busy = 0.0, 0.0
    monkeypatch.setattr(others, "_busy_seconds", lambda: busy)
    monkeypatch.setattr(others, "_own_seconds", lambda: 2 * seconds)
    monkeypatch.setattr(others.time, "perf_counter", lambda: seconds)

    def runs() -> Iterator[Sample]:
        nonlocal seconds, busy
        for number, share in enumerate(shares):
            seconds += 1
            busy += 2 + share + others.RESOLUTION_SECONDS
            yield Sample(number, 1.0)

    left = runs()
    quiet = Undisturbed()
    run = quiet(lambda: next(left))
    kept = run().work
    result = Result("test")
    quiet.report(result)
    return [kept, float(result.checks[0].split()[-4])]


def test_a_run_alone_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    assert kept_of(monkeypatch, [0.05]) == [0, 0.05]


def test_a_disturbed_run_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    assert kept_of(monkeypatch, [0.9, 0.5, 0.0]) == [2, 0.0]


def test_the_least_disturbed_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    shares = [0.9, 0.5, 0.3, 0.4, 0.6, 0.7, 0.8, 0.9]
    assert kept_of(monkeypatch, shares) == [2, 0.3]


def test_where_the_system_does_not_tell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(others, "STAT", tmp_path / "missing")
    quiet, result = Undisturbed(), Result("test")
    assert quiet(lambda: Sample(3, 1.0))().work == 3
    quiet.report(result)
    assert not result.checks
    assert list(result.skipped.values()) == ["the system does not tell"]


@pytest.mark.skipif(not others.STAT.exists(), reason="as Linux counts")
def test_the_machine_has_worked_at_least_as_long_as_this_process() -> None:
    busy = others._busy_seconds()
    assert busy is not None
    assert busy + 1 > others._own_seconds() > 0
