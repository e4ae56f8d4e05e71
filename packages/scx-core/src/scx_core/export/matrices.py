"""Matrices of an open .scx file into HDF5, block by block."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from scx_core.experiment._memory import GatheredRows, as_dense
from scx_core.export.elements import DatasetOptions, Group, mark
from scx_core.sources.base import CsrBlock
from scx_core.sources.csc_transpose import Transposition
from scx_core.sources.h5_compressed import CompressedPiece
from scx_core.sources.h5_matrices import ReadingMeans

if TYPE_CHECKING:
    from scx_core.experiment import MatrixView

Rows = npt.NDArray[np.int64]
OnRows = Callable[[int], None]

# values in a chunk of a sparse matrix: 256 kB of float32, few enough chunks for a quick index
CHUNK_VALUES = 1 << 16


@dataclass(frozen=True)
class Exporting:
    """What all matrices of an export have in common."""

    options: DatasetOptions
    means: ReadingMeans
    block_bytes: int
    on_rows: OnRows


def write_matrix(
    group: Group, key: str, view: MatrixView, rows: Rows | None, exporting: Exporting
) -> None:
    """Write `view`, or the given rows of it, in the form in which it was held."""
    if view.form == "dense":
        _write_dense(group, key, view, rows, exporting)
        return
    n_rows = view.shape[0] if rows is None else len(rows)
    blocks = gathered_blocks(view, rows, exporting)
    if view.form.startswith("csr"):
        shape = (n_rows, view.shape[1])
        as_csr = (CsrBlock(part.indptr, part.indices, part.values) for part in blocks)
        _write_sparse(group, key, "csr_matrix", shape, n_rows, view, as_csr, exporting)
        return
    n_cols = view.shape[1]
    dtype = sparse_dtype(view.dtype)
    turning = Transposition(
        n_cols, n_rows, dtype, exporting.means.memory_bytes, exporting.means.folder
    )
    columns = turning.blocks(_pieces(blocks, dtype), view.nnz, exporting.block_bytes)
    _write_sparse(group, key, "csc_matrix", (n_rows, n_cols), n_cols, view, columns, exporting)


def gathered_blocks(
    view: MatrixView, rows: Rows | None, exporting: Exporting
) -> Iterator[GatheredRows]:
    """All rows, or those asked for in their order, in blocks of about `block_bytes`."""
    if rows is None:
        for start, stop in view.row_ranges(exporting.block_bytes):
            yield view.gather(np.arange(start, stop, dtype=np.int64))
            exporting.on_rows(stop - start)
        return
    mean_bytes = 16 + (view.nnz * (4 + view.dtype.itemsize)) // max(1, view.shape[0])
    step = max(1, exporting.block_bytes // mean_bytes)
    for start in range(0, len(rows), step):
        chosen = rows[start : start + step]
        yield view.gather(chosen)
        exporting.on_rows(len(chosen))


def sparse_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of a sparse matrix in scipy: native, and no half floats."""
    return np.dtype(np.float32) if dtype == np.float16 else dtype.newbyteorder("=")


def _pieces(blocks: Iterable[GatheredRows], dtype: np.dtype[Any]) -> Iterator[CompressedPiece]:
    first_row = 0
    for block in blocks:
        values = block.values.astype(dtype, copy=False)
        yield CompressedPiece(first_row, block.indptr, block.indices, values)
        first_row += block.shape[0]


def _write_sparse(
    group: Group,
    key: str,
    encoding: str,
    shape: tuple[int, int],
    n_majors: int,
    view: MatrixView,
    blocks: Iterable[CsrBlock],
    exporting: Exporting,
) -> None:
    """Fill the three arrays of a compressed matrix from blocks along its major axis."""
    n_values = view.nnz
    index_dtype, pointer_dtype = _widths(view, n_values)
    matrix = group.create_group(key)
    mark(matrix, encoding, "0.1.0")
    matrix.attrs["shape"] = shape
    dtype = sparse_dtype(view.dtype)
    data = _growable(matrix, "data", n_values, dtype, exporting.options)
    indices = _growable(matrix, "indices", n_values, index_dtype, exporting.options)
    indptr = _growable(matrix, "indptr", n_majors + 1, pointer_dtype, exporting.options)
    major = value = 0
    for block in blocks:
        stop = value + len(block.values)
        if stop > value:
            data[value:stop] = block.values.astype(dtype, copy=False)
            indices[value:stop] = block.indices.astype(index_dtype, copy=False)
        ends = block.indptr[1:] - block.indptr[0] + value
        indptr[major + 1 : major + 1 + len(ends)] = ends.astype(pointer_dtype)
        major, value = major + len(ends), stop
    if (major, value) != (n_majors, n_values):
        raise ValueError(
            f"{view.name}: {value} values in {major} rows or columns came out of the file, "
            f"which announces {n_values} in {n_majors}"
        )


def _widths(view: MatrixView, n_values: int) -> tuple[np.dtype[Any], np.dtype[Any]]:
    """The dtypes of indices and indptr: those that were held, if the values can be counted so."""
    indices, indptr = view.index_dtypes or ("int32", "int32")
    if n_values > np.iinfo(np.int32).max:
        indptr = "int64"
    return np.dtype(indices), np.dtype(indptr)


def _growable(
    group: Group, key: str, length: int, dtype: np.dtype[Any], options: DatasetOptions
) -> Any:
    # anndata makes these arrays growable, so that rows can be appended in place
    return group.create_dataset(
        key,
        shape=(length,),
        maxshape=(None,),
        dtype=dtype,
        chunks=(max(1, min(length, CHUNK_VALUES)),),
        **options,
    )


def _write_dense(
    group: Group, key: str, view: MatrixView, rows: Rows | None, exporting: Exporting
) -> None:
    n_rows = view.shape[0] if rows is None else len(rows)
    shape = (n_rows, view.shape[1])
    options = dict(exporting.options)
    if options and all(shape):
        # whole rows, because they are written and mostly read by rows
        row_bytes = shape[1] * view.dtype.itemsize
        options["chunks"] = (min(n_rows, max(1, (1 << 18) // row_bytes)), shape[1])
    dataset = group.create_dataset(key, shape=shape, dtype=view.dtype, **options)
    mark(dataset, "array", "0.2.0")
    step = max(1, exporting.block_bytes // max(1, shape[1] * view.dtype.itemsize))
    for start in range(0, n_rows, step):
        stop = min(start + step, n_rows)
        chosen = np.arange(start, stop, dtype=np.int64) if rows is None else rows[start:stop]
        if shape[1]:
            dataset[start:stop] = as_dense(view.gather(chosen))
        exporting.on_rows(stop - start)
