"""What goes into `encode_uns` comes out of `decode_uns`."""

from __future__ import annotations

import datetime
import json
import zoneinfo
from collections import OrderedDict, namedtuple
from enum import IntEnum, StrEnum
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from anndata import AnnData
from anndata.tests.helpers import assert_equal
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from metadata_samples import assert_same, sample_columns, sample_frame
from metadata_strategies import uns_values

from scx_core.metadata import decode_uns, encode_uns

ALIGNED = np.dtype([("a", "i1"), ("b", "f8")], align=True)
NESTED = np.dtype(
    [
        ("n", "i4"),
        ("o", "O"),
        ("t", "U3"),
        ("m", ">f8", (2, 2)),
        ("in", [("x", "?"), ("y", "M8[s]")]),
    ]
)


def structured(dtype: np.dtype) -> np.ndarray:
    array = np.zeros(2, dtype=dtype)
    if "o" in (dtype.names or ()):
        array["o"] = ["text", None]
    return array


def of_objects(*items: Any) -> np.ndarray:
    array = np.empty(len(items), dtype=object)
    array[:] = items
    return array


PLAIN: dict[str, Any] = {
    "None": None,
    "nested None": {"n": None},
    "true": True,
    "int": 3,
    "zero": 0,
    "float": 1.5,
    "long float": 0.1 + 0.2,
    "negative zero": -0.0,
    "NaN": float("nan"),
    "infinity": float("-inf"),
    "text": "ü😀\0",
    "half a surrogate pair": "\ud800",
    "list": [1, "a", None, 2.5, [True]],
    "list of text": ["a", None, "b"],
    "dicts in a list": [{"x": 1}],
    "empty list": [],
    "empty dict": {},
    "deep": {"a": {"b": {"c": [{"d": []}]}}},
    "int64": [-(2**63), 2**64 - 1],
    "big ints": [2**64, -(2**63) - 1, 7**5000],
    "tuple": (1, (2, "x"), []),
    "sets": [{1, 2}, frozenset(["a"]), {(1, "x")}],
    "bytes": b"\0\xff",
    "complex": [1j, complex(0.0, float("inf"))],
    "the tag as a key": {"__scx__": "ndarray", "x": [2]},
    "the tag of other writers as a key": {"__scx_type__": "tuple", "data": [2]},
    "keys": {"": 1, "a/b": 2, "'": 3, "\0": 4},
}

NUMPY: dict[str, Any] = {
    "float32": np.float32(0.1),
    "int64": np.int64(3),
    "bool_": np.bool_(True),
    "float64": np.float64(1.5),
    "str_": np.str_("a\0"),
    "bytes_": np.bytes_(b"a\0"),
    "datetime64": np.datetime64("2020-01-01T00:00", "m"),
    "timedelta64": np.timedelta64("NaT", "ns"),
    "complex64": np.complex64(1j),
    "void": np.void(b"ab"),
    "record scalar": structured(NESTED)[0],
    "0-d": np.array(5, dtype="u1"),
    "0-d object": np.array("x", dtype=object),
    "0-d text": np.array("xyz"),
    "float16": np.array([[0.1, np.nan]], dtype="f2"),
    "big-endian": np.array([1, 2], dtype=">i4"),
    "bools": np.array([True, False]),
    "fortran": np.asfortranarray(np.arange(6).reshape(2, 3)),
    "strided": np.arange(10)[::3],
    "empty": np.zeros((0, 3), dtype="f4"),
    "no columns": np.zeros((2, 0, 5), dtype="i8"),
    "fixed text": np.array(["a", "bcd", "ü"]),
    "wide text": np.array(["a"], dtype="U1000"),
    "bytes": np.array([b"a", b"bc"]),
    "days": np.array(["2020-01-01", "NaT"], dtype="M8[D]"),
    "periods of 25 s": np.array([1, 2], dtype="m8[25s]"),
    "generic times": np.array([3], dtype="i8").view("m8"),
    "void array": np.array([b"ab", b"cd"], dtype="V2"),
    "object text": np.array(["a", "b", None], dtype=object),
    "objects": np.array([["a", 1], [None, {"x": (1,)}]], dtype=object),
    "object NaN": np.array([float("nan"), "x"], dtype=object),
    "objects of unequal length": of_objects([1], [1, 2]),
    "arrays in an array": of_objects(np.arange(2), np.arange(3)),
    "no objects": np.array([], dtype=object),
    "structured": structured(NESTED),
    "aligned": structured(ALIGNED),
    "structured 0-d": structured(NESTED)[:1].reshape(()),
    "records": np.rec.array([(1, "x"), (2, "y")], dtype=[("0", "i4"), ("1", "O")]),
}

