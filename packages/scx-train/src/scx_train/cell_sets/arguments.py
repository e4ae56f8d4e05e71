"""Checks of what a SparseCellSetDataset is constructed with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from scx_train import _arguments as arguments
from scx_train.cell_sets.downsample import Downsampling, downsample_file_identity
from scx_train.cell_sets.gather import RowChanges
from scx_train.cell_sets.readers import Manifest

_GENES_MAX = 2**31 - 3


def remap_tables(
    value: Any, n_global_genes: Any, manifest: Manifest
) -> tuple[tuple[npt.NDArray[np.int32], ...] | None, int]:
    """The tables as int32, -1 for genes without a place, and the number of columns.

    Equal tables are one array. Without tables the columns are those of the widest file.

    Raises
    ------
    TypeError, ValueError
        There is one without the other, a table is missing, has another length than its file has
        genes, or names a gene that is not there.
    """
    if (value is None) != (n_global_genes is None):
        raise ValueError("remap_tables and n_global_genes belong together: pass both or neither")
    if value is None:
        return None, int(manifest.n_cols.max())
    n_genes = arguments.whole_number(n_global_genes, "n_global_genes", lowest=1, highest=_GENES_MAX)
    tables: Sequence[Any]
    if isinstance(value, dict) or not isinstance(value, Iterable):
        raise TypeError("remap_tables must be a list with a table for each file")
    tables = list(value)
    if len(tables) != len(manifest.paths):
        raise ValueError(
            f"remap_tables has {len(tables)} tables for {len(manifest.paths)} files: one for each"
        )
    by_object: dict[int, npt.NDArray[np.int32]] = {}
    by_content: dict[bytes, npt.NDArray[np.int32]] = {}
    result = []
    for file_id, table in enumerate(tables):
        converted = by_object.get(id(table))
        if converted is None:
            converted = _table(table, f"remap_tables[{file_id}]", n_genes)
            converted = by_content.setdefault(converted.tobytes(), converted)
            by_object[id(table)] = converted
        if len(converted) != manifest.n_cols[file_id]:
            raise ValueError(
                f"remap_tables[{file_id}] has {len(converted)} entries, but "
                f"{manifest.paths[file_id]} has {manifest.n_cols[file_id]} genes"
            )
        result.append(converted)
    return tuple(result), n_genes


def _table(value: Any, name: str, n_genes: int) -> npt.NDArray[np.int32]:
    table = np.asarray(value)
    if table.ndim != 1:
        raise ValueError(f"{name} has {table.ndim} dimensions, but it has one")
    if table.dtype.kind not in "iu":
        if table.size:
            raise TypeError(f"{name} has dtype {table.dtype}, but whole numbers are needed")
        table = table.astype(np.int32)
    unmapped = table < 0
    if table.dtype.kind == "u":
        unmapped = table == np.iinfo(table.dtype).max
    wrong = ~unmapped & (table >= n_genes)
    if wrong.any():
        place = int(np.argmax(wrong))
        raise ValueError(
            f"{name} maps gene {place} to {table[place]}, but the global genes are numbered 0 to "
            f"{n_genes - 1}; -1 stands for a gene without a place"
        )
    return np.ascontiguousarray(np.where(unmapped, -1, table.astype(np.int64)), dtype=np.int32)


def row_changes(
    tables: tuple[npt.NDArray[np.int32], ...] | None,
    n_cols: int,
    manifest: Manifest,
    *,
    normalize: bool,
    log1p: bool,
    target_sum: Any,
    downsample: tuple[Any, Any, Any],
) -> RowChanges:
    """What happens to rows; None stands for off, and for 1e4 as a target sum.

    `n_cols` is the number of columns of batches.
    """
    target, method, seed = downsample
    downsampling = None
    identities = None
    if target is not None:
        downsampling = Downsampling(
            target,
            "multinomial" if method is None else method,
            0 if seed is None else seed,
            names=(
                "downsample_target_library_size",
                "downsample_method",
                "downsample_seed",
            ),
        )
        identities = np.array(
            [downsample_file_identity(path) for path in manifest.paths], dtype=np.uint64
        )
    elif method is not None or seed is not None:
        given = "downsample_method" if method is not None else "downsample_seed"
        raise ValueError(f"{given} without downsample_target_library_size has no effect")
    return RowChanges(
        remap_tables=tables,
        n_cols=n_cols,
        downsampling=downsampling,
        file_identities=identities,
        normalize=normalize,
        log1p=log1p,
        target_sum=1e4 if target_sum is None else arguments.positive(target_sum, "target_sum"),
    )
