"""The graph of neighbours."""

from __future__ import annotations

from typing import Any

import numpy as np

from cellucid_prepare._faults import Faults, plural

WHERE = "obsp['connectivities']"


def check_graph(graph: Any, n_cells: int | None, faults: Faults, *, where: str = WHERE) -> Any:
    """The graph as a canonical CSR matrix of float32, or None with what is wrong noted."""
    import scipy.sparse as sp

    given: Any = graph if sp.issparse(graph) else np.asarray(graph)
    if given.dtype.kind not in "biuf":
        faults.add_type(where, f"holds values of type {given.dtype}", "it takes real numbers")
        return None
    if n_cells is not None and given.shape != (n_cells, n_cells):
        faults.add(
            where,
            f"has the shape {given.shape}, and there are {plural(n_cells, 'cell')}",
            f"give {n_cells} x {n_cells}",
        )
        return None
    matrix: Any = sp.csr_matrix(given, copy=True)
    # before weights that come twice are added up: small integers would not hold the sum
    matrix = matrix.astype(np.float64)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    before = len(faults.found)
    _check_weights(matrix, where, faults)
    if len(faults.found) > before:
        return None
    with np.errstate(over="ignore"):
        small: Any = matrix.astype(np.float32)
    if not np.isfinite(small.data).all():
        beyond = int((~np.isfinite(small.data)).sum())
        faults.add(
            where, f"{plural(beyond, 'weight', 'are')} too large for float32", n_cells=beyond
        )
        return None
    return small


def _check_weights(matrix: Any, where: str, faults: Faults) -> None:
    infinite = ~np.isfinite(matrix.data)
    if infinite.any():
        count = int(infinite.sum())
        faults.add(
            where, f"{plural(count, 'weight', 'are')} not finite", "remove them", n_cells=count
        )
        return
    negative = int((matrix.data < 0).sum())
    if negative:
        faults.add(
            where, f"{plural(negative, 'weight', 'are')} negative", "use weights of at least 0"
        )
    on_diagonal = int(np.count_nonzero(matrix.diagonal()))
    if on_diagonal:
        faults.add(
            where,
            f"{plural(on_diagonal, 'cell', 'are')} their own neighbours",
            "set the diagonal to 0 (.setdiag(0))",
            n_cells=on_diagonal,
        )
    unequal: Any = matrix != matrix.T
    if unequal.nnz:
        cells = len(np.unique(unequal.nonzero()[0]))
        faults.add(
            where,
            f"is not symmetric: weights of {plural(cells, 'cell')} differ from those the other way",
            "symmetrise it, for instance as graph.maximum(graph.T)",
            n_cells=cells,
        )