PANDAS: dict[str, Any] = {
    "frame": sample_frame(),
    "integer columns": pd.DataFrame({0: [1, 2], 1: ["a", "b"]}),
    "columns of two types": pd.DataFrame({0: [1, 2], "a": ["a", "b"]}),
    "repeated columns": pd.DataFrame([[1, 2]], columns=["a", "a"]),
    "categorical columns": pd.DataFrame([[1]], columns=pd.CategoricalIndex(["x"], name="n")),
    "columns with a gap": pd.DataFrame([[1, 2]], columns=pd.Index(["a", None], dtype=object)),
    "empty frame": pd.DataFrame(),
    "frame without rows": pd.DataFrame({"a": []}),
    "series": pd.Series([1, 2], name="s"),
    "series named by a tuple": pd.Series(["a"], name=("t", 1), index=["i"]),
    "empty series": pd.Series([], dtype=float),
    "index": pd.Index([1, 2], name="i"),
    "range": pd.RangeIndex(2, 10, 3),
    "object index": pd.Index([1, "a", None], dtype=object, name=("n", 1)),
    "dates": pd.date_range("2020", periods=3, tz="UTC"),
    "categorical": pd.Categorical(["b", None], categories=["b", "a"], ordered=True),
    "nullable": pd.array([1, None]),
    "string": pd.array(["a", None], dtype="string"),
    "times": pd.date_range("2020", periods=2).array,
    "numbers": pd.Series([1.5]).array,
    "NA": [pd.NA, pd.NaT],
    "timestamp": pd.Timestamp("2020-03-29 03:00:00.123456789", tz="Europe/Berlin"),
    "timestamp in s": pd.Timestamp("2020-01-01").as_unit("s"),
    "timedelta": pd.Timedelta("1D 3ns"),
}

TIMES: dict[str, Any] = {
    "datetime": datetime.datetime(2020, 1, 2, 3, 4, 5, 6),
    "UTC": datetime.datetime(2020, 1, 2, tzinfo=datetime.UTC),
    "offset": datetime.datetime(
        2020, 1, 2, tzinfo=datetime.timezone(datetime.timedelta(hours=-3, seconds=7))
    ),
    "second fold": datetime.datetime(
        2020, 10, 25, 2, 30, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin"), fold=1
    ),
    "date": datetime.date(1, 1, 1),
    "time": datetime.time(1, 2, 3, tzinfo=datetime.UTC),
    "timedelta": datetime.timedelta(-1, 2, 3),
}

SPARSE: dict[str, Any] = {
    f"{kind.__name__} {width}": kind(np.array([[0, 1.5], [0, 0], [2, 3]]))
    for kind in (sp.csr_matrix, sp.csc_matrix, sp.csr_array, sp.csc_array)
    for width in ("int32", "int64")
}
for name, matrix in SPARSE.items():
    matrix.indices = matrix.indices.astype(name.split()[1])
SPARSE["unsorted, repeated and zero"] = sp.csr_matrix(
    (np.array([1, 0, 2, 3], dtype="i2"), np.array([2, 0, 1, 1]), np.array([0, 2, 4])), shape=(2, 3)
)
SPARSE["empty"] = sp.csc_matrix((0, 4), dtype="f4")

SAMPLES = {
    f"{group}: {name}": value
    for group, values in {
        "plain": PLAIN,
        "numpy": NUMPY,
        "pandas": PANDAS,
        "time": TIMES,
        "sparse": SPARSE,
    }.items()
    for name, value in values.items()
}


@pytest.mark.parametrize("name", list(SAMPLES))
def test_value_comes_back(name: str) -> None:
    value = SAMPLES[name]
    for uns in ({"k": value}, {"k": [value, {"x": value}]}, {"k": (value, of_objects(value))}):
        content = encode_uns(uns, strict=True)
        assert_same(decode_uns(content), uns)
        assert encode_uns(decode_uns(content)) == content


@pytest.mark.parametrize("name", list(sample_columns()))
def test_pandas_arrays_and_series_of_every_dtype(name: str) -> None:
    series = pd.Series(sample_columns()[name])
    uns = (
        {"series": series, "array": series.array, "index": pd.Index(series)}
        if (series.dtype not in (np.float16, np.complex64, np.complex128))
        else {"series": series}
    )
    assert_same(decode_uns(encode_uns(uns, strict=True)), uns)


