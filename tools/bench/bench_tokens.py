"""Token kernels on raw counts, beside numpy going over the cells one by one.

The numpy versions are what a user would write for a cell: argsort of normalised values, quantiles
and two calls of digitize with a draw between them (the binning of scGPT), `Generator.choice` with
probabilities, lexsort. The argsort is of the quick kind, which leaves equal keys in any order, and
of the stable kind, which gives the order of the kernel. Ranking is also compared with the way of
Geneformer's tokeniser: a block of cells is normalised by scipy, and each cell is taken out of it
and sorted. All of them fill the same arrays as the kernels. numpy works on one core; the kernels
are measured with one thread and with two. Results are compared before anything is timed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from bench.harness import Limit, Result, alternate, timed
from bench.setup import Setup

N_CELLS, N_CELLS_QUICK = 3_000, 100
L_MAX, N_BINS, N_DRAWS, TOP = 2_048, 51, 1_024, 2_048
TARGET_SUM = 10_000.0
# Cells that Geneformer's tokeniser takes at once, unless told otherwise.
BLOCK_CELLS = 512
THREADS = (1, 2)

Ids = npt.NDArray[np.int32]
Values = npt.NDArray[np.float32]
Stats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Case:
    """A kernel, which takes a number of threads, and what it is compared with."""

    name: str
    other: str
    kernel: Callable[..., Any]
    numpys: Callable[[], Any]
    times: float | None


def run(setup: Setup) -> Result:
    """Compare each kernel with its numpy version, with one thread and with two."""
    result = Result("tokens")
    counts = _counts(setup)
    stats = np.random.default_rng(0).lognormal(0.0, 1.0, counts.shape[1]).astype(np.float32)
    result.checks += [
        _check_rank(counts, stats), _check_bins(counts), _check_sample(counts), _check_top(counts)
    ]  # fmt: skip
    for case in _cases(counts, stats):
        for threads in THREADS:
            comparison = alternate(
                partial(timed, counts.shape[0], partial(case.kernel, threads=threads)),
                partial(timed, counts.shape[0], case.numpys),
                setup.n_pairs,
            )
            title = f"{case.name}, {threads} thread{'s' if threads > 1 else ''}"
            if title not in {figure.name for figure in result.figures}:
                result.add(title, [s.rate for s in comparison.ours], "cells/s")
            if threads == THREADS[0]:
                result.add(case.other, [s.rate for s in comparison.theirs], "cells/s")
            wanted = None if setup.quick or not case.times else Limit("at least", case.times)
            result.add(f"{title} / {case.other}", comparison.ratios, "x", wanted)
    result.facts.update(n_cells=counts.shape[0], values_a_cell=counts.nnz / counts.shape[0])
    return result


def _counts(setup: Setup) -> sp.csr_matrix:
    import anndata

    backed = anndata.read_h5ad(setup.counts(), backed="r")
    try:
        return sp.csr_matrix(backed.X[: N_CELLS_QUICK if setup.quick else N_CELLS])
    finally:
        backed.file.close()


def _cases(counts: sp.csr_matrix, stats: Stats) -> list[Case]:
    import scx_tokenize as tk

    bins = partial(tk.bin_values, counts, N_BINS)
    return [
        Case(
            f"rank_tokens, {L_MAX:,}", "argsort",
            partial(tk.rank_tokens, counts, stats, L_MAX, "bench"),
            partial(_rank, counts, stats, None), 15,
        ),
        Case(
            f"rank_tokens, {L_MAX:,}", "stable argsort",
            partial(tk.rank_tokens, counts, stats, L_MAX, "bench"),
            partial(_rank, counts, stats, "stable"), None,
        ),
        Case(
            f"rank_tokens, {L_MAX:,}", "Geneformer's way",
            partial(tk.rank_tokens, counts, stats, L_MAX, "bench"),
            partial(_rank_blocks, counts, stats, None), None,
        ),
        Case(
            f"bin_values, {N_BINS}, seeded", "quantile, digitize twice, draw",
            partial(bins, tie="seeded"), partial(_bins, counts, "seeded"), 20,
        ),
        Case(
            f"bin_values, {N_BINS}, left", "quantile, digitize",
            bins, partial(_bins, counts, "left"), None,
        ),
        Case(
            f"sample_genes, {N_DRAWS:,}", "choice",
            partial(tk.sample_genes, counts, N_DRAWS, 0, 0), partial(_sample, counts), 10,
        ),
        Case(
            f"top_k, {TOP:,}", "lexsort",
            partial(tk.top_k, counts, TOP, counts.shape[1]), partial(_top, counts), 10,
        ),
    ]  # fmt: skip


def _rows(counts: sp.csr_matrix) -> Iterator[tuple[Ids, Values]]:
    for start, stop in pairwise(counts.indptr):
        yield counts.indices[start:stop], counts.data[start:stop]


def _rank(counts: sp.csr_matrix, stats: Stats, kind: Literal["stable"] | None) -> tuple[Ids, Ids]:
    """Ids and lengths; in any order where keys are equal, unless the sort is a stable one."""
    ids = np.zeros((counts.shape[0], L_MAX), dtype=np.int32)
    lengths = np.empty(counts.shape[0], dtype=np.int32)
    wide = stats.astype(np.float64)
    for row, (genes, values) in enumerate(_rows(counts)):
        factor = TARGET_SUM / values.sum(dtype=np.float64)
        keys = (values * factor / wide[genes]).astype(np.float32)
        ranked = genes[np.argsort(-keys, kind=kind)[:L_MAX]]
        ids[row, : len(ranked)] = ranked
        lengths[row] = len(ranked)
    return ids, lengths


def _rank_blocks(
    counts: sp.csr_matrix, stats: Stats, kind: Literal["stable"] | None
) -> tuple[Ids, Ids]:
    """The same, with blocks of cells normalised at once, in float64, and each cell sliced out."""
    ids = np.zeros((counts.shape[0], L_MAX), dtype=np.int32)
    lengths = np.empty(counts.shape[0], dtype=np.int32)
    tokens = np.arange(counts.shape[1], dtype=np.int32)
    totals = np.asarray(counts.sum(axis=1, dtype=np.float64))
    for start in range(0, counts.shape[0], BLOCK_CELLS):
        block = slice(start, start + BLOCK_CELLS)
        raw: Any = counts[block]
        scaled = sp.csr_matrix(raw / totals[block] * TARGET_SUM / stats)
        for row in range(scaled.shape[0]):
            genes, keys = tokens[scaled[row].indices], scaled[row].data
            ranked = genes[np.argsort(-keys, kind=kind)][:L_MAX]
            ids[start + row, : len(ranked)] = ranked
            lengths[start + row] = len(ranked)
    return ids, lengths


def _bins(counts: sp.csr_matrix, tie: Literal["left", "right", "seeded"]) -> Ids:
    bins = np.empty(counts.nnz, dtype=np.int32)
    rng = np.random.default_rng(0)
    places = np.linspace(0, 1, N_BINS - 1)
    for start, stop in pairwise(counts.indptr):
        values = counts.data[start:stop].astype(np.float64)
        edges = np.quantile(values, places)
        if tie != "seeded":
            bins[start:stop] = np.digitize(values, edges, right=tie == "right")
            continue
        left, right = np.digitize(values, edges), np.digitize(values, edges, right=True)
        bins[start:stop] = np.ceil(rng.random(len(values)) * (right - left) + left)
    return bins


def _sample(counts: sp.csr_matrix) -> Ids:
    ids = np.empty((counts.shape[0], N_DRAWS), dtype=np.int32)
    rng = np.random.default_rng(0)
    for row, (genes, values) in enumerate(_rows(counts)):
        weights = np.log1p(values.astype(np.float64))
        ids[row] = rng.choice(genes, N_DRAWS, p=weights / weights.sum())
    return ids


def _top(counts: sp.csr_matrix) -> dict[str, npt.NDArray[Any]]:
    shape = (counts.shape[0], TOP)
    found: dict[str, npt.NDArray[Any]] = {
        "ids": np.full(shape, counts.shape[1] + 1, dtype=np.int32),
        "values": np.zeros(shape, dtype=np.float32),
        "mask": np.zeros(shape, dtype=np.uint8),
        "pad": np.ones(shape, dtype=np.uint8),
    }
    for row, (genes, values) in enumerate(_rows(counts)):
        order = np.lexsort((genes, -values))[:TOP]
        filled = slice(0, len(order))
        found["ids"][row, filled] = genes[order]
        found["values"][row, filled] = values[order]
        found["mask"][row, filled] = 1
        found["pad"][row, filled] = 0
    return found


def _check_rank(counts: sp.csr_matrix, stats: Stats) -> str:
    from scx_tokenize import rank_tokens

    ours = rank_tokens(counts, stats, L_MAX, "bench")
    ids, lengths = _rank(counts, stats, "stable")
    np.testing.assert_array_equal(ours["lengths"], lengths)
    used: npt.NDArray[np.bool_] = np.less(np.arange(L_MAX), lengths[:, None])
    np.testing.assert_array_equal(ours["ids"].reshape(ids.shape)[used], ids[used])
    _, lengths = _rank_blocks(counts, stats, "stable")
    np.testing.assert_array_equal(ours["lengths"], lengths)
    return "ranks are those of a stable argsort"


def _check_bins(counts: sp.csr_matrix) -> str:
    """Equal, but where a value is as near to an edge as rounding: the edge may lie on either side.

    Of the two bounds the drawn bin is one, or between them.
    """
    from scx_tokenize import bin_values

    places = np.linspace(0, 1, N_BINS - 1)
    clear = np.ones(counts.nnz, dtype=bool)
    for start, stop in pairwise(counts.indptr):
        values, back = np.unique(counts.data[start:stop].astype(np.float64), return_inverse=True)
        edges = np.quantile(counts.data[start:stop].astype(np.float64), places)
        near = np.abs(values[:, None] - edges)
        rounded = np.asarray(((near > 0) & (near < 1e-9)).any(axis=1))
        clear[start:stop] = ~rounded[back]
    bounds = {}
    for tie in ("left", "right"):
        bounds[tie] = bin_values(counts, N_BINS, tie=tie)["bins"]
        np.testing.assert_array_equal(bounds[tie][clear], _bins(counts, tie)[clear])
    drawn = bin_values(counts, N_BINS, tie="seeded")["bins"]
    if not ((bounds["right"] <= drawn) & (drawn <= bounds["left"])).all():
        raise AssertionError("a drawn bin is not between its bounds")
    return f"both bounds of {clear.mean():.1%} of the bins are numpy's, draws are between them"


def _check_sample(counts: sp.csr_matrix) -> str:
    """The draws of each gene over all cells are near their expectation, ours and numpy's."""
    from scx_tokenize import sample_genes

    weights = counts.astype(np.float64).log1p()
    chances = sp.diags(1 / np.asarray(weights.sum(axis=1)).ravel()) @ weights
    expected = N_DRAWS * np.asarray(chances.sum(axis=0)).ravel()
    variance = expected - N_DRAWS * np.asarray(chances.power(2).sum(axis=0)).ravel()
    often = expected > 100
    for ids in (sample_genes(counts, N_DRAWS, 0, 0)["ids"], _sample(counts).ravel()):
        counted = np.bincount(ids, minlength=counts.shape[1])
        if counted[expected == 0].any():
            raise AssertionError("a gene was drawn that no cell expresses")
        if (np.abs(counted - expected)[often] > 6 * np.sqrt(variance[often])).any():
            raise AssertionError("the draws of a gene are more than six deviations off")
    return f"draws of {often.sum():,} genes are within six standard deviations of what they ought"


def _check_top(counts: sp.csr_matrix) -> str:
    from scx_tokenize import top_k

    ours: dict[str, Any] = dict(top_k(counts, TOP, counts.shape[1]))
    for name, theirs in _top(counts).items():
        np.testing.assert_array_equal(ours[name], theirs.ravel(), err_msg=name)
    return "top genes are those of lexsort"
