"""Cell sets of random rows: cells a second beside training and random reading; and collation.

Plans of 64 and of 512 random rows over the whole file, raw counts in CSR. `TrainingDataset` yields
raw counts in CSR too, in batches of 1,024; the others read the same random rows at once, out of a
scipy matrix in memory and out of the h5ad file. All run in this process, the page cache is warm.

Collation is compared with numpy on one batch of 512 rows: the same crop, drop and targets with a
few array operations over the whole batch instead of a loop over rows.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from bench.harness import Limit, Result, Sample, alternate, timed
from bench.setup import BATCH_SIZE, Setup

SET_ROWS = (64, 512)
WANTED_RATIOS = {"TrainingDataset, CSR": 0.6, "scipy CSR in memory": 3.0, "backed h5ad": 20.0}
COLLATION_RATIO = 15.0
K_ENC, K_DEC = 2_048, 1_024
COLLATED_ROWS, COLLATED_SETS = 512, 8


def run(setup: Setup) -> Result:
    """Convert once, check that the values agree, then compare."""
    import anndata

    import scx_core
    from scx_train import SparseCellSetDataset, TrainingDataset

    result = Result("cellsets")
    h5ad = setup.counts()
    scx = setup.folder / "cellsets.scx"
    scx_core.from_h5ad(h5ad, scx, overwrite=True)
    backed = anndata.read_h5ad(h5ad, backed="r")
    memory = sp.csr_matrix(backed.X[:])
    n_cells = memory.shape[0]
    sets = SparseCellSetDataset([scx])
    training = TrainingDataset(
        scx, batch_size=BATCH_SIZE, normalize=False, log1p=False, layout="csr"
    )
    rng = np.random.default_rng(1)
    few = 2 if setup.quick else 10

    def read_training() -> Sample:
        return timed(n_cells, lambda: [batch["X"].nnz for batch in training])

    def read_rows(source: Any, n_rows: int, n_reads: int) -> Sample:
        chosen = [np.sort(rng.choice(n_cells, n_rows, replace=False)) for _ in range(n_reads)]
        return timed(n_rows * n_reads, lambda: [source[rows] for rows in chosen])

    for n_rows in SET_ROWS:
        order = rng.permutation(n_cells)
        chunks = [order[i : i + n_rows] for i in range(0, n_cells - n_rows + 1, n_rows)]
        plans = [_plan(rows) for rows in chunks]
        _check(sets, memory, plans[0])

        def read_sets(plans: list[Any] = plans) -> Sample:
            cells = sum(len(plan[1]) for plan in plans)
            return timed(cells, lambda: [len(b["data"]) for b in sets.iter_with_plans(plans)])

        others: dict[str, Callable[[], Sample]] = {
            "TrainingDataset, CSR": read_training,
            "scipy CSR in memory": partial(read_rows, memory, n_rows, 10 * few),
            "backed h5ad": partial(read_rows, backed.X, n_rows, few),
        }
        for name, read in others.items():
            comparison = alternate(read_sets, read, setup.n_pairs)
            title = f"sets of {n_rows}"
            if name == "TrainingDataset, CSR":
                result.add(title, [s.rate for s in comparison.ours], "cells/s")
            result.add(f"{name} ({title})", [s.rate for s in comparison.theirs], "cells/s")
            limit = None if setup.quick else Limit("at least", WANTED_RATIOS[name])
            result.add(f"{title} / {name}", comparison.ratios, "x", limit)
    _collation(sets, memory.shape, setup, result)
    sets.close()
    training.close()
    backed.file.close()
    scx.unlink()
    return result


def _plan(rows: npt.NDArray[np.int64]) -> tuple[Any, ...]:
    zeros = np.zeros(len(rows), dtype=np.int64)
    return zeros, rows, zeros, np.array([0, len(rows)])


def _check(sets: Any, memory: sp.csr_matrix, plan: tuple[Any, ...]) -> None:
    batch = sets.gather(*plan)
    ours = sp.csr_matrix((batch["data"], batch["indices"], batch["indptr"]), shape=(
        len(plan[1]), memory.shape[1],
    ))  # fmt: skip
    if (ours != memory[plan[1]]).nnz:
        raise AssertionError("the rows of a set are not those of the file")


def _collation(sets: Any, shape: tuple[int, int], setup: Setup, result: Result) -> None:
    from scx_train import collate_cellset_gathered

    rng = np.random.default_rng(2)
    n_cells, n_genes = shape
    n_rows = min(COLLATED_ROWS, n_cells)
    k_dec = min(K_DEC, n_genes)
    zeros = np.zeros(n_rows, dtype=np.int64)
    offsets = np.linspace(0, n_rows, COLLATED_SETS + 1).astype(np.int64)
    batch = sets.gather(zeros, rng.choice(n_cells, n_rows, replace=False), zeros, offsets)
    query = np.stack([rng.permutation(n_genes)[:k_dec] for _ in range(COLLATED_SETS)])
    marks = rng.random(query.shape) < 0.3

    def ours() -> dict[str, Any]:
        return collate_cellset_gathered(
            **batch, k_dec=k_dec, query_gene_ids=query, enc_mask_positions=marks,
            hide_readout=None, n_measured=None, k_enc=K_ENC, mode="log1p_raw",
            n_genes_total=n_genes,
        )  # fmt: skip

    def numpys() -> dict[str, Any]:
        return _collated_by_numpy(batch, query, marks, n_genes)

    for name, array in numpys().items():
        np.testing.assert_allclose(ours()[name], array.ravel(), rtol=1e-6, atol=1e-6)
    comparison = alternate(
        lambda: timed(n_rows, ours), lambda: timed(n_rows, numpys), 4 * setup.n_pairs
    )
    result.add("collation", [s.rate for s in comparison.ours], "rows/s")
    result.add("collation by numpy", [s.rate for s in comparison.theirs], "rows/s")
    limit = None if setup.quick else Limit("at least", COLLATION_RATIO)
    result.add("collation / numpy", comparison.ratios, "x", limit)


def _collated_by_numpy(
    batch: dict[str, Any],
    query: npt.NDArray[np.int64],
    marks: npt.NDArray[np.bool_],
    n_genes: int,
) -> dict[str, npt.NDArray[Any]]:
    """The encoder and the target of a batch of counts, whole arrays at a time."""
    indptr, genes, data = batch["indptr"], batch["indices"], batch["data"]
    n_rows = len(indptr) - 1
    rows = np.repeat(np.arange(n_rows), np.diff(indptr))
    set_of_row = np.repeat(np.arange(len(query)), np.diff(batch["set_offsets"]))
    marked = np.zeros((len(query), n_genes), dtype=bool)
    marked[np.arange(len(query))[:, None], query] = marks
    order = np.lexsort((-data, rows))  # stable: ties stay in the order of the genes
    rank = np.arange(len(order)) - indptr[rows]
    cropped = order[rank < K_ENC]
    kept = cropped[~marked[set_of_row[rows[cropped]], genes[cropped]]]
    counts = np.bincount(rows[kept], minlength=n_rows)
    slots = np.arange(len(kept)) - np.repeat(np.cumsum(counts) - counts, counts)
    ids = np.full((n_rows, K_ENC), n_genes + 1, dtype=np.int32)
    values = np.zeros((n_rows, K_ENC), dtype=np.float32)
    ids[rows[kept], slots] = genes[kept]
    values[rows[kept], slots] = np.log1p(data[kept])
    dense = np.zeros((n_rows, n_genes), dtype=np.float32)
    dense[rows, genes] = data
    ids[counts == 0, 0] = n_genes
    pads = ids == n_genes + 1
    return {
        "encoder_gene_ids": ids,
        "encoder_counts": values,
        "encoder_pad_mask": pads.astype(np.uint8),
        "target_counts": np.take_along_axis(dense, query[set_of_row], axis=1),
        "library_size": np.add.reduceat(np.append(data, 0).astype(np.float64), indptr[:-1]),
    }
