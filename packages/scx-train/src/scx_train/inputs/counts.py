"""What a look at some of the values tells: whether they are counts, and how overdispersed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from scx_core._errors import CorruptFileError
from scx_core.native.matrix import Matrix
from scx_train._warn import is_told, warn

Rows = npt.NDArray[np.int64]

ALPHA_CELLS_MAX = 16_384
ROWS_PER_STEP = 1024
STRETCHES = 4
STRETCH_ROWS = 32


NORMALISED = (
    "they would be normalised (again), which is seldom meant; pass normalize=False, log1p=False to "
    "take the values as they are, or name the counts by source='layers/...'"
)
SHIFTED = (
    "PFlog, which is for counts, is seldom meant; pass pflog=False, normalize=False, log1p=False "
    "to take the values as they are, or name the counts by source='layers/...'"
)
DRAWN = (
    "they would be rounded to whole numbers from 0 on before they are drawn; leave out "
    "downsample_target_library_size to take the values as they are, or name the counts by "
    "source='layers/...'"
)
CLIPPED = (
    "cell sets take negative values and NaN as 0; name the counts by source='layers/...', or read "
    "the values as they are with scx_core.open(path).X"
)
"""What becomes of values that are no counts, and what to do instead."""


class Looked(Protocol):
    """What is looked at: a matrix (None without cells), its cells, and what messages call it."""

    @property
    def matrix(self) -> Matrix | None: ...
    @property
    def rows(self) -> Rows | None: ...
    @property
    def title(self) -> str: ...
    @property
    def path(self) -> str: ...


def warn_unless_counts(parts: Iterable[Looked], consequence: str) -> bool:
    """Warn with a UserWarning when values are negative or no integers.

    With `CLIPPED` only when they are negative or NaN.
    Looks at `STRETCHES` stretches of `STRETCH_ROWS` rows, spread over the cells of each matrix:
    reading few places costs little even where the file is not in memory. Damage shows when its
    batch is due. The first matrix that has such values is told, once; answers whether there is one.
    """
    if is_told():
        return False
    for part in parts:
        found = _no_count(part, fractions_count=consequence == CLIPPED)
        if found is not None:
            value, row = found
            warn(
                f"{part.title} of {part.path} holds {value:g} in row {row}, so it does not hold "
                f"counts: {consequence}",
            )
            return True
    return False


def _no_count(part: Looked, *, fractions_count: bool) -> tuple[float, int] | None:
    """A value that is no count, and its row."""
    matrix, live = part.matrix, part.rows
    if matrix is None or matrix.dtype.kind == "u":
        return None
    n_live = matrix.info.n_rows if live is None else len(live)
    for start in np.linspace(0, n_live, STRETCHES, endpoint=False).astype(np.int64).tolist():
        rows = np.arange(start, min(start + STRETCH_ROWS, n_live), dtype=np.int64)
        if live is not None:
            rows = live[rows]
        try:
            indptr, _, values = matrix.gather_csr(rows, dtype=np.float64, threads=1)
        except CorruptFileError:
            continue
        with np.errstate(invalid="ignore"):
            whole = fractions_count | (values == np.floor(values))
            wrong = np.flatnonzero(~((values >= 0) & whole))
        if wrong.size:
            row = rows[np.searchsorted(indptr, wrong[0], side="right") - 1]
            return float(values[wrong[0]]), int(row)
    return None


def overdispersion(matrix: Matrix, *, rows: Rows | None, where: str) -> float:
    """The alpha of a negative binomial, by the method of moments.

    Over the cells `rows` of the matrix (None for all), or `ALPHA_CELLS_MAX` of them at even
    distances, each gene has a mean m and a variance v (with n - 1) of its counts; negative values
    and NaN count as 0. alpha is the least-squares solution of `v - m = alpha * m**2` over all
    genes, that is `sum(m**2 * (v - m)) / sum(m**4)`.

    Raises
    ------
    ValueError
        There are fewer than two cells, or they vary no more than Poisson counts do.
    """
    every = np.arange(matrix.shape[1])
    return overdispersion_of_files(
        [Sample(matrix, rows, every)], kept=np.ones(len(every), dtype=bool), where=where
    )


@dataclass(frozen=True)
class Sample:
    """Cells of one file: `rows` of the matrix (None for all), and its genes' common columns.

    Those are -1 for genes that are left out.
    """

    matrix: Matrix
    rows: Rows | None
    columns: npt.NDArray[np.integer[Any]]

    @property
    def n_cells(self) -> int:
        """How many cells there are."""
        return self.matrix.shape[0] if self.rows is None else len(self.rows)


@np.errstate(over="ignore", invalid="ignore")  # of huge values: told at the end
def overdispersion_of_files(
    samples: Sequence[Sample], *, kept: npt.NDArray[np.bool_], where: str
) -> float:
    """As `overdispersion`, over the cells of several files and those common genes that are `kept`.

    `ALPHA_CELLS_MAX` cells are at even distances over all files.
    """
    n_rows = sum(sample.n_cells for sample in samples)
    n_cells = min(n_rows, ALPHA_CELLS_MAX)
    places = np.arange(n_cells, dtype=np.int64) * n_rows // max(n_cells, 1)
    totals, squares = np.zeros(len(kept)), np.zeros(len(kept))
    first = 0
    for sample in samples:
        own = places[(places >= first) & (places < first + sample.n_cells)] - first
        first += sample.n_cells
        rows = own if sample.rows is None else sample.rows[own]
        for genes, values in _values(sample.matrix, rows):
            columns = sample.columns[genes]
            known = columns >= 0
            totals += np.bincount(columns[known], values[known], minlength=len(kept))
            squares += np.bincount(columns[known], values[known] ** 2, minlength=len(kept))
    totals, squares = totals[kept], squares[kept]
    if n_cells < 2:
        raise ValueError(
            f"pflog_alpha cannot be estimated from the cells of {where}: there are {n_cells}, but "
            "two are needed; pass a number"
        )
    if not np.isfinite(totals).all():
        raise ValueError(
            f"pflog_alpha cannot be estimated from the cells of {where}: there are infinite values "
            "among them; pass a number, or mend the values"
        )
    mean = totals / n_cells
    variance = (squares - n_cells * mean**2) / (n_cells - 1)
    below = float(np.sum(mean**4))
    alpha = float(np.sum(mean**2 * (variance - mean))) / below if below > 0 else 0.0
    if np.isfinite(alpha) and alpha > 0:
        return alpha
    reason = (
        "they vary no more than Poisson counts"
        if np.isfinite(alpha)
        else "the values are too large"
    )
    raise ValueError(
        f"pflog_alpha cannot be estimated from the {n_cells} cells of {where}: {reason}; pass a "
        "number"
    )


def _values(
    matrix: Matrix, rows: Rows
) -> Iterator[tuple[npt.NDArray[np.int32], npt.NDArray[np.float64]]]:
    for start in range(0, len(rows), ROWS_PER_STEP):
        step = rows[start : start + ROWS_PER_STEP]
        _, genes, values = matrix.gather_csr(step, dtype=np.float64)
        yield genes, np.where(values > 0, values, 0.0)
