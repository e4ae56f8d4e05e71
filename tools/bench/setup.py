"""What every benchmark is given: sizes, folders, the number of repeats."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bench import data

PANEL_GENES = 2_000
BATCH_SIZE = 1_024


@dataclass(frozen=True)
class Setup:
    """Settings of one run of the benchmarks.

    ``quick`` asks for small inputs and few repeats: the code paths are the same, the figures are
    no figures. ``h5ad`` replaces the made file.
    """

    root: Path
    folder: Path
    quick: bool
    peers: tuple[str, ...]
    h5ad: Path | None = None

    @property
    def n_pairs(self) -> int:
        return 2 if self.quick else 5

    @property
    def seconds_min(self) -> float:
        return 0.05 if self.quick else 1.0

    @property
    def environments(self) -> Path:
        return self.root / ".venv-bench"

    def counts(self) -> Path:
        """The input file, in the page cache."""
        path = self.h5ad
        if path is None:
            path = data.counts_h5ad(data.QUICK if self.quick else data.FULL, self.folder)
        data.warm(path)
        return path
