"""Neighbourhood plans by coordinates, beside scikit-learn's KDTree that builds the same plans.

Points lie evenly, or most of them in a thousand small clusters, in two dimensions. Both begin with
the coordinates in the page cache and end with a list of plans, one a cell: scikit-learn's share is
reading obsm, building its tree, asking it for k + 1 neighbours of every point in one call, and
making of each row of the answer the arrays of a plan. Where no two distances are equal the plans
must be equal, and they are compared. Not measured: graphs, and radii.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bench.harness import Limit, Result, alternate, repeat, timed
from bench.setup import Setup

K = 15
SECONDS_A_MILLION = Limit("at most", 15)

Points = npt.NDArray[np.float32]


def run(setup: Setup) -> Result:
    """Alternate the two at 100,000 points, then take a million."""
    result = Result("neighbours")
    n_small, n_large = (2_000, 5_000) if setup.quick else (100_000, 1_000_000)
    for name, make in (("even", _even), ("clustered", _clustered)):
        path = _written(make(n_small), setup.folder / "neighbours.scx")
        _check(path, result)
        comparison = alternate(
            partial(timed, n_small, partial(_plans, path)),
            partial(timed, n_small, partial(_sklearn_plans, path)),
            setup.n_pairs,
        )
        result.add(f"{n_small:,} {name} points", [s.rate for s in comparison.ours], "plans/s")
        result.add("scikit-learn", [s.rate for s in comparison.theirs], "plans/s")
        result.add(f"{name}: plans / scikit-learn", comparison.ratios, "x")
        path = _written(make(n_large), setup.folder / "neighbours.scx")
        samples = repeat(partial(timed, n_large, partial(_plans, path)), 2, warm_up=0)
        limit = None if setup.quick else SECONDS_A_MILLION
        result.add(f"{n_large:,} {name} points", [s.seconds for s in samples], "s", limit)
        path.unlink()
    result.facts.update(k=K)
    return result


def _even(n_points: int) -> Points:
    rng = np.random.default_rng(0)
    return rng.uniform(0, 1000, size=(n_points, 2)).astype(np.float32)


def _clustered(n_points: int) -> Points:
    rng = np.random.default_rng(1)
    centers = rng.uniform(0, 1000, size=(1000, 2))[rng.integers(0, 1000, n_points)]
    width = np.where(rng.random(n_points) < 0.95, 0.05, 50.0)[:, None]
    return (centers + width * rng.normal(size=(n_points, 2))).astype(np.float32)


def _written(points: Points, path: Path) -> Path:
    import anndata

    import scx_core

    adata = anndata.AnnData(np.zeros((len(points), 1), dtype=np.float32))
    adata.obsm["spatial"] = points
    scx_core.from_anndata(adata, path, overwrite=True, progress=False)
    return path


def _plans(path: Path) -> list[Any]:
    from scx_train import neighborhood_plans_from_coords

    return neighborhood_plans_from_coords(path, file_id=0, k=K)[0]


def _sklearn_plans(path: Path) -> list[Any]:
    from sklearn.neighbors import KDTree  # type: ignore[import-untyped]

    import scx_core

    with scx_core.open(path) as experiment:
        points = experiment.obsm["spatial"]
    found = KDTree(points).query(points, k=K + 1, return_distance=False)
    files = np.zeros(K + 1, dtype=np.int32)
    tags = np.array([0] + [1] * K, dtype=np.int32)
    offsets = np.array([0, K + 1], dtype=np.int64)
    return [(files, rows, tags, offsets) for rows in found]


def _check(path: Path, result: Result) -> None:
    """The neighbours are as far as scikit-learn's, at every place of every set."""
    import scx_core

    with scx_core.open(path) as experiment:
        points = experiment.obsm["spatial"].astype(np.float64)
    both = (_plans(path), _sklearn_plans(path))
    one, other = (np.stack([plan[1] for plan in plans]) for plans in both)
    far, theirs = (((points[rows] - points[rows[:, :1]]) ** 2).sum(axis=2) for rows in (one, other))
    np.testing.assert_allclose(np.sort(far), np.sort(theirs), rtol=1e-9, atol=0)
    result.checks.append(f"{len(one):,} sets have the same distances as scikit-learn's")
