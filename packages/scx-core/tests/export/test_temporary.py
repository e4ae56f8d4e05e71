"""Temporary outputs: which are left over, and which have a writer that lives."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from scx_core import _locks, _machine, _temporary
from scx_core._locks import Lock, held_lock
from scx_core._temporary import TemporaryNames, working_folder

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="locks and signals of POSIX")

HOLDS = """
import sys, time
from pathlib import Path
from scx_core._temporary import working_folder
with working_folder(Path(sys.argv[1]), ".work-") as folder:
    (folder / "something").write_text("large")
    print(folder.name, flush=True)
    time.sleep(60)
"""

FORKS = """
import os, sys
from pathlib import Path
from scx_core._locks import Lock, held_lock
from scx_core._temporary import working_folder
parent = Path(sys.argv[1])
with working_folder(parent, ".w-") as folder, held_lock(parent / "lock"):
    before = set(os.listdir(parent))
    child = os.fork()
    if child == 0:
        sys.exit(0)  # through the ends of both blocks
    assert os.waitpid(child, 0)[1] == 0
    assert set(os.listdir(parent)) == before and len(before) == 3
    with held_lock(parent / "lock") as held:
        assert held is Lock.TAKEN_BY_ANOTHER
"""


@contextmanager
def holder(parent: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A process with a working folder, and the folder's name."""
    command = [sys.executable, "-c", HOLDS, str(parent)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_what_a_killed_process_left_goes_and_what_is_used_stays(tmp_path: Path) -> None:
    with holder(tmp_path) as (killed, dead), holder(tmp_path) as (running, alive):
        killed.kill()
        killed.wait()
        (tmp_path / ".work-mine").mkdir()  # without a lock beside it: nobody knows whose it is
        assert {dead, f"{dead}.lock"} <= names(tmp_path)
        with working_folder(tmp_path, ".work-") as folder:
            there = {alive, f"{alive}.lock", folder.name, f"{folder.name}.lock", ".work-mine"}
            assert names(tmp_path) == there
            assert (tmp_path / alive / "something").exists()
        assert names(tmp_path) == {alive, f"{alive}.lock", ".work-mine"}
        running.send_signal(signal.SIGINT)
        running.wait()
    assert names(tmp_path) == {".work-mine"}  # and Ctrl-C leaves nothing


def test_folders_of_one_process_do_not_disturb_each_other(tmp_path: Path) -> None:
    with working_folder(tmp_path, ".w-") as one, working_folder(tmp_path, ".w-") as two:
        assert one != two
        assert one.is_dir() and two.is_dir()
    assert names(tmp_path) == set()


def left_by_a_killed_process(folder: Path, *, tag: str | None = None, age: float = 0) -> Path:
    """A file and its lock, as a process on the machine `tag` would leave them."""
    stem = folder / f".out.{tag or _machine.machine_tag()}00000001"
    for suffix in (".lock", ".partial"):
        path = stem.with_name(stem.name + suffix)
        path.touch()
        os.utime(path, (time.time() - age,) * 2)
    return stem.with_name(f"{stem.name}.partial")


def cleared(folder: Path) -> set[str]:
    TemporaryNames(folder, ".out.", (".partial",)).clear_left()
    return names(folder)


def test_without_locks_nothing_is_left_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fcntl

    def refused(*_arguments: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    left_by_a_killed_process(tmp_path)
    before = names(tmp_path)
    writing = TemporaryNames(tmp_path, ".out.", (".partial",))
    with monkeypatch.context() as patch:
        patch.setattr(fcntl, "flock", refused)
        assert cleared(tmp_path) == before
        with writing.writer() as stem:
            mine = stem.with_name(f"{stem.name}.partial")
            mine.touch()
            # a lock that is not held would be taken for that of a process that has ended
            assert names(tmp_path) == before | {mine.name}
            patch.undo()
            assert cleared(tmp_path) == {mine.name}
        assert names(tmp_path) == set()
    with monkeypatch.context() as patch, held_lock(tmp_path / "lock") as held:
        assert held is Lock.HELD
        patch.setattr(fcntl, "flock", refused)
        with held_lock(tmp_path / "other") as other:
            assert other is Lock.UNAVAILABLE and names(tmp_path) == {"lock"}


MOUNTS = """\
22 1 254:0 / / rw,relatime - ext4 /dev/vda1 rw,discard
30 22 0:50 / {folder} rw,relatime shared:1 - {kind} {source} rw,vers=3,{options}
31 22 0:51 / /elsewhere rw - nfs4 host:/elsewhere rw,local_lock=none
"""


@pytest.mark.parametrize(
    ("kind", "source", "options", "age", "goes"),
    [
        ("nfs4", "host:/data", "hard,local_lock=none,addr=10.0.0.1", 0, True),
        ("nfs", "host:/data", "hard,nolock,local_lock=all", 1e9, False),
        ("nfs", "host:/data", "hard,local_lock=flock", 1e9, False),
        ("ceph", "10.0.0.1:/", "acl", 0, True),
        ("lustre", "10.0.0.1@tcp:/l", "flock,lazystatfs", 0, True),
        ("lustre", "10.0.0.1@tcp:/l", "localflock", 1e9, False),
        ("cifs", "//host/data", "nobrl", 1e9, False),
        ("cifs", "//host/data", "cache=strict", 0, True),
        ("fuse.sshfs", "host:", "allow_other", 1e9, False),
        ("virtiofs", "share", "relatime", 1e9, False),
        # a disk: what another machine has of it, it may write at this moment; but what is older
        # than the last start of this machine is of the time before
        ("ext4", "/dev/vdb1", "discard", 0, False),
        ("ext4", "/dev/vdb1", "discard", 1e9, True),
    ],
)
def test_what_another_machine_made(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    source: str,
    options: str,
    age: float,
    goes: bool,
) -> None:
    folder = tmp_path / "a folder"
    folder.mkdir()
    escaped = str(folder).replace(" ", "\\040")
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        MOUNTS.format(folder=escaped, kind=kind, source=source, options=options), "utf-8"
    )
    statistics = tmp_path / "stat"
    statistics.write_text(f"cpu 1 2 3\nbtime {int(time.time()) - 1000}\nprocesses 1\n")
    monkeypatch.setattr(_machine, "MOUNTS", mounts)
    monkeypatch.setattr(_machine, "STATISTICS", statistics)
    left_by_a_killed_process(folder, tag="00000000", age=age)
    before = names(folder)
    assert cleared(folder) == (set() if goes else before)
    left_by_a_killed_process(folder, age=age)
    assert cleared(folder) == (set() if goes else before)  # what this machine left goes anyhow
    # where nothing is known of mounts, and of this machine's start
    monkeypatch.setattr(_machine, "MOUNTS", tmp_path / "nothing")
    monkeypatch.setattr(_machine, "STATISTICS", tmp_path / "nothing")
    left_by_a_killed_process(folder, tag="00000000", age=age)
    assert cleared(folder) == before


def test_a_machine_has_one_tag() -> None:
    code = "from scx_core._machine import machine_tag; print(machine_tag())"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert other.stdout.strip() == _machine.machine_tag()
    assert len(_machine.machine_tag()) == 8


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_fork_removes_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-c", FORKS, str(tmp_path)]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 0 and done.stderr == ""
    assert names(tmp_path) == set()


def test_what_cannot_be_removed_is_for_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writing = TemporaryNames(tmp_path, ".out.", (".partial",))
    with monkeypatch.context() as patch:
        patch.setattr(_temporary, "remove", lambda path: None)
        with writing.writer() as stem:
            stem.with_name(f"{stem.name}.partial").touch()
        assert len(names(tmp_path)) == 2
    assert cleared(tmp_path) == set()


def test_a_lock_is_held_by_one_at_a_time(tmp_path: Path) -> None:
    """Also while the file of the lock comes and goes."""
    path, inside, most, turns = tmp_path / "lock", 0, 0, 0
    counting, end = threading.Lock(), time.monotonic() + 1

    def work() -> None:
        nonlocal inside, most, turns
        while time.monotonic() < end:
            with held_lock(path) as held:
                if held is not Lock.HELD:
                    continue
                with counting:
                    inside += 1
                    most, turns = max(most, inside), turns + 1
                time.sleep(0)
                with counting:
                    inside -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1
    assert turns > 10
    assert names(tmp_path) == set()


def test_a_folder_where_nothing_can_be_made_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    refused = pytest.raises(OSError, match="no file can be made in it")
    with refused as error, working_folder(missing, ".work-"):
        pass
    assert error.value.filename == str(missing)


@pytest.mark.parametrize("place", ["take_lock", "is_at", "remove", "give_back"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_leave_nothing_wherever_they_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, number: signal.Signals
) -> None:
    """A first one ends the block; two come while it begins or is cleared up."""
    owner: Any = {"take_lock": _temporary, "is_at": _locks, "remove": _temporary}.get(
        place, _locks.Locked
    )
    inner: Callable[..., Any] = getattr(owner, place)
    came = 0

    def interrupted(*arguments: Any, **options: Any) -> Any:
        nonlocal came
        for _ in range(2):
            came += 1
            signal.raise_signal(number)
        result = inner(*arguments, **options)
        signal.raise_signal(number)
        return result

    def end(_number: int, _frame: object) -> None:
        raise SystemExit(143)

    monkeypatch.setattr(owner, place, interrupted)
    before = signal.signal(signal.SIGTERM, end)
    ended = pytest.raises((KeyboardInterrupt, SystemExit))
    try:
        with ended, working_folder(tmp_path, ".w-") as folder:
            (folder / "something").touch()
            raise KeyboardInterrupt
    finally:
        signal.signal(signal.SIGTERM, before)
    assert came == 2
    assert names(tmp_path) == set()


def test_what_a_block_was_hindered_to_end_goes_with_the_process(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom pathlib import Path\nfrom scx_core._temporary import working_folder\n"
        "block = working_folder(Path(sys.argv[1]), '.w-')\n"
        "(block.__enter__() / 'something').touch()\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], timeout=60)
    assert done.returncode == 0 and names(tmp_path) == set()
