"""Who keeps what alive: views, closed files, forks, replaced files."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import weakref
from pathlib import Path

import numpy as np
import pytest

from scx_core._errors import CorruptFileError
from scx_core.native import binding
from scx_core.native.container import FileReader, FileWriter

linux = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
forking = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "a.scx"
    with FileWriter(path, n_obs=1, n_vars=1) as writer:
        writer.add_section("uns", bytes(range(256)) * 40, section_type=10)
        writer.add_section("empty", b"", section_type=8)
    return path


def mapped(path: Path) -> bool:
    return os.fspath(path) in Path("/proc/self/maps").read_text()


def test_views_are_read_only_and_not_copied(path: Path) -> None:
    with FileReader(path) as reader:
        first, second = (np.frombuffer(reader.section_bytes(0), np.uint8) for _ in range(2))
        assert first.ctypes.data == second.ctypes.data
        assert not first.flags.writeable
        assert reader.section_bytes(0).readonly
        assert reader.section_bytes(1).readonly and len(reader.section_bytes(1)) == 0


@linux
def test_a_view_keeps_the_map_and_the_last_one_gives_it_back(path: Path) -> None:
    reader = FileReader(path)
    view = reader.section_bytes(0)
    array = np.frombuffer(view, np.uint8)
    reader.close()
    del reader, view
    gc.collect()
    assert mapped(path)
    assert array[255] == 255 and array.sum() == 40 * 255 * 128
    del array
    gc.collect()
    assert not mapped(path)


@linux
def test_the_library_stays_mapped_for_destructors_that_run_last(path: Path) -> None:
    # as at the end of the interpreter: what Python knows of the library goes first
    script = f"""
import gc
from scx_core.native import binding
from scx_core.native.container import FileReader
view = FileReader({os.fspath(path)!r}).section_bytes(0)
library = str(binding.native().path)
binding._loaded = None
gc.collect()
assert library in open("/proc/self/maps").read()
del view
print("done")
"""
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (0, "done\n"), ended.stderr


@linux
def test_close_and_garbage_collection_unmap(path: Path) -> None:
    reader = FileReader(path)
    reader.close()
    reader.close()
    assert not mapped(path)
    reader = FileReader(path)
    alive = weakref.ref(reader)
    del reader
    gc.collect()
    assert alive() is None and not mapped(path)


def test_a_closed_reader_says_so(path: Path) -> None:
    reader = FileReader(path)
    assert not reader.closed and "2 sections" in repr(reader)
    with reader:
        pass
    assert reader.closed and "closed" in repr(reader)
    for use in (
        lambda: reader.section(0),
        lambda: reader.sections,
        lambda: reader.section_bytes(0),
        lambda: reader.find(10, "uns"),
        lambda: reader.verify_checksum(),
    ):
        with pytest.raises(RuntimeError, match="closed"):
            use()


@linux
def test_nothing_leaks(path: Path) -> None:
    def descriptors() -> int:
        return len(os.listdir("/proc/self/fd"))

    def cycle() -> None:
        with FileReader(path) as reader:
            reader.section_bytes(0)
        with pytest.raises(FileNotFoundError):
            FileReader(path.with_name("missing"))
        with pytest.raises(FileExistsError):
            FileWriter(path, n_obs=1, n_vars=1)
        FileWriter(path, n_obs=1, n_vars=1, overwrite=True).close()
        damaged = path.with_name("damaged.scx")
        damaged.write_bytes(path.read_bytes()[:-1])
        with pytest.raises(CorruptFileError):
            FileReader(damaged)

    cycle()
    gc.collect()
    before = descriptors()
    for _ in range(50):
        cycle()
    gc.collect()
    assert descriptors() == before
    assert not mapped(path)


def test_a_reader_keeps_the_content_when_the_file_is_replaced(path: Path) -> None:
    with FileReader(path) as reader:
        with FileWriter(path, n_obs=7, n_vars=1, overwrite=True) as writer:
            writer.add_section("uns", b"new", section_type=10)
        assert reader.info.n_obs == 1
        assert len(reader.section_bytes(0)) == 256 * 40
        reader.verify_checksum()
    with FileReader(path) as reader:
        assert reader.info.n_obs == 7


def test_threads_share_a_reader(path: Path) -> None:
    errors: list[BaseException] = []
    with FileReader(path) as reader:

        def use() -> None:
            try:
                for _ in range(200):
                    assert bytes(reader.section_bytes(0)[:3]) == b"\0\1\2"
                    found = reader.find(10, "uns")
                    assert found is not None and found.index == 0
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=use) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert errors == []


def in_child(work) -> int:  # type: ignore[no-untyped-def]
    """Run `work` in a forked process; its exit status is 0 when it returns True."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            status = 0 if work() is True else 2
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@forking
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # fork beside threads
def test_a_handle_is_refused_in_a_forked_process(path: Path) -> None:
    reader = FileReader(path)
    view = reader.section_bytes(0)

    def work() -> bool:
        assert view[255] == 255  # the map is inherited
        try:
            reader.section_bytes(0)
        except RuntimeError as error:
            refused = "process" in str(error) and str(path) in str(error)
        reader.close()
        with FileReader(path) as own:
            return refused and own.section_bytes(0)[255] == 255

    assert in_child(work) == 0
    assert reader.section_bytes(0)[255] == 255
    reader.close()


@forking
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_process_cannot_drop_the_parents_file(tmp_path: Path) -> None:
    writer = FileWriter(tmp_path / "b.scx", n_obs=1, n_vars=1)
    writer.add_section("uns", b"before", section_type=10)
    handle = writer._handle

    def through_the_class() -> bool:
        with pytest.raises(RuntimeError, match="process"):
            writer.add_section("late", b"x", section_type=10)
        writer.close()
        return len(os.listdir(tmp_path)) == 1

    def through_the_library() -> bool:
        with pytest.raises(RuntimeError, match="process"):
            binding.call("scx_writer_finish", handle)
        binding.native().lib.scx_writer_close(handle)
        return len(os.listdir(tmp_path)) == 1

    assert in_child(through_the_library) == 0
    held, release = threading.Event(), threading.Event()

    def hold() -> None:  # another thread is in a call while the process forks
        with writer._lock:
            held.set()
            release.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(60)
    assert in_child(through_the_class) == 0
    release.set()
    thread.join()
    writer.finish()
    assert os.listdir(tmp_path) == ["b.scx"]
    with FileReader(tmp_path / "b.scx") as reader:
        assert [section.name for section in reader.sections] == ["uns"]
