"""JSON that is no uns, and envelopes that contradict themselves."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from scx_core.metadata import decode_uns, encode_uns

AAAA = "AAAAAA=="  # four zero bytes


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "Expecting value"),
        (b"\xff\xfe", "utf-8"),
        (b"{", ""),
        (b"[]", "no JSON object"),
        (b"null", "no JSON object"),
        (b'{"__scx__":"NA"}', "no mapping"),
        (b'{"a":1}x', "Extra data"),
        (b'{"a":' + b"[" * 100_000, ""),
        (b'{"a":' + b'{"a":' * 5_000 + b"1" + b"}" * 5_001, ""),
        (b'{"a":' + b"[" * 200 + b"]" * 200 + b"}", "nested too deeply"),
        (b'{"a":' + b"9" * 10_000 + b"}", ""),
    ],
    ids=range(11),
)
def test_no_uns(content: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=f"^mod.uns cannot be read: .*{message}"):
        decode_uns(content, where="mod.uns")


@pytest.mark.parametrize(
    "envelope",
    [
        {"__scx__": 3},
        {"__scx__": ["ndarray"]},
        {"__scx__": "pickle", "value": "x"},
        {"__scx__": "dict"},
        {"__scx__": "dict", "items": [["a"]]},
        {"__scx__": "dict", "items": [[1, 2]]},
        {"__scx__": "tuple", "items": "ab"},
        {"__scx__": "set", "items": [[1]]},
        {"__scx__": "bytes", "value": "!"},
        {"__scx__": "bytes", "value": 3},
        {"__scx__": "int", "hex": "xyz"},
        {"__scx__": "int", "hex": None},
        {"__scx__": "float", "bits": "00"},
        {"__scx__": "complex", "bits": "00"},
        {"__scx__": "numpy", "dtype": "<i4", "shape": [1], "data": AAAA},
        {"__scx__": "numpy", "dtype": "|O", "shape": [], "items": [1]},
        {"__scx__": "ndarray", "dtype": "<i4", "shape": [2], "data": AAAA},
        {"__scx__": "ndarray", "dtype": "<i4", "shape": [-1], "data": AAAA},
        {"__scx__": "ndarray", "dtype": "<i4", "shape": [1.0], "data": AAAA},
        {"__scx__": "ndarray", "dtype": "<i4", "shape": [True], "data": AAAA},
        {"__scx__": "ndarray", "dtype": "<i4", "shape": None, "data": AAAA},
        {"__scx__": "ndarray", "dtype": "<i4", "shape": [2**62, 2**62], "data": AAAA},
        {"__scx__": "ndarray", "dtype": "<i4", "shape": [0, 2**70], "data": ""},
        {"__scx__": "ndarray", "dtype": "<i4", "shape": [1] * 100, "data": AAAA},
        {"__scx__": "ndarray", "dtype": "<i4", "shape": [1]},
        {"__scx__": "ndarray", "dtype": "<f16", "shape": [1], "data": AAAA * 4},
        {"__scx__": "ndarray", "dtype": "f4,f4", "shape": [1], "data": AAAA},
        {"__scx__": "ndarray", "dtype": "|V0", "shape": [2**60], "data": ""},
        {"__scx__": "ndarray", "dtype": "<U0", "shape": [2**60], "data": ""},
        {"__scx__": "ndarray", "dtype": "<i3", "shape": [1], "data": AAAA},
        {"__scx__": "ndarray", "dtype": "<M8[nonsense]", "shape": [1], "data": AAAA},
        {"__scx__": "ndarray", "dtype": 7, "shape": [1], "data": AAAA},
        {"__scx__": "ndarray", "dtype": {}, "shape": [1], "data": AAAA},
        {"__scx__": "ndarray", "dtype": {"fields": [], "align": False}, "shape": [9], "fields": []},
        {
            "__scx__": "ndarray",
            "dtype": {"fields": [["a", "<i4"], ["a", "<i4"]], "align": False},
            "shape": [1],
            "fields": [{"data": AAAA}, {"data": AAAA}],
        },
        {
            "__scx__": "ndarray",
            "dtype": {"fields": [["a", {"base": "<i4", "shape": [2**40]}]], "align": False},
            "shape": [1],
            "fields": [{"data": AAAA}],
        },
        {
            "__scx__": "ndarray",
            "dtype": {"fields": [["a", "<i4"]], "align": False},
            "shape": [2**50],
            "fields": [{"data": AAAA}],
        },
        {"__scx__": "ndarray", "dtype": "|O", "shape": [2], "items": [1]},
        {"__scx__": "ndarray", "dtype": "|O", "shape": [1], "items": 1},
        {"__scx__": "ndarray", "dtype": "<U1", "shape": [1], "data": "////fw=="},
        {"__scx__": "ndarray", "dtype": "<i4", "shape": [1], "data": AAAA, "record": True}
        | {"x": 1}
        | {"dtype": "|O"},
        {"__scx__": "sparse", "class": "bsr_matrix"},
        {"__scx__": "dataframe", "data": ""},
        {"__scx__": "dataframe", "data": AAAA},
        {"__scx__": "dataframe"},
        {"__scx__": "series", "data": AAAA, "name": None},
        {"__scx__": "index", "values": 3, "name": None},
        {"__scx__": "array", "data": AAAA},
        {"__scx__": "moment", "data": AAAA},
        {"__scx__": "datetime", "value": "yesterday"},
        {"__scx__": "datetime", "value": 3},
        {"__scx__": "datetime", "value": "2020-01-01", "zone": "../../etc/passwd", "fold": 0},
        {"__scx__": "datetime", "value": "2020-01-01", "zone": "No/Where", "fold": 0},
        {"__scx__": "datetime", "value": "2020-01-01", "zone": "UTC", "fold": 7},
        {"__scx__": "date", "value": "2020-13-01"},
        {"__scx__": "timedelta", "parts": [10**10, 0, 0]},
        {"__scx__": "timedelta", "parts": ["1"]},
    ],
    ids=lambda envelope: json.dumps(envelope)[:60],
)
def test_damaged_envelopes(envelope: Any) -> None:
    content = json.dumps({"a": {"b": [0, envelope]}}).encode()
    with pytest.raises(ValueError, match=r"^uns cannot be read: uns\['a'\]\['b'\]\[1\]"):
        decode_uns(content)


@pytest.mark.parametrize(
    ("part", "values"),
    [
        ("indptr", [0, 1]),
        ("indptr", [0, 2, 1]),
        ("indptr", [1, 1, 2]),
        ("indptr", [0, 1, 3]),
        ("indices", [0, 5]),
        ("indices", [0, -1]),
        ("indices", [0]),
        ("data", [1.0]),
    ],
)
def test_damaged_sparse_matrices(part: str, values: list[float]) -> None:
    arrays = {
        "data": np.array([1.0, 2.0]),
        "indices": np.array([0, 1], dtype=np.int32),
        "indptr": np.array([0, 1, 2], dtype=np.int32),
    }
    arrays[part] = np.array(values, dtype=arrays[part].dtype)
    parts = json.loads(encode_uns(arrays))
    envelope = {"__scx__": "sparse", "class": "csr_matrix", "shape": [2, 2], **parts}
    with pytest.raises(ValueError, match=r"uns\['m'\] is damaged \(sparse\)"):
        decode_uns(json.dumps({"m": envelope}).encode())
    for index_dtype in ("f4", "i2"):
        wrong = json.loads(encode_uns({"indices": np.zeros(2, dtype=index_dtype)}))
        with pytest.raises(ValueError, match=r"uns\['m'\] is damaged \(sparse\)"):
            decode_uns(json.dumps({"m": envelope | wrong}).encode())


def test_json_of_other_writers_is_left_alone() -> None:
    content = b'{"a": NaN, "b": {"__ndarray__": [1]}, "c": 1e400, "d": {"type": "x"}}'
    result = decode_uns(content)
    assert np.isnan(result["a"])
    assert result["b"] == {"__ndarray__": [1]}
    assert result["c"] == float("inf")
    assert result["d"] == {"type": "x"}
