"""An HDF5 file as a tree, and what a browser must read to open it."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from cellucid_prepare.ready.report import Findings, NotJudgedError
from cellucid_prepare.ready.tree import StoredArray, StoredGroup, place

# what browsers undo: deflate, shuffle, checksums, LZF
BROWSER_FILTERS = {1, 2, 3, 32000}
FILTER_NAMES = {
    4: "szip",
    5: "nbit",
    6: "scaleoffset",
    307: "bzip2",
    32001: "blosc",
    32004: "lz4",
    32008: "bitshuffle",
    32013: "zfp",
    32015: "zstd",
    32026: "blosc2",
}


class WatchedFile(io.RawIOBase):
    """A file that remembers which bytes were read."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb", buffering=0)
        self.ranges: list[tuple[int, int]] = []

    def readable(self) -> bool:
        """See `io.RawIOBase`."""
        return True

    def seekable(self) -> bool:
        """See `io.RawIOBase`."""
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        """See `io.RawIOBase`."""
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        """See `io.RawIOBase`."""
        return self._file.tell()

    def readinto(self, buffer: Any) -> int:
        """See `io.RawIOBase`."""
        start = self._file.tell()
        count = self._file.readinto(buffer) or 0
        self.ranges.append((start, start + count))
        return count

    def close(self) -> None:
        """See `io.RawIOBase`."""
        self._file.close()
        super().close()


@contextmanager
def hdf5_root(
    path: Path, findings: Findings
) -> Iterator[tuple[StoredGroup, h5py.File, WatchedFile]]:
    """The tree, which can be read inside the block only, the HDF5 file, and what is read of it.

    Raises `NotJudgedError` where the file is damaged.
    """
    watched = WatchedFile(path)
    try:
        try:
            file = h5py.File(watched, "r")
        except (OSError, RuntimeError, ValueError) as error:
            raise NotJudgedError(
                f"{path} cannot be opened as HDF5, it may be cut off or damaged: {error}"
            ) from error
        with file:
            try:
                root = _group(file, "", findings)
            except (OSError, RuntimeError, KeyError, ValueError, UnicodeDecodeError) as error:
                raise NotJudgedError(f"{path} is damaged: {error}") from error
            yield root, file, watched
    finally:
        watched.close()


def _group(group: Any, path: str, findings: Findings) -> StoredGroup:
    children: dict[str, StoredArray | StoredGroup] = {}
    for name in group:
        inner = f"{path}/{name}" if path else name
        link = group.get(name, getlink=True)
        if not isinstance(link, h5py.HardLink):
            findings.fault(place(inner), "is a link, which browsers do not follow", "copy it there")
            continue
        item = group[name]
        if isinstance(item, h5py.Group):
            children[name] = _group(item, inner, findings)
        elif isinstance(item, h5py.Dataset):
            children[name] = _array(item, inner, findings)
    return StoredGroup(path, _attributes(item=group), children)


def _array(dataset: Any, path: str, findings: Findings) -> StoredArray:
    if dataset.is_virtual or dataset.external:
        findings.fault(place(path), "its values lie in other files", "copy them into this one")
    creation = dataset.id.get_create_plist()
    numbers = [int(creation.get_filter(at)[0]) for at in range(creation.get_nfilters())]
    missing = [number for number in numbers if number not in BROWSER_FILTERS]
    kind = "T" if h5py.check_string_dtype(dataset.dtype) else dataset.dtype.kind

    def read(start: int, stop: int) -> Any:
        return dataset[start:stop] if dataset.shape else np.asarray(dataset[()])

    return StoredArray(
        path,
        _attributes(item=dataset),
        tuple(dataset.shape or ()),
        kind,
        int(dataset.dtype.itemsize),
        dataset.chunks,
        read,
        tuple(FILTER_NAMES.get(number, f"filter {number}") for number in missing),
        is_packed=bool(numbers),
    )


def _attributes(item: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in item.attrs:
        try:
            value = item.attrs[name]
        except (OSError, TypeError):  # references and types that h5py lacks
            value = None
        if isinstance(value, bytes):
            value = value.decode("utf-8", errors="replace")
        found[name] = value.tolist() if isinstance(value, np.ndarray | np.generic) else value
    return found
