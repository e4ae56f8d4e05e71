"""Matrices that are held by gene already: their values are judged and cut, and need no turning."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from scx_core.sources.base import CsrBlock, DenseBlock, IndexDtypes, MatrixForm, MatrixSource
from scx_core.sources.derived import DerivedSource
from scx_core.sources.h5_compressed import CompressedPiece


@dataclass(frozen=True)
class ByGene(DerivedSource):
    """A source of blocks of cells that can also give whole genes, one after the other."""

    pieces: Callable[[int], Iterator[CompressedPiece]]


def gives_genes(source: MatrixSource, places: npt.NDArray[np.int32] | None) -> bool:
    """Whether the genes come in the order in which they are written."""
    if not isinstance(source, ByGene):
        return False
    kept = None if places is None else places[places >= 0]
    return kept is None or bool((np.diff(kept) > 0).all())


def gene_blocks(
    source: MatrixSource, places: npt.NDArray[np.int32] | None, block_bytes: int
) -> Iterator[tuple[int, CsrBlock]]:
    """Consecutive genes of those that are written: the first one's place, a row for each gene."""
    assert isinstance(source, ByGene)
    place = 0
    for piece in source.pieces(block_bytes):
        block = CsrBlock(piece.indptr, piece.indices, piece.values)
        if places is not None:
            chosen = places[piece.first_major : piece.first_major + piece.n_majors] >= 0
            if not chosen.all():
                block = _rows_of(block, np.flatnonzero(chosen))
        if block.n_rows:
            yield place, block
        place += block.n_rows


def _rows_of(block: CsrBlock, rows: npt.NDArray[np.int64]) -> CsrBlock:
    counts, places = block.value_places(rows)
    indptr = np.concatenate(([0], np.cumsum(counts)))
    return CsrBlock(indptr, block.indices[places], block.values[places])


def without_zeros(block: CsrBlock) -> tuple[npt.NDArray[np.int64], CsrBlock]:
    """How many values other than 0 each gene has, and the block with these alone."""
    kept = block.values != 0
    before = np.concatenate(([0], np.cumsum(kept, dtype=np.int64)))
    indptr = before[block.indptr - block.indptr[0]]
    if int(indptr[-1]) == len(block.values):
        return np.diff(indptr), block
    return np.diff(indptr), CsrBlock(indptr, block.indices[kept], block.values[kept])


@dataclass(frozen=True)
class CscSource:
    """A scipy CSC matrix; a CSR copy is made only for genes in another order."""

    matrix: Any
    index_dtypes: IndexDtypes | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Cells and genes."""
        n_cells, n_genes = self.matrix.shape
        return int(n_cells), int(n_genes)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the values."""
        dtype: np.dtype[Any] = self.matrix.dtype
        return dtype

    @property
    def form(self) -> MatrixForm:
        """How it is held."""
        return "csc_matrix"

    def row_blocks(self, block_bytes: int) -> Iterator[CsrBlock | DenseBlock]:
        """See `MatrixSource`."""
        from scx_core.sources._memory_matrix import ordered

        return ordered(self.matrix, None).row_blocks(block_bytes)


def pieces_in_memory(matrix: Any) -> Callable[[int], Iterator[CompressedPiece]]:
    """Whole genes of a scipy CSC matrix, as views."""

    def pieces(piece_bytes: int) -> Iterator[CompressedPiece]:
        indptr = np.asarray(matrix.indptr)
        value_bytes = matrix.indices.itemsize + matrix.data.itemsize
        per_piece = max(1, piece_bytes // value_bytes)
        start = 0
        while start < len(indptr) - 1:
            stop = int(np.searchsorted(indptr, int(indptr[start]) + per_piece, "right")) - 1
            stop = min(max(stop, start + 1), start + per_piece, len(indptr) - 1)
            low, high = int(indptr[start]), int(indptr[stop])
            yield CompressedPiece(
                start,
                indptr[start : stop + 1].astype(np.int64) - low,
                matrix.indices[low:high],
                np.asarray(matrix.data[low:high]),
            )
            start = stop

    return pieces
