"""The cells that medians are taken of, in parts, and one pass over a part."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scx_tokenize._medians.inputs import Input
from scx_tokenize._medians.search import MedianSearch
from scx_tokenize._medians.values import Values, scaled_rows
from scx_tokenize.jobs._cells import Cells

# Cells x genes of a block: even where every value is stored it takes a few dozen megabytes for each
# of the arrays that are made of it.
BLOCK_VALUES = 2**23
BLOCK_CELLS = 4096
# Counts of this many cells are added up apart and then to the total: sums of fractions depend on
# their order, and this one is the same wherever the parts are worked on.
PART_CELLS = 2**15
# Blocks that are read while another is counted.
AHEAD = 2

Totals = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Sums:
    """What the first pass over cells finds beside the medians; zeros of later ones.

    Attributes
    ----------
    totals
        float64, the sum of each gene's counts.
    odd_inputs
        Numbers of inputs with values that are no whole numbers.
    """

    totals: Totals
    odd_inputs: frozenset[int] = frozenset()

    def __add__(self, other: Sums) -> Sums:
        return Sums(self.totals + other.totals, self.odd_inputs | other.odd_inputs)

    @classmethod
    def nothing(cls, n_genes: int) -> Sums:
        """Of no cell."""
        return cls(np.zeros(n_genes, dtype=np.float64))


@dataclass(frozen=True)
class Part:
    """Cells `start` to `stop` of those that are taken of an input."""

    input: int
    start: int
    stop: int


@dataclass(frozen=True)
class Corpus:
    """All inputs; it can be pickled.

    Attributes
    ----------
    inputs
        The files.
    n_genes
        Genes of all files.
    target_sum
        What cells are normalised to.
    """

    inputs: tuple[Input, ...]
    n_genes: int
    target_sum: float

    @property
    def n_cells(self) -> int:
        """Cells of all files."""
        return sum(each.n_cells for each in self.inputs)

    def parts(self) -> list[Part]:
        """All cells, in parts that depend on nothing but the files and which cells are taken."""
        return [
            Part(number, start, min(start + PART_CELLS, each.n_cells))
            for number, each in enumerate(self.inputs)
            for start in range(0, each.n_cells, PART_CELLS)
        ]


def count_part(
    corpus: Corpus,
    part: Part,
    cells: Cells,
    search: MedianSearch,
    *,
    threads: int | None,
    done: Callable[[int], object],
) -> Sums:
    """Count the values of a part for the search's present pass.

    Parameters
    ----------
    cells
        The part's input, open.
    threads
        As of `medians`.
    done
        Told of numbers of cells as they are through.

    Returns
    -------
    The sums of the part.
    """
    each = corpus.inputs[part.input]

    def read(positions: npt.NDArray[np.int64]) -> Values:
        return scaled_rows(
            *cells.gather(positions, None, each.n_genes, threads=threads or 0),
            places=each.places,
            n_genes=corpus.n_genes,
            target_sum=corpus.target_sum,
            threads=threads,
            where=each.path,
            row_numbers=cells.rows[positions],
            find_fractions=search.is_first_pass,
        )

    step = max(1, min(BLOCK_CELLS, BLOCK_VALUES // max(1, each.n_genes)))
    blocks = [
        each.chosen(start, min(start + step, part.stop))
        for start in range(part.start, part.stop, step)
    ]
    totals, whole_numbers = np.zeros(corpus.n_genes, dtype=np.float64), True
    # where reading takes one thread, the others have something to do meanwhile
    ahead = threads != 1 and not cells.reads_in_threads
    for positions, values in zip(
        blocks, _ahead(read, blocks) if ahead else map(read, blocks), strict=True
    ):
        search.count(
            values.rows,
            values.factors,
            totals=totals if search.is_first_pass else None,
            threads=threads,
        )
        whole_numbers = whole_numbers and values.whole_numbers
        done(len(positions))
    return Sums(totals, frozenset() if whole_numbers else frozenset({part.input}))


def _ahead(
    read: Callable[[npt.NDArray[np.int64]], Values], blocks: Sequence[npt.NDArray[np.int64]]
) -> Iterator[Values]:
    """What `read` gives for each of `blocks`, read while others are used."""
    # one worker: the readers of HDF5 take no more
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="scx-medians") as executor:
        waiting: deque[Future[Values]] = deque()
        try:
            for block in blocks:
                waiting.append(executor.submit(read, block))
                if len(waiting) > AHEAD:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            executor.shutdown(wait=True, cancel_futures=True)
