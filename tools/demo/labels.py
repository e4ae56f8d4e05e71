"""What the classifier is to learn: a column of the file, or clusters made on the fly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

import scx_core
from demo.stream import Stream

PREFERRED = "cell_type"
CATEGORIES_MAX = 100
N_CLUSTERS = 8
CELLS_PER_CLUSTER_MIN = 20
CLUSTER_SAMPLE_CELLS = 5_000
N_COMPONENTS = 20
KMEANS_STEPS = 30


@dataclass(frozen=True)
class Labels:
    """A class number for every row of the file (-1: none) and the names of the classes.

    `column` is the obs column they come from, None for clusters.
    """

    codes: npt.NDArray[np.int64]
    names: list[str]
    column: str | None

    @property
    def largest_share(self) -> float:
        """The accuracy of always guessing the largest class."""
        known = self.codes[self.codes >= 0]
        return float(np.bincount(known).max() / known.size)


def label_column(experiment: Any) -> str | None:
    """`cell_type` where it is there, else the first categorical column with 2 to 100 categories."""
    obs = experiment.obs
    suitable = [
        name
        for name in obs.columns
        if hasattr(obs[name], "cat") and 2 <= len(obs[name].cat.categories) <= CATEGORIES_MAX
    ]
    if PREFERRED in suitable:
        return PREFERRED
    return suitable[0] if suitable else None


def column_labels(experiment: Any, column: str) -> Labels:
    """The labels in an obs column."""
    found = experiment.obs_column(column)
    names = [str(name) for name in found["categories"]]
    return Labels(np.asarray(found["codes"], dtype=np.int64), names, column)


def cluster_labels(stream: Stream) -> Labels:
    """Clusters for a file without labels: principal components, then k-means.

    Both are fitted on the first 5,000 cells of a shuffled epoch; a second epoch assigns every cell
    to the nearest centre, so the matrix is never held in memory.
    """
    with scx_core.open(stream.path) as experiment:
        n_obs = experiment.n_obs
    dataset = stream.dataset()
    try:
        sample = _first_cells(dataset, CLUSTER_SAMPLE_CELLS)
        k = max(2, min(N_CLUSTERS, sample.shape[0] // CELLS_PER_CLUSTER_MIN))
        centre, axes = _principal_axes(sample)
        projected = ((sample - centre) @ axes).astype(np.float32)
        centres = _kmeans(projected, k, np.random.default_rng(stream.seed))
        codes = np.full(n_obs, -1, np.int64)
        for batch in dataset:
            projected = ((batch["X"] - centre) @ axes).astype(np.float32)
            codes[batch["cell_indices"]] = _nearest(projected, centres)
    finally:
        dataset.close()
    return Labels(codes, [f"cluster {i}" for i in range(k)], None)


def _first_cells(dataset: Any, n_cells: int) -> npt.NDArray[np.float32]:
    parts: list[npt.NDArray[np.float32]] = []
    for batch in dataset:
        parts.append(np.array(batch["X"]))
        if sum(map(len, parts)) >= n_cells:
            break
    return np.concatenate(parts)[:n_cells]


def _principal_axes(
    cells: npt.NDArray[np.float32],
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """The mean cell, and the directions of the largest variance as columns."""
    centre = cells.mean(axis=0)
    centred = (cells - centre).astype(np.float64)
    _, vectors = np.linalg.eigh(centred.T @ centred)  # eigenvalues ascend
    axes = vectors[:, : -N_COMPONENTS - 1 : -1]
    return centre, np.ascontiguousarray(axes, dtype=np.float32)


def _kmeans(
    points: npt.NDArray[np.float32], k: int, random: np.random.Generator
) -> npt.NDArray[np.float32]:
    """Lloyd's steps from starts that lie far apart (k-means++); the centres."""
    centres: npt.NDArray[np.float32] = points[random.integers(len(points))][None].copy()
    while len(centres) < k:
        distance = _distances(points, centres).min(axis=1).clip(1e-12)
        pick = random.choice(len(points), p=distance / distance.sum())
        centres = np.concatenate([centres, points[pick][None]])
    for _ in range(KMEANS_STEPS):
        nearest = _nearest(points, centres)
        for i in range(k):
            if np.any(nearest == i):
                centres[i] = points[nearest == i].mean(axis=0)
    return centres


def _nearest(
    points: npt.NDArray[np.float32], centres: npt.NDArray[np.float32]
) -> npt.NDArray[np.int64]:
    nearest: npt.NDArray[np.int64] = np.argmin(_distances(points, centres), axis=1)
    return nearest


def _distances(
    points: npt.NDArray[np.float32], centres: npt.NDArray[np.float32]
) -> npt.NDArray[np.float64]:
    """Squared distances, [points, centres]."""
    a, b = points.astype(np.float64), centres.astype(np.float64)
    squares: npt.NDArray[np.float64] = (
        (a**2).sum(axis=1)[:, None] - 2 * a @ b.T + (b**2).sum(axis=1)[None]
    )
    return squares
