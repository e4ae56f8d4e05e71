"""Which genes are streamed, and how: the settings that every pass over the file shares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

import scx_core
import scx_train

PANEL_GENES = 2_000
SAMPLE_CELLS = 2_000
DEFAULT_BATCH_SIZE = 1_024


@dataclass(frozen=True)
class Stream:
    """A file, a panel of its genes, and whether its values are counts.

    Counts are normalised and logged on the way; anything else is streamed as it is.
    """

    path: Path
    panel: npt.NDArray[np.uint32]
    counts: bool
    seed: int

    def dataset(
        self, *, batch_size: int = DEFAULT_BATCH_SIZE, obs_columns: Sequence[str] = ()
    ) -> scx_train.TrainingDataset:
        """A new data set over the file; close it after use."""
        return scx_train.TrainingDataset(
            self.path,
            batch_size=batch_size,
            hvg_indices=self.panel,
            obs_columns=obs_columns,
            normalize=self.counts,
            log1p=self.counts,
            seed=self.seed,
        )


def choose_stream(experiment: scx_core.Experiment, path: Path, seed: int) -> Stream:
    """The 2,000 genes that vary most, judged as they will be streamed, on a sample of cells."""
    random = np.random.default_rng(seed)
    n = min(SAMPLE_CELLS, experiment.n_obs)
    rows = np.sort(random.choice(experiment.n_obs, n, replace=False))
    sample = experiment.gather_rows(rows).astype(np.float64)
    counts = bool(np.all(sample.data >= 0) and np.all(sample.data == np.floor(sample.data)))
    if counts:
        depth = np.asarray(sample.sum(axis=1)).ravel()
        scale = np.divide(1e4, depth, out=np.ones_like(depth), where=depth > 0)
        sample.data = np.log1p(sample.data * np.repeat(scale, np.diff(sample.indptr)))
    mean = np.asarray(sample.mean(axis=0)).ravel()
    squares = np.asarray(sample.multiply(sample).mean(axis=0)).ravel()
    chosen = np.argsort(mean**2 - squares, kind="stable")[:PANEL_GENES]
    return Stream(path, np.sort(chosen).astype(np.uint32), counts, seed)
