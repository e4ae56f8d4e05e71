"""Rows and columns out of a file, against scipy's own indexing."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import scx_core
from anndata_samples import bits_of, random_matrix, sparse_of
from scx_core.experiment._matrix_view import MatrixView

N_OBS, N_VARS = 103, 29


@pytest.fixture(scope="module")
def expected() -> anndata.AnnData:
    rng = np.random.default_rng(0)
    adata = anndata.AnnData(
        random_matrix(rng, N_OBS, N_VARS, "float32", "csr_matrix", 0.2),
        obs=pd.DataFrame(index=[f"c{number}" for number in range(N_OBS)]),
        var=pd.DataFrame(index=[f"g{number}" for number in range(N_VARS)]),
        layers={
            "counts": random_matrix(rng, N_OBS, N_VARS, "int16", "dense", 0.5),
            "csc": random_matrix(rng, N_OBS, N_VARS, "uint64", "csc_array", 0.1),
            "half": random_matrix(rng, N_OBS, N_VARS, "float16", "dense", 0.5),
            "empty": sp.csr_matrix((N_OBS, N_VARS), dtype="float64"),
        },
    )
    adata.raw = anndata.AnnData(
        random_matrix(rng, N_OBS, N_VARS + 2, "uint8", "csr_matrix", 0.5),
        obs=adata.obs,
        var=pd.DataFrame(index=[f"r{number}" for number in range(N_VARS + 2)]),
    )
    return adata


@pytest.fixture(scope="module", params=["rowpack", "none"])
def opened(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    expected: anndata.AnnData,
) -> scx_core.Experiment:
    path = tmp_path_factory.mktemp("gather") / "x.scx"
    scx_core.from_anndata(expected, path, shard_size=16, codec=request.param)
    return scx_core.open(path)


def pairs(
    opened: scx_core.Experiment, expected: anndata.AnnData
) -> list[tuple[MatrixView, sp.csr_matrix]]:
    assert opened.X is not None
    assert opened.raw is not None
    views = [(opened.X, expected.X), (opened.raw.X, expected.raw.X)]
    views += [(opened.layers[name], expected.layers[name]) for name in opened.layers]
    return [(view, as_csr(matrix)) for view, matrix in views]


def as_csr(matrix: object) -> sp.csr_matrix:
    if sp.issparse(matrix):
        return sp.csr_matrix(matrix)
    # scipy has no float16
    return sparse_of(matrix.astype("f4") if matrix.dtype == "f2" else matrix, "csr_matrix")


def numbers(index: object, length: int) -> np.ndarray:
    """What numpy selects by `index`."""
    if isinstance(index, list):
        index = np.array(index, dtype=int)
    return np.atleast_1d(np.arange(length)[index])


def same(found: sp.csr_matrix, wanted: sp.csr_matrix) -> None:
    assert isinstance(found, sp.csr_matrix)
    assert found.shape == wanted.shape
    assert found.dtype == wanted.dtype
    assert found.has_canonical_format
    assert bits_of(found) == bits_of(wanted)


ROWS = st.one_of(
    st.lists(st.integers(0, N_OBS - 1), max_size=200),
    st.lists(st.booleans(), min_size=N_OBS, max_size=N_OBS).map(np.array),
    st.slices(N_OBS),
    st.integers(-N_OBS, N_OBS - 1),
)
COLUMNS = st.one_of(
    st.lists(st.integers(0, N_VARS - 1), max_size=40),
    st.lists(st.booleans(), min_size=N_VARS, max_size=N_VARS).map(np.array),
    st.slices(N_VARS),
    st.integers(-N_VARS, N_VARS - 1),
)
MANY = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@MANY
@given(rows=ROWS)
def test_rows(opened: scx_core.Experiment, expected: anndata.AnnData, rows: object) -> None:
    for view, matrix in pairs(opened, expected):
        same(view[rows], matrix[numbers(rows, N_OBS)])
        same(view.gather_rows(rows, threads=1), matrix[numbers(rows, N_OBS)])


@MANY
@given(rows=ROWS, columns=COLUMNS)
def test_rows_and_columns(
    opened: scx_core.Experiment, expected: anndata.AnnData, rows: object, columns: object
) -> None:
    for view, matrix in pairs(opened, expected):
        if view.shape[1] == N_VARS:
            wanted = matrix[numbers(rows, N_OBS)][:, numbers(columns, N_VARS)]
            same(view[rows, columns], wanted)


@pytest.mark.parametrize("form", [list, np.array, pd.Index, pd.Series, pd.Categorical])
def test_names(opened: scx_core.Experiment, expected: anndata.AnnData, form: type) -> None:
    cells, genes = ["c7", "c0", "c102", "c0"], ["g28", "g3", "g3"]
    wanted = expected[["c7", "c0", "c102", "c0"]]
    same(opened.X[form(cells)], sp.csr_matrix(wanted.X))
    same(opened.gather_rows(form(cells)), sp.csr_matrix(wanted.X))
    same(opened.X[form(cells), form(genes)], sp.csr_matrix(wanted[:, genes].X))
    same(opened.layers["csc"][:, form(genes)], as_csr(expected[:, genes].layers["csc"]))
    same(opened.raw.X[form(cells), form(["r30"])], sp.csr_matrix(wanted.raw[:, ["r30"]].X))
    same(opened.X[:, "g4"], sp.csr_matrix(expected[:, ["g4"]].X))
    same(opened.X[-1, -2], sp.csr_matrix(expected.X[[-1]][:, [-2]]))


@pytest.mark.filterwarnings("ignore:Variable names are not unique")
def test_a_name_that_is_there_twice(tmp_path: Path) -> None:
    var = pd.DataFrame(index=["A", "B", "A", "C"])
    made = anndata.AnnData(np.arange(4, dtype=np.float32)[None, :], var=var)
    scx_core.from_anndata(made, tmp_path / "x.scx")
    with scx_core.open(tmp_path / "x.scx") as cells:
        assert cells.X[:, ["C", "B"]].toarray().tolist() == [[3, 1]]
        with pytest.raises(ValueError, match=r"gene 'A' is there 2 times, at 0, 2: select it by n"):
            cells.X[:, ["B", "A"]]


def test_names_of_the_cells_that_are_left(tmp_path: Path) -> None:
    made = anndata.AnnData(np.arange(4, dtype=np.float32)[:, None])
    scx_core.from_anndata(made, tmp_path / "x.scx")
    scx_core.mark_deleted(tmp_path / "x.scx", [1])
    with scx_core.open(tmp_path / "x.scx") as cells:
        assert cells.X[["3", "2"]].toarray().tolist() == [[3], [2]]
        with pytest.raises(KeyError, match="there is no cell '1'"):
            cells.X["1"]
    with scx_core.open(tmp_path / "x.scx", include_deleted=True) as cells:
        assert cells.X["1"].toarray().tolist() == [[1]]


def test_columns_of_many_rows_are_picked_in_steps(
    opened: scx_core.Experiment, expected: anndata.AnnData, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scx_core.experiment._matrix_view.COLUMN_STEP_VALUES", 10)
    for view, matrix in pairs(opened, expected):
        same(view[::-1, [5, 3]], matrix[::-1][:, [5, 3]])


@pytest.mark.parametrize(
    ("rows", "error", "match"),
    [
        (N_OBS, IndexError, "cell 103 is out of range for 103 cells"),
        ([0, -N_OBS - 1], IndexError, "cell -104 is out of range"),
        (np.array([2**63], dtype=np.uint64), IndexError, "cell 9223372036854775808"),
        (np.ones(5, dtype=bool), IndexError, r"mask must have shape \(103,\)"),
        ([1.0], TypeError, "list of float64"),
        ([0, -1], IndexError, "cell -1: a negative number in an array .* what get_indexer gives"),
        (["c1", "c 5"], KeyError, r"^there is no cell 'c 5'; did you mean 'c5'"),
        (["zz", "c5", "yy"], KeyError, r"^there is no cell 'zz'; 2 of 3 names are missing$"),
        ("C5", KeyError, r"^there is no cell 'C5'; did you mean 'c5'"),
        (np.array(["c1", 2], dtype=object), TypeError, "ndarray with 2 in it$"),
        (["c1", np.nan], TypeError, "list with nan in it$"),
        (pd.Series([True, None], dtype="boolean"), TypeError, "Series with <NA> in it$"),
        (None, TypeError, "boolean mask, not by NoneType$"),
        (..., TypeError, "boolean mask, not by ellipsis$"),
        ([[1, 2]], IndexError, "one axis"),
    ],
)
def test_what_is_no_row(
    opened: scx_core.Experiment, rows: object, error: type[Exception], match: str
) -> None:
    with pytest.raises(error, match=match):
        opened.gather_rows(rows)
    with pytest.raises(error):
        opened.X[rows, :]


def test_numpy_takes_a_matrix_whole(opened: scx_core.Experiment, expected: anndata.AnnData) -> None:
    for view, matrix in pairs(opened, expected):
        array = np.asarray(view)
        assert array.dtype == view.dtype
        assert np.array_equal(array, matrix.toarray())
    wide = np.asarray(opened.X, dtype=np.float64)
    assert wide.dtype == np.float64
    assert np.array_equal(wide, expected.X.toarray())
    with pytest.raises(ValueError, match="always a copy"):
        opened.X.__array__(copy=False)


def test_what_is_no_column(opened: scx_core.Experiment) -> None:
    with pytest.raises(IndexError, match="gene 29 is out of range for 29 genes"):
        opened.X[0, 29]
    with pytest.raises(KeyError, match=r"^there is no gene 'G_1'; did you mean 'g1'"):
        opened.X[0, ["g2", "G_1"]]
    with pytest.raises(IndexError, match=r"gene -1: .* select by the names themselves"):
        opened.X[:, opened.var.index.get_indexer(["g1", "unknown"])]
    with pytest.raises(IndexError, match="two axes"):
        opened.X[0, 0, 0]


def test_shapes_and_kinds(opened: scx_core.Experiment, expected: anndata.AnnData) -> None:
    assert opened.X.shape == (N_OBS, N_VARS)
    assert opened.X.nnz == expected.X.nnz == opened.nnz
    assert len(opened) == len(opened.X) == N_OBS
    assert opened.layers["counts"].dtype == np.int16
    assert opened.layers["counts"].form == "dense"
    assert opened.layers["csc"].form == "csc_array"
    assert opened.raw.shape == (N_OBS, N_VARS + 2)
    assert list(opened.layers) == ["counts", "csc", "half", "empty"]
    assert repr(opened.layers["empty"]) == "layers['empty']: 103 x 29 float64, 0 stored values"
    with pytest.raises(KeyError, match="'counts', 'csc', 'half', 'empty'"):
        opened.layers["count"]
    np.testing.assert_array_equal(opened.layers["half"].toarray(), expected.layers["half"])


def test_blocks_cover_all_rows(opened: scx_core.Experiment, expected: anndata.AnnData) -> None:
    for view, matrix in pairs(opened, expected):
        for block_bytes in (1, 500, 2**20):
            ranges = list(view.row_ranges(block_bytes))
            assert [row for start, stop in ranges for row in range(start, stop)] == list(
                range(N_OBS)
            )
            values = np.concatenate([block.values for block in view.row_blocks(block_bytes)])
            np.testing.assert_array_equal(values, matrix.data)
        assert len(ranges) == 1


def test_threads_share_a_matrix(opened: scx_core.Experiment, expected: anndata.AnnData) -> None:
    def gather(seed: int) -> bool:
        rows = np.random.default_rng(seed).integers(0, N_OBS, 50)
        return bits_of(opened.gather_rows(rows)) == bits_of(expected.X[rows])

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(gather, range(200)))


def test_views_and_experiments_pickle_as_paths(
    opened: scx_core.Experiment, expected: anndata.AnnData
) -> None:
    again = pickle.loads(pickle.dumps(opened))
    assert again.path == opened.path
    for view, matrix in pairs(opened, expected):
        same(pickle.loads(pickle.dumps(view))[3:5], matrix[3:5])


def test_backed_objects_compute_what_is_asked_for(
    opened: scx_core.Experiment, expected: anndata.AnnData
) -> None:
    pytest.importorskip("dask.array")
    lazy = opened.to_anndata(backed=True)
    assert type(lazy.X).__module__.startswith("dask")
    assert bits_of(lazy.X.compute()) == bits_of(expected.X)
    assert bits_of(lazy.layers["counts"].compute()) == bits_of(expected.layers["counts"])
    assert bits_of(lazy[5:9].X.compute()) == bits_of(expected.X[5:9])
    assert bits_of(lazy.raw.X.compute()) == bits_of(expected.raw.X)
    loaded = lazy.to_memory()
    assert bits_of(loaded.layers["csc"]) == bits_of(expected.layers["csc"])
