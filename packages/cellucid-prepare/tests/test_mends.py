"""What an error advises is tried: it works as it stands there, and invents no values."""

from __future__ import annotations

import datetime
import re
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from prepare_reading import read, refusal_leaves_nothing, refused_everywhere, written
from prepare_samples import small

import cellucid_prepare

CELLS = [f"cell{number}" for number in range(6)]
COLUMNS: dict[str, Any] = {
    "flags": [True, None, False] * 2,
    "bytes": [b"a", None, b"b"] * 2,
    "numbers": [1.5, None, 2] * 2,
    "mixed": ["a", 1, None] * 2,
    "lists": [[1], [2], None] * 2,
    "decimals": [Decimal("1.5"), None, Decimal(2)] * 2,
    "days": [datetime.date(2020, 1, 1), None, datetime.date(2020, 1, 2)] * 2,
    "dates": pd.to_datetime(["2020-01-01", None, "2021-01-01"] * 2),
    "zoned": pd.to_datetime(["2020-01-01", None, "2021-01-01"] * 2, utc=True),
    "spans": pd.to_timedelta([1, None, 3] * 2, unit="s"),
    "periods": pd.PeriodIndex(["2020-01", None, "2020-02"] * 2, freq="M"),
    "ranges": pd.arrays.IntervalArray.from_tuples([(0, 1), np.nan, (1, 2)] * 2),
    "sparse": pd.arrays.SparseArray([0, 0, 1] * 2),
    "complex": np.array([1, 2j, 3] * 2),
    "label mix": pd.Categorical([1, "a", None] * 2),
    "label dates": pd.Categorical(pd.to_datetime(["2020-01-01", None, "2021-01-01"] * 2)),
}


@pytest.mark.parametrize("kind", COLUMNS)
def test_the_mend_of_a_column_mends_it(kind: str) -> None:
    given = COLUMNS[kind]
    dtype = object if isinstance(given, list) else None
    obs = pd.DataFrame({"v": pd.Series(given, index=CELLS, dtype=dtype)})
    with pytest.raises(cellucid_prepare.PrepareTypeError) as raised:
        written("h5ad", **small(obs=obs))
    (fault,) = raised.value.faults
    advised = re.findall(r"\.[a-z_.]+(?:\([^)]*\))?|pandas\.to_numeric", fault.mend)
    advised = [words.removeprefix("pandas") for words in advised]
    assert advised, fault.mend
    for number, words in enumerate(advised):
        column = obs["v"]
        if words == ".to_numeric":
            mended = pd.to_numeric(column)
        else:
            mended = eval(f"column{words}", {"column": column, "str": str, "abs": abs})
        path = written("h5ad", f"out{number}", **small(obs=pd.DataFrame({"v": mended})))
        back = read(path).obs["v"]
        assert back.isna().tolist() == column.isna().tolist(), words


@pytest.mark.parametrize(
    ("names", "mend"),
    [
        (["a", "", "c", "d", "e", "f"], r"give every row a name.*reset_index\(drop=True\)"),
        (["a", None, "c", "d", "e", "f"], "give every row a name"),
        (["a", np.nan, "c", "d", "e", "f"], "give every row a name"),
        (pd.array(["a", None, "c", "d", "e", "f"], dtype="string"), "give every row a name"),
        (pd.DatetimeIndex(["2020-01-01", None] * 3), "give every row a name"),
        ([b"a", b"b", b"c", b"d", b"e", b"f"], 'obs.index.str.decode."utf-8"'),
        ([0.5, 1.5, 2.5, 3.5, 4.5, 5.5], r"obs.index.astype\(str\)"),
        (pd.date_range("2020-01-01", periods=6), r"obs.index.astype\(str\)"),
    ],
)
def test_the_mend_of_names_mends_them(names: Any, mend: str) -> None:
    obs = pd.DataFrame({"v": range(6)}, index=pd.Index(names))
    refusal_leaves_nothing(mend, **small(obs=obs))
    if "decode" in mend:
        obs.index = obs.index.str.decode("utf-8")
    elif "astype" in mend:
        obs.index = obs.index.astype(str)
    else:
        obs = obs.reset_index(drop=True)
    assert read(written("h5ad", **small(obs=obs))).n_obs == 6


@pytest.mark.parametrize(
    "name", ["ends ", "ends.", " ", "...", "con", "NUL", "Aux.txt", "com1", "LPT9.a.b"]
)
def test_names_that_windows_has_no_files_for(name: str) -> None:
    obs = pd.DataFrame({name: range(6)}, index=CELLS)
    refused_everywhere("Windows", **small(obs=obs))
    refused_everywhere("Windows", **small(embeddings={name: np.zeros((6, 2))}))


@pytest.mark.parametrize("name", ["console", "com", "com10", "a.con", ".hidden", " starts"])
def test_names_that_are_files_everywhere(name: str) -> None:
    obs = pd.DataFrame({name: range(6)}, index=CELLS)
    assert list(read(written("zarr2", **small(obs=obs))).obs.columns) == [name]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_text_of_arrow_is_text(kind: pa.DataType) -> None:
    texts = ["a", "b", None, "a", "c", "c"]
    column = pd.Series(texts, index=CELLS, dtype=pd.ArrowDtype(kind))
    back = read(written("h5ad", **small(obs=pd.DataFrame({"v": column})))).obs["v"]
    assert back.astype(object).where(back.notna(), None).tolist() == texts
