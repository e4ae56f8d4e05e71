"""Arrow files of other writers, without our metadata."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from metadata_arrow import ipc_file, labels, text
from metadata_samples import assert_same_frame

from scx_core.metadata import decode_frame, read_column, read_index


def test_files_of_pandas_by_way_of_pyarrow() -> None:
    df = pd.DataFrame(
        {"n": [1, 2], "s": ["a", "b"], "c": pd.Categorical(["x", None]), "f": [0.5, -1.0]},
        index=pd.Index(["i", "j"], name="cells"),
    )
    content = ipc_file(pa.RecordBatch.from_pandas(df))
    assert_same_frame(decode_frame(content), df)
    assert read_index(content).tolist() == ["i", "j"]
    unnamed = ipc_file(pa.RecordBatch.from_pandas(df.rename_axis(None)))
    assert_same_frame(decode_frame(unnamed), df.rename_axis(None))
    counted = ipc_file(pa.RecordBatch.from_pandas(df.reset_index(drop=True)))
    assert_same_frame(decode_frame(counted), df.reset_index(drop=True))


def test_index_by_convention_or_none() -> None:
    content = ipc_file(pa.record_batch({"n": [1, 2], "_index": ["a", "b"]}))
    assert_same_frame(decode_frame(content), pd.DataFrame({"n": [1, 2]}, index=["a", "b"]))
    bare = ipc_file(pa.record_batch({"n": [1, 2]}))
    assert_same_frame(decode_frame(bare), pd.DataFrame({"n": [1, 2]}))
    assert read_index(bare).tolist() == [0, 1]


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (pa.array(["a", None], type=pa.string()), ["a", np.nan]),
        (pa.array(["a", "b"], type=pa.string_view()), ["a", "b"]),
        (pa.array([1, None], type=pa.int16()), pd.array([1, None], dtype="Int16")),
        (pa.array([True, None]), pd.array([True, None], dtype="boolean")),
        (pa.array([1.5, None]), [1.5, np.nan]),
        (pa.array([1.5, None], type=pa.float16()), np.array([1.5, np.nan], dtype="f2")),
        (pa.array([0, 1], type=pa.timestamp("us")), np.array([0, 1], dtype="M8[us]")),
        (pa.array([None, 1], type=pa.duration("s")), np.array(["NaT", 1], dtype="m8[s]")),
        (pa.array([datetime.date(2020, 1, 2)] * 2), np.array(["2020-01-02"] * 2, dtype="M8[s]")),
        (
            pa.array([datetime.date(2020, 1, 2)] * 2, type=pa.date64()),
            np.array(["2020-01-02"] * 2, dtype="M8[ms]"),
        ),
        (pa.nulls(2), pd.Series([None, None], dtype=object)),
        (labels([1, None], ["x", "y"]), pd.Categorical(["y", None], categories=["x", "y"])),
        (labels([0, 1], ["x", "y"], ordered=True), pd.Categorical(["x", "y"], ordered=True)),
        (
            pa.DictionaryArray.from_arrays(pa.array([0, 1], type=pa.uint16()), ["x", "y"]),
            pd.Categorical(["x", "y"]),
        ),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
def test_columns(array: pa.Array, expected: object) -> None:
    content = ipc_file(pa.record_batch({"x": array}))
    assert_same_frame(decode_frame(content), pd.DataFrame({"x": expected}))
    column = read_column(content, "x")
    assert len(column["codes"] if isinstance(column, dict) else column) == 2


@pytest.mark.parametrize(
    "array",
    [
        pa.array([[1], [2]]),
        pa.array([{"a": 1}, {"a": 2}]),
        pa.array([b"a", b"b"]),
        pa.array([1, 2], type=pa.decimal128(5)),
        pa.array([1, 2], type=pa.time64("us")),
        pa.array([[1, 2], [3, 4]], type=pa.list_(pa.int32(), 2)),
    ],
    ids=lambda array: str(array.type),
)
def test_types_that_are_not_read_are_named(array: pa.Array) -> None:
    content = ipc_file(pa.record_batch({"x": array}))
    for read in (decode_frame, lambda content: read_column(content, "x")):
        with pytest.raises(ValueError, match="Arrow type") as caught:
            read(content)
        assert str(array.type) in str(caught.value)


def test_sliced_and_compressed_batches() -> None:
    batch = pa.record_batch({"n": pa.array([*range(9), None]), "s": text(*"abcdefghij")})
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_file(sink, batch.schema, options=options) as writer:
        writer.write_batch(batch.slice(3, 6))
    wanted = pd.DataFrame({"n": [3, 4, 5, 6, 7, 8], "s": list("defghi")})
    assert_same_frame(decode_frame(sink.getvalue()), wanted)


def test_files_of_no_or_several_batches() -> None:
    batch = pa.record_batch({"n": [1]})
    for count in (0, 2):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, batch.schema) as writer:
            for _ in range(count):
                writer.write_batch(batch)
        with pytest.raises(ValueError, match=f"one record batch was expected, found {count}"):
            decode_frame(sink.getvalue())


def test_two_columns_of_one_name() -> None:
    batch = pa.RecordBatch.from_arrays([pa.array([1]), pa.array([2])], names=["x", "x"])
    with pytest.raises(ValueError, match="share a name: 'x'"):
        decode_frame(ipc_file(batch))


@pytest.mark.parametrize(
    "layout",
    [
        "[]",
        "{",
        '{"version":2,"index":"n"}',
        '{"version":1,"index":"m"}',
        '{"version":1}',
        '{"version":1,"index":"n","index_name":[]}',
        '{"version":1,"index":"n","columns":{"dtype":"odd"}}',
        '{"version":1,"index":"n","columns":[]}',
    ],
)
def test_layouts_that_contradict_the_file(layout: str) -> None:
    content = ipc_file(pa.record_batch({"n": [1], "x": [2]}), metadata={"scx.frame": layout})
    with pytest.raises(ValueError, match=r"^obs cannot be read: "):
        decode_frame(content, where="obs")


@pytest.mark.parametrize(
    ("array", "tag"),
    [
        (pa.array([1]), '{"dtype":"string"}'),
        (pa.array([1]), '{"numpy":">i4"}'),
        (pa.array([1]), '{"numpy":"O"}'),
        (pa.array([1]), '{"numpy":"nonsense"}'),
        (pa.array([1j.real], type=pa.float16()), '{"dtype":"masked"}'),
        (text("a"), '{"dtype":"masked"}'),
        (text("a"), '{"dtype":"string","storage":"odd"}'),
        (text(None), '{"dtype":"object","gaps":"Nf"}'),
        (text(None), '{"dtype":"object","gaps":"?"}'),
        (pa.array([[1]]), '{"dtype":"arrow"}'),
        (pa.array([0], type=pa.timestamp("s", "dateutil//etc/passwd")), "{}"),
        (pa.array([0], type=pa.timestamp("s", "../../etc/passwd")), '{"zoneinfo":true}'),
        (pa.array([0], type=pa.timestamp("s", "No/Where")), '{"zoneinfo":true}'),
        (pa.array([0], type=pa.timestamp("s", "No/Where")), "{}"),
        (pa.array([1]), "[]"),
    ],
    ids=str,
)
def test_tags_that_contradict_the_column(array: pa.Array, tag: str) -> None:
    schema = pa.schema([pa.field("x", array.type, metadata={"scx.dtype": tag})])
    content = ipc_file(pa.RecordBatch.from_arrays([array], schema=schema))
    with pytest.raises(ValueError, match="frame cannot be read: "):
        decode_frame(content)


def test_row_count_without_data_behind_it() -> None:
    batch = pa.RecordBatch.from_arrays([pa.nulls(10**6)], names=["x"])
    content = ipc_file(batch)
    lie = content.replace((10**6).to_bytes(8, "little"), (10**15).to_bytes(8, "little"))
    assert lie != content
    for forged, claimed in ((content, 10**6), (lie, 10**15)):
        for read in (decode_frame, lambda buffer: read_column(buffer, "x")):
            with pytest.raises(ValueError, match=f"{claimed} rows are claimed by a file of"):
                read(forged)
