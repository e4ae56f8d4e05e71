"""Locks, and working folders that go with their process."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from scx_tokenize._locks import held_lock, working_folder

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="locks")

HOLDS = """
import sys, time
from pathlib import Path
from scx_tokenize._locks import working_folder
with working_folder(Path(sys.argv[1]), ".work-") as folder:
    (folder / "something").write_text("large")
    print(folder.name, flush=True)
    time.sleep(60)
"""


def holder(parent: Path) -> tuple[subprocess.Popen[str], str]:
    """A process with a working folder, and the folder's name."""
    command = [sys.executable, "-c", HOLDS, str(parent)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_what_a_killed_process_left_goes_and_what_is_used_stays(tmp_path: Path) -> None:
    killed, dead = holder(tmp_path)
    running, alive = holder(tmp_path)
    try:
        killed.kill()
        killed.wait()
        (tmp_path / ".work-mine").mkdir()  # without a lock beside it: nobody knows whose it is
        assert {dead, f"{dead}.lock"} <= names(tmp_path)
        with working_folder(tmp_path, ".work-") as folder:
            there = names(tmp_path)
            assert there == {alive, f"{alive}.lock", folder.name, f"{folder.name}.lock"} | {
                ".work-mine"
            }
            assert (tmp_path / alive / "something").exists()
        assert names(tmp_path) == {alive, f"{alive}.lock", ".work-mine"}
    finally:
        running.send_signal(signal.SIGINT)
        running.wait()
        for one in (killed, running):
            assert one.stdout is not None
            one.stdout.close()
    assert names(tmp_path) == {".work-mine"}  # and Ctrl-C leaves nothing


def test_folders_of_one_process_do_not_disturb_each_other(tmp_path: Path) -> None:
    with working_folder(tmp_path, ".w-") as one, working_folder(tmp_path, ".w-") as two:
        assert one != two
        assert one.is_dir() and two.is_dir()
    assert names(tmp_path) == set()


def test_a_lock_is_held_by_one_at_a_time(tmp_path: Path) -> None:
    """Also while the file of the lock comes and goes."""
    path, inside, most, turns = tmp_path / "lock", 0, 0, 0
    counting, end = threading.Lock(), time.monotonic() + 1

    def work() -> None:
        nonlocal inside, most, turns
        while time.monotonic() < end:
            with held_lock(path) as held:
                if not held:
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
