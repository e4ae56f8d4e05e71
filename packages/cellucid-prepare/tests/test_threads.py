"""`threads` holds for everything that a call does, in this package and in libraries."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from prepare_reading import read, written

import scx_core
from cellucid_prepare._threads import at_most, thread_count
from cellucid_prepare.encode import pool
from scx_core.native import matrix as native_matrix

IDENTITY = {"dataset_id": "one", "dataset_name": "One"}


def cells(n_cells: int = 3000) -> Any:
    """Large enough for several blocks in each kind of reading."""
    x = sp.random(n_cells, 40, 0.5, format="csr", random_state=0, dtype=np.float32)
    return anndata.AnnData(
        x,
        obs=pd.DataFrame(index=[f"c{number}" for number in range(n_cells)]),
        obsm={"X_umap": np.zeros((n_cells, 2), np.float32)},
    )


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[int]]:
    """How many threads pools of this package and the decoder of .scx files are asked for."""
    found: dict[str, list[int]] = {"pool": [], "decoder": []}
    make, call = pool.ThreadPoolExecutor, native_matrix.call

    def pool_of(threads: int, **options: Any) -> Any:
        found["pool"].append(threads)
        return make(threads, **options)

    def called(name: str, *arguments: Any, **options: Any) -> Any:
        if name == "scx_matrix_gather_csr":
            found["decoder"].append(arguments[-1])
        return call(name, *arguments, **options)

    monkeypatch.setattr(pool, "ThreadPoolExecutor", pool_of)
    monkeypatch.setattr(native_matrix, "call", called)
    return found


@pytest.mark.parametrize("threads", [1, 3])
def test_matrices_in_memory(asked: dict[str, list[int]], threads: int) -> None:
    path = written("h5ad", data=cells(), threads=threads, **IDENTITY)
    # judged by as many, and encoded by as many; one needs no pool
    assert asked["pool"] == ([] if threads == 1 else [threads, threads])
    assert (read(path).X != cells().X).nnz == 0


@pytest.mark.parametrize("threads", [1, 3])
def test_scx_files(asked: dict[str, list[int]], threads: int) -> None:
    scx_core.from_anndata(cells(), "in.scx")
    written("h5ad", data=Path("in.scx"), threads=threads, **IDENTITY)
    assert len(asked["decoder"]) >= 2 and set(asked["decoder"]) == {threads}
    # elsewhere nothing has changed
    with scx_core.open("in.scx") as experiment:
        experiment.X[:2]
    assert asked["decoder"][-1] == 0


@pytest.mark.parametrize("threads", [1, 2])
def test_lazy_matrices(threads: int) -> None:
    dask_array = pytest.importorskip("dask.array")
    dask = pytest.importorskip("dask")
    data = cells()
    seen: set[int] = set()
    together = threading.Barrier(threads)

    def noted(block: Any) -> Any:
        seen.add(threading.get_ident())
        together.wait(timeout=30)  # no thread does the work of two
        return block

    array = dask_array.from_array(data.X.toarray(), chunks=(1500, 40))
    data.X = array.rechunk((3000, 20)).map_blocks(noted, dtype=np.float32, meta=np.empty((0, 0)))
    before = dict(dask.config.config)
    with at_most(threads):
        data.X.compute()
    assert len(seen) == threads
    assert dict(dask.config.config) == before


def test_zarr() -> None:
    zarr = pytest.importorskip("zarr", minversion="3")
    written("zarr2", "in", data=cells(), **IDENTITY)
    before = zarr.config.get("async.concurrency")
    seen: set[int] = set()

    def note(done: int, total: int) -> None:
        seen.add(zarr.config.get("async.concurrency"))

    written("h5ad", data=Path("in.zarr"), threads=2, progress=note, **IDENTITY)
    assert seen == {2}
    assert zarr.config.get("async.concurrency") == before


def test_how_many() -> None:
    with at_most(3):
        assert thread_count() == 3
        with at_most(1000):
            assert thread_count() == 64
        with at_most(None):
            assert thread_count() >= 1
        assert thread_count() == 3
