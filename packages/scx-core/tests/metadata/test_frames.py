"""What goes into `encode_frame` comes out of `decode_frame`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from anndata.tests.helpers import assert_equal
from hypothesis import HealthCheck, given, settings
from metadata_samples import TEXT_DTYPES, assert_same_frame, objects, sample_columns, sample_frame
from metadata_strategies import frames

from scx_core.metadata import decode_frame, encode_frame

INDEXES = {
    "text": pd.Index(["a", "b", "c"], name="cells"),
    "repeated": pd.Index(["a", "a", "é"]),
    "text with a gap": pd.Index(["a", None, "b"], dtype=object),
    "string with a gap": pd.Index(pd.array(["a", None, "b"], dtype="string")),
    "int64": pd.Index([3, 1, 2]),
    "uint8": pd.Index([3, 1, 2], dtype="u1"),
    "float": pd.Index([1.5, np.nan, -0.0]),
    "bool": pd.Index([True, False, True]),
    "range": pd.RangeIndex(3),
    "range backwards": pd.RangeIndex(5, -1, -2, name="r"),
    "categorical": pd.CategoricalIndex(["a", "b", "a"], ordered=True),
    "nullable": pd.Index(pd.array([1, None, 2], dtype="Int64")),
    "datetime": pd.date_range("2020-03-28", periods=3, tz="Europe/Berlin"),
    "datetime without frequency": pd.DatetimeIndex(["2020", "2022", "2021"]),
    "business days": pd.bdate_range("2020", periods=3),
    "timedelta": pd.timedelta_range("1D", periods=3),
    "named by a number": pd.Index(["a", "b", "c"], name=0),
}


def round_trip(df: pd.DataFrame) -> None:
    before = df.copy(deep=True)
    content = encode_frame(df, where="obs")
    assert_same_frame(df, before)
    for copy in (False, True):
        result = decode_frame(content, copy=copy)
        assert_same_frame(result, df)
        assert encode_frame(result) == content


@pytest.mark.parametrize("name", list(sample_columns()))
def test_column_comes_back(name: str) -> None:
    df = pd.DataFrame({name: sample_columns()[name]}).set_axis(["c0", "c1", "c2"])
    round_trip(df)
    round_trip(df.iloc[:0])
    round_trip(df.iloc[::-2])


def test_all_columns_together() -> None:
    round_trip(sample_frame())


@pytest.mark.parametrize("name", list(INDEXES))
def test_index_comes_back(name: str) -> None:
    round_trip(pd.DataFrame({"a": [1, 2, 3]}, index=INDEXES[name]))
    round_trip(pd.DataFrame(index=INDEXES[name]))


@pytest.mark.parametrize(
    "df",
    [
        pd.DataFrame(),
        pd.DataFrame(index=["x"]),
        pd.DataFrame({"a": []}),
        pd.DataFrame({"a": [1]}, index=["x"]).iloc[:, []],
        pd.DataFrame({1: [1]}, index=["x"]).iloc[:, []],
        pd.DataFrame(index=pd.Index(["x"], name="n"), columns=pd.Index([], dtype=object)),
    ],
    ids=range(6),
)
def test_frames_without_columns_or_rows(df: pd.DataFrame) -> None:
    round_trip(df)


def test_column_names_of_every_kind() -> None:
    names = ["_index", "__index", "", "G1/S", ".", "..", "A", "a", "\0", "ü😀", "index", "obs"]
    df = pd.DataFrame([[*range(len(names))]], columns=names, index=pd.Index(["c"], name="A"))
    round_trip(df)
    assert list(decode_frame(encode_frame(df)).columns) == names


@pytest.mark.parametrize("dtype", TEXT_DTYPES.values(), ids=TEXT_DTYPES)
def test_dtype_and_name_of_the_column_names(dtype: Any) -> None:
    df = pd.DataFrame([[1, 2]], index=["x"])
    df.columns = pd.Index(["a", "b"], dtype=dtype, name="what")
    round_trip(df)


def test_columns_that_lie_in_one_block() -> None:
    block = np.arange(12.0).reshape(4, 3)
    round_trip(pd.DataFrame(block, columns=list("abc"), index=list("wxyz")))
    round_trip(pd.DataFrame(block[::-2, ::-1], columns=list("abc"), index=["w", "x"]))
    round_trip(pd.DataFrame(np.asfortranarray(block), columns=list("abc"), index=list("wxyz")))


def test_nan_keeps_its_payload() -> None:
    bits = np.array([0x7FF0DEADBEEF0001, 0xFFF8000000000000], dtype=np.uint64)
    df = pd.DataFrame({"x": bits.view(np.float64)}, index=["a", "b"])
    result = decode_frame(encode_frame(df))["x"].to_numpy().view(np.uint64)
    assert result.tolist() == bits.tolist()


@given(frames())
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_frame_comes_back(df: pd.DataFrame) -> None:
    round_trip(df)
    assert_equal(decode_frame(encode_frame(df)), df, exact=True)


def test_ordered_is_said_as_text() -> None:
    df = pd.DataFrame(
        {"o": pd.Categorical(["a"], ordered=True), "u": pd.Categorical(["a"]), "n": [1]}
    )
    schema = pa.ipc.open_file(encode_frame(df)).schema
    assert schema.field("o").metadata[b"scx.categorical.ordered"] == b"true"
    assert schema.field("u").metadata[b"scx.categorical.ordered"] == b"false"
    assert schema.field("n").metadata is None


def test_text_is_large_utf8_and_the_index_has_a_free_name() -> None:
    df = pd.DataFrame({"s": ["a"], "_index": ["b"], "c": pd.Categorical(["x"])}, index=["i"])
    schema = pa.ipc.open_file(encode_frame(df)).schema
    assert schema.names == ["__index", "s", "_index", "c"]
    assert [schema.field(name).type for name in ("__index", "s", "_index")] == [
        pa.large_string()
    ] * 3
    assert schema.field("c").type == pa.dictionary(pa.int8(), pa.large_string())


def test_other_arrow_readers_see_the_values() -> None:
    content = encode_frame(sample_frame())
    table = pa.ipc.open_file(content).read_all()
    assert table["i2"].to_pylist() == [0, 1, 100]
    assert table["Int64 beyond float64"].to_pylist() == [1, None, 2**53 + 1]
    assert table["ordered"].to_pylist() == ["x", None, "x"]
    assert table["gaps of two kinds"].to_pylist() == [None, None, "b"]
    assert table["_index"].to_pylist() == ["cell0", "cell1", "cell2"]


@pytest.mark.filterwarnings("ignore:.*future.infer_string")
def test_bytes_do_not_depend_on_the_default_dtype_of_text() -> None:
    def plain() -> bytes:
        return encode_frame(
            pd.DataFrame(
                {"s": ["a", "b"], "g": ["a", np.nan], "c": pd.Categorical(["x", "y"]), "n": [1, 2]},
                index=["c0", "c1"],
            )
        )

    with pd.option_context("future.infer_string", False):
        assert pd.Series(["a"]).dtype == np.dtype(object)
        as_object = plain()
        stays = encode_frame(pd.DataFrame({"g": objects("a", None)}))
    with pd.option_context("future.infer_string", True):
        assert pd.Series(["a"]).dtype == pd.StringDtype(na_value=np.nan)
        as_str = plain()
        assert decode_frame(as_object)["s"].dtype == pd.StringDtype(na_value=np.nan)
        assert decode_frame(as_object).index.dtype == pd.StringDtype(na_value=np.nan)
        assert decode_frame(stays)["g"].isna().tolist() == [False, True]
        round_trip(sample_frame())
    assert as_object == as_str


def test_masked_values_have_one_encoding() -> None:
    missing = np.array([False, True])
    one = pd.arrays.IntegerArray(np.array([5, 7]), missing)
    other = pd.arrays.IntegerArray(np.array([5, -1]), missing.copy())
    assert encode_frame(pd.DataFrame({"x": one})) == encode_frame(pd.DataFrame({"x": other}))


def test_numbers_are_views_unless_copied() -> None:
    content = encode_frame(
        pd.DataFrame({"x": np.arange(1000.0), "c": pd.Categorical(["a"] * 1000)})
    )
    buffer = np.frombuffer(bytearray(content), dtype=np.uint8)
    for copy in (False, True):
        df = decode_frame(memoryview(buffer), copy=copy)
        for values in (df["x"].to_numpy(), df["c"].array.codes):
            assert np.shares_memory(values, buffer) is (not copy)
    df = decode_frame(content, copy=True)
    df.loc[0, "x"] = -1.0
    assert df["x"].iloc[0] == -1.0


def test_a_copy_keeps_nothing_of_the_buffer() -> None:
    buffer = bytearray(encode_frame(sample_frame()))
    df = decode_frame(buffer, copy=True)
    kept = decode_frame(buffer)
    for position in range(len(buffer)):
        buffer[position] = 0xA5
    assert_same_frame(df, sample_frame())
    assert kept["i8"].tolist() != sample_frame()["i8"].tolist()


def test_buffers_of_every_kind_and_alignment() -> None:
    content = encode_frame(sample_frame())
    shifted = b"\0" * 3 + content
    arrow_buffer = pa.py_buffer(content)
    for buffer in (bytearray(content), memoryview(shifted)[3:], arrow_buffer):
        assert_same_frame(decode_frame(buffer), sample_frame())
