"""Frames in row shards, as other writers lay them out."""

from __future__ import annotations

import itertools

import pandas as pd
import pyarrow as pa
import pytest
from metadata_arrow import ipc_file, labels, shard, text
from metadata_samples import assert_same_frame

from scx_core.metadata import (
    decode_frame_shards,
    merge_frame_shards,
    read_column,
    read_index,
)


def three_shards() -> list[bytes]:
    parts = [
        {"_index": text("a", "b"), "n": pa.array([1, 2]), "c": labels([0, None], ["x"])},
        {
            "_index": text("c"),
            "n": pa.array([3]),
            "c": pa.DictionaryArray.from_arrays(pa.array([1], type=pa.int32()), text("x", "y")),
        },
        {"_index": text("d", "e"), "n": pa.array([4, None]), "c": labels([0, 1], ["z", "x"])},
    ]
    return [shard(i, (0, 2, 3)[i], 5, part) for i, part in enumerate(parts)]


def expected() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "n": pd.array([1, 2, 3, 4, None], dtype="Int64"),
            "c": pd.Categorical(["x", None, "y", "z", "x"], categories=["x", "y", "z"]),
        },
        index=list("abcde"),
    )


def test_shards_in_any_order_become_one_frame() -> None:
    for order in itertools.permutations(three_shards()):
        assert_same_frame(decode_frame_shards(order, copy=True), expected())
    merged = merge_frame_shards(three_shards())
    column = read_column(merged, "c")
    assert isinstance(column, dict)
    assert column["codes"].tolist() == [0, -1, 1, 2, 0]
    assert column["categories"] == ["x", "y", "z"]
    assert read_index(merged).tolist() == list("abcde")
    assert not set(pa.ipc.open_file(merged).schema.metadata or {}) & {b"shard_idx", b"row_start"}


def test_one_shard_and_empty_shards() -> None:
    whole = shard(0, 0, 2, {"_index": text("a", "b"), "n": pa.array([1, 2])})
    none = shard(1, 2, 2, {"_index": text(), "n": pa.array([], type=pa.int64())})
    wanted = pd.DataFrame({"n": [1, 2]}, index=["a", "b"])
    assert_same_frame(decode_frame_shards([whole]), wanted)
    assert_same_frame(decode_frame_shards([whole, none]), wanted)


def test_ordered_categories_keep_their_order() -> None:
    first = shard(0, 0, 2, {"c": labels([0], ["low"], ordered=True)}, n_rows_total="2")
    second = shard(1, 1, 2, {"c": labels([1], ["low", "high"], ordered=True)})
    categorical = decode_frame_shards([first, second])["c"].array
    assert categorical.ordered
    assert list(categorical.categories) == ["low", "high"]
    assert list(categorical) == ["low", "high"]
    other = shard(1, 1, 2, {"c": labels([1], ["high", "low"], ordered=True)})
    with pytest.raises(ValueError, match="ordered categories of 'c' differ"):
        decode_frame_shards([first, other])


@pytest.mark.parametrize(
    ("position", "changed", "message"),
    [
        (1, {"shard_idx": "0"}, "shard 0 comes twice"),
        (1, {"shard_idx": "4"}, "shard 1 is missing"),
        (1, {"row_start": "1"}, "shard 1 starts at row 1 instead of 2"),
        (1, {"row_start": "3"}, "shard 1 starts at row 3 instead of 2"),
        (1, {"n_shard_rows": "2"}, "shard 1 says 2 rows and holds 1"),
        (2, {"n_rows_total": "6"}, "they hold 5 rows of 6"),
        (2, {"n_rows_total": "4"}, "shard 2 knows of fewer rows"),
        (0, {"row_start": "-1"}, "'row_start' is b'-1'"),
        (0, {"row_start": "x"}, "not a row number"),
    ],
)
def test_shards_that_do_not_tile(position: int, changed: dict[str, str], message: str) -> None:
    shards = three_shards()
    batch = pa.ipc.open_file(shards[position]).get_batch(0)
    metadata = {k.decode(): v.decode() for k, v in batch.schema.metadata.items()}
    shards[position] = ipc_file(batch, metadata={**metadata, **changed})
    with pytest.raises(ValueError, match=message) as caught:
        merge_frame_shards(shards, where="obs")
    assert str(caught.value).startswith("the row shards of obs cannot be joined: ")


def test_missing_shards() -> None:
    with pytest.raises(ValueError, match="they hold 3 rows of 5"):
        merge_frame_shards(three_shards()[:2])
    with pytest.raises(ValueError, match="shard 0 is missing"):
        merge_frame_shards(three_shards()[1:])
    with pytest.raises(ValueError, match="there is none"):
        merge_frame_shards([])
    with pytest.raises(ValueError, match="'shard_idx' is None"):
        merge_frame_shards([ipc_file(pa.record_batch({"n": [1]}))])


def test_shards_of_other_columns() -> None:
    first = shard(0, 0, 2, {"n": pa.array([1])})
    with pytest.raises(ValueError, match="columns of shard 1"):
        merge_frame_shards([first, shard(1, 1, 2, {"m": pa.array([1])})])
    with pytest.raises(ValueError, match="'n' is double in shard 1 and int64 in shard 0"):
        merge_frame_shards([first, shard(1, 1, 2, {"n": pa.array([1.0])})])


def test_damaged_shard() -> None:
    shards = three_shards()
    shards[1] = shards[1][:100]
    with pytest.raises(ValueError, match="cannot be joined"):
        merge_frame_shards(shards)
