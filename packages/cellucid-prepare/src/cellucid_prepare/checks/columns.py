"""The columns of obs and var, each as what the output stores of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from cellucid_prepare._faults import Faults, Refused, plural
from cellucid_prepare.checks.names import check_element_names, text_fault
from scx_core._label_codes import codes_problem

if TYPE_CHECKING:
    import pandas as pd

FLOAT_BYTES_MAX = 8


@dataclass(frozen=True)
class NumberColumn:
    """Numbers or booleans without gaps; in floats NaN is one."""

    values: npt.NDArray[Any]


@dataclass(frozen=True)
class GappedColumn:
    """Whole numbers or booleans, some of them missing (0 where `mask` is true)."""

    values: npt.NDArray[Any]
    mask: npt.NDArray[np.bool_]


@dataclass(frozen=True)
class TextColumn:
    """Texts of which none repeats or is missing."""

    values: list[str]


@dataclass(frozen=True)
class CategoryColumn:
    """A label for each row; code -1 where it has none."""

    codes: npt.NDArray[np.signedinteger]
    labels: list[str] | npt.NDArray[Any]
    ordered: bool


ColumnData: TypeAlias = NumberColumn | GappedColumn | TextColumn | CategoryColumn


def check_columns(frame: pd.DataFrame, where: str, faults: Faults) -> dict[str, ColumnData]:
    """The columns of `frame` that can be stored; what is wrong with the others is noted."""
    good = set(check_element_names(frame.columns, where, faults, reserved=("_index",)))
    columns: dict[str, ColumnData] = {}
    for position, name in enumerate(frame.columns):
        if not isinstance(name, str) or name not in good:
            continue
        series = frame.iloc[:, position]
        try:
            columns[name] = _column(series, f"{where}[{name!r}]", faults)
        except Refused:
            continue
    return columns


def _column(series: pd.Series[Any], place: str, faults: Faults) -> ColumnData:
    import pandas as pd

    dtype: Any = series.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        return _categories(cast(Any, series).cat, place, faults)
    if isinstance(dtype, pd.StringDtype) or (
        isinstance(dtype, pd.ArrowDtype) and dtype.type is str
    ):
        return _text(series.astype(object), place, faults)
    if isinstance(dtype, np.dtype):
        if dtype.kind in "biuf":
            return NumberColumn(_numbers(series.to_numpy(), place, faults))
        if dtype.kind == "O":
            return _text(series, place, faults)
    elif getattr(dtype, "kind", "") in "biuf" and _is_masked(dtype):
        return _gapped(series, place, faults)
    _refuse_type(place, dtype, faults)


def _is_masked(dtype: Any) -> bool:
    return str(type(dtype).__module__).startswith("pandas") and hasattr(dtype, "numpy_dtype")


def _refuse_type(place: str, dtype: Any, faults: Faults) -> NoReturn:
    import pandas as pd

    mend = 'convert it to text, with gaps kept, with .astype("string")'
    if isinstance(dtype, pd.SparseDtype):
        mend = "use .sparse.to_dense()"
    elif dtype.kind == "m":
        mend += ", or to seconds with .dt.total_seconds()"
    elif dtype.kind == "M":
        mend += " (ISO 8601), or to numbers such as .dt.year"
    elif dtype.kind == "c":
        mend += ", or to numbers with .map(abs), its size"
    faults.add_type(place, f"values of type {dtype} cannot be stored", mend)
    raise Refused


def _numbers(values: npt.NDArray[Any], place: str, faults: Faults) -> npt.NDArray[Any]:
    if values.dtype.kind != "f":
        return values
    if values.dtype.itemsize > FLOAT_BYTES_MAX:
        faults.add_type(
            place, f"{values.dtype} is a type that browsers do not have", "use .astype('float64')"
        )
        raise Refused
    if values.dtype == np.float16:
        values = values.astype(np.float32)  # browsers do not read half floats
    infinite = np.flatnonzero(np.isinf(values))
    if len(infinite):
        faults.add(
            place,
            f"{plural(len(infinite), 'value', 'are')} infinite, the first in row {infinite[0]}",
            "replace them by NaN, which is stored as missing",
            n_cells=len(infinite),
        )
        raise Refused
    return values


def _gapped(series: pd.Series[Any], place: str, faults: Faults) -> ColumnData:
    dtype: Any = series.dtype
    gaps = series.isna().to_numpy(dtype=bool)
    if dtype.kind == "f":
        values = series.to_numpy(dtype=dtype.numpy_dtype, na_value=np.nan)
        return NumberColumn(_numbers(values, place, faults))
    values = series.to_numpy(dtype=dtype.numpy_dtype, na_value=dtype.numpy_dtype.type(0))
    return GappedColumn(values, gaps) if gaps.any() else NumberColumn(values)


def _text(series: pd.Series[Any], place: str, faults: Faults) -> ColumnData:
    """Text, as labels where one repeats or is missing."""
    import pandas as pd

    missing = series.isna().to_numpy(dtype=bool)
    values = series.to_numpy(dtype=object)
    others = [
        row for row, value in enumerate(values) if not missing[row] and not isinstance(value, str)
    ]
    if others:
        kinds = sorted({type(values[row]).__name__ for row in others})
        has_text = len(others) + int(missing.sum()) < len(values)
        mixed = "text is mixed with" if has_text else "a column of objects holds"
        faults.add_type(
            place,
            f"{mixed} values of type {', '.join(kinds)} in {plural(len(others), 'cell')}, the "
            f"first in row {others[0]}: {values[others[0]]!r}",
            _mend_of_objects([values[row] for row in others], has_text=has_text),
            n_cells=len(others),
        )
        raise Refused
    texts = [str(value) for row, value in enumerate(values) if not missing[row]]
    _check_texts(texts, place, faults)
    if not missing.any() and len(set(texts)) == len(texts):
        return TextColumn(texts)
    labels = sorted(set(texts))
    codes = pd.Index(labels, dtype=object).get_indexer(pd.Index(values, dtype=object))
    codes[missing] = -1
    return CategoryColumn(codes.astype(code_dtype(len(labels))), labels, ordered=False)


def _mend_of_objects(others: list[Any], *, has_text: bool) -> str:
    as_text = 'make it text with .map(str, na_action="ignore")'
    if has_text:
        return as_text
    if all(isinstance(value, bool | np.bool_) for value in others):
        return 'make it a column of flags with .astype("boolean")'
    if all(isinstance(value, bytes) for value in others):
        return 'make it text with .str.decode("utf-8")'
    if all(isinstance(value, int | float | np.number) for value in others):
        return "make it numbers with pandas.to_numeric"
    return as_text


def _check_texts(texts: list[str], place: str, faults: Faults) -> None:
    bad = [(text, fault) for text in texts if (fault := text_fault(text))]
    if bad:
        faults.add(
            place,
            f"{plural(len(bad), 'text')} cannot be stored: {bad[0][0]!r} {bad[0][1]}",
            "remove such characters",
            n_cells=len(bad),
        )
        raise Refused


def _categories(accessor: Any, place: str, faults: Faults) -> ColumnData:
    categories = accessor.categories
    codes = np.asarray(accessor.codes)
    problem = codes_problem(codes, len(categories))
    if problem is not None:
        faults.add(place, problem, "write the column anew from its labels")
        raise Refused
    dtype = categories.dtype
    # labels have no gaps, so those of pandas' own types are plain numbers too
    plain = dtype if isinstance(dtype, np.dtype) else getattr(dtype, "numpy_dtype", None)
    if plain is not None and plain.kind in "biuf":
        labels = _numbers(categories.to_numpy(dtype=plain), f"{place} categories", faults)
        return CategoryColumn(codes, labels, bool(accessor.ordered))
    values = categories.astype(object).tolist()
    others = [value for value in values if not isinstance(value, str)]
    if all(isinstance(value, bool | np.bool_) for value in values) and values:
        return CategoryColumn(codes, np.array(values, dtype=bool), bool(accessor.ordered))
    if others:
        faults.add_type(
            place,
            f"has {plural(len(others), 'label')} of other kinds than text, such as {others[0]!r} "
            f"({type(others[0]).__name__})",
            "rename them with .cat.rename_categories(str)",
            n_cells=int(
                np.isin(codes, [i for i, v in enumerate(values) if not isinstance(v, str)]).sum()
            ),
        )
        raise Refused
    texts = [str(value) for value in values]
    _check_texts(texts, place, faults)
    return CategoryColumn(codes, texts, bool(accessor.ordered))


def code_dtype(n_labels: int) -> np.dtype[np.signedinteger]:
    """The integer that pandas has for codes of that many labels."""
    for dtype in (np.int8, np.int16, np.int32):
        if n_labels - 1 <= np.iinfo(dtype).max:
            return np.dtype(dtype)
    return np.dtype(np.int64)


def codes_of(column: ColumnData) -> tuple[npt.NDArray[np.int32], int] | None:
    """Codes and how many labels there are, for columns that sort cells into categories.

    Those are labels, texts and booleans.
    """
    if isinstance(column, CategoryColumn):
        return column.codes.astype(np.int32), len(column.labels)
    if isinstance(column, TextColumn):
        return np.arange(len(column.values), dtype=np.int32), len(column.values)
    if column.values.dtype != np.bool_:
        return None
    codes = column.values.astype(np.int32)
    if isinstance(column, GappedColumn):
        codes[column.mask] = -1
    return codes, 2
