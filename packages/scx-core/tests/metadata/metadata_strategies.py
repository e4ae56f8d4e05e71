"""Generated frames and uns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from metadata_samples import MASKED_DTYPES, NUMPY_DTYPES, TEXT_DTYPES

# All that UTF-8 can express.
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
GAPS = st.sampled_from([None, np.nan, pd.NA])


def lists(items: st.SearchStrategy[Any], n_rows: int) -> st.SearchStrategy[list[Any]]:
    return st.lists(items, min_size=n_rows, max_size=n_rows)


@st.composite
def categoricals(draw: st.DrawFn, n_rows: int) -> pd.Categorical:
    kinds = [TEXT, st.integers(-(2**62), 2**62), st.floats(allow_nan=False), st.booleans()]
    unique = draw(st.sampled_from(kinds).flatmap(lambda kind: st.lists(kind, unique=True)))
    codes = draw(lists(st.integers(-1, len(unique) - 1), n_rows))
    categories = pd.Index(unique, dtype=object if not unique else None)
    return pd.Categorical.from_codes(codes, categories, ordered=draw(st.booleans()))


@st.composite
def masked(draw: st.DrawFn, n_rows: int) -> Any:
    name = draw(st.sampled_from(MASKED_DTYPES))
    values = draw(hnp.arrays("bool" if name == "boolean" else name.lower(), n_rows))
    missing = draw(hnp.arrays(bool, n_rows))
    kinds = {"b": pd.arrays.BooleanArray, "f": pd.arrays.FloatingArray}
    return kinds.get(values.dtype.kind, pd.arrays.IntegerArray)(values, missing)


@st.composite
def columns(draw: st.DrawFn, n_rows: int) -> Any:
    kind = draw(st.sampled_from(["numbers", "text", "gaps", "masked", "categorical", "time"]))
    if kind == "numbers":
        return draw(hnp.arrays(draw(st.sampled_from(NUMPY_DTYPES)), n_rows))
    if kind == "text":
        values = draw(lists(st.none() | TEXT, n_rows))
        return pd.array(values, dtype=draw(st.sampled_from(list(TEXT_DTYPES.values())[1:])))
    if kind == "gaps":
        return pd.Series(draw(lists(GAPS | TEXT, n_rows)), dtype=object)
    if kind == "masked":
        return draw(masked(n_rows))
    if kind == "categorical":
        return draw(categoricals(n_rows))
    unit = draw(st.sampled_from(["s", "ms", "us", "ns"]))
    letter = draw(st.sampled_from("Mm"))
    counts = draw(hnp.arrays("i8", n_rows, elements=st.integers(-(2**40), 2**40)))
    times = counts.view(f"{letter}8[{unit}]").copy()
    times[draw(hnp.arrays(bool, n_rows))] = "NaT"
    return times


@st.composite
def frames(draw: st.DrawFn) -> pd.DataFrame:
    """Frames of up to six rows and five columns, with text for an index."""
    n_rows = draw(st.integers(0, 6))
    names = draw(st.lists(TEXT, unique=True, max_size=5))
    index = pd.Index(draw(lists(TEXT, n_rows)), name=draw(st.none() | TEXT), dtype=object)
    data = {i: pd.Series(draw(columns(n_rows)), index=index) for i in range(len(names))}
    df = pd.DataFrame(data, index=index)
    df.columns = pd.Index(names, dtype=object)
    return df


def numpy_arrays() -> st.SearchStrategy[np.ndarray]:
    plain = hnp.scalar_dtypes() | hnp.array_dtypes(max_size=3) | hnp.nested_dtypes(max_leaves=4)
    fixed = plain.filter(lambda dtype: "g" not in str(dtype) and dtype.itemsize > 0)
    return fixed.filter(is_storable).flatmap(
        lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0))
    )


def is_storable(dtype: np.dtype) -> bool:
    if dtype.subdtype is not None:
        return dtype.itemsize > 0 and is_storable(dtype.base)
    if dtype.names is not None:
        titled = any(len(dtype.fields[name]) > 2 for name in dtype.names)
        return not titled and all(is_storable(dtype[name]) for name in dtype.names)
    return dtype.itemsize > 0 and dtype.char not in "gG"


@st.composite
def sparse_matrices(draw: st.DrawFn) -> Any:
    shape = draw(st.tuples(st.integers(0, 5), st.integers(0, 5)))
    dense = draw(hnp.arrays(draw(st.sampled_from(["f4", "f8", "i8", "u1", "?"])), shape))
    kind = draw(st.sampled_from([sp.csr_matrix, sp.csc_matrix, sp.csr_array, sp.csc_array]))
    return kind(dense)


def uns_values() -> st.SearchStrategy[Any]:
    scalars = (
        st.none()
        | st.booleans()
        | st.integers()
        | st.integers(-(2**80), 2**80)
        | st.floats()
        | st.complex_numbers()
        | st.text()
        | st.binary()
        | st.datetimes()
        | st.timedeltas()
        | hnp.from_dtype(np.dtype("f4")).map(np.float32)
        | st.text().map(np.str_)
        | st.sampled_from([pd.NA, pd.NaT, pd.Timestamp("2020-01-01", tz="UTC")])
    )
    leaves = scalars | numpy_arrays() | sparse_matrices() | frames()
    leaves |= st.integers(0, 4).flatmap(columns).map(pd.Series)
    return st.recursive(
        leaves,
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.lists(inner, max_size=4).map(tuple)
            | st.dictionaries(st.text() | st.just("__scx__"), inner, max_size=4)
            | st.lists(scalars, max_size=4).map(object_array)
        ),
        max_leaves=8,
    )


def object_array(items: list[Any]) -> np.ndarray:
    array = np.empty(len(items), dtype=object)
    array[:] = items
    return array
