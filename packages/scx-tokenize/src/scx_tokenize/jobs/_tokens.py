"""Tokens of a batch of cells, by the kernel of a job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .._bins import bin_values
from .._genes import Csr
from .._rank import rank_tokens
from .._sample import sample_genes
from .._values import transform_values
from ._description import BinOptions, InputFile, Job, RankOptions, SampleOptions
from ._ragged import Ints, Tokens, filled, framed, padded
from ._subsets import at_most

# The statistic of the stand-in for unknown genes, as a multiple of the largest of a gene: a sum of
# up to 2^24 counts comes behind every gene that a cell has. Taking one id out of a ranking leaves
# the order of the others, so that tokens are the same wherever it comes.
STAND_IN_TIMES = np.float32(2**24)


@dataclass(frozen=True)
class Tokeniser:
    """What makes tokens of the cells of one file."""

    job: Job
    file: InputFile

    @property
    def n_places(self) -> int:
        """Genes of the vocabulary, and the stand-in for all others where totals need it."""
        return len(self.job.vocabulary) + self.needs_all_genes

    @property
    def needs_all_genes(self) -> bool:
        """Whether unknown genes matter: they are part of a cell's total."""
        options = self.job.options
        if isinstance(options, BinOptions):
            return options.transform == "normalize_log1p"
        return isinstance(options, RankOptions)

    @property
    def places(self) -> npt.NDArray[np.int32] | None:
        """The place of each gene of the file; unknown ones share that behind the vocabulary."""
        places = self.file.places
        if places is None or not self.needs_all_genes:
            return places
        return np.where(places < 0, len(self.job.vocabulary), places).astype(np.int32)

    def tokens(self, cells: Csr, rows: npt.NDArray[np.int64], *, threads: int) -> Tokens:
        """The tokens of cells that have been brought to `places`; `rows` are their numbers."""
        options = self.job.options
        self._refuse(cells, cells[2] == np.inf, rows, "is infinite")
        if isinstance(options, RankOptions):
            made = self._ranked(options, cells, threads)
            longest = options.l_max
        elif isinstance(options, BinOptions):
            made = self._binned(options, cells, rows, threads)
            longest = options.l_max
        else:
            made = self._sampled(options, cells, rows, threads)
            longest = options.n + self.job.framing.n_around
        framing, vocabulary = self.job.framing, self.job.vocabulary
        made = framed(made, vocabulary.special(framing.cls), vocabulary.special(framing.eos))
        pad = vocabulary.special(framing.pad)
        return made if pad is None else padded(made, longest, pad)

    def _refuse(
        self, cells: Csr, wrong: npt.NDArray[np.bool_], rows: npt.NDArray[np.int64], why: str
    ) -> None:
        """ValueError for the first value that is wrong, where it is in the file."""
        if not wrong.any():
            return
        indptr, genes, values = cells
        first = int(np.flatnonzero(wrong)[0])
        row = rows[int(np.searchsorted(indptr, first, side="right")) - 1]
        names = self.job.vocabulary.names
        place = int(genes[first])
        gene = names[place] if place < len(names) else "that is not in the vocabulary"
        raise ValueError(
            f"{self.file.path}: in row {row} the value {values[first]:g} of gene {gene} {why}"
        )

    def _ranked(self, options: RankOptions, cells: Csr, threads: int) -> Tokens:
        statistics = self.job.vocabulary.statistics
        assert statistics is not None
        n_genes = len(statistics)
        l_max = min(options.l_max - self.job.framing.n_around, n_genes)
        # One more than are kept: the stand-in may be among them.
        ranked = rank_tokens(
            *cells,
            np.append(statistics, STAND_IN_TIMES * statistics.max()),
            l_max + 1,
            "",
            options.target_sum,
            threads=threads,
        )
        ids = ranked["ids"].reshape(-1, l_max + 1)
        lengths = ranked["lengths"].astype(np.int64)
        if len(lengths):
            last = ids[np.arange(len(lengths)), np.maximum(lengths, 1) - 1]
            lengths -= (lengths > 0) & (last == n_genes)
        lengths = np.minimum(lengths, l_max)
        flat = filled(ids, lengths)
        if np.any(flat == n_genes):  # a gene that is next to nothing beside the unknown ones
            flat, lengths = _without(ids, ranked["lengths"], n_genes, l_max)
        return Tokens(self._numbers(flat), lengths)

    def _binned(
        self, options: BinOptions, cells: Csr, rows: npt.NDArray[np.int64], threads: int
    ) -> Tokens:
        indptr, genes, values = cells
        if options.transform != "pass_through":
            values = transform_values(
                indptr, values, options.transform, options.target_sum, threads=threads
            )
        if self.needs_all_genes:
            indptr, genes, values = _kept(cells[0], genes, values, genes < len(self.job.vocabulary))
        if options.edges is not None:
            small = (values > 0) & (values.astype(np.float64) < options.edges[0])
            lies = f"lies below the first edge, {options.edges[0]:g}: bin 0 is for what is absent"
            self._refuse((indptr, genes, values), small, rows, lies)
        bins = bin_values(
            indptr,
            genes,
            values,
            options.n_bins,
            edges=options.edges,
            tie=options.tie,
            seed=options.seed,
            file_identity=self.file.draw_identity,
            rows=rows,
            threads=threads,
        )["bins"]
        if options.include_zero_genes:
            tokens = self._with_zeros(indptr, genes, bins)
        else:
            indptr, genes, bins = _kept(indptr, genes, bins, bins > 0)
            tokens = Tokens(genes, np.diff(indptr), bins)
        width = options.l_max - self.job.framing.n_around
        tokens = at_most(tokens, width, seed=options.seed, file=self.file.draw_identity, rows=rows)
        return Tokens(self._numbers(tokens.ids), tokens.lengths, tokens.values)

    def _with_zeros(self, indptr: Any, genes: Ints, bins: Ints) -> Tokens:
        """All genes that the file has, in the order of their places."""
        places = self.file.places
        measured = (
            np.arange(len(self.job.vocabulary))
            if places is None
            else np.unique(places[places >= 0])
        )
        column = np.full(len(self.job.vocabulary), -1, dtype=np.int64)
        column[measured] = np.arange(len(measured))
        n_cells = len(indptr) - 1
        dense = np.zeros((n_cells, len(measured)), dtype=np.int32)
        dense[np.repeat(np.arange(n_cells), np.diff(indptr)), column[genes]] = bins
        ids = np.tile(measured.astype(np.int32), n_cells)
        lengths = np.full(n_cells, len(measured), dtype=np.int64)
        return Tokens(ids, lengths, dense.reshape(-1))

    def _sampled(
        self, options: SampleOptions, cells: Csr, rows: npt.NDArray[np.int64], threads: int
    ) -> Tokens:
        drawn = sample_genes(
            *cells,
            options.n,
            options.seed,
            self.file.draw_identity,
            weight=options.weight,
            rows=rows,
            threads=threads,
        )
        lengths = drawn["lengths"].astype(np.int64)
        flat = filled(drawn["ids"].reshape(-1, options.n), lengths)
        return Tokens(self._numbers(flat), lengths)

    def _numbers(self, places: Ints) -> Ints:
        """The tokens of genes."""
        return self.job.vocabulary.tokens[places]


def _kept(
    indptr: npt.NDArray[np.int64],
    genes: Ints,
    values: npt.NDArray[Any],
    chosen: npt.NDArray[np.bool_],
) -> tuple[npt.NDArray[np.int64], Ints, npt.NDArray[Any]]:
    """Rows in CSR with the chosen values alone."""
    if chosen.all():
        return indptr, genes, values
    before = np.zeros(len(chosen) + 1, dtype=np.int64)
    np.cumsum(chosen, out=before[1:])
    return before[indptr], genes[chosen], values[chosen]


def _without(
    ids: Ints, lengths: Ints, unwanted: int, l_max: int
) -> tuple[Ints, npt.NDArray[np.int64]]:
    """Ranked rows without one id, wherever it is, at most `l_max` of each."""
    inside = np.arange(ids.shape[1]) < lengths[:, None]
    kept = inside & (ids != unwanted)
    kept &= np.cumsum(kept, axis=1) <= l_max
    return ids[kept], kept.sum(axis=1)
