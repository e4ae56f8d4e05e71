"""Anything that is a matrix, as a source of blocks of cells."""

from __future__ import annotations

from typing import Any

import numpy as np

from cellucid_prepare._faults import Faults
from cellucid_prepare.inputs.temporary import temporary_folder
from cellucid_prepare.matrix.by_gene import ByGene, CscSource, pieces_in_memory
from scx_core.sources._memory_matrix import DenseSource
from scx_core.sources.anndata_memory import is_dask, matrix_source
from scx_core.sources.base import MatrixSource
from scx_core.sources.h5_matrices import CscOnDisk, ReadingMeans
from scx_core.sources.h5_matrices import matrix_source as source_on_disk

# what a matrix stored by genes may take while it is turned; more of it waits in temporary files
TURNING_BYTES = 128 << 20


def reading_means() -> ReadingMeans:
    """Memory and folder for matrices that lie on disk in another order than by cells."""
    return ReadingMeans(TURNING_BYTES, temporary_folder())


def expression_source(matrix: Any, where: str, faults: Faults) -> MatrixSource | None:
    """A source over `matrix`, or None with the reason noted."""
    try:
        source = _source(matrix, where)
    except (TypeError, ValueError) as error:
        faults.add_type(where, str(error))
        return None
    if len(source.shape) != 2:
        faults.add(where, f"has the shape {source.shape}", "give cells x genes")
        return None
    return source


def _source(matrix: Any, where: str) -> MatrixSource:
    import h5py
    import scipy.sparse as sp

    if hasattr(matrix, "row_blocks"):
        return _by_gene(matrix)
    top = type(matrix).__module__.partition(".")[0]
    if top == "anndata" and hasattr(matrix, "group"):
        matrix = matrix.group  # a sparse matrix on disk: read here, not loaded whole
    if isinstance(matrix, h5py.Group | h5py.Dataset):
        return _by_gene(source_on_disk(matrix, reading_means()))
    if type(matrix).__module__.partition(".")[0] == "zarr":
        from cellucid_prepare.inputs.zarr_matrices import zarr_source

        return _by_gene(zarr_source(matrix, reading_means()))
    if is_dask(matrix):
        from cellucid_prepare.inputs.selected import dask_source

        return _by_gene(dask_source(matrix, where, reading_means()))
    if isinstance(matrix, sp.csc_matrix | sp.csc_array):
        return ByGene(CscSource(matrix), pieces_in_memory(matrix))
    if sp.issparse(matrix) or top == "anndata":
        return matrix_source(matrix, where)
    return DenseSource(_array(matrix))


def _by_gene(source: MatrixSource) -> MatrixSource:
    """`source`, as one that gives genes where it is held by gene."""
    if isinstance(source, CscOnDisk):
        return ByGene(source, source.arrays.pieces)
    genes = getattr(source, "gene_pieces", None)
    return source if genes is None else ByGene(source, genes)


def _array(matrix: Any) -> Any:
    if isinstance(matrix, np.ma.MaskedArray) and np.ma.is_masked(matrix):
        raise TypeError("is a masked array: decide what the gaps stand for, with .filled(value)")
    array = np.asarray(matrix)
    if array.ndim != 2:
        raise ValueError(f"has the shape {array.shape}: give cells x genes")
    return array
