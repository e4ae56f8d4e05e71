"""Frames and values of all kinds, and comparisons stricter than `==`."""

from __future__ import annotations

import datetime
import math
import zoneinfo
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from pandas.testing import assert_frame_equal

NUMPY_DTYPES = [
    *("b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"),
    *(">i2", ">u8", ">f4", ">c16"),
]
MASKED_DTYPES = [
    *("Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64"),
    *("Float32", "Float64", "boolean"),
]
TEXT_DTYPES: dict[str, Any] = {
    "object": np.dtype(object),
    "string": "string",
    "string-python": "string[python]",
    "string-pyarrow": "string[pyarrow]",
    "str": pd.StringDtype(na_value=np.nan),
    "str-python": pd.StringDtype("python", na_value=np.nan),
    "str-pyarrow": pd.StringDtype("pyarrow", na_value=np.nan),
}


def objects(*values: Any) -> pd.Series:
    return pd.Series(list(values), dtype=object)


def sample_columns() -> dict[str, Any]:
    """Columns of three rows, one for each thing that a column can be."""
    numbers = {dtype: np.array([0, 1, 100]).astype(dtype) for dtype in NUMPY_DTYPES}
    masked = {dtype: pd.array([1, None, 0], dtype=dtype) for dtype in MASKED_DTYPES}
    text = {f"{k} full": pd.Series(["a", "", "ü😀\0"], dtype=v) for k, v in TEXT_DTYPES.items()}
    gaps = {f"{k} gaps": pd.Series(["a", None, "b"], dtype=v) for k, v in TEXT_DTYPES.items()}
    labels = ["x", None, "x"]
    three_days = pd.date_range("2020-03-28", periods=3)
    return {
        **numbers,
        **masked,
        **text,
        **gaps,
        "float specials": [-0.0, np.nan, np.inf],
        "gaps NaN": objects("a", np.nan, "b"),
        "gaps NA": objects("a", pd.NA, "b"),
        "gaps of two kinds": objects(None, np.nan, "b"),
        "all None": objects(None, None, None),
        "all NaN": objects(np.nan, np.nan, np.nan),
        "Int64 beyond float64": pd.array([1, None, 2**53 + 1], dtype="Int64"),
        "Int64 without gap": pd.array([1, 2, 3], dtype="Int64"),
        "Float64 with NaN beside NA": pd.arrays.FloatingArray(
            np.array([1.0, np.nan, 2.0]), np.array([False, False, True])
        ),
        "categories": pd.Categorical(labels, categories=["z", "x", "y"]),
        "ordered": pd.Categorical(labels, categories=["z", "x", "y"], ordered=True),
        "ordered ints": pd.Categorical([3, 2, 3], categories=[5, 3, 2], ordered=True),
        "int categories": pd.Categorical([3_000_000_000, None, 2]),
        "float categories": pd.Categorical([1.8, 1.8, 2.5]),
        "bool categories": pd.Categorical([True, False, False]),
        "nullable categories": pd.Categorical(pd.array([1, 2, None], dtype="Int64")),
        "string categories": pd.Categorical(pd.array(["a", "b", None], dtype="string")),
        "time categories": pd.Categorical(three_days),
        "range categories": pd.Categorical.from_codes([0, 1, -1], pd.RangeIndex(3)),
        "named categories": pd.Categorical.from_codes([0, 1, -1], pd.Index(["a", "b"], name="n")),
        "no categories": pd.Categorical([None, None, None]),
        "300 categories": pd.Categorical.from_codes([0, 299, -1], [str(i) for i in range(300)]),
        "datetime": pd.Series(three_days).where([True, False, True]),
        "datetime[s]": np.array(["2020", "NaT", "2021"], dtype="M8[s]"),
        "datetime[us]": np.array(["1677", "2020", "9999"], dtype="M8[us]"),
        "timedelta": pd.to_timedelta([1, None, 3], unit="s"),
        "timedelta[ms]": np.array([1, 2, 3], dtype="m8[ms]"),
        "UTC": pd.Series(three_days.tz_localize("UTC")).where([True, False, True]),
        "Berlin": three_days.tz_localize("Europe/Berlin"),
        "zoneinfo": three_days.tz_localize(zoneinfo.ZoneInfo("Europe/Berlin")),
        "offset": three_days.tz_localize("+02:00"),
        "arrow int": pd.array([1, None, 3], dtype="int64[pyarrow]"),
        "arrow bool": pd.array([True, None, False], dtype="bool[pyarrow]"),
        "arrow text": pd.array(["a", None, "b"], dtype="large_string[pyarrow]"),
        "arrow time": pd.array([None, None, 3], dtype="timestamp[us, tz=UTC][pyarrow]"),
    }


