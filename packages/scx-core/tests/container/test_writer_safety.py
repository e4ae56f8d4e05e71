"""Whatever happens to a writer, the target is the old file or the complete new one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from scx_core.native.container import FileReader, FileWriter

UNS = 10
posix = pytest.mark.skipif(os.name != "posix", reason="signals and links of POSIX systems")

ENDLESS = """
import sys
from scx_core.native.container import FileWriter
writer = FileWriter(sys.argv[1], n_obs=1, n_vars=1, overwrite=True)
writer.add_section("part", b"x" * 100_000, section_type=10)
print("ready", flush=True)
sys.stdin.read()
writer.finish()
print("done", flush=True)
"""


def start_writer(path: Path, **options: Any) -> subprocess.Popen[str]:
    """A process that has begun to write `path` and finishes once its input ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", ENDLESS, os.fspath(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        **options,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def write(path: Path, data: bytes, *, overwrite: bool = False) -> None:
    with FileWriter(path, n_obs=1, n_vars=1, overwrite=overwrite) as writer:
        writer.add_section("uns", data, section_type=UNS)


def read(path: Path) -> bytes:
    with FileReader(path) as reader:
        reader.verify_checksum()
        return bytes(reader.section_bytes(0))


def test_a_killed_writer_leaves_the_old_file_and_the_next_run_clears_up(tmp_path: Path) -> None:
    path = tmp_path / "a.scx"
    write(path, b"old")
    before = path.read_bytes()
    process = start_writer(path)
    process.kill()
    process.communicate()
    assert path.read_bytes() == before
    assert len(os.listdir(tmp_path)) == 2  # what the kill left
    write(path, b"new", overwrite=True)
    assert os.listdir(tmp_path) == ["a.scx"]
    assert read(path) == b"new"


def test_a_killed_writer_leaves_nothing_under_a_new_name(tmp_path: Path) -> None:
    path = tmp_path / "a.scx"
    process = start_writer(path)
    process.kill()
    process.communicate()
    assert not path.exists()
    # a refused call clears up as well, and another target's leftovers are not its business
    write(tmp_path / "b.scx", b"other")
    assert len(os.listdir(tmp_path)) == 2
    write(path, b"new")
    assert sorted(os.listdir(tmp_path)) == ["a.scx", "b.scx"]


@posix
def test_killed_at_any_moment(tmp_path: Path) -> None:
    path = tmp_path / "a.scx"
    write(path, b"old")
    before = path.read_bytes()
    loop = ENDLESS.replace("sys.stdin.read()\nwriter.finish()", "writer.finish()")
    for step in range(12):
        process = subprocess.Popen(
            [sys.executable, "-c", loop, os.fspath(path)], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(step * 0.0005)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        if path.read_bytes() != before:
            assert read(path) == b"x" * 100_000
            write(path, b"old", overwrite=True)
        assert path.read_bytes() == before


@posix
def test_of_two_writers_the_last_one_wins_and_the_other_one_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.scx"
    first = start_writer(path, stderr=subprocess.PIPE)
    second = start_writer(path)
    assert len(os.listdir(tmp_path)) == 1
    _, said = first.communicate(timeout=60)
    assert first.returncode == 1 and "another writer of 'a.scx' has begun meanwhile" in said
    out, _ = second.communicate(timeout=60)
    assert out == "done\n" and second.returncode == 0
    assert read(path) == b"x" * 100_000
    assert os.listdir(tmp_path) == ["a.scx"]


def test_a_process_that_ends_without_closing_clears_up(tmp_path: Path) -> None:
    code = ENDLESS[: ENDLESS.index("print")] + "writer.closed\n"
    subprocess.run([sys.executable, "-c", code, os.fspath(tmp_path / "a.scx")], check=True)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt, SystemExit])
