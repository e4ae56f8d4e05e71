"""What batches are."""

from __future__ import annotations

from typing import Any, TypedDict

import numpy as np
import numpy.typing as npt

from scx_core.native.pipeline import CsrBatch


class Batch(TypedDict):
    """A batch of cells.

    `X` is float32 of shape (cells, genes): a numpy array, or with `layout="csr"` a
    `scipy.sparse.csr_matrix`. Its memory is used again for a later batch once nothing
    refers to it any more, so keeping a batch is safe, and keeping none is fast. `obs` has for each
    column an array, or for categories `{"codes": int32 array, "categories": list of str}`. To type
    checkers a batch has all keys, but `obsm` is there when entries of it were asked for, and
    `file_ids` (which file each cell is of) and `measured` (which genes each file has, bool of shape
    (files, genes), read-only) where the data set has several files.
    """

    X: Any
    obs: dict[str, Any]
    cell_indices: npt.NDArray[np.int64]
    obsm: dict[str, npt.NDArray[Any]]
    file_ids: npt.NDArray[np.int32]
    measured: npt.NDArray[np.bool_]


class MultimodalBatch(TypedDict):
    """A batch of cells of several modalities: `X` holds a matrix for each, row i the same cell.

    `measured` tells for each modality which of the cells it has. Where the data set has several
    files, `measured_genes` tells for each modality which columns of its matrix each file has: bool
    of shape (files, columns), read-only. All else is as in `Batch`.
    """

    X: dict[str, Any]
    measured: dict[str, npt.NDArray[np.bool_]]
    obs: dict[str, Any]
    cell_indices: npt.NDArray[np.int64]
    obsm: dict[str, npt.NDArray[Any]]
    file_ids: npt.NDArray[np.int32]
    measured_genes: dict[str, npt.NDArray[np.bool_]]


def matrix_of(values: npt.NDArray[np.float32] | CsrBatch) -> Any:
    """What a pipeline made, as users know it: a numpy array, or a scipy CSR matrix."""
    if not isinstance(values, CsrBatch):
        return values
    import scipy.sparse as sp

    shape = (len(values.indptr) - 1, values.n_columns)
    matrix = sp.csr_matrix((values.values, values.indices, values.indptr), shape=shape, copy=False)
    matrix.has_canonical_format = True
    return matrix
