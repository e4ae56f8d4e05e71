"""The expression matrix: where it comes from, what it holds, and its values by gene.

A matrix is read twice or more, in blocks of cells: once to count what each gene has and to judge
the values, and once for each range of genes whose values fit into memory together. One that is
held by gene is read twice, in blocks of genes, and needs no ranges; one in memory is turned in
stretches that need next to no memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from cellucid_prepare._threads import thread_count
from cellucid_prepare.encode.pool import encoder
from cellucid_prepare.layout.chunks import SLICED_CHUNK_ELEMENTS, gene_strip_chunk
from cellucid_prepare.matrix.by_gene import gene_blocks, gives_genes, without_zeros
from cellucid_prepare.matrix.in_memory import gives_stretches, stretches
from cellucid_prepare.matrix.native import Scan, plain_values, scan_columns, scatter_columns
from scx_core.sources.base import CsrBlock, DenseBlock, MatrixSource

# a block of cells while it is read
BLOCK_BYTES = 16 << 20
# the values of the genes that are put in order at a time
RANGE_BYTES = 256 << 20
# chunks that are encoded together, so that a call is worth its while
RUN_CHUNKS = 8


@dataclass(frozen=True)
class Expression:
    """A matrix of cells by genes.

    `places` has the place of each of its columns in the output, -1 for those that are left out;
    None where all stay. `n_genes` is how many stay.
    """

    source: MatrixSource
    n_genes: int
    places: npt.NDArray[np.int32] | None = None
    range_bytes: int = RANGE_BYTES

    @property
    def n_cells(self) -> int:
        """How many cells."""
        return self.source.shape[0]

    @property
    def is_dense(self) -> bool:
        """Whether it was given as a dense array, and is written as one."""
        return self.source.form == "dense"

    def blocks(self) -> Iterator[tuple[int, CsrBlock]]:
        """The rows of a sparse matrix, each column at most once in a row."""
        row = 0
        for block in self.source.row_blocks(BLOCK_BYTES):
            sparse = block if isinstance(block, CsrBlock) else _sparse(block)
            yield row, sparse
            row += block.n_rows

    def dense_blocks(self) -> Iterator[npt.NDArray[Any]]:
        """The rows of a dense matrix; those of a .scx file are packed like sparse ones."""
        for block in self.source.row_blocks(BLOCK_BYTES):
            if isinstance(block, DenseBlock):
                yield block.values
                continue
            rows = np.zeros((block.n_rows, self.source.shape[1]), block.values.dtype)
            row_of_value = np.repeat(np.arange(block.n_rows), np.diff(block.indptr))
            rows[row_of_value, block.indices] = block.values
            yield rows


@dataclass(frozen=True)
class Judged:
    """An expression matrix whose values have been read once."""

    expression: Expression
    scan: Scan
    counts: npt.NDArray[np.int64]
    is_canonical: bool

    @property
    def dtype(self) -> np.dtype[Any]:
        """float32, or float64 for whole numbers that float32 does not hold exactly."""
        given = self.expression.source.dtype
        # what came as float32 has no digits to lose
        is_wider = given.kind in "iu" or given.itemsize > 4
        counts = self.scan.fractional_values == 0 and self.scan.nan_values == 0
        wide = is_wider and counts and self.scan.above_whole_f32
        return np.dtype(np.float64 if wide else np.float32)

    @property
    def indptr(self) -> npt.NDArray[np.int64]:
        """Where each gene's values begin."""
        indptr = np.zeros(len(self.counts) + 1, np.int64)
        np.cumsum(self.counts, out=indptr[1:])
        return indptr

    def sliced(self, threads: int) -> Iterator[tuple[npt.NDArray[Any], ...]]:
        """Values and cells, gene after gene, in runs of whole chunks of the layout."""
        size = RUN_CHUNKS * SLICED_CHUNK_ELEMENTS
        # what of the ranges so far does not fill a run
        rest = np.empty(0, self.dtype), np.empty(0, np.int32)
        for values, rows in self._ranges(threads):
            start = min(len(values), (size - len(rest[0])) % size)
            rest = (
                np.concatenate((rest[0], values[:start])),
                np.concatenate((rest[1], rows[:start])),
            )
            if len(rest[0]) == size:
                yield rest
                rest = rest[0][:0], rest[1][:0]
            whole = start + (len(values) - start) // size * size
            for first in range(start, whole, size):
                yield values[first : first + size], rows[first : first + size]
            if whole < len(values):
                rest = values[whole:].copy(), rows[whole:].copy()
            # two ranges must not lie in memory together
            del values, rows
        if len(rest[0]):
            yield rest

    def _genes(self) -> Iterator[tuple[npt.NDArray[Any], npt.NDArray[np.int32]]]:
        """Values and cells of genes that come in their order."""
        n_cells = self.expression.n_cells
        for place, block in gene_blocks(
            self.expression.source, self.expression.places, BLOCK_BYTES
        ):
            ordered = block if self.is_canonical else canonical(block, n_cells)
            counts, whole = without_zeros(ordered)
            if not np.array_equal(counts, self.counts[place : place + len(counts)]):
                raise RuntimeError("the matrix has changed while it was written")
            yield whole.values.astype(self.dtype), whole.indices.astype(np.int32)

    def _ranges(self, threads: int) -> Iterator[tuple[npt.NDArray[Any], npt.NDArray[np.int32]]]:
        """Values and cells of consecutive ranges of genes, each small enough for memory."""
        source = self.expression
        if gives_genes(source.source, source.places):
            yield from self._genes()
            return
        indptr = self.indptr
        if self.is_canonical and gives_stretches(source.source, source.places):
            yield from stretches(
                source.source, source.places, indptr, self.dtype, bytes_max=source.range_bytes
            )
            return
        per_range = max(1, source.range_bytes // (4 + self.dtype.itemsize))
        start = 0
        while start < source.n_genes:
            stop = int(np.searchsorted(indptr, indptr[start] + per_range, "right")) - 1
            stop = min(max(stop, start + 1), source.n_genes)
            n_values = int(indptr[stop] - indptr[start])
            values = np.empty(n_values, self.dtype)
            rows = np.empty(n_values, np.int32)
            cursors = indptr[start:stop] - indptr[start]
            for row, block in source.blocks():
                scatter_columns(
                    block if self.is_canonical else canonical(block, source.source.shape[1]),
                    source.source.shape[1],
                    source.places,
                    row_start=row,
                    column_start=start,
                    cursors=cursors,
                    rows_out=rows,
                    values_out=values,
                    threads=threads,
                )
            if not np.array_equal(cursors, indptr[start + 1 : stop + 1] - indptr[start]):
                raise RuntimeError("the matrix has changed while it was written")
            part = values, rows
            del values, rows
            yield part
            del part
            start = stop

    def strips(self) -> Iterator[tuple[npt.NDArray[Any], ...]]:
        """The chunks of a dense matrix: strips of genes, in grid order."""
        n_cells, n_genes = self.expression.n_cells, self.expression.n_genes
        chunk_cells, chunk_genes = gene_strip_chunk(n_cells, n_genes)
        columns = self._columns()
        width = max(1, self.expression.range_bytes // max(1, n_cells * self.dtype.itemsize))
        width = max(chunk_genes, width - width % chunk_genes)
        # grid order runs over the blocks of cells first
        for row in range(0, n_cells, chunk_cells):
            last = min(n_cells, row + chunk_cells)
            for start in range(0, n_genes, width):
                part = self._dense_columns(columns[start : start + width], row, last)
                for left in range(0, part.shape[1], chunk_genes):
                    yield (part[:, left : left + chunk_genes],)

    def _columns(self) -> npt.NDArray[np.int64]:
        """The source's column of each gene."""
        places = self.expression.places
        if places is None:
            return np.arange(self.expression.n_genes)
        columns = np.empty(self.expression.n_genes, np.int64)
        kept = np.flatnonzero(places >= 0)
        columns[places[kept]] = kept
        return columns

    def _dense_columns(
        self, columns: npt.NDArray[np.int64], first: int, last: int
    ) -> npt.NDArray[Any]:
        values = np.empty((last - first, len(columns)), self.dtype)
        row = 0
        for rows in self.expression.dense_blocks():
            low, high = max(first, row), min(last, row + len(rows))
            if low < high:
                values[low - first : high - first] = rows[low - row : high - row][:, columns]
            row += len(rows)
        return values


def judged(expression: Expression) -> Judged:
    """Read all values once."""
    scan = Scan()
    counts = np.zeros(expression.n_genes, np.int64)
    n_cols = expression.source.shape[1]
    if expression.is_dense:
        for rows in expression.dense_blocks():
            _scan_dense(rows, expression, counts, scan)
        return Judged(expression, scan, counts, is_canonical=True)
    if gives_genes(expression.source, expression.places):
        return _judged_by_gene(expression)

    def block_of(item: tuple[int, CsrBlock]) -> tuple[npt.NDArray[np.int64], Scan, bool]:
        counted, seen = np.zeros_like(counts), Scan()
        scan_columns(item[1], n_cols, expression.places, counted, seen)
        if not seen.unordered_rows:
            return counted, seen, True
        counted, seen = np.zeros_like(counts), Scan()
        scan_columns(canonical(item[1], n_cols), n_cols, expression.places, counted, seen)
        return counted, seen, False

    # what has to be read comes one block after the other; in memory all of them are there
    in_memory = gives_stretches(expression.source, expression.places)
    is_canonical = True
    with encoder(thread_count() if in_memory else 1) as each:
        for counted, seen, is_ordered in each(block_of, expression.blocks()):
            counts += counted
            scan = scan.plus(seen)
            is_canonical = is_canonical and is_ordered
    return Judged(expression, scan, counts, is_canonical)


def _judged_by_gene(expression: Expression) -> Judged:
    n_cells = expression.n_cells
    scan, is_canonical = Scan(), True
    counts = np.zeros(expression.n_genes, np.int64)
    by_cell = np.zeros(n_cells, np.int64)
    for place, block in gene_blocks(expression.source, expression.places, BLOCK_BYTES):
        seen, ordered = replace(scan), block
        scan_columns(block, n_cells, None, by_cell, seen)
        if seen.unordered_rows:
            is_canonical = False
            seen, ordered = replace(scan), canonical(block, n_cells)
            scan_columns(ordered, n_cells, None, by_cell, seen)
        scan = seen
        counts[place : place + block.n_rows], _ = without_zeros(ordered)
    return Judged(expression, scan, counts, is_canonical)


def _scan_dense(
    rows: npt.NDArray[Any], expression: Expression, counts: npt.NDArray[np.int64], scan: Scan
) -> None:
    n_rows, n_cols = rows.shape
    indptr = np.arange(n_rows + 1, dtype=np.int64) * n_cols
    indices = np.tile(np.arange(n_cols, dtype=np.int32), n_rows)
    flat = CsrBlock(indptr, indices, plain_values(rows.reshape(-1)))
    scan_columns(flat, n_cols, expression.places, counts, scan)


def canonical(block: CsrBlock, n_cols: int) -> CsrBlock:
    """The block with ascending columns, the values of a cell and gene that came twice added up.

    They are added up in their own type, as scipy does whenever it looks at the matrix.
    """
    import scipy.sparse as sp

    start = int(block.indptr[0])
    values = block.values.astype(block.values.dtype.newbyteorder("="), copy=False)
    if values.dtype == np.float16:
        values = values.astype(np.float32)  # scipy has no such values
    matrix: Any = sp.csr_matrix(
        (values, block.indices, block.indptr - start),
        shape=(block.n_rows, n_cols),
        copy=True,
    )
    matrix.sum_duplicates()
    indices = matrix.indices
    if indices.dtype not in (np.int32, np.int64):
        indices = indices.astype(np.int64)
    return CsrBlock(matrix.indptr.astype(np.int64), indices, matrix.data)


def _sparse(block: DenseBlock) -> CsrBlock:
    from scx_core.writing._blocks import as_csr

    return as_csr(block)
