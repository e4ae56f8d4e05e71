"""How the bytes of an epoch are read, by the memory that is free."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scx_core import _memory
from scx_train.streams.order import RowRange, ShardGroups, ShardRows
from scx_train.streams.page_cache import Reading, RowByRow, available_bytes, reading_of
from scx_train.streams.sampling import OrderByLabel, WeightedDraws

STARTS = np.arange(0, 70_000, 10_000)


def groups(chosen: Any = None) -> ShardGroups:
    return ShardGroups(ShardRows(STARTS, chosen), group_size=2, seed=3, epoch=0)


@pytest.mark.parametrize(
    ("available", "expected"),
    [
        (None, Reading(whole=True, ahead=True, scattered=False)),
        (4_000_000, Reading(whole=True, ahead=True, scattered=False)),  # two groups take 4/3
        (3_000_000, Reading(whole=True, ahead=True, scattered=False)),
        (2_500_000, Reading(whole=True, ahead=False, scattered=False)),
        (1_400_000, Reading(whole=False, ahead=False, scattered=True)),
        (0, Reading(whole=False, ahead=False, scattered=True)),
    ],
)
def test_groups_are_read_as_a_whole_as_far_as_they_fit(
    available: int | None, expected: Reading
) -> None:
    # a group has 20,000 rows, which take 1.125 MB: three quarters of 1.5
    row_bytes = 56.25
    assert reading_of(groups(), row_bytes=row_bytes, available=available) == expected


@pytest.mark.parametrize(
    "order",
    [
        WeightedDraws(ShardRows(STARTS), np.ones(60_000), stream=7),
        OrderByLabel(groups(), np.arange(60_000) % 3),
    ],
    ids=["draws", "labels"],
)
def test_rows_from_anywhere_are_asked_for_by_batch(order: Any) -> None:
    fits = reading_of(order, row_bytes=100, available=8_000_000)
    assert fits.whole
    assert fits.scattered
    assert not reading_of(order, row_bytes=100, available=7_900_000).whole


def test_shards_that_are_left_out_have_their_rows_asked_for() -> None:
    few = np.r_[np.arange(0, 100), np.arange(10_000, 20_000)]
    assert reading_of(groups(few), row_bytes=1, available=None).scattered
    many = np.r_[np.arange(0, 200), np.arange(10_000, 20_000)]
    assert not reading_of(groups(many), row_bytes=1, available=None).scattered


def test_an_epoch_without_cells_needs_nothing() -> None:
    order = groups(np.empty(0, dtype=np.int64))
    assert reading_of(order, row_bytes=1, available=0).whole


def test_an_order_that_is_read_row_by_row_is_the_same_order() -> None:
    order = groups()
    single = RowByRow(order)
    assert len(single) == len(order) == 3
    for rows, expected in zip(single, order, strict=True):
        np.testing.assert_array_equal(rows, expected)
    assert order.ranges(0)[0] in [RowRange(start, start + 10_000) for start in STARTS[:-1]]
    assert single.ranges(0) == []


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that stands for the system's files, of a machine with 3000 KiB to give."""
    (tmp_path / "meminfo").write_text("MemTotal: 9 kB\nMemAvailable:    3000 kB\n")
    monkeypatch.setattr(_memory, "MACHINE", tmp_path / "meminfo")
    monkeypatch.setattr(_memory, "OWN_GROUPS", tmp_path / "own")
    monkeypatch.setattr(_memory, "CGROUPS", tmp_path / "groups")
    return tmp_path


def group(folder: Path, limit: str, usage: int, stat: str, *, names: tuple[str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / names[0]).write_text(f"{limit}\n")
    (folder / names[1]).write_text(f"{usage}\n")
    (folder / "memory.stat").write_text(stat)


SECOND = ("memory.max", "memory.current")
FIRST = ("memory.limit_in_bytes", "memory.usage_in_bytes")


def test_the_machine_says_what_is_available(system: Path) -> None:
    assert available_bytes() == 3_000 * 1024
    (system / "own").write_text("0::/a/b\n")  # of which nothing is to be seen
    assert available_bytes() == 3_000 * 1024


def test_nothing_is_known_where_the_system_does_not_say(system: Path) -> None:
    (system / "meminfo").unlink()
    assert available_bytes() is None


def test_the_narrowest_control_group_counts(system: Path) -> None:
    (system / "own").write_text("0::/a/b\n")
    cached = "anon 500\nactive_file 100\ninactive_file 200\nfile 400\n"
    group(system / "groups" / "a" / "b", "max", 900, cached, names=SECOND)
    assert available_bytes() == 3_000 * 1024
    group(system / "groups" / "a", "2000", 900, cached, names=SECOND)
    assert available_bytes() == 2_000 - (900 - 300)
    group(system / "groups" / "a" / "b", "700", 900, cached, names=SECOND)
    assert available_bytes() == 100
    group(system / "groups" / "a" / "b", "500", 900, cached, names=SECOND)
    assert available_bytes() == 0


def test_control_groups_of_the_first_kind_count_too(system: Path) -> None:
    (system / "own").write_text("7:cpu,cpuacct:/x\n5:memory:/docker/abc\n1:name=systemd:/\n")
    cached = "total_active_file 100\ntotal_inactive_file 200\n"
    # in the container its own group is the top
    group(system / "groups" / "memory", "5000", 1_000, cached, names=FIRST)
    assert available_bytes() == 5_000 - 700
