"""Make realistic single-cell counts: an AnnData in memory, or an .h5ad larger than memory.

The recipe follows what droplet data look like:

- gene abundances are log-normal (sigma 2.1), so a few genes take most of the molecules;
- every cell has one of ``n_types`` types, in which about 15 % of the genes are up or down by a
  log-normal fold change (sigma 0.7); the types' shares are drawn from a Dirichlet (2, 2, ...);
- a cell's depth is log-normal around ``median_umi`` (sigma 0.45, at least 200 molecules);
- a cell's counts are multinomial: its molecules are drawn gene by gene.

Some 60 to 70 % of the stored values come out as ones. The same arguments give the same values
again, and the first cells of a larger matrix are those of a smaller one.

The molecules are drawn with Walker's alias method (a random number and two table look-ups each) and
counted with one ``bincount`` over a block of rows, which is some ten times as fast as a binary
search in the cumulative distribution and a sort.

    python tools/realistic_counts.py counts.h5ad 20000 20000 5000 --seed 1
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

if TYPE_CHECKING:
    import anndata
    import pandas as pd

RECIPE_VERSION = 1
"""Raised whenever the same arguments would give other values."""

GENE_SIGMA = 2.1
FOLD_CHANGE_SIGMA = 0.7
FOLD_CHANGE_SHARE = 0.15
DEPTH_SIGMA = 0.45
DEPTH_MIN = 200
N_BATCHES = 7
N_PCA = 30

DENSE_BLOCK_VALUES = 1 << 21
"""Counters held densely while a block of rows is counted: 16 MiB, near the cache's size."""

COPY_VALUES = 1 << 22
"""Values that are copied at once from the spool files into the .h5ad."""

