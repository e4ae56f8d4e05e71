"""HDF5: .h5ad and .h5mu.

Everything is declared before the first value, in metadata blocks at the start of the file, so that
one request for its start tells a browser where all values lie. Chunks come ready-made.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

from cellucid_prepare.containers.base import Grid, is_whole
from cellucid_prepare.containers.room import RESERVE_BYTES, Room
from cellucid_prepare.encode.codecs import LEVEL, Wrapping, little_endian
from cellucid_prepare.layout.nodes import ArraySpec, Attributes, Group, Text

META_BLOCK_BYTES = 256 << 10
MUDATA_USER_BLOCK_BYTES = 512
# chunks that are put before the size of the file is asked for again; less than is held in reserve
UNSEEN_BYTES = RESERVE_BYTES // 4


def mudata_user_block() -> bytes:
    """What stands before the HDF5 part of an .h5mu."""
    from cellucid_prepare._version import __version__

    return (
        f"MuData (format-version=0.1.0;creator=cellucid-prepare;creator-version={__version__})"
    ).encode()


class Hdf5Container:
    """An HDF5 file of format 1.10.

    `user_block` is what stands before the HDF5 part, padded to `MUDATA_USER_BLOCK_BYTES`.
    """

    takes_any_order = False

    def __init__(self, path: Path, *, user_block: bytes = b"") -> None:
        self._path = path
        self._user_block = user_block
        self._room = Room(path)
        self._room.need(META_BLOCK_BYTES)
        self._file = h5py.File(
            path,
            "w",
            libver=("v110", "v110"),
            meta_block_size=META_BLOCK_BYTES,
            userblock_size=MUDATA_USER_BLOCK_BYTES if user_block else 0,
            track_order=False,
        )

    def close(self) -> None:
        """Close the file; it is whole then."""
        try:
            self._need(0)
        except OSError:
            self.abandon()
            raise
        self._file.close()
        if self._user_block:
            assert len(self._user_block) <= MUDATA_USER_BLOCK_BYTES
            with self._path.open("r+b") as file:
                file.write(self._user_block)

    def abandon(self) -> None:
        """Close the file without care for what it holds.

        Its space is given back before: HDF5 may crash if it cannot write at the close.
        """
        with suppress(OSError):
            os.truncate(self._path, 0)
        self._file.close()

    def declare_group(self, path: str, group: Group) -> None:
        """See `Container`."""
        self._need(0)
        _set_attributes(self._file.create_group(path) if path else self._file, group.attributes)

    def declare_array(self, path: str, spec: ArraySpec) -> None:
        """See `Container`."""
        self._need(0)
        filters: dict[str, Any] = {}
        if not is_whole(spec):
            filters = {
                "chunks": spec.chunks,
                "shuffle": spec.shuffled,
                "compression": "gzip",
                "compression_opts": LEVEL,
            }
        dataset = self._file.create_dataset(
            path, spec.shape, spec.dtype.newbyteorder("<"), track_times=False, **filters
        )
        _set_attributes(dataset, spec.attributes)

    def declare_text(self, path: str, text: Text) -> None:
        """See `Container`."""
        self._need(0)
        filters: dict[str, Any] = {}
        if text.shape and 0 not in text.shape:
            filters = {
                "chunks": text.chunks,
                "compression": "gzip",
                "compression_opts": LEVEL,
            }
        dataset = self._file.create_dataset(
            path, text.shape, h5py.string_dtype("utf-8"), track_times=False, **filters
        )
        _set_attributes(dataset, text.attributes)

    def wrapping(self, spec: ArraySpec) -> Wrapping:
        """See `Container`."""
        return Wrapping.ZLIB

    def put_chunk(self, path: str, grid: Grid, stored: bytes) -> None:
        """See `Container`."""
        self._need_for_chunk(len(stored))
        dataset = self._dataset(path)
        start = tuple(at * step for at, step in zip(grid, self._open_chunks, strict=True))
        dataset.id.write_direct_chunk(start, stored)

    def put_whole(self, path: str, values: npt.NDArray[Any]) -> None:
        """See `Container`."""
        if values.size:
            self._need(values.nbytes)
            self._file[path][...] = little_endian(values).reshape(values.shape)

    def put_text(self, path: str, text: Text) -> None:
        """See `Container`."""
        self._need(_text_bytes(text))
        if isinstance(text.values, str):
            self._file[path][()] = text.values
        elif text.values:
            self._file[path][...] = np.array(text.values, dtype=object)

    def end_array(self, path: str) -> None:
        """Flush: HDF5 gives small chunks their place in the file only then."""
        self._need(0)
        self._file[path].flush()
        self._open = None

    def _need(self, n_bytes: int) -> None:
        """See that `n_bytes` more can be written."""
        self._unseen_bytes = 0
        self._room.need(self._file.id.get_filesize() + n_bytes)

    def _need_for_chunk(self, n_bytes: int) -> None:
        """The same, with few questions to HDF5: what is put grows the file by little more."""
        self._unseen_bytes += n_bytes
        if self._unseen_bytes > UNSEEN_BYTES:
            self._need(n_bytes)

    _unseen_bytes = UNSEEN_BYTES  # the first time it is asked
    _open: tuple[str, Any] | None = None
    _open_chunks: tuple[int, ...] = ()

    def _dataset(self, path: str) -> Any:
        if self._open is None or self._open[0] != path:
            self._open = path, self._file[path]
            self._open_chunks = self._open[1].chunks
        return self._open[1]


def _text_bytes(text: Text) -> int:
    """What `text` takes at most: its characters, and 40 bytes for each value's place."""
    values = [text.values] if isinstance(text.values, str) else text.values
    return sum((1 if value.isascii() else 4) * len(value) + 40 for value in values)


def _set_attributes(item: Any, attributes: Attributes) -> None:
    for name, value in attributes.items():
        if isinstance(value, list) and all(isinstance(entry, str) for entry in value):
            text = h5py.string_dtype("utf-8")
            item.attrs.create(name, np.array(value, dtype=object), (len(value),), text)
        elif isinstance(value, list):
            item.attrs[name] = np.array(value, dtype=np.int64)
        elif isinstance(value, bool):
            item.attrs[name] = np.bool_(value)
        else:
            item.attrs[name] = value
