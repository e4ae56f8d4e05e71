"""A file that is exported appears whole or not at all, and nothing else is touched."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from scx_core.export.placing import placed_file

posix_only = pytest.mark.skipif(os.name == "nt", reason="links, devices and signals of POSIX")

KILLED = """
import os, signal, sys
from pathlib import Path
import h5py
from scx_core.export.placing import placed_file
with placed_file(Path(sys.argv[1]), overwrite=True) as hidden:
    file = h5py.File(hidden, "w")
    file["x"] = range(1000)
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def place(path: Path, content: bytes, *, overwrite: bool = False) -> None:
    with placed_file(path, overwrite=overwrite) as hidden:
        assert hidden.parent == path.resolve().parent
        hidden.write_bytes(content)


def place_too_late(path: Path) -> None:
    with placed_file(path, overwrite=False) as hidden:
        hidden.write_bytes(b"mine")
        path.write_bytes(b"theirs")


def test_a_new_file_and_one_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a.h5ad"
    place(path, b"1")
    with pytest.raises(FileExistsError, match="pass overwrite=True"):
        place(path, b"2")
    assert path.read_bytes() == b"1"
    place(path, b"2", overwrite=True)
    assert path.read_bytes() == b"2"
    assert os.listdir(tmp_path) == ["a.h5ad"]


def test_a_file_that_appears_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a.h5ad"
    with pytest.raises(FileExistsError, match="appeared meanwhile"):
        place_too_late(path)
    assert path.read_bytes() == b"theirs"
    assert os.listdir(tmp_path) == ["a.h5ad"]


@posix_only
def test_file_systems_without_second_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_paths: object) -> None:
        raise PermissionError("no links here")

    monkeypatch.setattr(os, "link", refused)
    path = tmp_path / "a.h5ad"
    place(path, b"1")
    with pytest.raises(FileExistsError, match="appeared meanwhile"):
        place_too_late(tmp_path / "b.h5ad")
    assert path.read_bytes() == b"1"
    assert (tmp_path / "b.h5ad").read_bytes() == b"theirs"
    assert sorted(os.listdir(tmp_path)) == ["a.h5ad", "b.h5ad"]


@posix_only
def test_what_a_killed_process_left_goes_with_the_next_run(tmp_path: Path) -> None:
    path = tmp_path / "a[1].h5ad"
    path.write_bytes(b"old")
    others = (".a[1].h5ad.notes.tmp", ".a1.h5ad.01234567.tmp")
    for other in others:
        (tmp_path / other).write_bytes(b"not ours")
    killed = subprocess.run([sys.executable, "-c", KILLED, str(path)])
    assert killed.returncode < 0
    assert path.read_bytes() == b"old"
    assert len(os.listdir(tmp_path)) == 4
    place(path, b"new", overwrite=True)
    assert path.read_bytes() == b"new"
    assert set(os.listdir(tmp_path)) == {"a[1].h5ad", *others}


@posix_only
def test_of_two_writers_the_last_one_wins_and_the_other_one_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.h5ad"
    block = placed_file(path, overwrite=True)
    block.__enter__().write_bytes(b"mine")
    place(path, b"new", overwrite=True)
    with pytest.raises(OSError, match=r"another process has begun to write .*a\.h5ad meanwhile"):
        block.__exit__(None, None, None)
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["a.h5ad"]


@posix_only
def test_what_a_link_points_to_is_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (folder / "real.h5ad").write_bytes(b"old")
    link = tmp_path / "a.h5ad"
    link.symlink_to(folder / "real.h5ad")
    place(link, b"new", overwrite=True)
    assert link.is_symlink()
    assert (folder / "real.h5ad").read_bytes() == b"new"
    dangling = tmp_path / "b.h5ad"
    dangling.symlink_to(folder / "none.h5ad")
    with pytest.raises(FileExistsError):
        place(dangling, b"new")


@posix_only
def test_a_device_or_pipe_is_never_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "a.h5ad"
    os.mkfifo(pipe)
    with pytest.raises(ValueError, match="is no regular file"):
        place(pipe, b"", overwrite=True)
    with pytest.raises(IsADirectoryError):
        place(tmp_path, b"", overwrite=True)
    assert pipe.is_fifo()


def test_a_folder_that_refuses_files_is_named_without_the_hidden_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(path: Path, *_arguments: object, **_options: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "touch", refused)
    with pytest.raises(PermissionError) as caught:
        place(tmp_path / "a.h5ad", b"")
    assert caught.value.filename == str(tmp_path)
    assert caught.value.strerror == "no file can be made in it: Permission denied"


def test_the_longest_names(tmp_path: Path) -> None:
    for name in ("n" * 250 + ".h5ad", "细" * 83 + ".h5ad"):
        place(tmp_path / name, b"1")
        place(tmp_path / name, b"2", overwrite=True)
        assert os.listdir(tmp_path) == [name]
        (tmp_path / name).unlink()
