"""Expressions over the columns of obs: read as pandas reads them, and kept from doing anything."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

# A text, which stays as it is, or a name in backticks.
_TEXT_OR_NAME = re.compile(r"""("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')|`([^`]*)`""")

_SYNTAX = (
    ast.Expression, ast.BoolOp, ast.BinOp, ast.UnaryOp, ast.Compare, ast.Name, ast.Constant,
    ast.List, ast.Tuple, ast.Set, ast.Attribute, ast.Call, ast.keyword,
    ast.boolop, ast.operator, ast.unaryop, ast.cmpop, ast.expr_context,
)  # fmt: skip

_FUNCTIONS = """
    abs arccos arccosh arcsin arcsinh arctan arctan2 arctanh ceil cos cosh exp expm1 floor log log10
    log1p sin sinh sqrt tan tanh
"""
_OF_COLUMNS = """
    abs astype between clip count duplicated eq fillna ge gt isin isna isnull le lt max mean median
    min ne notna notnull quantile rank round size std sum values var str dt cat
"""
_OF_TEXTS = """
    capitalize casefold contains endswith find fullmatch get isalnum isalpha isdecimal isdigit
    islower isnumeric isspace istitle isupper len lower lstrip match removeprefix removesuffix
    replace rfind rstrip slice startswith strip swapcase title upper zfill
"""
_OF_DATES = """
    date day day_of_week day_of_year dayofweek dayofyear days hour minute month month_name normalize
    quarter second seconds total_seconds weekday year
"""
_OF_CATEGORIES = "codes ordered"

FUNCTIONS = frozenset(_FUNCTIONS.split())
# Methods and properties of columns that compute something and do nothing else: an expression may
# come with a recipe from elsewhere, and columns also have methods that write files.
ATTRIBUTES = frozenset(f"{_OF_COLUMNS}{_OF_TEXTS}{_OF_DATES}{_OF_CATEGORIES}".split())


def evaluated(query: str, obs: pd.DataFrame) -> Any:
    """What an expression in the language of `DataFrame.query` gives.

    Names stand for columns and the index; in backticks they may have any characters. Attributes
    and calls are those of `ATTRIBUTES` and `FUNCTIONS` alone, so that an expression reads obs and
    nothing else: it runs no code, and writes no file.

    Raises
    ------
    ValueError
        It is no such expression; the message says what is wrong with it.
    """
    expression, named = _with_plain_names(query.strip(), obs)
    if len(expression.splitlines()) > 1:  # pandas would take each line for itself
        raise ValueError("it has several lines, but one expression is needed")
    if not expression:
        raise ValueError("it is empty")
    if "@" in _TEXT_OR_NAME.sub("", expression):
        raise ValueError("it must not refer to variables with @")
    try:
        tree = ast.parse(expression, mode="eval")
    except SyntaxError as error:
        raise ValueError(f"it is no expression: {error.msg}") from None
    _check(tree)
    shown = obs.assign(**named) if named else obs
    # numexpr, which pandas would take where it is installed, knows other types
    return shown.eval(expression, engine="python", local_dict={}, global_dict={})


def _with_plain_names(query: str, obs: pd.DataFrame) -> tuple[str, dict[str, Any]]:
    """The expression without backticks, and what the names mean that stand in their places."""
    taken = set(obs.columns) | set(obs.index.names)
    named: dict[str, Any] = {}
    stand_ins: dict[str, str] = {}

    def replaced(found: re.Match[str]) -> str:
        text, name = found.group(1), found.group(2)
        if text is not None:
            return text
        if name not in stand_ins:
            stand_in = f"column_{len(stand_ins)}"
            while stand_in in taken:
                stand_in += "_"
            stand_ins[name] = stand_in
            named[stand_in] = _values(obs, name)
        # spaces, as in `a`in`b`
        return f" {stand_ins[name]} "

    return _TEXT_OR_NAME.sub(replaced, query).strip(), named


def _values(obs: pd.DataFrame, name: str) -> Any:
    if name in obs.columns:
        return obs[name]
    if name == "index" or name in obs.index.names:
        return obs.index
    raise ValueError(f"name {name!r} is not defined")


def _check(tree: ast.Expression) -> None:
    for node in ast.walk(tree):
        if not isinstance(node, _SYNTAX):
            raise ValueError(f"it holds {ast.unparse(node)!r}, which is no part of filters")
        if isinstance(node, ast.Attribute) and node.attr not in ATTRIBUTES:
            raise ValueError(
                f"it uses .{node.attr}, but filters know methods alone that compute something of "
                "a column, such as .isin, .between, .notna, .str.startswith and .dt.year"
            )
        if isinstance(node, ast.Call) and not _is_known(node.func):
            raise ValueError(
                f"it calls {ast.unparse(node.func)!r}, but filters know the functions "
                f"{', '.join(sorted(FUNCTIONS))} alone"
            )
        if isinstance(node, ast.keyword) and node.arg in (None, "inplace"):
            raise ValueError(f"it passes {ast.unparse(node)!r}, but filters change nothing")


def _is_known(called: ast.expr) -> bool:
    if isinstance(called, ast.Name):
        return called.id in FUNCTIONS
    return isinstance(called, ast.Attribute)
