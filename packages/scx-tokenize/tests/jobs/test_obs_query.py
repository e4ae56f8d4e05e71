"""Filters of cells: what pandas says of an expression, and expressions that would do something."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from scx_tokenize.jobs._obs import kept_positions


@pytest.fixture
def obs() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "n": [1.0, 2.0, 3.0],
            "kind": pd.Categorical(["a", "b", "a"]),
            "my col": [1, 1, 2],
            "e@x": ["q@z", "b", "`"],
            "column_0": [5, 6, 7],
            "day": pd.to_datetime(["2020-01-01", "2021-01-01", "2022-01-01"]),
        },
        index=pd.Index(["c1", "c2", "x3"], name="cell id"),
    )


@pytest.mark.parametrize(
    "query",
    [
        "n > 1",
        'n > 1 & kind == "a"',
        '(n > 1) | (kind == "a")',
        'kind in ["a"]',
        'kind not in ("a",)',
        "`my col` == 1 and n > 1",
        "`my col`==1 and `my col` in[1]",
        "column_0 > 5 and `my col` == 1",
        '`e@x` == "q@z"',
        '`cell id`.str.startswith("c")',
        'index.str.startswith("c") and n < 2',
        'kind.str.upper().str.contains("A", na=False)',
        "n.isin([1, 2])",
        "n.between(1, 2)",
        "log1p(n) > 1",
        'day > "2020-06-01"',
        "day.dt.year > 2020",
        "1 < n < 3",
        "not n > 1",
        "~(n > 1)",
        "n.notna() and kind.cat.codes == 0",
        "n == n.max()",
    ],
)
def test_expressions_mean_what_pandas_says(obs: pd.DataFrame, query: str) -> None:
    expected = np.flatnonzero(obs.eval(query, engine="python"))
    assert kept_positions(obs, query, path="a.scx").tolist() == expected.tolist()


def test_an_at_sign_or_a_backtick_in_a_text_is_a_text(obs: pd.DataFrame) -> None:
    assert kept_positions(obs, "`e@x` == '`'", path="a.scx").tolist() == [2]
    assert kept_positions(obs, "`e@x`.str.contains('@')", path="a.scx").tolist() == [0]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("n.to_csv('made')", r"it uses \.to_csv, but filters know"),
        ("(n.to_csv('made') == None) | (n > 0)", r"it uses \.to_csv"),
        ("n.to_pickle('made').notna()", r"it uses \.to_pickle"),
        ("n.values.tofile('made')", r"it uses \.tofile"),
        ("n.\uff54o_csv('made')", r"it uses \.to_csv"),
        ("n.__class__", r"it uses \.__class__"),
        ("n.pipe(exec)", r"it uses \.pipe"),
        ("__import__('os').system('touch made')", r"it uses \.system"),
        ("exec('1')", "it calls 'exec'"),
        ('"""\nn.to_csv("made")\n"""', "several lines"),
        ("'''\u2028n.to_csv('made')\u2028'''", "several lines"),
        ("`my col`.to_csv('made')", r"it uses \.to_csv"),
        ("n.fillna(0, inplace=True) == 1", "it passes 'inplace=True'"),
        ("n.fillna(**{'inplace': True}) == 1", "filters change nothing|no part of filters"),
        ("n[0] > 1", r"it holds 'n\[0\]'"),
        ("[one for one in n]", "no part of filters"),
        ("f'{n}' == 'a'", "no part of filters"),
        ("(lambda: n)() > 1", "no part of filters|it calls"),
        ("x = n > 1", "it is no expression"),
        ("n > @n", "must not refer to variables with @"),
        ("`missing` > 1", "name 'missing' is not defined"),
        (" ", "it is empty"),
    ],
)
def test_expressions_that_would_do_something_are_refused(
    obs: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, query: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    before = obs.copy()
    with pytest.raises(ValueError, match=message) as refusal:
        kept_positions(obs, query, path="a.scx")
    assert "a.scx" in str(refusal.value)
    assert "n, kind, my col" in str(refusal.value)
    assert list(tmp_path.iterdir()) == []
    pd.testing.assert_frame_equal(obs, before)
