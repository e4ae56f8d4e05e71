"""Sources over another source: some of its columns, or its values in another type."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from scx_core.sources.base import CsrBlock, DenseBlock, IndexDtypes, MatrixForm, MatrixSource


@dataclass(frozen=True)
class DerivedSource:
    """What another source says and gives, for those that change a part of it."""

    source: MatrixSource

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.source.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the values."""
        return self.source.dtype

    @property
    def form(self) -> MatrixForm:
        """How the caller held the matrix."""
        return self.source.form

    @property
    def index_dtypes(self) -> IndexDtypes | None:
        """See `MatrixSource`."""
        return self.source.index_dtypes

    def row_blocks(self, block_bytes: int) -> Iterator[CsrBlock | DenseBlock]:
        """See `MatrixSource`."""
        return self.source.row_blocks(block_bytes)


@dataclass(frozen=True)
class SelectedColumns(DerivedSource):
    """The columns of a CSR source for which `kept` is true, renumbered."""

    kept: npt.NDArray[np.bool_]

    @property
    def shape(self) -> tuple[int, int]:
        return self.source.shape[0], int(self.kept.sum())

    def row_blocks(self, block_bytes: int) -> Iterator[CsrBlock]:
        number = np.cumsum(self.kept, dtype=np.int32) - 1
        for block in self.source.row_blocks(block_bytes):
            assert isinstance(block, CsrBlock)
            chosen = self.kept[block.indices]
            kept_before = np.concatenate(([0], np.cumsum(chosen)))
            yield CsrBlock(
                indptr=kept_before[block.indptr - block.indptr[0]],
                indices=number[block.indices[chosen]],
                values=block.values[chosen],
            )


@dataclass(frozen=True)
class CastValues(DerivedSource):
    """A CSR source with its values in another type that holds all of them exactly."""

    value_dtype: np.dtype[Any]

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.value_dtype

    def row_blocks(self, block_bytes: int) -> Iterator[CsrBlock]:
        for block in self.source.row_blocks(block_bytes):
            assert isinstance(block, CsrBlock)
            yield replace(block, values=block.values.astype(self.value_dtype))
