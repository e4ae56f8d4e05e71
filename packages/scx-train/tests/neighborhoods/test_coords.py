"""Neighbourhoods by place against a search through all points."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.spatial import cKDTree

import scx_core
from scx_train import neighborhood_plans_from_coords as from_coords

WriteCoords = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> WriteCoords:
    """Writes a file with the given coordinates."""

    def make(coordinates: Any, *, key: str = "spatial", name: str = "cells.scx") -> Path:
        n_obs = coordinates.shape[0]
        adata = anndata.AnnData(sp.csr_matrix((n_obs, 2), dtype=np.float32))
        adata.obs_names = [str(number) for number in range(n_obs)]
        if isinstance(coordinates, pd.DataFrame):
            coordinates = coordinates.set_index(adata.obs_names)
        adata.obsm[key] = coordinates
        scx_core.from_anndata(adata, tmp_path / name, shard_size=64, overwrite=True)
        return tmp_path / name

    return make


def expected_sets(
    coordinates: np.ndarray[Any, Any], rows: list[int], k: int | None, radius: float | None
) -> list[list[int]]:
    """By looking at every pair, in plain Python order of (distance, row)."""
    places = np.asarray(coordinates, dtype=np.float32).astype(np.float64)
    if places.ndim == 1:
        places = places[:, None]
    sets = []
    for center in rows:
        squared = np.zeros(len(places))
        for axis in places.T:
            squared += (axis - axis[center]) ** 2
        order = sorted((squared[row], row) for row in rows if row != center)
        if k is not None:
            sets.append([row for _, row in order[:k]])
        else:
            assert radius is not None
            sets.append([row for distance, row in order if distance <= radius * radius])
    return sets


def check(plans: list[Any], rows: list[int], sets: list[list[int]], *, file_id: int = 0) -> None:
    assert len(plans) == len(rows)
    for (file_ids, members, tags, offsets), center, neighbors in zip(
        plans, rows, sets, strict=True
    ):
        assert members.tolist() == [center, *neighbors]
        assert tags.tolist() == [0] + [1] * len(neighbors)
        assert file_ids.tolist() == [file_id] * len(members)
        assert offsets.tolist() == [0, len(members)]
        assert (members.dtype, offsets.dtype) == (np.int64, np.int64)


SHAPES = {
    "uniform": lambda rng, n, axes: rng.normal(size=(n, axes)),
    "lattice": lambda rng, n, axes: rng.integers(0, 5, size=(n, axes)),
    "equal": lambda rng, n, axes: np.full((n, axes), 2.5),
    "clusters": lambda rng, n, axes: rng.choice([0, 1e30], (n, 1)) + rng.random((n, axes)) * 1e-9,
    "line": lambda rng, n, axes: np.where(np.arange(axes) == 0, rng.random((n, axes)), 0.0),
}


@settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 130),
    axes=st.integers(1, 3),
    shape=st.sampled_from(sorted(SHAPES)),
    k=st.one_of(st.none(), st.integers(1, 140)),
    dtype=st.sampled_from(["f4", "f8", "i4"]),
    n_deleted=st.integers(0, 40),
)
def test_any_points(
    write: WriteCoords,
    seed: int,
    n: int,
    axes: int,
    shape: str,
    k: int | None,
    dtype: str,
    n_deleted: int,
) -> None:
    rng = np.random.default_rng(seed)
    coordinates = SHAPES[shape](rng, n, axes)
    if dtype == "i4" and np.abs(coordinates).max() > 1e9:
        dtype = "f8"
    coordinates = coordinates.astype(dtype)
    path = write(coordinates)
    gone = rng.choice(n, min(n_deleted, n - 1), replace=False)
    scx_core.mark_deleted(path, gone)
    radius = None if k is not None else float(rng.choice([1.0, 2.0, rng.random() + 1e-3]))
    rows = sorted(set(range(n)) - set(gone.tolist()))
    plans, centers = from_coords(path, file_id=3, k=k, radius=radius)
    assert centers.tolist() == rows and centers.dtype == np.int64
    check(plans, rows, expected_sets(coordinates, rows, k, radius), file_id=3)
    part = rows[:: int(rng.integers(1, 4))]
    plans, centers = from_coords(path, file_id=1, k=k, radius=radius, rows=part[::-1])
    assert centers.tolist() == part
    check(plans, part, expected_sets(coordinates, part, k, radius), file_id=1)
    everything = list(range(n))
    plans, centers = from_coords(path, file_id=0, k=k, radius=radius, drop_deleted=False)
    assert centers.tolist() == everything
    check(plans, everything, expected_sets(coordinates, everything, k, radius))


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_many_points_against_scipy(write: WriteCoords, axes: int) -> None:
    rng = np.random.default_rng(axes)
    coordinates = rng.normal(size=(20_000, axes)).astype(np.float32)
    path = write(coordinates)
    plans, _ = from_coords(path, file_id=0, k=15)
    distances, _ = cKDTree(coordinates.astype(np.float64)).query(coordinates, k=16)
    for number in range(0, 20_000, 97):
        found = coordinates[plans[number][1]].astype(np.float64)
        np.testing.assert_allclose(
            np.sqrt(((found - found[0]) ** 2).sum(axis=1)), distances[number], rtol=1e-12
        )
    plans, _ = from_coords(path, file_id=0, radius=0.05)
    pairs = cKDTree(coordinates.astype(np.float64)).query_pairs(0.05, output_type="ndarray")
    assert sum(len(rows) - 1 for _, rows, _, _ in plans) == 2 * len(pairs)


def test_all_points_in_one_place_take_no_longer(write: WriteCoords) -> None:
    coordinates = np.zeros((50_000, 2), dtype=np.float32)
    coordinates[-1] = 1e20  # an even grid would have all others in one cell
    plans, _ = from_coords(write(coordinates), file_id=0, k=3)
    assert plans[0][1].tolist() == [0, 1, 2, 3]
    assert plans[40_000][1].tolist() == [40_000, 0, 1, 2]
    assert plans[-1][1].tolist() == [49_999, 0, 1, 2]


def test_what_may_be_given(write: WriteCoords) -> None:
    coordinates = np.random.default_rng(0).normal(size=(30, 2))
    path = write(coordinates, key="other")
    wanted, _ = from_coords(path, "other", file_id=0, k=2)
    for given_path in (str(path), os.fspath(path), scx_core.open(path)):
        plans, _ = from_coords(given_path, obsm_key="other", file_id=0, k=2)
        assert [rows.tolist() for _, rows, _, _ in plans] == [
            rows.tolist() for _, rows, _, _ in wanted
        ]
    frame = write(pd.DataFrame(coordinates, columns=["x", "y"]), name="frame.scx")
    assert from_coords(frame, file_id=0, k=2)[0][5][1].tolist() == wanted[5][1].tolist()
    flat = write(coordinates[:, 0], name="flat.scx")
    check(
        from_coords(flat, file_id=0, k=4)[0],
        list(range(30)),
        expected_sets(coordinates[:, 0], list(range(30)), 4, None),
    )


def test_an_open_experiment_shows_all_rows_to_the_builders(write: WriteCoords) -> None:
    path = write(np.arange(6.0)[:, None])
    scx_core.mark_deleted(path, [0, 3])
    experiment = scx_core.open(path)
    plans, centers = from_coords(experiment, file_id=0, k=1)
    assert centers.tolist() == [1, 2, 4, 5]
    assert [rows.tolist() for _, rows, _, _ in plans] == [[1, 2], [2, 1], [4, 5], [5, 4]]


def test_without_the_centre(write: WriteCoords) -> None:
    path = write(np.array([[0.0], [1.0], [10.0]]))
    plans, centers = from_coords(path, file_id=0, radius=1, include_center=False)
    assert centers.tolist() == [0, 1, 2]
    assert [rows.tolist() for _, rows, _, _ in plans] == [[1], [0], []]
    assert [tags.tolist() for _, _, tags, _ in plans] == [[1], [1], []]
    assert [offsets.tolist() for _, _, _, offsets in plans] == [[0, 1], [0, 1], [0, 0]]


def test_coordinates_are_narrowed_to_float32(write: WriteCoords) -> None:
    # 1 + 1e-9 and 1 are the same float32: the lower row comes first
    path = write(np.array([[0.0], [1 + 1e-9], [1.0]]))
    assert from_coords(path, file_id=0, k=2)[0][0][1].tolist() == [0, 1, 2]
    large = write(np.array([[2**24 + 1], [2**24], [0]]), name="integers.scx")
    assert from_coords(large, file_id=0, k=2)[0][2][1].tolist() == [2, 0, 1]


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf, 1e300])
def test_a_coordinate_that_is_none(write: WriteCoords, wrong: float) -> None:
    coordinates = np.zeros((10, 2))
    coordinates[7, 1] = wrong
    path = write(coordinates)
    with pytest.raises(ValueError, match=r"obsm\['spatial'\] of row 7 .* not finite"):
        from_coords(path, file_id=0, k=2)
    scx_core.mark_deleted(path, [7])
    assert len(from_coords(path, file_id=0, k=2)[0]) == 9
    with pytest.raises(ValueError, match="row 7"):
        from_coords(path, file_id=0, k=2, drop_deleted=False)


@pytest.mark.parametrize(
    ("options", "kind", "text"),
    [
        ({}, ValueError, "neither was given"),
        ({"k": 1, "radius": 1.0}, ValueError, "both was given"),
        ({"k": 0}, ValueError, "k=0"),
        ({"k": True}, TypeError, "boolean"),
        ({"k": 1.5}, TypeError, "whole number"),
        ({"radius": 0}, ValueError, "finite and positive"),
        ({"radius": -1.0}, ValueError, "finite and positive"),
        ({"radius": np.nan}, ValueError, "finite and positive"),
        ({"radius": np.inf}, ValueError, "finite and positive"),
        ({"radius": "1"}, TypeError, "must be a number"),
        ({"k": 1, "file_id": -1}, ValueError, "file_id=-1"),
        ({"k": 1, "file_id": "a.scx"}, TypeError, "file_id"),
        ({"k": 1, "obsm_key": "pca"}, KeyError, "has no 'pca'; it has spatial"),
        ({"k": 1, "include_center": 1}, TypeError, "include_center"),
        ({"k": 1, "drop_deleted": None}, TypeError, "drop_deleted"),
    ],
)
def test_refusals(
    write: WriteCoords, options: dict[str, Any], kind: type[Exception], text: str
) -> None:
    path = write(np.zeros((4, 2)))
    with pytest.raises(kind, match=text):
        from_coords(path, **{"file_id": 0, **options})


def test_file_id_has_no_default_and_no_position(write: WriteCoords) -> None:
    path = write(np.zeros((4, 2)))
    with pytest.raises(TypeError, match="file_id"):
        from_coords(path, k=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="positional"):
        from_coords(path, "spatial", 0, k=1)  # type: ignore[misc]
    with pytest.raises(TypeError, match="path must be a path"):
        from_coords(5, file_id=0, k=1)  # type: ignore[arg-type]


@pytest.mark.parametrize("shape", [(4, 4), (4, 0), (4, 2, 2)])
def test_wide_embeddings_are_refused(write: WriteCoords, shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="1 to 3 dimensions"):
        from_coords(write(np.zeros(shape)), file_id=0, k=1)


def test_other_kinds_are_refused(write: WriteCoords) -> None:
    with pytest.raises(ValueError, match="no dense array"):
        from_coords(write(sp.csr_matrix(np.ones((4, 2)))), file_id=0, k=1)
    with pytest.raises(ValueError, match="no dense array"):
        from_coords(write(np.ones((4, 2), dtype=complex), name="c.scx"), file_id=0, k=1)


def test_no_cells_and_one_cell(write: WriteCoords) -> None:
    path = write(np.zeros((1, 2)))
    check(from_coords(path, file_id=0, k=5)[0], [0], [[]])
    scx_core.mark_deleted(path, [0])
    plans, centers = from_coords(path, file_id=0, k=5)
    assert plans == [] and centers.tolist() == []
    assert from_coords(path, file_id=0, radius=1.0)[0] == []
