"""What every loader yields, and the arithmetic that loaders without their own get.

Runs under the Python of any environment: the standard library, numpy and scipy only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

TARGET_SUM = 1e4


@dataclass(frozen=True)
class Request:
    """What an epoch is to yield.

    ``task`` is "panel" (the panel's genes, normalised to 10,000 over all genes, log1p, dense
    float32), "counts" (the panel's genes as they are, dense float32) or "csr" (all genes as they
    are, sparse). With ``identify`` every batch names its rows; timed runs do without.
    """

    task: str
    batch_size: int
    epoch: int
    identify: bool = False


@dataclass(frozen=True)
class Batch:
    """Cells x genes, a dense array or a CSR matrix; and the cells' row numbers where asked for."""

    X: Any
    rows: npt.NDArray[np.int64] | None = None


class Loader(Protocol):
    """A loader on one file."""

    packages: tuple[str, ...]
    """Distributions whose versions belong into the report."""

    def open(self, h5ad: str, cache: str, panel: npt.NDArray[np.int64]) -> dict[str, float]:
        """Get ready for epochs; return seconds (or bytes) worth reporting, by name."""

    def batches(self, request: Request) -> Iterator[Batch]:
        """Yield one shuffled epoch, everything from the constructor on."""


def shape_batch(counts: Any, task: str, panel: npt.NDArray[np.int64]) -> Any:
    """Turn CSR counts of all genes into what the task wants, with plain numpy and scipy."""
    counts = sp.csr_matrix(counts)
    if task == "csr":
        return counts
    if task == "counts":
        return counts[:, panel].toarray().astype(np.float32, copy=False)
    depth = np.asarray(counts.sum(axis=1, dtype=np.float64)).ravel()
    scale = np.divide(TARGET_SUM, depth, out=np.ones_like(depth), where=depth > 0)
    chosen = counts[:, panel].astype(np.float32, copy=False)
    chosen.data *= np.repeat(scale.astype(np.float32), np.diff(chosen.indptr))
    np.log1p(chosen.data, out=chosen.data)
    return chosen.toarray()


def rows_of_names(names: Any) -> npt.NDArray[np.int64]:
    """Row numbers from the cell names that the generator gives ("cell_17" is row 17)."""
    return np.array([int(str(name).rpartition("_")[2]) for name in names], dtype=np.int64)
