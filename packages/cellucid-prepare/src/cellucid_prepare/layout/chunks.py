"""How arrays are cut into chunks, each of which a browser reads with one request.

The sizes are part of the published layout.
"""

from __future__ import annotations

import numpy as np

# X/data and X/indices: a gene is a slice of them
SLICED_CHUNK_ELEMENTS = 1 << 14
# arrays with a row for each cell
CELL_CHUNK_ELEMENTS = 1 << 16
# everything else, which is read whole
WHOLE_CHUNK_ELEMENTS = 1 << 18


def vector_chunk(length: int, elements: int) -> int:
    """Entries in a chunk of a vector; at least one, also where there are none."""
    return max(1, min(length, elements))


def table_chunk(n_rows: int, n_columns: int) -> tuple[int, int]:
    """Blocks of rows across all columns, for arrays with a row for each cell."""
    rows = vector_chunk(n_rows, max(1, CELL_CHUNK_ELEMENTS // max(1, n_columns)))
    return rows, max(1, n_columns)


def gene_strip_chunk(n_cells: int, n_genes: int) -> tuple[int, int]:
    """Strips of a few genes over as many cells as fit, for a dense X."""
    cells = vector_chunk(n_cells, WHOLE_CHUNK_ELEMENTS)
    return cells, vector_chunk(n_genes, WHOLE_CHUNK_ELEMENTS // cells)


def index_dtype(largest: int) -> np.dtype[np.signedinteger]:
    """The narrower of the two integers of sparse matrices that holds `largest`."""
    return np.dtype(np.int32 if largest <= np.iinfo(np.int32).max else np.int64)
