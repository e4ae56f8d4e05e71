"""Runs that other programs disturb are made again.

A program that takes one of two cores halves what two threads reach, and nothing in a figure tells.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from bench.harness import Result, Run, Sample

STAT = Path("/proc/stat")
IDLE_COLUMNS = (3, 4)  # idle, waiting for a disk
COLUMNS = 8  # the ones behind are parts of these
SHARE_MAX = 0.1
RESOLUTION_SECONDS = 0.03
TRIES_MAX = 8


class Undisturbed:
    """Wraps runs of this process, and remembers how far the kept ones were disturbed all the same.

    Where the system does not tell how busy it is, runs are as they were.
    """

    def __init__(self) -> None:
        self.share_worst: float | None = None

    def __call__(self, run: Run) -> Run:
        """The same run, made again as long as others take more than a tenth of a core meanwhile.

        The least disturbed of at most eight is kept.
        """

        def quiet_run() -> Sample:
            share, sample = _with_share(run)
            for _ in range(TRIES_MAX - 1):
                if share is None or share <= SHARE_MAX:
                    break
                again, other = _with_share(run)
                if again is not None and again < share:
                    share, sample = again, other
            if share is not None:
                self.share_worst = max(share, self.share_worst or 0.0)
            return sample

        return quiet_run

    def report(self, result: Result) -> None:
        """Say how far the figures were disturbed."""
        if self.share_worst is None:
            result.skipped["what other programs took"] = "the system does not tell"
        else:
            result.checks.append(f"other programs took at most {self.share_worst:.2f} of a core")


def _with_share(run: Run) -> tuple[float | None, Sample]:
    """What others took of a core while it ran; None where the system does not tell."""
    busy, own, start = _busy_seconds(), _own_seconds(), time.perf_counter()
    sample = run()
    seconds = time.perf_counter() - start
    after = _busy_seconds()
    if busy is None or after is None:
        return None, sample
    others = after - busy - (_own_seconds() - own)
    return max(0.0, others - RESOLUTION_SECONDS) / seconds, sample


def _busy_seconds() -> float | None:
    """What all cores have worked since the machine began."""
    try:
        line = STAT.read_text().partition("\n")[0]
    except OSError:
        return None
    ticks = [int(part) for part in line.split()[1 : 1 + COLUMNS]]
    busy = sum(ticks) - sum(ticks[column] for column in IDLE_COLUMNS)
    return busy / os.sysconf("SC_CLK_TCK")


def _own_seconds() -> float:
    times = os.times()
    return times.user + times.system