@given(st.dictionaries(st.text(), uns_values(), max_size=4))
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_uns_comes_back(uns: dict[str, Any]) -> None:
    content = encode_uns(uns, strict=True)
    json.loads(content, parse_constant=pytest.fail)
    assert_same(decode_uns(content), uns)


def test_equal_by_the_comparison_of_anndata() -> None:
    uns = {
        "d": {"t": "x", "n": None, "l": [{"x": 1}], "s": np.str_("y")},
        "a": np.arange(6).reshape(2, 3),
        "m": sp.csr_matrix(np.eye(3)),
        "f": pd.DataFrame({"x": [1, 2]}, index=["a", "b"]),
        "r": np.rec.array([(1, "x")], dtype=[("0", "i4"), ("1", "O")]),
        "c": pd.Categorical(["a", "b"]),
    }
    assert_equal(decode_uns(encode_uns(uns)), uns, exact=True)


def test_views_of_anndata() -> None:
    adata = AnnData(np.ones((3, 1), dtype="f4"), uns={"a": np.arange(3), "d": {"x": [1]}})
    result = decode_uns(encode_uns(adata[:2].uns, strict=True))
    assert_same(result, {"a": np.arange(3), "d": {"x": [1]}})


def test_results_can_be_changed() -> None:
    uns = {"a": np.arange(3), "m": sp.csr_matrix(np.eye(2)), "f": pd.DataFrame({"x": [1, 2]})}
    result = decode_uns(encode_uns(uns))
    result["a"][0] = 7
    result["m"].data[0] = 7
    result["f"].loc[0, "x"] = 7
    assert (result["a"][0], result["m"][0, 0], result["f"]["x"][0]) == (7, 7, 7)


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
def test_subclasses_come_back_as_their_base() -> None:
    class Colour(StrEnum):
        RED = "red"

    class Level(IntEnum):
        LOW = 1

    point = namedtuple("point", "x y")
    uns = {
        "c": Colour.RED,
        "l": Level.LOW,
        "p": point(1, 2),
        "o": OrderedDict(b=1, a=2),
        Colour.RED: 1,
        "m": np.matrix([[1, 2]]),
    }
    result = decode_uns(encode_uns(uns, strict=True))
    expected = {"c": "red", "l": 1, "p": (1, 2), "o": {"b": 1, "a": 2}, "red": 1}
    assert_same(result, {**expected, "m": np.array([[1, 2]])})


def test_free_offsets_come_back_packed() -> None:
    array = np.zeros(2, dtype=[("a", "i4"), ("b", "i4"), ("c", "i4")])[["a", "c"]]
    result = decode_uns(encode_uns({"k": array}, strict=True))["k"]
    assert result.dtype == np.dtype([("a", "i4"), ("c", "i4")])


def test_plain_values_are_plain_json() -> None:
    uns = {"neighbors": {"params": {"n": 15, "metric": "euclidean"}}, "l": [1, 2.5, None, True]}
    assert json.loads(encode_uns(uns)) == uns
    assert encode_uns({}) == b"{}"


def test_order_of_keys_and_bytes_of_sets() -> None:
    assert list(decode_uns(encode_uns({"b": 1, "a": 2, "__scx__": 3, "c": 4}))) == [
        *("b", "a", "__scx__", "c")
    ]
    names = [f"gene{i}" for i in range(50)]
    backwards = names[::-1]
    assert encode_uns({"s": set(names)}) == encode_uns({"s": set(backwards)})


def nested(kind: str, depth: int) -> Any:
    value: Any = "leaf"
    for _ in range(depth):
        if kind == "dict":
            value = {"k": value}
        elif kind == "tagged":
            value = {"__scx__": value}
        elif kind == "list":
            value = [value]
        elif kind == "tuple":
            value = (value,)
        else:
            value = of_objects(value)
    return value


@pytest.mark.parametrize("kind", ["dict", "tagged", "list", "tuple", "array"])
def test_depth(kind: str) -> None:
    uns = {"k": nested(kind, 63)}
    assert_same(decode_uns(encode_uns(uns, strict=True)), uns)
    with pytest.raises(ValueError, match="nested more than 64 levels deep"):
        encode_uns({"k": nested(kind, 64)}, strict=True)


class Strange:
    """An object that means nothing outside of its process."""

    def __repr__(self) -> str:
        raise RuntimeError("no words")


NAMELESS = datetime.timezone(datetime.timedelta(hours=2), "of our own")