def sample_frame() -> pd.DataFrame:
    """All sample columns side by side."""
    return pd.DataFrame(sample_columns()).set_axis(["cell0", "cell1", "cell2"])


def gap_kinds(column: pd.Series) -> list[type]:
    return [type(item) for item in column if not isinstance(item, str)]


def assert_same_frame(result: pd.DataFrame, expected: pd.DataFrame) -> None:
    """Equal by pandas' strictest comparison, and in what that overlooks."""
    assert_frame_equal(
        result,
        expected,
        check_exact=True,
        check_column_type=True,
        check_index_type=True,
        check_names=True,
        check_categorical=True,
        check_freq=True,
    )
    assert type(result.index) is type(expected.index)
    assert type(result.columns) is type(expected.columns)
    assert result.columns.dtype == expected.columns.dtype
    for position, dtype in enumerate(expected.dtypes):
        column, wanted = result.iloc[:, position], expected.iloc[:, position]
        assert column.dtype == dtype
        assert type(column.array) is type(wanted.array)
        assert repr(column.dtype) == repr(dtype)  # byte order and storage
        if dtype == np.dtype(object):
            assert gap_kinds(column) == gap_kinds(wanted)
        elif isinstance(dtype, np.dtype):
            assert column.to_numpy().tobytes() == wanted.to_numpy().tobytes()
        elif isinstance(dtype, pd.CategoricalDtype):
            assert column.cat.codes.dtype == wanted.cat.codes.dtype
            assert type(column.cat.categories) is type(wanted.cat.categories)


def assert_same(result: Any, expected: Any) -> None:
    """Same type, same dtype, same bits, all the way down."""
    assert type(result) is type(expected), (type(result), type(expected))
    if isinstance(expected, pd.DataFrame):
        assert_same_frame(result, expected)
    elif isinstance(expected, pd.Series):
        assert_same(result.name, expected.name)
        assert_same_frame(result.to_frame("v"), expected.to_frame("v"))
    elif isinstance(expected, pd.Index):
        assert_same_frame(pd.DataFrame(index=result), pd.DataFrame(index=expected))
    elif isinstance(expected, pd.api.extensions.ExtensionArray):
        assert_same_frame(pd.DataFrame({"v": result}), pd.DataFrame({"v": expected}))
    elif sp.issparse(expected):
        assert result.shape == expected.shape
        for part in ("data", "indices", "indptr"):
            assert_same(getattr(result, part), getattr(expected, part))
    elif isinstance(expected, np.ndarray):
        assert_same_array(result, expected)
    elif isinstance(expected, np.generic):
        assert_same_array(np.asarray(result), np.asarray(expected))
    elif isinstance(expected, dict):
        assert list(result) == list(expected)
        for key, value in expected.items():
            assert_same(result[key], value)
    elif isinstance(expected, (list, tuple)):
        assert len(result) == len(expected)
        for item, wanted in zip(result, expected, strict=True):
            assert_same(item, wanted)
    elif isinstance(expected, complex):
        assert_same([result.real, result.imag], [expected.real, expected.imag])
    elif isinstance(expected, float):
        assert result == expected or (math.isnan(result) and math.isnan(expected))
        assert math.copysign(1, result) == math.copysign(1, expected)
    elif isinstance(expected, datetime.datetime) and expected is not pd.NaT:
        assert repr(result) == repr(expected)
    elif expected is pd.NA or expected is pd.NaT:
        assert result is expected
    else:
        assert result == expected


def assert_same_array(result: np.ndarray, expected: np.ndarray) -> None:
    assert result.dtype == expected.dtype
    assert result.dtype.str == expected.dtype.str
    assert result.dtype.isalignedstruct == expected.dtype.isalignedstruct
    assert result.shape == expected.shape
    if expected.dtype.names is not None:
        for name in expected.dtype.names:
            assert_same_array(np.asarray(result[name]), np.asarray(expected[name]))
    elif expected.dtype.kind == "O":
        assert_same(result.ravel().tolist(), expected.ravel().tolist())
    else:
        assert result.tobytes() == expected.tobytes()
