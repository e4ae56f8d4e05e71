"""AnnData objects of every kind that a file must give back, and how two of them are compared."""

from __future__ import annotations

import warnings
from typing import Any

import anndata
import numpy as np
import pandas as pd
import scipy.sparse as sp
from anndata.tests.helpers import assert_equal
from hypothesis import strategies as st

DENSE_DTYPES = [
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "float32",
    "float64",
    ">f4",
    ">i8",
]
# scipy has no sparse matrices of the others
SPARSE_DTYPES = [name for name in DENSE_DTYPES if name != "float16" and not name.startswith(">")]
SPARSE_FORMS = ["csr_matrix", "csr_array", "csc_matrix", "csc_array"]
NAMES = ["AAAC-1", "Zelle ß", "细胞", "a/b", "", " ", "nan", "😀", "NA", "0"]


def random_values(rng: np.random.Generator, shape: Any, dtype: str) -> np.ndarray:
    """Values over the whole range of the dtype, many of them small, none NaN."""
    kind = np.dtype(dtype).kind
    if kind == "b":
        return rng.random(shape) < 0.5
    small = rng.integers(0, 5, size=shape)
    if kind in "iu":
        limits = np.iinfo(dtype)
        wide = rng.integers(
            limits.min,
            limits.max,
            size=shape,
            dtype=np.dtype(dtype).newbyteorder("="),
            endpoint=True,
        )
        return np.where(rng.random(shape) < 0.7, small, wide).astype(dtype)
    limits = np.finfo(dtype)
    special = np.array(
        [-0.0, limits.max, limits.min, limits.tiny, limits.smallest_subnormal, 0.1, -1.5, 2.5e-3]
    )
    wide = rng.choice(special, size=shape)
    return np.where(rng.random(shape) < 0.7, small, wide).astype(dtype)


def random_matrix(
    rng: np.random.Generator, n_rows: int, n_cols: int, dtype: str, form: str, density: float
) -> Any:
    """A dense array or a canonical sparse matrix of the given form."""
    values = random_values(rng, (n_rows, n_cols), dtype)
    values[rng.random((n_rows, n_cols)) > density] = 0
    return values if form == "dense" else sparse_of(values, form)


def sparse_of(values: np.ndarray, form: str) -> Any:
    """A sparse matrix that stores what is not +0.0."""
    stored = values != 0
    if values.dtype.kind == "f":
        stored |= np.signbit(values)
    rows, columns = np.nonzero(stored)
    coo = sp.coo_array((values[rows, columns], (rows, columns)), shape=values.shape)
    return getattr(sp, form)(coo)


def random_frame(rng: np.random.Generator, index: pd.Index, n_columns: int) -> pd.DataFrame:
    """A frame with columns of many kinds; their names repeat none."""
    n_rows = len(index)
    makers = [
        lambda: rng.integers(-5, 5, n_rows),
        lambda: rng.integers(0, 5, n_rows).astype(np.uint8),
        lambda: rng.random(n_rows),
        lambda: np.where(rng.random(n_rows) < 0.3, np.nan, rng.random(n_rows)).astype(np.float32),
        lambda: rng.random(n_rows) < 0.5,
        lambda: rng.choice(np.array(NAMES, dtype=object), n_rows),
        lambda: pd.Categorical.from_codes(
            rng.integers(-1, 3, n_rows), categories=["b", "a", "ü"], ordered=False
        ),
        lambda: pd.Categorical.from_codes(
            rng.integers(0, 2, n_rows), categories=["low", "high", "unused"], ordered=True
        ),
        lambda: pd.Categorical.from_codes(
            rng.integers(-1, 2, n_rows), categories=[3_000_000_000, 7]
        ),
        lambda: pd.array(rng.integers(0, 9, n_rows), dtype="Int64"),
        lambda: pd.arrays.BooleanArray(rng.random(n_rows) < 0.5, rng.random(n_rows) < 0.4),
        lambda: pd.arrays.IntegerArray(rng.integers(0, 2**62, n_rows), rng.random(n_rows) < 0.4),
        lambda: pd.array(
            [None if rng.random() < 0.3 else "x" for _ in range(n_rows)], dtype="string"
        ),
        lambda: pd.to_datetime(rng.integers(0, 10**9, n_rows), unit="s"),
        lambda: pd.to_timedelta(rng.integers(0, 10**9, n_rows), unit="ms"),
    ]
    columns = {}
    for number in range(n_columns):
        maker = makers[int(rng.integers(len(makers)))]
        columns[f"{NAMES[number % len(NAMES)]}{number}"] = pd.Series(maker(), index=index)
    return pd.DataFrame(columns, index=index)


def random_names(rng: np.random.Generator, n: int, *, unique: bool) -> pd.Index:
    """Names of cells or genes, also repeated and unusual ones."""
    if unique:
        return pd.Index([f"{rng.choice(NAMES)}_{i}" for i in range(n)], dtype=object)
    return pd.Index(rng.choice(np.array(NAMES, dtype=object), n), dtype=object)


NESTED_UNS: dict[str, Any] = {
    "text": "ü",
    "none": None,
    "number": 3,
    "nested": {
        "array": np.arange(6.0).reshape(2, 3),
        "deeper": {"list": [1, "a", None], "empty": {}},
    },
    "frame": pd.DataFrame({"x": [1, 2], "y": ["a", "b"]}, index=["r", "s"]),
    "sparse": sp.csr_matrix(np.eye(3)),
    "records": np.array([(1, "a")], dtype=[("n", "i4"), ("t", "U3")]),
    "scalar": np.float32(1.5),
}