UNSTORABLE: list[tuple[Any, str, Any]] = [
    (Strange(), "uns['k'] is of type .*test_uns.Strange", ...),
    ([1, Strange()], "uns['k'][1] is of type .*; uns['k'] is left out", ...),
    ([{"x": Strange(), "y": 1}], "uns['k'][0]['x'] is of type", [{"y": 1}]),
    ((1, {2: 3, "a": 1}), "uns['k'][1][2] has a key of type int", (1, {"a": 1})),
    ({"a": {"b": [0, 1, Strange()], "c": 1}}, "uns['k']['a']['b'][2] is", {"a": {"c": 1}}),
    (of_objects(1, Strange()), "uns['k'][1] is of type", ...),
    (sp.coo_matrix(np.eye(2)), "uns['k'] is of type scipy.sparse", ...),
    (np.ma.masked_array([1], mask=[True]), "uns['k'] is of type numpy.ma", ...),
    (np.longdouble(1), "uns['k'] cannot be stored: the dtype float128", ...),
    (np.zeros(2, dtype="G"), "complex256", ...),
    (np.zeros(2, dtype="V0"), "V0", ...),
    (np.zeros(1, dtype=[(("title", "n"), "i4")]), "titles", ...),
    (pd.DataFrame({"x": [1, "a"]}), "uns['k']['x'] mixes values", ...),
    (pd.MultiIndex.from_tuples([(1, 2)]), "2 levels", ...),
    (pd.Series([1], index=pd.MultiIndex.from_tuples([(1, 2)])), "2 levels", ...),
    (pd.Series([1], name=print), "uns['k'].name is of type builtin_function", ...),
    (pd.Period("2020"), "Period", ...),
    (pd.Timestamp("2020", tz=NAMELESS), "time zone", ...),
    (print, "builtin_function_or_method", ...),
    (slice(1), "slice", ...),
    (range(3), "range", ...),
    (bytearray(b"x"), "bytearray", ...),
    (AnnData(np.ones((1, 1))), "AnnData", ...),
]


@pytest.mark.parametrize(("value", "message", "rest"), UNSTORABLE, ids=range(len(UNSTORABLE)))
def test_what_cannot_be_stored_is_named(value: Any, message: str, rest: Any) -> None:
    uns = {"before": 1, "k": value, "after": [2]}
    pattern = message.replace("[", r"\[").replace("]", r"\]")
    with pytest.warns(UserWarning, match=pattern) as caught:
        content = encode_uns(uns)
    assert len(caught) == 1
    assert str(caught[0].message).endswith(" is left out")
    assert caught[0].filename == __file__
    expected = (
        {"before": 1, "after": [2]} if rest is ... else {"before": 1, "k": rest, "after": [2]}
    )
    assert_same(decode_uns(content), expected)
    with pytest.raises(ValueError, match=pattern.partition(";")[0]) as refused:
        encode_uns(uns, strict=True)
    assert "left out" not in str(refused.value)


def test_one_warning_for_each_entry_and_one_error_for_all() -> None:
    uns = {"a": Strange(), 3: 1, "b": {"c": Strange()}, "d": 1}
    with pytest.warns(UserWarning, match="cannot be stored|key of type") as caught:
        assert decode_uns(encode_uns(uns, where="mod['rna'].uns")) == {"b": {}, "d": 1}
    assert [str(warning.message).split(" ")[0] for warning in caught] == [
        "mod['rna'].uns['a']",
        "mod['rna'].uns[3]",
        "mod['rna'].uns['b']['c']",
    ]
    with pytest.raises(ValueError, match=r"uns\['a'\] .*uns\[3\] .*uns\['b'\]\['c'\]"):
        encode_uns(uns, strict=True)
    with pytest.raises(ValueError, match="and 10 more"):
        encode_uns(dict.fromkeys(map(str, range(30)), Strange()), strict=True)


def test_what_contains_itself() -> None:
    loop: dict[str, Any] = {"x": 1}
    loop["loop"] = loop
    ring: list[Any] = [1]
    ring.append(ring)
    array = of_objects(1, 2)
    array[1] = array
    with pytest.warns(UserWarning, match="contains itself") as caught:
        result = decode_uns(encode_uns({"d": loop, "l": ring, "a": array}))
    assert result == {"d": {"x": 1}}
    assert len(caught) == 3
    shared = [1, 2]
    uns = {"a": shared, "b": [shared, shared]}
    assert_same(decode_uns(encode_uns(uns, strict=True)), uns)


def test_uns_is_not_changed() -> None:
    uns = {"a": np.arange(3), "f": pd.DataFrame({1: [1]}), "x": Strange()}
    with pytest.warns(UserWarning, match="Strange"):
        encode_uns(uns)
    assert list(uns) == ["a", "f", "x"]
    assert list(uns["f"].columns) == [1]
