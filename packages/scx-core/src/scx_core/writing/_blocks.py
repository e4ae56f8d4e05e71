"""Row blocks on their way from a source to the shards: checked, spread over rows, cut."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from scx_core.sources.base import CsrBlock, DenseBlock, MatrixSource

Block = CsrBlock | DenseBlock


def checked_blocks(source: MatrixSource, block_bytes: int, label: str) -> Iterator[Block]:
    """The source's blocks, refused where they are not what the source announced.

    Row pointers are checked here because a wrong one would make the reader of the arrays run past
    their ends; column numbers are checked where the rows are encoded.
    """
    n_rows, n_cols = source.shape
    seen = 0
    for block in source.row_blocks(block_bytes):
        if block.values.dtype != source.dtype:
            raise ValueError(
                f"{label}: rows from {seen} on have dtype {block.values.dtype}, "
                f"the matrix was announced as {source.dtype}"
            )
        if isinstance(block, DenseBlock):
            if block.values.ndim != 2 or block.values.shape[1] != n_cols:
                raise ValueError(f"{label}: rows from {seen} on do not have {n_cols} columns")
        else:
            _check_pointers(block, f"{label}: rows from {seen} on")
        seen += block.n_rows
        if seen > n_rows:
            break
        yield block
    if seen != n_rows:
        raise ValueError(f"{label}: the source yields {seen} rows instead of {n_rows}")


def _check_pointers(block: CsrBlock, where: str) -> None:
    if len(block.indptr) == 0 or bool(np.any(np.diff(block.indptr) < 0)):
        raise ValueError(f"{where} have row pointers that decrease: the matrix is damaged")
    n_values = int(block.indptr[-1] - block.indptr[0])
    if len(block.indices) != n_values or len(block.values) != n_values:
        raise ValueError(
            f"{where} point to {n_values} values, but there are {len(block.indices)} column "
            f"numbers and {len(block.values)} values: the matrix is damaged"
        )


def spread(blocks: Iterable[Block], rows: npt.NDArray[np.int64], n_obs: int) -> Iterator[Block]:
    """Blocks over all `n_obs` rows of the file, empty where no cell of the matrix lies.

    `rows` are the file's rows of the matrix's cells, ascending.
    """
    next_cell = 0
    next_row = 0
    for block in blocks:
        cell_rows = rows[next_cell : next_cell + block.n_rows]
        next_cell += block.n_rows
        if len(cell_rows) == 0:
            continue
        last_row = int(cell_rows[-1]) + 1
        if last_row - next_row == len(cell_rows):
            yield block
        else:
            yield _with_empty_rows(block, cell_rows - next_row, last_row - next_row)
        next_row = last_row
    if next_row < n_obs:
        yield _empty_rows(n_obs - next_row)


def _with_empty_rows(block: Block, positions: npt.NDArray[np.int64], n_rows: int) -> CsrBlock:
    sparse = as_csr(block) if isinstance(block, DenseBlock) else block
    counts = np.zeros(n_rows, dtype=np.int64)
    counts[positions] = np.diff(sparse.indptr)
    indptr = np.zeros(n_rows + 1, dtype=np.int64)
    np.cumsum(counts, out=indptr[1:])
    return CsrBlock(indptr, sparse.indices, sparse.values)


def _empty_rows(n_rows: int) -> CsrBlock:
    no_indices: npt.NDArray[np.int32] = np.empty(0, dtype=np.int32)
    return CsrBlock(np.zeros(n_rows + 1, dtype=np.int64), no_indices, np.empty(0, dtype=np.uint8))


def as_csr(block: DenseBlock) -> CsrBlock:
    """The block without its zeros; -0.0 is a value."""
    stored = block.values != 0
    if block.values.dtype.kind == "f":
        stored |= np.signbit(block.values)
    indptr = np.zeros(block.n_rows + 1, dtype=np.int64)
    np.cumsum(np.count_nonzero(stored, axis=1), out=indptr[1:])
    columns: npt.NDArray[np.int32] = np.nonzero(stored)[1].astype(np.int32)
    return CsrBlock(indptr, columns, block.values[stored])


def cut(blocks: Iterable[Block], shard_size: int) -> Iterator[tuple[int, Block]]:
    """Pairs of a first row and a block that lies in one shard of `shard_size` rows."""
    row = 0
    for block in blocks:
        start = 0
        while start < block.n_rows:
            stop = min(block.n_rows, start + shard_size - row % shard_size)
            yield row, rows_of(block, start, stop)
            row += stop - start
            start = stop


def rows_of(block: Block, start: int, stop: int) -> Block:
    """Rows `start` to `stop` of a block, as views."""
    if start == 0 and stop == block.n_rows:
        return block
    if isinstance(block, DenseBlock):
        return DenseBlock(block.values[start:stop])
    indptr = block.indptr[start : stop + 1]
    first = int(indptr[0] - block.indptr[0])
    last = int(indptr[-1] - block.indptr[0])
    return CsrBlock(indptr, block.indices[first:last], block.values[first:last])


def first_non_finite(block: Block) -> tuple[int, int] | None:
    """Row and column of the first value of a block that is NaN or infinite."""
    wrong = np.flatnonzero(~np.isfinite(block.values))
    if not len(wrong):
        return None
    first = int(wrong[0])
    if isinstance(block, DenseBlock):
        n_cols = block.values.shape[1]
        return first // n_cols, first % n_cols
    row = int(np.searchsorted(block.indptr - block.indptr[0], first, "right")) - 1
    return row, int(block.indices[first])


def with_dtype(block: Block, dtype: np.dtype[Any]) -> Block:
    """The block with its values as `dtype`, which holds each of them exactly."""
    if block.values.dtype == dtype:
        return block
    values = np.require(block.values, dtype, ["C", "A"])
    if isinstance(block, DenseBlock):
        return DenseBlock(values)
    return CsrBlock(block.indptr, block.indices, values)
