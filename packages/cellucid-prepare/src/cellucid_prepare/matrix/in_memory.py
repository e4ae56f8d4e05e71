"""Rows that all lie in memory: their values by gene, a stretch of the result at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from cellucid_prepare.layout.chunks import SLICED_CHUNK_ELEMENTS
from cellucid_prepare.matrix.native import WIDENED, Stretches
from scx_core._value_types import VALUE_TYPES
from scx_core.sources._memory_matrix import CsrSource
from scx_core.sources.base import MatrixSource

# a stretch stays in a CPU's caches until it is encoded
STRETCH_CHUNKS = 64
# going through all rows pays where each has some values in the stretch
VALUES_OF_ROW = 32


def gives_stretches(source: MatrixSource, places: npt.NDArray[np.int32] | None) -> bool:
    """Whether all rows can be looked at again and again, and name genes in the order written."""
    if not isinstance(source, CsrSource):
        return False
    name = source.dtype.name
    if name not in VALUE_TYPES and (name in WIDENED or name != "bool"):
        return False  # every look would make a copy
    kept = None if places is None else places[places >= 0]
    return kept is None or bool((np.diff(kept) > 0).all())


def stretches(
    source: MatrixSource,
    places: npt.NDArray[np.int32] | None,
    indptr: npt.NDArray[np.int64],
    dtype: np.dtype[Any],
    *,
    bytes_max: int,
) -> Iterator[tuple[npt.NDArray[Any], npt.NDArray[np.int32]]]:
    """Values and cells, gene after gene: `indptr` says where each gene's begin.

    Columns ascend in each row of `source`. All but the last stretch have whole chunks.
    """
    assert isinstance(source, CsrSource)
    n_values = int(indptr[-1])
    step = max(STRETCH_CHUNKS * SLICED_CHUNK_ELEMENTS, VALUES_OF_ROW * source.shape[0])
    step = min(step, bytes_max // (4 + dtype.itemsize))
    step = max(1, step // SLICED_CHUNK_ELEMENTS) * SLICED_CHUNK_ELEMENTS
    (block,) = source.row_blocks(np.iinfo(np.int64).max)
    filling = Stretches(block, source.shape[1], places, indptr)
    for first in range(0, n_values, step):
        length = min(step, n_values - first)
        values, rows = np.empty(length, dtype), np.empty(length, np.int32)
        filling.fill(first, rows, values)
        yield values, rows
    filling.check_end()
