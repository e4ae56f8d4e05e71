"""A matrix on disk with its rows in another order, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scx_core.sources.base import CsrBlock, DenseBlock
from scx_core.sources.csc_transpose import Transposition, Turned
from scx_core.sources.derived import DerivedSource
from scx_core.sources.h5_matrices import OnDisk, ReadingMeans
from scx_core.writing._blocks import as_csr


@dataclass(frozen=True)
class ReorderedRows(DerivedSource):
    """Row i of this source is row `order[i]` of another one.

    Reading single rows from all over a compressed file would unpack it many times over. So the
    rows are read once, in the order of the file, and sorted by way of temporary files.
    """

    source: OnDisk
    order: npt.NDArray[np.int64]
    means: ReadingMeans

    def row_blocks(self, block_bytes: int) -> Iterator[CsrBlock]:
        n_rows, n_cols = self.shape
        sorting = Transposition(
            n_rows, n_cols, self.dtype, self.means.memory_bytes, self.means.folder
        )
        parts = self._parts(sorting, block_bytes)
        with sorting.collected(parts, self.source.n_values) as collection:
            yield from collection.blocks(block_bytes)

    def _parts(self, sorting: Transposition, block_bytes: int) -> Iterator[Turned]:
        new_rows = np.empty(len(self.order), np.int64)
        new_rows[self.order] = np.arange(len(self.order))
        start = 0
        for block in self.source.row_blocks(min(block_bytes, sorting.piece_bytes)):
            rows = as_csr(block) if isinstance(block, DenseBlock) else block
            yield sorted_rows(rows, new_rows[start : start + block.n_rows], sorting)
            start += block.n_rows


def sorted_rows(block: CsrBlock, numbers: npt.NDArray[np.int64], sorting: Transposition) -> Turned:
    """The rows of a block in the order of their new numbers, those without values left out."""
    order = np.argsort(numbers)
    order = order[np.diff(block.indptr)[order] > 0]
    counts, places = block.value_places(order)
    return Turned(
        majors=numbers[order].astype(sorting.major_dtype),
        counts=counts.astype(sorting.major_dtype),
        minors=block.indices[places].astype(sorting.minor_dtype, copy=False),
        values=block.values[places],
    )