# Random streams: one for each thing drawn, so that none shifts when another grows.
_GENES, _TYPES, _DEPTHS, _SCORES, _UMAP, _PCA, _MOLECULES = range(7)


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """The arguments that decide every value of a matrix."""

    n_cells: int
    n_genes: int
    median_umi: float
    seed: int
    n_types: int

    def __post_init__(self) -> None:
        for name in ("n_cells", "n_genes", "n_types"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if not 1 <= self.median_umi < float("inf"):
            raise ValueError(f"median_umi must be at least 1 and finite, got {self.median_umi}")
        if self.seed < 0:
            raise ValueError(f"seed must not be negative, got {self.seed}")

    def stream(self, *key: int) -> np.random.Generator:
        """The random numbers for one purpose; `key` names it."""
        return np.random.Generator(np.random.SFC64(np.random.SeedSequence([self.seed, *key])))


@dataclass(frozen=True)
class _Cells:
    """What is drawn once for every cell: its type (an index) and its number of molecules."""

    types: npt.NDArray[np.int64]
    depths: npt.NDArray[np.int64]


@dataclass(frozen=True)
class _AliasTables:
    """Walker's tables of all types, one after the other: [n_types * n_genes].

    A draw picks a column at random; it stays with probability `keep`, else it becomes `alias`.
    """

    keep: npt.NDArray[np.float64]
    alias: npt.NDArray[np.int32]


def make_counts(
    n_cells: int,
    n_genes: int,
    median_umi: float = 5000.0,
    seed: int = 0,
    *,
    n_types: int = 12,
    dtype: npt.DTypeLike = np.float32,
) -> anndata.AnnData:
    """Make an AnnData of realistic counts in memory.

    Parameters
    ----------
    n_cells, n_genes
        The shape of X.
    median_umi
        Molecules in the middle cell.
    seed
        The same seed (and other arguments) gives the same values.
    n_types
        Number of cell types.
    dtype
        Of the stored counts; ValueError where a count does not fit in it.

    Returns
    -------
    An AnnData with X as canonical CSR, obs ``cell_type``, ``batch``, ``n_counts`` (the depth) and
    ``score`` (uniform noise), and obsm ``X_umap`` and ``X_pca`` (normal noise of the usual shapes).
    """
    import anndata

    recipe = Recipe(
        n_cells=n_cells, n_genes=n_genes, median_umi=median_umi, seed=seed, n_types=n_types
    )
    cells = _draw_cells(recipe)
    blocks = list(_draw_blocks(recipe, cells, np.dtype(dtype)))
    counts = sp.vstack(blocks, format="csr") if len(blocks) > 1 else blocks[0]
    adata = anndata.AnnData(counts, obs=_obs_frame(recipe, cells), var=_var_frame(recipe))
    for key, embedding in _embeddings(recipe).items():
        adata.obsm[key] = embedding
    return adata


def write_counts(
    path: str | os.PathLike[str],
    n_cells: int,
    n_genes: int,
    median_umi: float = 5000.0,
    seed: int = 0,
    *,
    n_types: int = 12,
    dtype: npt.DTypeLike = np.float32,
    compression: str | None = None,
) -> int:
    """Write the AnnData of :func:`make_counts` as .h5ad without ever holding it; return its nnz.

    Memory stays at some 100 MB plus about 300 bytes a cell. The values go through two spool files
    beside the target (8 bytes a stored value), because a contiguous dataset must know its length
    when it is created. The target appears under its name once it is whole.
    """
    recipe = Recipe(
        n_cells=n_cells, n_genes=n_genes, median_umi=median_umi, seed=seed, n_types=n_types
    )
    target = Path(path)
    with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as folder:
        partial = Path(folder) / "counts.h5ad"
        nnz = _write_h5ad(partial, recipe, np.dtype(dtype), compression)
        os.replace(partial, target)
    return nnz


def _draw_cells(recipe: Recipe) -> _Cells:
    random = recipe.stream(_TYPES)
    shares = random.dirichlet(np.full(recipe.n_types, 2.0))
    types = np.searchsorted(np.cumsum(shares)[:-1], random.random(recipe.n_cells), side="right")
    log_depths = recipe.stream(_DEPTHS).normal(
        np.log(recipe.median_umi), DEPTH_SIGMA, recipe.n_cells
    )
    depths = np.maximum(DEPTH_MIN, np.exp(log_depths)).astype(np.int64)
    return _Cells(types.astype(np.int64), depths)


def _gene_probabilities(recipe: Recipe) -> npt.NDArray[np.float64]:
    """The chance of each gene in each type, [n_types, n_genes]; rows sum to 1."""
    random = recipe.stream(_GENES)
    shape = (recipe.n_types, recipe.n_genes)
    abundance = np.exp(random.normal(0.0, GENE_SIGMA, recipe.n_genes))
    changed = random.random(shape) < FOLD_CHANGE_SHARE
    fold_changes = np.exp(random.normal(0.0, FOLD_CHANGE_SIGMA, shape) * changed)
    profiles: npt.NDArray[np.float64] = abundance * fold_changes
    profiles /= profiles.sum(axis=1, keepdims=True)
    return profiles


def _alias_tables(probabilities: npt.NDArray[np.float64]) -> _AliasTables:
    n_types, n_genes = probabilities.shape
    keep = np.empty(n_types * n_genes, np.float64)
    alias = np.empty(n_types * n_genes, np.int32)
    for i, row in enumerate(probabilities):
        span = slice(i * n_genes, (i + 1) * n_genes)
        keep[span], alias[span] = _alias_table(row)
    return _AliasTables(keep, alias)


def _alias_table(probability: npt.NDArray[np.float64]) -> tuple[list[float], list[int]]:
    """Walker's table of one distribution (Vose's construction), as plain lists.

    Every column holds at most two genes: its own, and one that has more than a fair share and fills
    the column up to it.
    """
    share = (probability * probability.size).tolist()
    alias = list(range(len(share)))
    poor = [gene for gene, value in enumerate(share) if value < 1.0]
    rich = [gene for gene, value in enumerate(share) if value >= 1.0]
    while poor and rich:
        receiver, giver = poor.pop(), rich[-1]
        alias[receiver] = giver
        share[giver] -= 1.0 - share[receiver]
        if share[giver] < 1.0:
            poor.append(rich.pop())
    for gene in poor + rich:  # what is left differs from 1 by rounding alone
        share[gene] = 1.0
    return share, alias


def _draw_blocks(recipe: Recipe, cells: _Cells, dtype: np.dtype[Any]) -> Iterator[sp.csr_matrix]:
    """The counts in blocks of rows, each drawn from a random stream of its own."""
    tables = _alias_tables(_gene_probabilities(recipe))
    rows = max(1, DENSE_BLOCK_VALUES // recipe.n_genes)
    for block, start in enumerate(range(0, recipe.n_cells, rows)):
        part = slice(start, start + rows)
        random = recipe.stream(_MOLECULES, block)
        yield _draw_block(
            random, tables, recipe.n_genes, cells.types[part], cells.depths[part], dtype
        )


def _draw_block(
    random: np.random.Generator,
    tables: _AliasTables,
    n_genes: int,
    types: npt.NDArray[np.int64],
    depths: npt.NDArray[np.int64],
    dtype: np.dtype[Any],
) -> sp.csr_matrix:
    n_rows = types.size
    place = random.random(int(depths.sum()))
    place *= n_genes
    column = place.astype(np.int32)
    place -= column  # now the uniform number that decides between the column and its alias
    table_index = column + np.repeat(types * n_genes, depths)
    stays = place < tables.keep.take(table_index)
    gene = np.where(stays, column, tables.alias.take(table_index))
    row_start = np.arange(n_rows, dtype=np.int64) * n_genes
    counted = np.bincount(gene + np.repeat(row_start, depths), minlength=n_rows * n_genes)

    expressed = counted != 0
    position = np.flatnonzero(expressed)
    values = counted.take(position)
    row_lengths = np.count_nonzero(expressed.reshape(n_rows, n_genes), axis=1)
    indptr = np.concatenate(([0], np.cumsum(row_lengths)))
    indices = (position - np.repeat(row_start, row_lengths)).astype(np.int32)
    _check_fits(int(values.max()), dtype)
    block = sp.csr_matrix(
        (values.astype(dtype), indices, indptr.astype(np.int32)), shape=(n_rows, n_genes)
    )
    block.has_canonical_format = True
    return block


def _check_fits(largest: int, dtype: np.dtype[Any]) -> None:
    # A float holds every integer up to two to the power of its mantissa's length.
    limit = 2 ** (np.finfo(dtype).nmant + 1) if dtype.kind == "f" else np.iinfo(dtype).max
    if largest > limit:
        raise ValueError(
            f"a count of {largest} does not fit in {dtype}; choose a wider dtype or a smaller "
            "median_umi"
        )


def _obs_frame(recipe: Recipe, cells: _Cells) -> pd.DataFrame:
    import pandas as pd

    n = recipe.n_cells
    return pd.DataFrame(
        {
            "cell_type": pd.Categorical.from_codes(
                cells.types, categories=pd.Index([f"type_{i}" for i in range(recipe.n_types)])
            ),
            "batch": pd.Categorical.from_codes(
                np.arange(n) % N_BATCHES, categories=pd.Index([f"b{i}" for i in range(N_BATCHES)])
            ),
            "n_counts": cells.depths,
            "score": recipe.stream(_SCORES).random(n),
        },
        index=[f"cell_{i}" for i in range(n)],
    )


def _var_frame(recipe: Recipe) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(index=[f"ENSG{i:011d}" for i in range(recipe.n_genes)])


def _embeddings(recipe: Recipe) -> dict[str, npt.NDArray[np.float32]]:
    return {
        "X_umap": recipe.stream(_UMAP).standard_normal((recipe.n_cells, 2), dtype=np.float32),
        "X_pca": recipe.stream(_PCA).standard_normal((recipe.n_cells, N_PCA), dtype=np.float32),
    }


def _write_h5ad(path: Path, recipe: Recipe, dtype: np.dtype[Any], compression: str | None) -> int:
    import h5py
    from anndata.io import write_elem

    cells = _draw_cells(recipe)
    with (
        tempfile.TemporaryFile(dir=path.parent) as indices,
        tempfile.TemporaryFile(dir=path.parent) as values,
        h5py.File(path, "w") as file,
    ):
        row_lengths = []
        for block in _draw_blocks(recipe, cells, dtype):
            indices.write(block.indices.data)
            values.write(block.data.data)
            row_lengths.append(np.diff(block.indptr))
        indptr = np.concatenate([[0], *row_lengths]).cumsum(dtype=np.int64)
        nnz = int(indptr[-1])
        file.attrs.update({"encoding-type": "anndata", "encoding-version": "0.1.0"})
        matrix = file.create_group("X")
        matrix.attrs.update({"encoding-type": "csr_matrix", "encoding-version": "0.1.0"})
        matrix.attrs["shape"] = np.array([recipe.n_cells, recipe.n_genes])
        narrow = nnz <= np.iinfo(np.int32).max
        matrix.create_dataset(
            "indptr", data=indptr.astype(np.int32 if narrow else np.int64), compression=compression
        )
        _copy_spool(indices, matrix, "indices", np.dtype(np.int32), nnz, compression)
        _copy_spool(values, matrix, "data", dtype, nnz, compression)
        write_elem(file, "obs", _obs_frame(recipe, cells))
        write_elem(file, "var", _var_frame(recipe))
        write_elem(file, "obsm", _embeddings(recipe))
        for empty in ("layers", "obsp", "uns", "varm", "varp"):
            write_elem(file, empty, {})
    return nnz


def _copy_spool(
    spool: IO[bytes], group: Any, name: str, dtype: np.dtype[Any], nnz: int, compression: str | None
) -> None:
    spool.seek(0)
    chunks = (min(nnz, 1 << 16),) if compression else None
    dataset = group.create_dataset(name, (nnz,), dtype, compression=compression, chunks=chunks)
    for start in range(0, nnz, COPY_VALUES):
        stop = min(nnz, start + COPY_VALUES)
        dataset[start:stop] = np.frombuffer(spool.read((stop - start) * dtype.itemsize), dtype)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Write realistic single-cell counts as .h5ad.")
    parser.add_argument("out", type=Path, help="the .h5ad to write")
    parser.add_argument("n_cells", type=int)
    parser.add_argument("n_genes", type=int)
    parser.add_argument("median_umi", type=float, help="molecules in the middle cell")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--types", type=int, default=12, help="cell types (default 12)")
    parser.add_argument("--dtype", default="float32", help="of the counts (default float32)")
    parser.add_argument("--gzip", action="store_true", help="compress the matrix")
    options = parser.parse_args(arguments)
    try:
        nnz = write_counts(
            options.out,
            options.n_cells,
            options.n_genes,
            options.median_umi,
            options.seed,
            n_types=options.types,
            dtype=options.dtype,
            compression="gzip" if options.gzip else None,
        )
    except (ValueError, TypeError, OSError) as error:
        print(f"realistic_counts: {error}", file=sys.stderr)
        return 1
    print(
        f"{options.out}: {options.n_cells:,} cells x {options.n_genes:,} genes, "
        f"{nnz:,} stored values ({nnz / options.n_cells:,.0f} a cell)"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
