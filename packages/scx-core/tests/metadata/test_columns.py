"""Columns, read one by one and without pandas."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from metadata_samples import objects, sample_frame

from scx_core.metadata import column_names, decode_frame, encode_frame, read_column, read_index


def column(values: object) -> np.ndarray:
    result = read_column(encode_frame(pd.DataFrame({"x": values})), "x")
    assert isinstance(result, np.ndarray)
    return result


def test_every_column_has_an_entry_for_each_row() -> None:
    content = encode_frame(sample_frame())
    for name in column_names(content):
        if name == "Int64 beyond float64":
            continue
        result = read_column(content, name)
        assert len(result["codes"] if isinstance(result, dict) else result) == 3


def test_numbers_keep_their_dtype() -> None:
    for dtype in ("?", "i1", "u2", "i4", "i8", "u8", "f2", "f4", "f8", "c8"):
        values = np.array([0, 1, 1]).astype(dtype)
        result = column(values)
        assert result.dtype == values.dtype
        np.testing.assert_array_equal(result, values)
    assert column(pd.array([1, 2], dtype="Int16")).dtype == np.int16


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [("Int8", "f8"), ("UInt64", "f8"), ("boolean", "f8"), ("Float32", "f4"), ("Float64", "f8")],
)
def test_gaps_in_numbers_are_nan(dtype: str, expected: str) -> None:
    result = column(pd.array([1, None, 0], dtype=dtype))
    assert result.dtype == np.dtype(expected)
    np.testing.assert_array_equal(result, [1, np.nan, 0])


def test_numbers_too_large_beside_a_gap() -> None:
    np.testing.assert_array_equal(
        column(pd.array([2**53, None, -(2**53)], dtype="Int64")), [2.0**53, np.nan, -(2.0**53)]
    )
    content = encode_frame(pd.DataFrame({"x": pd.array([2**53 + 1, None], dtype="Int64")}))
    with pytest.raises(OverflowError, match=r"obs\['x'\] has gaps, and values such as 90071992547"):
        read_column(content, "x", where="obs")
    assert decode_frame(content)["x"].tolist() == [2**53 + 1, pd.NA]


def test_categoricals_are_codes_and_categories() -> None:
    values = pd.Categorical(["x", None, "x"], categories=["z", "x", "y"], ordered=True)
    result = read_column(encode_frame(pd.DataFrame({"c": values})), "c")
    assert isinstance(result, dict)
    assert result["categories"] == ["z", "x", "y"]
    assert result["codes"].dtype == np.int32
    assert result["codes"].tolist() == [1, -1, 1]


@pytest.mark.parametrize(
    "categories",
    [[3_000_000_000, 2], [1.8, 2.5], [False, True], [], [str(i) for i in range(70_000)]],
    ids=["int", "float", "bool", "none", "many"],
)
def test_categories_of_other_types(categories: list[object]) -> None:
    index = pd.Index(categories, dtype=None if categories else object)
    codes = [*range(len(categories)), -1]
    values = pd.Categorical.from_codes(codes, index)
    result = read_column(encode_frame(pd.DataFrame({"c": values})), "c")
    assert isinstance(result, dict)
    assert result["categories"] == categories
    assert [type(label) for label in result["categories"]] == [type(label) for label in categories]
    assert result["codes"].tolist() == codes


def test_text_and_times() -> None:
    assert column(objects("a", None, "b")).tolist() == ["a", None, "b"]
    assert column(pd.array(["a", pd.NA], dtype="string")).tolist() == ["a", None]
    times = np.array(["2020-03-29T01:00", "NaT"], dtype="M8[ms]")
    np.testing.assert_array_equal(column(times), times)
    berlin = pd.Series(pd.to_datetime(["2020-03-29 03:00", None])).dt.tz_localize("Europe/Berlin")
    assert column(berlin).astype("M8[s]").astype(str).tolist() == ["2020-03-29T01:00:00", "NaT"]


def test_values_are_views_of_the_buffer() -> None:
    buffer = np.frombuffer(encode_frame(pd.DataFrame({"x": np.arange(100.0)})), dtype=np.uint8)
    result = read_column(buffer, "x")
    assert isinstance(result, np.ndarray)
    assert np.shares_memory(result, buffer)
    assert not result.flags.writeable


def test_names_and_index() -> None:
    df = pd.DataFrame({"b": [1], "_index": [2], "": [3]}, index=pd.Index(["é"], name="b"))
    content = encode_frame(df)
    assert column_names(content) == ["b", "_index", ""]
    assert read_index(content).tolist() == ["é"]
    assert read_column(content, "_index").tolist() == [2]  # type: ignore[union-attr]
    with pytest.raises(KeyError, match="__index"):
        read_column(content, "__index")


def test_missing_column_lists_what_there_is() -> None:
    content = encode_frame(pd.DataFrame({"cell_type": [1], "batch": [2]}))
    with pytest.raises(
        KeyError, match=r"obs has no column 'celltype'; it has 'cell_type', 'batch'"
    ):
        read_column(content, "celltype", where="obs")
    many = encode_frame(pd.DataFrame([range(50)], columns=[f"c{i}" for i in range(50)]))
    with pytest.raises(KeyError, match="and 30 more"):
        read_column(many, "x")
    with pytest.raises(KeyError, match="it has none"):
        read_column(encode_frame(pd.DataFrame(index=["a"])), "x")
    for no_name in (3, None, "\ud800", b"batch"):
        with pytest.raises(KeyError, match="no column"):
            read_column(content, no_name)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("index", "expected"),
    [
        (pd.RangeIndex(3), [0, 1, 2]),
        (pd.Index([1.5, 2.5]), [1.5, 2.5]),
        (pd.CategoricalIndex(["a", None, "a"]), ["a", None, "a"]),
        (pd.Index(pd.array(["a", None], dtype="string")), ["a", None]),
        (pd.Index(pd.array([2**60 + 1, None], dtype="Int64")), [2**60 + 1, None]),
    ],
    ids=["range", "float", "categorical", "string", "nullable"],
)
def test_indexes_that_are_no_text(index: pd.Index, expected: list[object]) -> None:
    result = read_index(encode_frame(pd.DataFrame(index=index)))
    assert result.dtype == np.dtype(object)
    assert result.tolist() == expected


def test_pandas_is_not_imported(tmp_path: Path) -> None:
    df = sample_frame().drop(columns="Int64 beyond float64")
    (tmp_path / "frame.arrow").write_bytes(encode_frame(df))
    program = """
import sys
import scx_core.metadata as metadata
heavy = {"pandas", "pyarrow", "scipy", "anndata"}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
content = open(sys.argv[1], "rb").read()
for name in metadata.column_names(content):
    metadata.read_column(content, name)
metadata.read_index(content)
assert not {"pandas", "scipy", "anndata"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", program, tmp_path / "frame.arrow"], check=True)


def test_gaps_in_categories_are_damage() -> None:
    array = pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["a", None]))
    batch = pa.record_batch([array], names=["x"])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)
    with pytest.raises(ValueError, match="category is missing"):
        read_column(sink.getvalue(), "x")
