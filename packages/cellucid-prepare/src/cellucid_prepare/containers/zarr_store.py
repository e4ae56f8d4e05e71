"""A Zarr store, format 2 or 3, as a folder or packed into a zip.

Chunks and documents are written as they are; a chunk is one file. The store's metadata is
consolidated, so that one document describes all of it.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy.typing as npt

from cellucid_prepare.containers import zarr_documents as documents
from cellucid_prepare.containers.base import Grid
from cellucid_prepare.encode.codecs import (
    Wrapping,
    chunk_streams,
    gzip_bytes,
    text_chunk,
    zlib_bytes,
)
from cellucid_prepare.layout.nodes import ArraySpec, Group, Text

# the earliest that a zip can hold: the same input gives the same archive at any time
ZIP_TIME = (1980, 1, 1, 0, 0, 0)
ZIP_MODE = 0o100644 << 16


class Store(Protocol):
    """Where the files of a Zarr store go."""

    @property
    def takes_any_order(self) -> bool:
        """Whether `put` may be called from several threads at once."""
        ...

    def put(self, path: str, content: bytes) -> None:
        """Store one file."""
        ...


class FolderStore:
    """Files in folders."""

    takes_any_order = True

    def __init__(self, root: Path) -> None:
        self._root = root
        self._folders: set[str] = set()

    def put(self, path: str, content: bytes) -> None:
        """See `Store`."""
        folder = path.rpartition("/")[0]
        if folder not in self._folders:
            self._make(folder)
        with io.FileIO(f"{self._root}/{path}", "w") as file:
            left = memoryview(content)
            while left:
                left = left[file.write(left) :]

    def _make(self, folder: str) -> None:
        """Make a folder in the root, which another writer of the same output may take away."""
        path = self._root
        for name in filter(None, folder.split("/")):
            path = path / name
            path.mkdir(exist_ok=True)
        self._folders.add(folder)


class ZipStore:
    """Uncompressed entries of a zip, in the order in which they come."""

    takes_any_order = False

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive

    def put(self, path: str, content: bytes) -> None:
        """See `Store`."""
        entry = zipfile.ZipInfo(path, ZIP_TIME)
        entry.create_system = 3  # the same on every system
        entry.external_attr = ZIP_MODE
        self._archive.writestr(entry, content, zipfile.ZIP_STORED)


@contextmanager
def zip_store(path: Path) -> Iterator[ZipStore]:
    """A store in a new zip."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        yield ZipStore(archive)


class ZarrContainer:
    """The files of a Zarr store: chunks as they come, the documents when all of them are there."""

    def __init__(self, store: Store, zarr_format: int) -> None:
        self._store = store
        self._is_v3 = zarr_format == 3
        self._documents: dict[str, Any] = {}

    @property
    def takes_any_order(self) -> bool:
        """See `Container`."""
        return self._store.takes_any_order

    def declare_group(self, path: str, group: Group) -> None:
        """See `Container`."""
        if self._is_v3:
            self._documents[_member(path, "zarr.json")] = documents.v3_group(group.attributes)
            return
        self._documents[_member(path, ".zgroup")] = {"zarr_format": 2}
        self._documents[_member(path, ".zattrs")] = dict(group.attributes)

    def declare_array(self, path: str, spec: ArraySpec) -> None:
        """See `Container`."""
        if self._is_v3:
            self._documents[_member(path, "zarr.json")] = documents.v3_array(spec)
            return
        self._documents[_member(path, ".zarray")] = documents.v2_array(spec)
        self._documents[_member(path, ".zattrs")] = dict(spec.attributes)

    def declare_text(self, path: str, text: Text) -> None:
        """See `Container`."""
        if self._is_v3:
            self._documents[_member(path, "zarr.json")] = documents.v3_text(text)
            return
        self._documents[_member(path, ".zarray")] = documents.v2_text(text)
        self._documents[_member(path, ".zattrs")] = dict(text.attributes)

    def wrapping(self, spec: ArraySpec) -> Wrapping:
        """See `Container`."""
        if not self._is_v3:
            return Wrapping.ZLIB
        return Wrapping.BLOSC if spec.shuffled else Wrapping.GZIP

    def put_chunk(self, path: str, grid: Grid, stored: bytes) -> None:
        """See `Container`."""
        self._store.put(f"{path}/{self._chunk_name(grid)}", stored)

    def put_whole(self, path: str, values: npt.NDArray[Any]) -> None:
        """See `Container`."""
        if values.shape == ():
            spec = ArraySpec((), values.dtype, (), {}, shuffled=values.dtype.itemsize > 1)
            (stored,) = chunk_streams(
                values, 1, shuffle=spec.shuffled, wrapping=self.wrapping(spec)
            )
            self.put_chunk(path, (), stored)

    def put_text(self, path: str, text: Text) -> None:
        """See `Container`."""
        if isinstance(text.values, str):
            self.put_chunk(path, (), self._packed(text_chunk([text.values], 1)))
            return
        for number, start in enumerate(range(0, len(text.values), text.chunk)):
            values = text.values[start : start + text.chunk]
            self.put_chunk(path, (number,), self._packed(text_chunk(values, text.chunk)))

    def end_array(self, path: str) -> None:
        """See `Container`."""

    def finish(self) -> None:
        """Write the documents, that of the whole store last."""
        by_path = sorted(self._documents, key=lambda path: (_is_root(path), path))
        for path in by_path:
            if not (self._is_v3 and path == "zarr.json"):
                self._store.put(path, documents.document(self._documents[path]))
        if self._is_v3:
            members = {
                path.removesuffix("/zarr.json"): self._documents[path]
                for path in by_path
                if path != "zarr.json"
            }
            whole = documents.v3_consolidated(self._documents["zarr.json"], members)
            self._store.put("zarr.json", documents.document(whole))
        else:
            content = documents.v2_consolidated({path: self._documents[path] for path in by_path})
            self._store.put(".zmetadata", documents.document(content))

    def _chunk_name(self, grid: Grid) -> str:
        if self._is_v3:
            return "/".join(["c", *map(str, grid)])
        return ".".join(map(str, grid)) or "0"

    def _packed(self, plain: bytes) -> bytes:
        return gzip_bytes(plain) if self._is_v3 else zlib_bytes(plain)


def _member(path: str, name: str) -> str:
    return f"{path}/{name}" if path else name


def _is_root(path: str) -> bool:
    return "/" not in path
