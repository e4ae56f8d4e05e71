"""A layout becomes an output, staged beside its place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from cellucid_prepare.checks.target import Target
from cellucid_prepare.containers.base import leaf_count, write_layout
from cellucid_prepare.containers.placing import staged
from cellucid_prepare.encode.pool import Encoder, encoder
from cellucid_prepare.layout.nodes import Group

if TYPE_CHECKING:
    from scx_core.writing._progress import Progress

Done = Callable[[int], None]


def write_output(target: Target, layout: Group, *, threads: int, progress: Progress) -> None:
    """Write `layout` to `target`, which gets its name when all is written."""
    from scx_core.writing._progress import row_progress

    with (
        staged(target.path) as hidden,
        row_progress(progress, leaf_count(layout)) as done,
        encoder(threads) as encode,
    ):
        if target.format in ("h5ad", "h5mu"):
            _write_hdf5(hidden, target, layout, encode, done)
        else:
            _write_zarr(hidden, target, layout, encode, done)


def _write_hdf5(hidden: Path, target: Target, layout: Group, encode: Encoder, done: Done) -> None:
    from cellucid_prepare.containers.hdf5 import Hdf5Container, mudata_user_block

    file = Hdf5Container(hidden, user_block=mudata_user_block() if target.format == "h5mu" else b"")
    try:
        write_layout(layout, file, encode, hidden.parent, done)
    except BaseException:
        file.abandon()
        raise
    file.close()


def _write_zarr(hidden: Path, target: Target, layout: Group, encode: Encoder, done: Done) -> None:
    from cellucid_prepare.containers.zarr_store import FolderStore, ZarrContainer, zip_store

    if target.format == "zarr":
        hidden.mkdir()
        store = ZarrContainer(FolderStore(hidden), target.zarr_format)
        write_layout(layout, store, encode, hidden.parent, done)
        store.finish()
        return
    with zip_store(hidden) as archive:
        packed = ZarrContainer(archive, target.zarr_format)
        write_layout(layout, packed, encode, hidden.parent, done)
        packed.finish()
