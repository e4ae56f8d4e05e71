"""What stands for files: paths, folders and patterns; and what is no path of this machine."""

from __future__ import annotations

import os
from pathlib import Path

import anndata
import numpy as np
import pytest

import scx_core
from scx_core._paths import input_paths, is_address, local_path, refuse_repeats

SUFFIXES = (".scx", ".h5ad")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("b.scx", "a.H5AD", "notes.txt", ".hidden.scx", "deep/down/c.scx"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("b.scx", ["b.scx"]),
        (Path("b.scx"), ["b.scx"]),
        ("notes.txt", ["notes.txt"]),  # who names a file means it
        (".", ["a.H5AD", "b.scx"]),
        (["*.scx", "deep/down"], ["b.scx", "deep/down/c.scx"]),
        ("**/*", ["a.H5AD", "b.scx", "deep/down/c.scx"]),
        (iter(["b.scx", "a.H5AD"]), ["b.scx", "a.H5AD"]),
    ],
)
@pytest.mark.usefixtures("folder")
def test_what_files_inputs_stand_for(given: object, expected: list[str]) -> None:
    assert input_paths(given, suffixes=SUFFIXES) == expected  # type: ignore[arg-type]


def test_a_file_may_have_the_name_of_a_pattern(folder: Path) -> None:
    (folder / "[b].scx").write_text("x")
    assert input_paths("[b].scx", suffixes=SUFFIXES) == ["[b].scx"]


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ("deep", ValueError, r"folder deep has no .scx or .h5ad file itself; below it lies deep/d"),
        ("*.mtx", ValueError, r"pattern \*.mtx has no .*; \. holds a.H5AD, b.scx, deep, notes.txt"),
        ("*.txt", ValueError, "has 1 entries, but none is a .scx or .h5ad file: notes.txt"),
        ("c.scx", FileNotFoundError, "there is no file c.scx; . holds a.H5AD, b.scx"),
        ([], ValueError, "inputs is empty: name at least one .scx or .h5ad file"),
        ("", ValueError, "inputs: an empty text names no file"),
        (["b.scx", "s3://a/b.scx"], ValueError, "s3://a/b.scx is an address: download it"),
        (["b.scx", 3], TypeError, "inputs must be a str or os.PathLike, not int"),
        (b"b.scx", TypeError, "inputs must be a str or os.PathLike, not bytes"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_inputs_that_stand_for_nothing(given: object, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        input_paths(given, suffixes=SUFFIXES)  # type: ignore[arg-type]


@pytest.mark.parametrize("other", ["./b.scx", "link.scx", "hard.scx"])
def test_one_file_by_two_names(folder: Path, other: str) -> None:
    (folder / "link.scx").symlink_to("b.scx")
    os.link("b.scx", "hard.scx")
    with pytest.raises(ValueError, match=rf"inputs name {other} twice \(also as b.scx\)"):
        refuse_repeats(["b.scx", "a.H5AD", other])
    (folder / "copy.scx").write_bytes((folder / "b.scx").read_bytes())
    refuse_repeats(["b.scx", "copy.scx"])


ADDRESSES = ("https://example.org/a.scx", "s3://bucket/a.scx", "gs://bucket/a.scx")


@pytest.mark.parametrize("address", [*ADDRESSES, Path("s3://bucket/a.scx")])
def test_addresses_are_refused(address: str | Path) -> None:
    with pytest.raises(ValueError, match=f"{address} is an address: download it, and give the"):
        local_path(address)
    with pytest.raises(ValueError, match=f"{address} is an address: write to this machine"):
        local_path(address, writing=True)


@pytest.mark.parametrize("path", ["a:b.scx", "C:/a.scx", "C:\\a.scx", "a/b://c", "./s3://a"])
def test_paths_that_are_no_addresses(path: str) -> None:
    assert not is_address(path)
    assert local_path(path) == path


def test_a_folder_may_be_named_like_a_scheme(folder: Path) -> None:
    (folder / "s3:").mkdir()
    (folder / "s3:" / "a.scx").write_text("x")
    assert local_path(Path("s3:/a.scx")) == "s3:/a.scx"


def test_a_file_address_is_told_its_path() -> None:
    with pytest.raises(ValueError, match=r"is an address: give the path alone, /data/a\.scx$"):
        local_path("file:///data/a.scx")


def test_objects_in_memory_are_no_paths() -> None:
    cells = anndata.AnnData(np.eye(3, dtype=np.float32))
    with pytest.raises(TypeError, match=r"not AnnData: write it to a file first, with scx_core\.w"):
        scx_core.open(cells)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"out must be a str or os\.PathLike, one file, not list"):
        local_path(["a.scx"], "out")
