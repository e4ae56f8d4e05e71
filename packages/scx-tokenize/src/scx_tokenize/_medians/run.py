"""Passes over a corpus, by this process or others, and what comes of them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from scx_core.writing import Progress
from scx_core.writing._progress import row_progress
from scx_tokenize._medians.corpus import Corpus, Sums, Totals, count_part
from scx_tokenize._medians.search import COUNT_MAX, MedianSearch, PassPlan, plan_passes

PassCounter: TypeAlias = Callable[[Corpus, MedianSearch, Callable[[int], object]], Sums]
"""Counts all values of a corpus for the search's present pass; tells the function of cells as they
are done, and gives the sums of the first pass."""


@dataclass(frozen=True)
class Counted:
    """What all passes found, for each gene.

    Attributes
    ----------
    medians
        float64, NaN for genes without a value.
    n_values
        int64, cells in which the gene is positive.
    totals
        float64, sum of its counts.
    n_passes
        How often the files were read.
    odd_inputs
        Numbers of inputs with values that are no whole numbers.
    """

    medians: npt.NDArray[np.float64]
    n_values: npt.NDArray[np.int64]
    totals: Totals
    n_passes: int
    odd_inputs: frozenset[int]


def plan_of(corpus: Corpus, memory_bytes: int) -> PassPlan:
    """The passes that it takes; ValueError where memory is too small or cells are too many."""
    if corpus.n_cells > COUNT_MAX:
        raise ValueError(
            f"{corpus.n_cells} cells are more than the {COUNT_MAX} that can be counted"
        )
    return plan_passes(corpus.n_genes, memory_bytes)


def count_all(
    corpus: Corpus, plan: PassPlan, counter: PassCounter, *, progress: Progress
) -> Counted:
    """Read the files as often as it takes."""
    search = MedianSearch(corpus.n_genes, plan)
    n_passes = len(plan.bits)
    sums = Sums.nothing(corpus.n_genes)
    with row_progress(progress, corpus.n_cells * n_passes) as done:
        while not search.done:
            sums += counter(corpus, search, done)
            search.end_pass()
    return Counted(search.medians(), search.n_values, sums.totals, n_passes, sums.odd_inputs)


def counting_here(threads: int | None) -> PassCounter:
    """Count in this process."""

    def counter(corpus: Corpus, search: MedianSearch, done: Callable[[int], object]) -> Sums:
        sums = Sums.nothing(corpus.n_genes)
        with ExitStack() as stack:
            opened = None
            for part in corpus.parts():
                if part.input != opened:
                    stack.close()
                    cells = stack.enter_context(corpus.inputs[part.input].open())
                    opened = part.input
                sums += count_part(corpus, part, cells, search, threads=threads, done=done)
        return sums

    return counter
