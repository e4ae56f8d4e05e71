"""What a frame cannot hold is refused by place, kind, row and remedy."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from metadata_samples import objects

from scx_core.metadata import encode_frame

ROWS = ["c0", "c1", "c2"]


def refusal(df: pd.DataFrame, error: type[Exception]) -> str:
    before = df.copy(deep=True)
    with pytest.raises(error) as caught:
        encode_frame(df, where="obs")
    pd.testing.assert_frame_equal(df, before)
    assert type(caught.value) is error
    return str(caught.value)


@pytest.mark.parametrize(
    ("column", "parts"),
    [
        (["1", 2, 3], ["obs['x']", "(str, int)", "2, of type int", "row 1 ('c1')", "astype(str)"]),
        ([1, "2", 3], ["(int, str)", "is 1, of type int", "row 0 ('c0')", "astype(str)"]),
        ([True, None, False], ["bool", "True", "obs['x'] = obs['x'].astype(\"boolean\")"]),
        ([True, False, True], ["bool", 'astype("boolean")']),
        ([1, 2, None], ["int", 'astype("Int64")']),
        ([1.5, None, 2], ["(float, int)", "2, of type int", "row 2 ('c2')", "astype(float)"]),
        ([1.5, None, "a"], ["(float, str)", "1.5"]),
        ([b"a", None, b"b"], ["bytes", 'str.decode("utf-8")']),
        ([[1], None, [2]], ["list", "[1]"]),
        ([{"a": 1}, "x", None], ["(dict, str)", "{'a': 1}, of type dict", "row 0"]),
        (["a", pd.NaT, None], ["(str, NaTType)", "row 1"]),
        ([datetime.date(2020, 1, 1)] * 3, ["date", "row 0"]),
    ],
    ids=str,
)
def test_object_columns(column: list[Any], parts: list[str]) -> None:
    df = pd.DataFrame({"x": objects(*column)}).set_axis(ROWS)
    message = refusal(df, TypeError)
    for part in parts:
        assert part in message


@pytest.mark.parametrize("column", [[True, None, False], [1, 2, None], ["1", 2, 3]], ids=str)
def test_the_remedy_helps(column: list[Any]) -> None:
    obs = pd.DataFrame({"x": objects(*column)}).set_axis(ROWS)
    remedy = refusal(obs, TypeError).rpartition("for example with ")[2].removesuffix(".")
    exec(remedy, {"obs": obs})
    encode_frame(obs)


@pytest.mark.parametrize(
    ("column", "parts"),
    [
        (pd.cut([1, 2, 3], 2), ["categories of obs['x']", "Interval", "rename_categories(str)"]),
        (pd.Categorical([1, "a", None]), ["categories of obs['x']", "int, str"]),
        (pd.period_range("2020", periods=3, freq="D"), ["period[D]", "obs['x'].astype(str)"]),
        (pd.interval_range(0, 3), ["interval"]),
        (pd.arrays.SparseArray([1, 0, 0]), ["Sparse", "obs['x'].sparse.to_dense()"]),
        (np.zeros(3, dtype="g"), ["float128"]),
        (pd.array([[1], [2], None], dtype=pd.ArrowDtype(pa.list_(pa.int64()))), ["list"]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_dtypes(column: Any, parts: list[str]) -> None:
    message = refusal(pd.DataFrame({"x": column}).set_axis(ROWS), TypeError)
    for part in parts:
        assert part in message


def test_time_zone_without_a_name() -> None:
    days = pd.date_range(
        "2020", periods=3, tz=datetime.timezone(datetime.timedelta(hours=2), "of our own")
    )
    message = refusal(pd.DataFrame({"x": days}), TypeError)
    assert "obs['x']" in message
    assert 'tz_convert("UTC")' in message


def test_half_of_a_surrogate_pair() -> None:
    df = pd.DataFrame({"x": objects("a", "ü", "\ud800")}).set_axis(ROWS)
    message = refusal(df, ValueError)
    assert "obs['x']" in message
    assert "row 2" in message
    with pytest.raises(ValueError, match=r"obs\.index"):
        encode_frame(pd.DataFrame(index=pd.Index(["\ud800"], dtype=object)), where="obs")
    named = pd.DataFrame([[1]], columns=pd.Index(["\ud800"], dtype=object))
    with pytest.raises(ValueError, match="column named"):
        encode_frame(named, where="obs")


def test_column_names() -> None:
    message = refusal(pd.DataFrame([[1, 2]], columns=["a", 5]), TypeError)
    assert "obs has a column named 5, of type int (column 1)" in message
    assert "obs.columns.astype(str)" in message
    twice = pd.DataFrame([[1, 2, 3]], columns=["a", "b", "a"])
    assert "two columns named 'a'; the second is column 2" in refusal(twice, ValueError)
    levels = pd.DataFrame([[1]], columns=pd.MultiIndex.from_tuples([("a", "b")]))
    assert "('a', 'b'), of type tuple" in refusal(levels, TypeError)
    categorical = pd.DataFrame([[1]], columns=pd.CategoricalIndex(["a"]))
    assert "obs.columns has the dtype category" in refusal(categorical, TypeError)


def test_indexes() -> None:
    levels = pd.DataFrame({"a": [1]}, index=pd.MultiIndex.from_tuples([("x", "y")]))
    message = refusal(levels, TypeError)
    assert "obs.index has 2 levels" in message
    assert "reset_index()" in message
    named = pd.DataFrame({"a": [1]}, index=pd.Index(["x"], name=("t", 1)))
    assert "obs.index is named ('t', 1), of type tuple" in refusal(named, TypeError)
    mixed = pd.DataFrame({"a": [1, 2]}, index=pd.Index(["x", 1], dtype=object))
    assert "obs.index mixes" in refusal(mixed, TypeError)
    intervals = pd.DataFrame({"a": [1]}, index=pd.interval_range(0, 1))
    assert "obs.index has the dtype interval" in refusal(intervals, TypeError)


def test_long_values_are_cut_in_messages() -> None:
    df = pd.DataFrame({"x": objects("a", "b", list(range(10_000)))}).set_axis(ROWS)
    assert len(refusal(df, TypeError)) < 400
