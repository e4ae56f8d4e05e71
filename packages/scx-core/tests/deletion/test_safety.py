"""A crash, a full disk or another writer at any moment: the old file or the new one."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import scx_core
from scx_core import _deletion
from scx_core.native.container import FileWriter

HEADER_BYTES, SECTIONS_AT = 256, 4352


def states_on_the_way(before: bytes, after: bytes, rng: np.random.Generator) -> list[bytes]:
    """What a crash may leave: the tail in part, then the root catalog in part, then all but the
    header. The header is less than a sector."""
    end = len(before)
    states = [before]
    cuts = {end + 1, len(after) - 1, len(after), *rng.integers(end, len(after), 20).tolist()}
    states += [before[:SECTIONS_AT] + after[SECTIONS_AT:cut] for cut in sorted(cuts)]
    # the pages of a file that has grown may come to the medium after its length
    states.append(before + bytes(len(after) - end))
    for cut in sorted({257, 300, SECTIONS_AT, *rng.integers(256, SECTIONS_AT, 10).tolist()}):
        states.append(before[:HEADER_BYTES] + after[HEADER_BYTES:cut] + before[cut:SECTIONS_AT])
        states[-1] += after[SECTIONS_AT:]
    states.append(after)
    return states


def test_every_state_on_the_way_is_the_old_file_or_the_new_one(
    path: Path, check: Callable[[Path], None], tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    for already, rows in (([], [1, 40]), ([1, 40], [2])):
        before = path.read_bytes()
        scx_core.mark_deleted(path, rows)
        after = path.read_bytes()
        crashed = tmp_path / "crashed.scx"
        for state in states_on_the_way(before, after, rng):
            crashed.write_bytes(state)
            check(crashed)
            deleted = scx_core.open(crashed).deleted_rows.tolist()
            assert deleted == (sorted([*already, *rows]) if state == after else already)
            # and what was left lying there is no obstacle
            assert scx_core.mark_deleted(crashed, [77]) == 1
            check(crashed)
            assert scx_core.open(crashed).deleted_rows.tolist() == sorted([*deleted, 77])


MARKING = """
import sys
import scx_core
first = int(sys.argv[2])
scx_core.mark_deleted(sys.argv[1], [first])
print("ready", flush=True)
for row in range(first, 100, 2):
    scx_core.mark_deleted(sys.argv[1], [row])
"""


def test_killed_processes_leave_a_good_file(path: Path, check: Callable[[Path], None]) -> None:
    rng = np.random.default_rng(0)
    n_deleted = 0
    for _ in range(5):
        arguments = [sys.executable, "-c", MARKING, str(path), "0"]
        process = subprocess.Popen(arguments, stdout=subprocess.PIPE)
        assert process.stdout is not None and process.stdout.readline()
        time.sleep(rng.uniform(0.005, 0.06))
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=60)
        process.stdout.close()
        check(path)
        deleted = scx_core.open(path).deleted_rows
        assert len(deleted) >= n_deleted
        assert deleted.tolist() == list(range(0, 2 * len(deleted), 2))
        n_deleted = len(deleted)
    assert n_deleted > 0


def test_two_processes_at_once_lose_nothing(path: Path, check: Callable[[Path], None]) -> None:
    processes = [
        subprocess.Popen([sys.executable, "-c", MARKING, str(path), start], stdout=subprocess.PIPE)
        for start in ("0", "1")
    ]
    for process in processes:
        process.communicate(timeout=120)
        assert process.returncode == 0
    check(path)
    assert scx_core.open(path).deleted_rows.tolist() == list(range(100))
    assert scx_core.read(path).shape == (0, 30)


def test_a_lock_that_is_never_given_back_is_an_error(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_deletion, "BUSY_SECONDS_MAX", 0.1)
    writer = FileWriter.change(path)
    with pytest.raises(TimeoutError, match="another process changes"):
        scx_core.mark_deleted(path, [1])
    writer.close()
    assert scx_core.mark_deleted(path, [1]) == 1


def test_whoever_has_the_file_open_sees_the_old_content(path: Path) -> None:
    old = scx_core.open(path)
    scx_core.mark_deleted(path, [0, 1])
    assert old.n_obs == 100 and old.X is not None and old.X.shape[0] == 100
    assert old.obs["number"].tolist() == list(range(100))
    assert old.find_damage(deep=True) == []
    middle = scx_core.open(path)
    scx_core.mark_deleted(path, [2])
    assert middle.n_obs == 98 and middle.find_damage(deep=True) == []
    assert scx_core.open(path).n_obs == 97


def test_a_full_disk_leaves_the_old_file(path: Path, check: Callable[[Path], None]) -> None:
    before = path.read_bytes()
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    old_handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 100, limit[1]))
        with pytest.raises(OSError, match="too large"):
            scx_core.mark_deleted(path, [0, 1])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        signal.signal(signal.SIGXFSZ, old_handler)
    assert path.read_bytes() == before
    check(path)


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
def test_a_file_that_may_not_be_written_to(path: Path) -> None:
    path.chmod(0o444)
    with pytest.raises(PermissionError):
        scx_core.mark_deleted(path, [0])


def test_descriptors_are_given_back(path: Path) -> None:
    folder = Path("/proc/self/fd")
    if not folder.is_dir():
        pytest.skip("no list of descriptors")
    scx_core.mark_deleted(path, [0])
    before = len(list(folder.iterdir()))
    for row in range(1, 20):
        scx_core.mark_deleted(path, [row])
    assert len(list(folder.iterdir())) == before
