"""Small collections of files, and what they hold."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anndata
import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

import scx_core


@dataclass(frozen=True)
class Collection:
    """Files, and what they hold as dense arrays."""

    paths: list[str]
    dense: list[npt.NDArray[Any]]

    def plan(self, seed: int, n_rows: int, *, n_sets: int = 3) -> tuple[Any, Any, Any, Any]:
        """Random rows of all files, in sets of any size."""
        rng = np.random.default_rng(seed)
        files = rng.integers(0, len(self.paths), n_rows)
        rows = np.array([rng.integers(0, len(self.dense[file])) for file in files], dtype=np.int64)
        cuts = np.sort(rng.integers(0, n_rows + 1, n_sets - 1))
        return files, rows, rng.integers(0, 3, n_rows), np.array([0, *cuts, n_rows])

    def rows(self, plan: tuple[Any, Any, Any, Any]) -> npt.NDArray[Any]:
        """The rows of a plan, densely; files must have the same number of genes."""
        width = self.dense[0].shape[1]
        picked = [self.dense[file][row] for file, row in zip(plan[0], plan[1], strict=True)]
        return np.array(picked).reshape(len(picked), width)


MakeCollection = Callable[..., Collection]


def collection_maker(folder: Path) -> MakeCollection:
    """Makes files of counts; `shapes` has cells, genes and values of a row for each."""

    def make(
        shapes: Sequence[tuple[int, int, int]],
        *,
        seed: int = 0,
        shard_size: int = 7,
        prefix: str = "",
        dtype: str = "float32",
    ) -> Collection:
        rng = np.random.default_rng(seed)
        paths, dense = [], []
        for number, (n_cells, n_genes, n_values) in enumerate(shapes):
            matrix = np.zeros((n_cells, n_genes), dtype=dtype)
            for row in matrix:
                chosen = rng.choice(n_genes, n_values, replace=False)
                row[chosen] = rng.integers(1, 60, n_values)
            adata = anndata.AnnData(sp.csr_matrix(matrix))
            adata.var_names = [f"{prefix}gene{gene}" for gene in range(n_genes)]
            path = folder / f"{prefix}{number}.scx"
            scx_core.from_anndata(adata, path, shard_size=shard_size, overwrite=True)
            paths.append(str(path))
            dense.append(matrix)
        return Collection(paths, dense)

    return make


def dense_of(batch: Any, n_cols: int) -> npt.NDArray[np.float32]:
    """The rows of a batch, densely, after a look at the form of its CSR arrays."""
    indptr, indices, data = batch["indptr"], batch["indices"], batch["data"]
    assert (indptr.dtype, indices.dtype, data.dtype) == (np.int64, np.int32, np.float32)
    assert indptr[0] == 0
    assert len(indices) == len(data) == indptr[-1]
    for start, end in itertools.pairwise(indptr):
        assert (np.diff(indices[start:end]) > 0).all()
    matrix = sp.csr_matrix((data, indices, indptr), shape=(len(indptr) - 1, n_cols))
    result: npt.NDArray[np.float32] = matrix.toarray()
    return result
