"""Neighbourhoods by a stored graph against plain loops over its entries."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anndata
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import scx_core
from scx_train import neighborhood_plans_from_graph as from_graph

WriteGraph = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> WriteGraph:
    """Writes a file with the given graph."""

    def make(graph: Any, *, key: str = "connectivities") -> Path:
        adata = anndata.AnnData(sp.csr_matrix((graph.shape[0], 2), dtype=np.float32))
        adata.obsp[key] = graph
        scx_core.from_anndata(adata, tmp_path / "graph.scx", shard_size=16, overwrite=True)
        return tmp_path / "graph.scx"

    return make


def expected_sets(
    graph: Any, gone: set[int], k: int | None, weight_order: str | None
) -> tuple[list[int], list[list[int]]]:
    entries = sp.coo_matrix(graph)
    edges: dict[int, list[tuple[int, np.float32]]] = {}
    for row, column, weight in zip(entries.row, entries.col, entries.data, strict=True):
        edges.setdefault(int(row), []).append((int(column), np.float32(weight)))
    centers = [row for row in range(graph.shape[0]) if row not in gone]
    sets = []
    for row in centers:
        found = sorted(edge for edge in edges.get(row, []) if edge[0] not in gone)
        if k is not None:
            sign = 1 if weight_order == "asc" else -1

            def rank(edge: tuple[int, np.float32], sign: int = sign) -> tuple[bool, float, int]:
                finite = bool(np.isfinite(edge[1]))
                return not finite, sign * float(edge[1]) if finite else 0.0, edge[0]

            found = sorted(sorted(found, key=rank)[:k])
        sets.append([column for column, _ in found])
    return centers, sets


def contents(plans: list[Any]) -> list[list[int]]:
    for file_ids, rows, tags, offsets in plans:
        assert len(file_ids) == len(rows) == len(tags) and offsets.tolist() == [0, len(rows)]
    return [rows.tolist() for _, rows, _, _ in plans]


@settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 50),
    density=st.sampled_from([0.0, 0.05, 0.3, 1.0]),
    k=st.one_of(st.none(), st.integers(1, 12)),
    weight_order=st.sampled_from(["asc", "desc"]),
    values=st.sampled_from(["real", "few", "strange"]),
    form=st.sampled_from(["csr", "csc", "dense"]),
    dtype=st.sampled_from(["f4", "f8"]),
    chunk_rows=st.integers(1, 60),
    n_deleted=st.integers(0, 20),
)
def test_any_graph(
    write: WriteGraph,
    seed: int,
    n: int,
    density: float,
    k: int | None,
    weight_order: str | None,
    values: str,
    form: str,
    dtype: str,
    chunk_rows: int,
    n_deleted: int,
) -> None:
    rng = np.random.default_rng(seed)
    graph: Any = sp.random(n, n, density, format="csr", rng=rng, dtype=dtype)
    if values == "few":
        graph.data[:] = rng.integers(-1, 2, len(graph.data))  # stored zeros among them
    if values == "strange":
        graph.data[:] = rng.choice([np.nan, np.inf, -np.inf, 0.5, -0.0, 2.0], len(graph.data))
    if form == "dense":
        graph = graph.toarray()
    elif form == "csc":
        graph = graph.tocsc()
    path = write(graph)
    gone = rng.choice(n, min(n_deleted, n), replace=False)
    scx_core.mark_deleted(path, gone)
    if k is None:
        weight_order = None
    options: dict[str, Any] = {"k": k, "weight_order": weight_order, "chunk_rows": chunk_rows}
    centers, sets = expected_sets(graph, set(gone.tolist()), k, weight_order)
    plans, found = from_graph(path, file_id=2, **options)
    assert found.tolist() == centers and found.dtype == np.int64
    assert contents(plans) == [[row, *others] for row, others in zip(centers, sets, strict=True)]
    for file_ids, rows, tags, _ in plans:
        assert set(file_ids.tolist()) == {2}
        assert tags.tolist() == [0] + [1] * (len(rows) - 1)
    plans, _ = from_graph(path, file_id=2, include_center=False, **options)
    assert contents(plans) == sets
    mask = rng.random(n) < 0.5
    left_out = set(np.flatnonzero(~mask).tolist())
    for drop_deleted in (True, False):
        excluded = left_out | set(gone.tolist()) if drop_deleted else left_out
        centers, sets = expected_sets(graph, excluded, k, weight_order)
        for chosen in (mask, np.array(centers, dtype=np.int64)[::-1]):
            if not centers:
                continue
            plans, found = from_graph(
                path, file_id=2, rows=chosen, drop_deleted=drop_deleted, **options
            )
            assert found.tolist() == centers
            expected = [[row, *others] for row, others in zip(centers, sets, strict=True)]
            assert contents(plans) == expected
    centers, sets = expected_sets(graph, set(), k, weight_order)
    plans, found = from_graph(path, file_id=2, drop_deleted=False, **options)
    assert found.tolist() == centers
    assert contents(plans) == [[row, *others] for row, others in zip(centers, sets, strict=True)]


def small() -> sp.csr_matrix:
    """Row 0 has edges to 1, 2, 3 and 4."""
    weights = [[0, 0.5, 0.9, 0.5, 0.1], *[[0.3, 0, 0, 0, 0]] * 4]
    return sp.csr_matrix(np.array(weights))


def test_the_k_best_come_by_column(write: WriteGraph) -> None:
    path = write(small())
    best = [
        from_graph(path, file_id=0, k=k, weight_order="desc")[0][0][1].tolist() for k in (1, 2, 3)
    ]
    assert best == [[0, 2], [0, 1, 2], [0, 1, 2, 3]]  # 1 before 3, which is as good
    nearest = from_graph(path, file_id=0, k=2, weight_order="asc")[0][0][1].tolist()
    assert nearest == [0, 1, 4]


def test_a_deleted_row_is_no_candidate_for_k(write: WriteGraph) -> None:
    path = write(small())
    scx_core.mark_deleted(path, [2])
    with_k, centers = from_graph(path, file_id=0, k=2, weight_order="desc")
    assert centers.tolist() == [0, 1, 3, 4]
    assert with_k[0][1].tolist() == [0, 1, 3], "still two wide"
    without, _ = from_graph(path, file_id=0)
    assert without[0][1].tolist() == [0, 1, 3, 4], "one short"


def test_infinite_distances_are_never_preferred(write: WriteGraph) -> None:
    graph = sp.csr_matrix(np.array([[0, np.inf, 3.0, -np.inf], *[[1.0, 0, 0, 0]] * 3]))
    path = write(graph, key="distances")
    for order in ("asc", "desc"):
        plans, _ = from_graph(path, "distances", file_id=0, k=1, weight_order=order)  # type: ignore[arg-type]
        assert plans[0][1].tolist() == [0, 2]


def test_weights_are_compared_as_float32(write: WriteGraph) -> None:
    graph = sp.csr_matrix(np.array([[0, 1.0, 1.0 + 1e-12], [1, 0, 0], [1, 0, 0]]))
    plans, _ = from_graph(write(graph), file_id=0, k=1, weight_order="desc")
    assert plans[0][1].tolist() == [0, 1]


@pytest.mark.parametrize(
    ("options", "kind", "text"),
    [
        ({"k": 2}, ValueError, "k needs weight_order"),
        ({"weight_order": "asc"}, ValueError, "no k was given"),
        ({"k": 2, "weight_order": "up"}, ValueError, "'asc' or 'desc'"),
        ({"k": 2, "weight_order": np.array(["asc", "desc"])}, ValueError, "'asc' or 'desc'"),
        ({"k": 0, "weight_order": "asc"}, ValueError, "k=0"),
        ({"key": "distances"}, KeyError, "has no 'distances'; it has connectivities"),
        ({"key": 3}, TypeError, "must be str"),
        ({"chunk_rows": 0}, ValueError, "chunk_rows=0"),
        ({"file_id": None}, TypeError, "file_id"),
    ],
)
def test_refusals(
    write: WriteGraph, options: dict[str, Any], kind: type[Exception], text: str
) -> None:
    path = write(small())
    with pytest.raises(kind, match=text):
        from_graph(path, **{"file_id": 0, **options})


def test_complex_weights_are_refused(write: WriteGraph) -> None:
    path = write(small().astype(complex))
    with pytest.raises(ValueError, match="complex128, which are no weights"):
        from_graph(path, file_id=0)


def test_what_may_be_given(write: WriteGraph) -> None:
    path = write(small())
    scx_core.mark_deleted(path, [4])
    wanted = contents(from_graph(str(path), file_id=0)[0])
    assert contents(from_graph(path, file_id=0)[0]) == wanted
    assert contents(from_graph(scx_core.open(path), file_id=0)[0]) == wanted
    with pytest.raises(TypeError, match="file_id"):
        from_graph(path)  # type: ignore[call-arg]


def test_rows_that_are_not_there(write: WriteGraph) -> None:
    path = write(small())
    scx_core.mark_deleted(path, [2])
    with pytest.raises(ValueError, match="rows holds 5, but the cells are numbered 0 to 4"):
        from_graph(path, file_id=0, rows=[5])
    with pytest.raises(ValueError, match="rows holds 2, which is marked as deleted"):
        from_graph(path, file_id=0, rows=[1, 2])
    assert from_graph(path, file_id=0, rows=[1, 2], drop_deleted=False)[1].tolist() == [1, 2]
    with pytest.raises(ValueError, match="rows is a mask of 2 entries for 5 cells"):
        from_graph(path, file_id=0, rows=[True, False])