def test_an_exception_drops_everything(tmp_path: Path, kind: type[BaseException]) -> None:
    path = tmp_path / "a.scx"
    writer = FileWriter(path, n_obs=1, n_vars=1)
    writer.add_section("uns", b"x", section_type=UNS)
    with pytest.raises(kind), writer:
        raise kind
    assert os.listdir(tmp_path) == []
    assert writer.closed


@posix
def test_ctrl_c_in_a_running_process(tmp_path: Path) -> None:
    code = ENDLESS.replace(
        "writer = FileWriter(sys.argv[1], n_obs=1, n_vars=1, overwrite=True)",
        "with FileWriter(sys.argv[1], n_obs=1, n_vars=1, overwrite=True) as writer:",
    )
    head, *body = code.strip().splitlines()[2:]
    code = "\n".join(["import sys", "from scx_core.native.container import FileWriter", head])
    code += "".join(f"\n    {line}" for line in body)
    process = subprocess.Popen(
        [sys.executable, "-c", code, os.fspath(tmp_path / "a.scx")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    assert len(os.listdir(tmp_path)) == 1
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert "KeyboardInterrupt" in err
    assert os.listdir(tmp_path) == []


def test_dropped_without_context_manager(tmp_path: Path) -> None:
    writer = FileWriter(tmp_path / "a.scx", n_obs=1, n_vars=1)
    (name,) = os.listdir(tmp_path)
    assert name.startswith(".a.scx.") and name.endswith(".tmp")
    writer.close()
    writer.close()
    assert os.listdir(tmp_path) == []
    with pytest.raises(RuntimeError, match="closed"):
        writer.add_section("uns", b"x", section_type=UNS)
    with pytest.raises(RuntimeError, match="closed"):
        writer.finish()


def test_closing_waits_for_the_call_of_another_thread(tmp_path: Path) -> None:
    writer = FileWriter(tmp_path / "a.scx", n_obs=1, n_vars=1)
    begun = threading.Event()
    refused: list[str] = []

    def work() -> None:
        for index in range(10_000):
            try:
                writer.add_section(f"obsm/{index}", bytes(4_000_000), section_type=8)
            except RuntimeError as error:
                refused.append(str(error))
                return
            begun.set()

    thread = threading.Thread(target=work)
    thread.start()
    assert begun.wait(60)
    writer.close()
    thread.join(60)
    assert len(refused) == 1 and "closed" in refused[0]
    assert os.listdir(tmp_path) == []


def test_an_existing_target_is_refused_at_once_and_again_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "a.scx"
    write(path, b"old")
    with pytest.raises(FileExistsError) as caught:
        FileWriter(path, n_obs=1, n_vars=1)
    assert caught.value.filename == os.fspath(path)
    late = FileWriter(tmp_path / "b.scx", n_obs=1, n_vars=1)
    write(tmp_path / "b.scx", b"faster")
    with pytest.raises(FileExistsError):
        late.finish()
    assert late.closed
    assert read(tmp_path / "b.scx") == b"faster" and read(path) == b"old"
    assert sorted(os.listdir(tmp_path)) == ["a.scx", "b.scx"]


def test_refused_calls_leave_no_trace(tmp_path: Path) -> None:
    for name in ("a.scx", "b.scx"):
        with FileWriter(tmp_path / name, n_obs=1, n_vars=2) as writer:
            if name == "b.scx":
                with pytest.raises(ValueError, match="modality 1"):
                    writer.add_section("x", b"", section_type=UNS, modality_id=1)
                with pytest.raises(ValueError, match="type 26"):
                    writer.add_section("x", b"", section_type=26)
                with pytest.raises(ValueError, match="finish"):
                    writer.add_section("x", b"", section_type=15)
                with pytest.raises(ValueError, match="name"):
                    writer.add_section("", b"", section_type=UNS)
                with pytest.raises(ValueError, match="NUL"):
                    writer.add_section("a\0b", b"", section_type=UNS)
                with pytest.raises(ValueError, match="Unicode"):
                    writer.add_section("\ud800", b"", section_type=UNS)
                with pytest.raises(ValueError, match="1024"):
                    writer.add_section("n" * 1025, b"", section_type=UNS)
                with pytest.raises(ValueError, match="section_type"):
                    writer.add_section("x", b"", section_type=256)
                with pytest.raises(ValueError, match="more than the file"):
                    writer.add_modality("rna", modality_type=0, n_vars=3)
                with pytest.raises(ValueError, match="64 bytes"):
                    writer.add_modality("n" * 65, modality_type=0, n_vars=1)
            writer.add_section("uns", b"{}", section_type=UNS)
            if name == "b.scx":
                with pytest.raises(ValueError, match="twice"):
                    writer.add_section("uns", b"other", section_type=UNS)
                with pytest.raises(ValueError, match="before the first section"):
                    writer.add_modality("rna", modality_type=0, n_vars=1)
    assert (tmp_path / "a.scx").read_bytes() == (tmp_path / "b.scx").read_bytes()


def test_targets_that_cannot_be_written_to(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "folder").mkdir()
    with pytest.raises(FileNotFoundError):
        FileWriter(tmp_path / "missing" / "a.scx", n_obs=1, n_vars=1)
    with pytest.raises(NotADirectoryError):
        FileWriter(tmp_path / "file" / "a.scx", n_obs=1, n_vars=1)
    with pytest.raises(ValueError, match="folder"):
        FileWriter(tmp_path / "folder", n_obs=1, n_vars=1, overwrite=True)
    with pytest.raises(ValueError, match="path"):
        FileWriter("", n_obs=1, n_vars=1)
    assert sorted(os.listdir(tmp_path)) == ["file", "folder"]


@posix
def test_a_device_or_pipe_is_never_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="regular file"):
        FileWriter(tmp_path / "pipe", n_obs=1, n_vars=1, overwrite=True)
    assert (tmp_path / "pipe").is_fifo()


@posix
def test_what_a_link_points_to_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    (tmp_path / "near").mkdir()
    target = tmp_path / "far" / "real.scx"
    write(target, b"old")
    link = tmp_path / "near" / "a.scx"
    link.symlink_to(target)
    with pytest.raises(FileExistsError):
        FileWriter(link, n_obs=1, n_vars=1)
    write(link, b"new", overwrite=True)
    assert link.is_symlink() and read(target) == b"new"
    assert os.listdir(tmp_path / "near") == ["a.scx"]
    assert os.listdir(tmp_path / "far") == ["real.scx"]


def test_a_change_of_the_working_directory_does_not_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    monkeypatch.chdir(tmp_path / "one")
    with FileWriter("a.scx", n_obs=1, n_vars=1) as writer:
        monkeypatch.chdir(tmp_path / "two")
        writer.add_section("uns", b"x", section_type=UNS)
    assert os.listdir(tmp_path / "one") == ["a.scx"] and os.listdir(tmp_path / "two") == []


def test_the_longest_names_of_the_file_system(tmp_path: Path) -> None:
    for name in ("n" * 251 + ".scx", "é" * 125 + ".scx"):
        write(tmp_path / name, b"x")
        write(tmp_path / name, b"y", overwrite=True)
        assert os.listdir(tmp_path) == [name]
        (tmp_path / name).unlink()
    with pytest.raises(OSError, match="too long"):
        FileWriter(tmp_path / ("n" * 256), n_obs=1, n_vars=1)


@posix
def test_a_full_disk_drops_the_file_and_says_why(tmp_path: Path) -> None:
    import resource

    path = tmp_path / "a.scx"
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    writer = FileWriter(path, n_obs=1, n_vars=1)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, limits[1]))
    try:
        with pytest.raises(OSError, match="too large") as caught:
            writer.add_section("uns", bytes(100_000), section_type=UNS)
        assert caught.value.filename == os.fspath(path)
        with pytest.raises(RuntimeError, match="start again"):
            writer.finish()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert os.listdir(tmp_path) == []
