"""What a converter hands to the writer: matrices as row blocks, and everything around them.

A reader of some format (AnnData in memory, an .h5ad on disk, a 10x file, an mtx folder) describes
its content as an `ExperimentContent`; `scx_core.writing` turns that into a file without knowing
where it came from. Matrices are never asked for whole: a source yields blocks of consecutive rows,
small enough for the caller's memory budget.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import pandas as pd

MatrixForm: TypeAlias = Literal["csr_matrix", "csr_array", "csc_matrix", "csc_array", "dense"]
"""How the caller held the matrix; `to_anndata` gives the same form back."""

IndexWidth: TypeAlias = Literal["int32", "int64"]
IndexDtypes: TypeAlias = tuple[IndexWidth, IndexWidth]
"""The widths of a sparse matrix's `indices` and `indptr`; `to_anndata` gives the same back."""


@dataclass(frozen=True)
class CsrBlock:
    """Consecutive rows in CSR.

    `indptr` is int64 of n_rows + 1 entries with any start, `indices` int32 or int64, `values` of
    any dtype. `indices[0]` and `values[0]` belong to `indptr[0]`. Rows may be unsorted, hold
    duplicates and explicit zeros: the writer makes them canonical and counts what it mended.
    """

    indptr: npt.NDArray[np.int64]
    indices: npt.NDArray[np.int32] | npt.NDArray[np.int64]
    values: npt.NDArray[Any]

    @property
    def n_rows(self) -> int:
        """How many rows."""
        return len(self.indptr) - 1

    def value_places(
        self, rows: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """How many values each of these rows has, and where in the block they lie, row by row."""
        counts = np.diff(self.indptr)[rows]
        starts = (self.indptr[:-1] - self.indptr[0])[rows]
        before = np.cumsum(counts) - counts
        places = np.repeat(starts - before, counts) + np.arange(int(counts.sum()))
        return counts, places


@dataclass(frozen=True)
class DenseBlock:
    """Consecutive rows, C-contiguous, shape (n_rows, n_cols)."""

    values: npt.NDArray[Any]

    @property
    def n_rows(self) -> int:
        """How many rows."""
        return int(self.values.shape[0])


class MatrixSource(Protocol):
    """A matrix that can be read once, from its first row to its last."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        ...

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the values, as the caller held them."""
        ...

    @property
    def form(self) -> MatrixForm:
        """How the caller held the matrix."""
        ...

    @property
    def index_dtypes(self) -> IndexDtypes | None:
        """None for a dense matrix, and where the widths are nobody's wish."""
        ...

    def row_blocks(self, block_bytes: int) -> Iterator[CsrBlock | DenseBlock]:
        """Yield all rows in order, each block about `block_bytes` of indices and values.

        A block has at least one row. Its arrays must stay unchanged until the block after the next
        one is asked for, because one block is encoded while the next is read.
        """
        ...


@dataclass
class ModalityContent:
    """One modality: its genes and everything aligned with them.

    A plain AnnData has one, without a name. In a multimodal file `obs` and `rows` are set:
    `rows[i]` is the row in the file of the modality's cell i; distinct numbers in any order. Cells
    that no number names were not measured. `obs`, `obsm` and `obsp` keep the modality's own order
    of cells. X, layers and raw, which the file stores by its own rows, yield the cells in
    ascending order of `rows`: cell `argsort(rows)[0]` first. `columns[j]`, where given, is the row
    of gene j in `ExperimentContent.var`.
    """

    var: pd.DataFrame
    X: MatrixSource | None = None
    layers: dict[str, MatrixSource] = field(default_factory=dict)
    obsm: dict[str, Any] = field(default_factory=dict)
    varm: dict[str, Any] = field(default_factory=dict)
    obsp: dict[str, Any] = field(default_factory=dict)
    varp: dict[str, Any] = field(default_factory=dict)
    uns: Mapping[str, Any] = field(default_factory=dict)
    raw_X: MatrixSource | None = None
    raw_var: pd.DataFrame | None = None
    raw_varm: dict[str, Any] = field(default_factory=dict)
    obs: pd.DataFrame | None = None
    rows: npt.NDArray[np.int64] | None = None
    columns: npt.NDArray[np.int64] | None = None


@dataclass
class ExperimentContent:
    """All that one .scx file holds.

    `modalities` has the single key "" for a single-modality file. `var`, `obsm`, `obsp`, `varm`,
    `varp` and `axis` belong to multimodal files: what MuData itself holds beside its modalities,
    and whether these share cells (0), genes (1) or both (-1). `provenance` says in JSON values
    where the content came from; the writer adds what exact round trips need.
    """

    obs: pd.DataFrame
    modalities: dict[str, ModalityContent]
    var: pd.DataFrame | None = None
    obsm: dict[str, Any] = field(default_factory=dict)
    obsp: dict[str, Any] = field(default_factory=dict)
    varm: dict[str, Any] = field(default_factory=dict)
    varp: dict[str, Any] = field(default_factory=dict)
    uns: Mapping[str, Any] = field(default_factory=dict)
    axis: int = 0
    provenance: dict[str, Any] = field(default_factory=dict)
