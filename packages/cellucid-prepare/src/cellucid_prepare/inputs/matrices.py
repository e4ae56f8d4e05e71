"""Anything that is a matrix, as a source of blocks of cells."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from cellucid_prepare._faults import Faults
from scx_core.sources._memory_matrix import DenseSource
from scx_core.sources.anndata_memory import matrix_source
from scx_core.sources.base import MatrixSource
from scx_core.sources.h5_matrices import ReadingMeans
from scx_core.sources.h5_matrices import matrix_source as source_on_disk

TURNING_BYTES = 256 << 20


def expression_source(matrix: Any, where: str, faults: Faults) -> MatrixSource | None:
    """A source over `matrix`, or None with the reason noted."""
    import h5py
    import scipy.sparse as sp

    try:
        if hasattr(matrix, "row_blocks"):
            source: MatrixSource = matrix
        elif isinstance(matrix, h5py.Group | h5py.Dataset):
            source = source_on_disk(
                matrix, ReadingMeans(TURNING_BYTES, Path(tempfile.gettempdir()))
            )
        elif sp.issparse(matrix) or _is_lazy(matrix):
            source = matrix_source(matrix, where)
        else:
            source = DenseSource(_array(matrix))
    except (TypeError, ValueError) as error:
        faults.add_type(where, str(error))
        return None
    if len(source.shape) != 2:
        faults.add(where, f"has the shape {source.shape}", "give cells x genes")
        return None
    return source


def _is_lazy(matrix: Any) -> bool:
    top = type(matrix).__module__.partition(".")[0]
    return top in ("dask", "zarr", "anndata")


def _array(matrix: Any) -> Any:
    if isinstance(matrix, np.ma.MaskedArray) and np.ma.is_masked(matrix):
        raise TypeError("is a masked array: decide what the gaps stand for, with .filled(value)")
    array = np.asarray(matrix)
    if array.ndim != 2:
        raise ValueError(f"has the shape {array.shape}: give cells x genes")
    return array
