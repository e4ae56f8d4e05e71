"""A layout becomes an output, staged beside its place."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from cellucid_prepare.checks.target import Target
from cellucid_prepare.containers.base import part_count, write_layout
from cellucid_prepare.containers.placing import staged
from cellucid_prepare.containers.telling import told, writing_to
from cellucid_prepare.encode.pool import Encoder, encoder
from cellucid_prepare.layout.nodes import Group

if TYPE_CHECKING:
    from scx_core.writing._progress import Progress

Done = Callable[[int], None]


def write_output(target: Target, layout: Group, *, threads: int, progress: Progress) -> None:
    """Write `layout` to `target`, which gets its name when all is written."""
    from scx_core.writing._progress import row_progress

    with (
        staged(target.path, overwrite=target.overwrite) as hidden,
        row_progress(progress, part_count(layout), unit="parts") as done,
        encoder(threads) as encode,
    ):
        if target.format in ("h5ad", "h5mu"):
            _write_hdf5(hidden, target, layout, encode, done)
        else:
            _write_zarr(hidden, target, layout, encode, done)


def _write_hdf5(hidden: Path, target: Target, layout: Group, encode: Encoder, done: Done) -> None:
    from cellucid_prepare.containers.hdf5 import (
        META_BLOCK_BYTES,
        Hdf5Container,
        mudata_user_block,
    )

    block = mudata_user_block() if target.format == "h5mu" else b""
    with writing_to(target.path, every=True):
        # HDF5 that cannot even write its first block may end the process when it closes the file
        if shutil.disk_usage(hidden.parent).free < 2 * META_BLOCK_BYTES:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        file = Hdf5Container(hidden, user_block=block)
    try:
        write_layout(layout, told(file, target.path), encode, hidden.parent, done)
    except BaseException:
        with suppress(Exception):  # closing fails as well, and says less
            file.abandon()
        raise
    with writing_to(target.path, every=True):
        file.close()


def _write_zarr(hidden: Path, target: Target, layout: Group, encode: Encoder, done: Done) -> None:
    from cellucid_prepare.containers.zarr_store import FolderStore, ZarrContainer, zip_store

    if target.format == "zarr":
        hidden.mkdir()
        store = ZarrContainer(FolderStore(hidden), target.zarr_format)
        write_layout(layout, told(store, target.path), encode, hidden.parent, done)
        with writing_to(target.path, every=True):
            store.finish()
        return
    with zip_store(hidden) as archive:
        packed = ZarrContainer(archive, target.zarr_format)
        write_layout(layout, told(packed, target.path), encode, hidden.parent, done)
        with writing_to(target.path, every=True):
            packed.finish()