def random_components(rng: np.random.Generator, index: pd.Index) -> dict[str, Any]:
    """Entries of obsm or varm."""
    n = len(index)
    makers = {
        "X_pca": lambda: rng.random((n, 3)).astype(np.float32),
        "one": lambda: rng.random((n, 1)),
        "cube": lambda: rng.integers(0, 9, (n, 2, 2)),
        "csr/key": lambda: random_matrix(rng, n, 4, "float32", "csr_matrix", 0.5),
        "csc": lambda: random_matrix(rng, n, 4, "int64", "csc_array", 0.5),
        "frame": lambda: random_frame(rng, index, 2),
        "schlüssel": lambda: rng.random((n, 2)) < 0.5,
    }
    chosen = [key for key in makers if rng.random() < 0.4]
    rng.shuffle(chosen)
    return {key: makers[key]() for key in chosen}


def random_graphs(rng: np.random.Generator, n: int) -> dict[str, Any]:
    """Entries of obsp or varp."""
    makers = {
        "distances": lambda: random_matrix(rng, n, n, "float64", "csr_matrix", 0.3),
        "connectivities": lambda: random_matrix(rng, n, n, "float32", "csc_matrix", 0.3),
        "dense": lambda: rng.random((n, n)),
    }
    return {key: make() for key, make in makers.items() if rng.random() < 0.4}


@st.composite
def anndatas(draw: st.DrawFn, *, unique_names: bool = False) -> anndata.AnnData:
    """AnnData objects; shapes and kinds are drawn, values come from a drawn seed."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_obs = draw(st.sampled_from([0, 1, 2, 7, 65, 130]))
    n_vars = draw(st.sampled_from([0, 1, 3, 40]))
    obs_names = random_names(rng, n_obs, unique=unique_names or draw(st.booleans()))
    var_names = random_names(rng, n_vars, unique=unique_names or draw(st.booleans()))

    def matrix(n_cols: int) -> Any:
        form = draw(st.sampled_from([*SPARSE_FORMS, "dense"]))
        dtype = draw(st.sampled_from(DENSE_DTYPES if form == "dense" else SPARSE_DTYPES))
        density = draw(st.sampled_from([0.0, 0.1, 0.6, 1.0]))
        return random_matrix(rng, n_obs, n_cols, dtype, form, density)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # names that are not unique, and the like
        adata = anndata.AnnData(
            X=matrix(n_vars) if draw(st.booleans()) else None,
            obs=random_frame(rng, obs_names, draw(st.integers(0, 6))),
            var=random_frame(rng, var_names, draw(st.integers(0, 3))),
            obsm=random_components(rng, obs_names),
            varm=random_components(rng, var_names),
            obsp=random_graphs(rng, n_obs),
            varp=random_graphs(rng, n_vars),
            uns=NESTED_UNS if draw(st.booleans()) else {},
            layers={
                key: matrix(n_vars)
                for key in draw(
                    st.lists(st.sampled_from(["counts", "X", "a_shard_0", "ü/ü"]), unique=True)
                )
            },
        )
        if draw(st.booleans()):
            n_raw = n_vars + draw(st.sampled_from([0, 5]))
            raw_names = random_names(rng, n_raw, unique=True)
            adata.raw = anndata.AnnData(
                X=matrix(n_raw),
                obs=adata.obs[[]],
                var=random_frame(rng, raw_names, 2),
                varm=random_components(rng, raw_names),
            )
    return adata


def assert_same(found: anndata.AnnData, expected: anndata.AnnData, *, exact: bool = True) -> None:
    """Equal by anndata's own comparison, and beyond it: classes, dtypes, bits and order.

    With `exact` its comparison finds NaN unequal to itself.
    """
    assert_equal(found, expected, exact=exact)
    assert_same_matrix(found.X, expected.X, "X")
    for kind in ("layers", "obsm", "varm", "obsp", "varp"):
        found_parts, expected_parts = getattr(found, kind), getattr(expected, kind)
        assert list(found_parts) == list(expected_parts), kind
        for key in expected_parts:
            assert_same_matrix(found_parts[key], expected_parts[key], f"{kind}[{key!r}]")
    assert (found.raw is None) == (expected.raw is None)
    if expected.raw is not None:
        assert_same_matrix(found.raw.X, expected.raw.X, "raw.X")
        assert list(found.raw.varm) == list(expected.raw.varm)
        pd.testing.assert_frame_equal(found.raw.var, expected.raw.var)
    assert found.obs.index.dtype == expected.obs.index.dtype
    assert found.obs.index.name == expected.obs.index.name
    assert list(found.uns) == list(expected.uns)


def assert_same_matrix(found: Any, expected: Any, name: str) -> None:
    """The same class, dtype and bits."""
    if isinstance(expected, pd.DataFrame) or expected is None:
        assert type(found) is type(expected), name
        return
    assert plain_type(found) is plain_type(expected), name
    assert found.dtype == expected.dtype, name
    assert found.shape == expected.shape, name
    assert bits_of(found) == bits_of(expected), name


def plain_type(matrix: Any) -> type:
    """The class behind anndata's views."""
    return next(base for base in type(matrix).__mro__ if "anndata" not in base.__module__)


def bits_of(matrix: Any) -> bytes:
    """The bits of a canonical matrix written out densely, by loops of its own."""
    if not sp.issparse(matrix):
        return np.ascontiguousarray(matrix).tobytes()
    dense = np.zeros(matrix.shape, dtype=matrix.dtype)
    lines = dense.T if matrix.format == "csc" else dense
    for line, start, stop in zip(lines, matrix.indptr[:-1], matrix.indptr[1:], strict=True):
        for place in range(start, stop):
            line[matrix.indices[place]] = matrix.data[place]
    return dense.tobytes()
