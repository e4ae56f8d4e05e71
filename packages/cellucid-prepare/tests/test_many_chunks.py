"""Outputs of many chunks, which threads encode and store in any order."""

from __future__ import annotations

import threading
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from prepare_reading import CONTAINERS, listing, read, written

from cellucid_prepare.encode.pool import AHEAD, encoder

# more than a chunk of cells
N_CELLS, N_GENES = 70_000, 24
IDENTITY = {"dataset_id": "many", "dataset_name": "Many chunks"}


@cache
def cells() -> anndata.AnnData:
    """Genes of few values and of many, one that is empty and one that every cell has."""
    rng = np.random.default_rng(0)
    values = rng.geometric(0.6, (N_CELLS, N_GENES)).astype("f4")
    values[:, 5] = rng.normal(size=N_CELLS)
    values[rng.random(values.shape) < rng.random(N_GENES)] = 0
    values[:, 7], values[:, 8] = 0, 3
    return anndata.AnnData(
        sp.csr_matrix(values),
        obs=pd.DataFrame(
            {"label": pd.Categorical(rng.choice(["a", "b"], N_CELLS)), "n": rng.random(N_CELLS)},
            index=[f"cell{number}" for number in range(N_CELLS)],
        ),
        var=pd.DataFrame(index=[f"gene{number}" for number in range(N_GENES)]),
        obsm={"X_pca": rng.normal(size=(N_CELLS, 7)).astype("f4")},
    )


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("container", CONTAINERS)
def test_bytes_and_values_do_not_depend_on_threads(container: str, dense: bool) -> None:
    data = cells()
    if dense:
        data = data.copy()
        data.X = data.X.toarray()
    found: list[dict[str, str]] = []
    for threads in (1, 2, 3):
        path = written(container, data=data, threads=threads, overwrite=True, **IDENTITY)
        found.append(listing(Path()))
    assert found[0] == found[1] == found[2]
    assert path.suffix != ".zarr" or len(found[0]) > (40 if dense else 100)
    back = read(path)
    if dense:
        np.testing.assert_array_equal(back.X, data.X)
    else:
        expected = sp.csc_matrix(data.X)
        for name in ("data", "indices", "indptr"):
            np.testing.assert_array_equal(getattr(back.X, name), getattr(expected, name))
    np.testing.assert_array_equal(back.obsm["X_pca"], data.obsm["X_pca"])
    np.testing.assert_array_equal(back.obs["n"], data.obs["n"])
    assert back.obs["label"].tolist() == data.obs["label"].tolist()
    assert back.obs_names.tolist() == data.obs_names.tolist()


def test_every_way_to_turn_a_matrix_gives_the_same_bytes() -> None:
    data = cells()
    expected = written("h5ad", data=data, **IDENTITY).read_bytes()
    by_cell: Any = data.X

    def wide() -> Any:
        matrix = by_cell.copy()
        matrix.indices, matrix.indptr = matrix.indices.astype("i8"), matrix.indptr.astype("i8")
        return matrix

    def unsorted(by_gene: bool) -> Any:
        matrix = sp.csc_matrix(by_cell) if by_gene else by_cell.copy()
        for start, stop in zip(matrix.indptr[:-1], matrix.indptr[1:], strict=True):
            matrix.indices[start:stop] = matrix.indices[start:stop][::-1].copy()
            matrix.data[start:stop] = matrix.data[start:stop][::-1].copy()
        matrix.has_sorted_indices = False
        return matrix

    def doubled() -> Any:
        """Every value in two halves, and a stored zero for each cell."""
        halves = by_cell / 2
        zeros_at = (np.zeros(N_CELLS, "f4"), (np.arange(N_CELLS), np.full(N_CELLS, 7)))
        zeros = sp.coo_matrix(zeros_at, shape=by_cell.shape)
        twice: Any = sp.hstack([halves, halves, zeros], format="csr")
        return sp.csr_matrix(
            (twice.data, twice.indices % N_GENES, twice.indptr), shape=by_cell.shape
        )

    forms = {
        "csc": lambda: sp.csc_matrix(by_cell),
        "coo": by_cell.tocoo,
        "wide": wide,
        "unsorted csr": lambda: unsorted(by_gene=False),
        "unsorted csc": lambda: unsorted(by_gene=True),
        "doubled": doubled,
    }
    for name, form in forms.items():
        found = written(
            "h5ad",
            obs=data.obs,
            var=data.var,
            embeddings=dict(data.obsm),
            gene_expression=form(),
            overwrite=True,
            **IDENTITY,
        )
        assert found.read_bytes() == expected, name


def test_a_zip_has_the_chunks_of_the_folder_in_grid_order() -> None:
    folder = written("zarr2", data=cells(), threads=3, **IDENTITY)
    with zipfile.ZipFile(written("zip2", data=cells(), threads=3, **IDENTITY)) as archive:
        names = archive.namelist()
        for name in names:
            assert archive.read(name) == (folder / name).read_bytes()
    assert set(names) == {
        path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()
    }
    for array in ("X/data", "X/indices", "obsm/X_pca", "obs/n"):
        chunks = [name for name in names if name.startswith(f"{array}/") and name[-1].isdigit()]
        places = [tuple(map(int, name.rpartition("/")[2].split("."))) for name in chunks]
        assert len(places) > 1 and places == sorted(places)


def test_what_waits_does_not_begin_after_a_failure() -> None:
    begun: list[int] = []
    gate = threading.Event()

    def work(number: int) -> int:
        begun.append(number)
        if number:
            gate.wait(0.2)
        return number

    def interrupted() -> None:
        with encoder(2) as encode:
            results = encode(work, range(100))
            assert next(results) == 0
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert len(begun) <= 4 < 2 * AHEAD
