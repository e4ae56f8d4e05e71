"""Exports to a disk that is full: an error that says so, and a process that lives on."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path

import anndata
import h5py
import numpy as np
import pytest

import scx_core
from scx_core.export.hdf5_file import new_hdf5

EXPORT = """
import gc, os, sys
import scx_core
source, folder = sys.argv[1:3]
old = os.path.join(folder, "old.h5ad")
with open(old, "wb") as file:
    file.write(b"old")
with scx_core.open(source) as experiment:
    for name, compression in [("a.h5ad", None), ("old.h5ad", "gzip"), ("b.h5ad", "lzf")]:
        path = os.path.join(folder, name)
        try:
            experiment.to_h5ad(path, overwrite=True, compression=compression)
        except OSError as error:
            print(error.errno, error.filename == path, str(error).count("\\n"))
gc.collect()
with open(old, "rb") as file:
    print(file.read().decode(), sorted(os.listdir(folder)))
"""


def can_mount() -> bool:
    """Whether a process may have mounts of its own."""
    if shutil.which("unshare") is None:
        return False
    tried = subprocess.run(["unshare", "--map-root-user", "--mount", "true"], capture_output=True)
    return tried.returncode == 0


@pytest.mark.skipif(not can_mount(), reason="a small disk cannot be mounted here")
@pytest.mark.parametrize("disk_bytes", [8_192, 40_000, 160_000, 4_000_000])
def test_a_full_disk(tmp_path: Path, disk_bytes: int) -> None:
    source, disk = tmp_path / "a.scx", tmp_path / "disk"
    disk.mkdir()
    matrix = np.random.default_rng(0).normal(size=(2000, 500))
    scx_core.from_anndata(anndata.AnnData(matrix), source)
    script = 'mount -t tmpfs -o size=$5 small "$1" && exec "$2" -c "$3" "$4" "$1"'
    arguments = [os.fspath(disk), sys.executable, EXPORT, os.fspath(source), str(disk_bytes)]
    ended = subprocess.run(
        ["unshare", "--map-root-user", "--mount", "sh", "-c", script, "sh", *arguments],
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr  # HDF5 may crash at the very end
    refused = f"{errno.ENOSPC} True 0\n"
    assert ended.stdout == 3 * refused + "old ['old.h5ad']\n"


def test_what_fails_gives_its_space_back_before_it_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hidden = tmp_path / "hidden"
    sizes = []

    close = h5py.File.close

    def watched_close(file: h5py.File) -> None:
        sizes.append(hidden.stat().st_size)
        close(file)

    monkeypatch.setattr(h5py.File, "close", watched_close)

    def fill(error: Exception | None) -> None:
        with new_hdf5(hidden, tmp_path / "a.h5ad") as file:
            file["x"] = np.arange(100_000)
            file.flush()
            if error is not None:
                raise error

    fill(None)
    with pytest.raises(ValueError, match="unrelated"):
        fill(ValueError("unrelated"))
    with pytest.raises(OSError, match="No space left on device") as caught:
        fill(OSError(errno.ENOSPC, "Driver write request failed (...)"))
    assert caught.value.filename == os.fspath(tmp_path / "a.h5ad")
    with pytest.raises(OSError, match="File too large"):
        fill(RuntimeError("Unable to flush file (file write failed: errno = 27, error message"))
    with pytest.raises(FileNotFoundError) as other:
        fill(FileNotFoundError(errno.ENOENT, "gone", "of something else"))
    assert other.value.filename == "of something else"
    assert sizes[0] > 400_000 and sizes[1:] == [0, 0, 0, 0]
