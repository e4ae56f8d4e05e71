"""Values of options: lists, pairs, and arrays and tables in files."""

from __future__ import annotations

import csv
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cellucid_prepare.inputs.components import OfData
from scx_core._commands import UsageError
from scx_core._paths import local_path

# numbers whose first zeros count, and whole ones that lose digits as float64
LABEL = r"\s*[+-]?0\d"
LABEL_WITH_GAPS = rf"{LABEL}|\s*[+-]?\d{{16,}}\s*$"


def arrays(given: Sequence[str], option: str) -> dict[str, Any]:
    """``KEY`` and ``KEY=FILE`` as a mapping; a KEY alone stands for what the input holds."""
    result: dict[str, Any] = {}
    for item in given:
        key, has_file, path = item.partition("=")
        if not key or (has_file and not path):
            raise UsageError(f"{option} {item}: write KEY, or KEY=FILE")
        if key in result:
            raise UsageError(f"{option} names {key!r} twice")
        result[key] = array(Path(path)) if has_file else OfData(key)
    return result


def fields(given: Sequence[str]) -> dict[str, dict[str, Any]]:
    """``FIELD:KEY`` and ``FIELD:KEY=FILE`` as fields, each with its arrays by embedding."""
    result: dict[str, dict[str, Any]] = {}
    for item in given:
        place, has_file, path = item.partition("=")
        field, _, key = place.partition(":")
        if not field or not key or (has_file and not path):
            raise UsageError(f"--vector-fields {item}: write FIELD:KEY, or FIELD:KEY=FILE")
        value = array(Path(path)) if has_file else OfData(key)
        result.setdefault(field, {})[key] = value
    return result


def first_shown(given: Sequence[str]) -> dict[str, Any]:
    """``2d=X_umap`` and ``3d=X_pca:0,1,2`` as what `embedding_defaults` takes."""
    result: dict[str, Any] = {}
    for item in given:
        dimension, _, choice = item.partition("=")
        key, has_columns, columns = choice.partition(":")
        if not key:
            raise UsageError(f"--embedding-defaults {item}: write for instance 2d=X_umap")
        try:
            numbers = [int(column) for column in columns.split(",")] if has_columns else None
        except ValueError:
            raise UsageError(
                f"--embedding-defaults {item}: columns are whole numbers, such as X_pca:0,1"
            ) from None
        result[dimension] = key if numbers is None else (key, numbers)
    return result


def names(given: Sequence[str] | None) -> list[str] | None:
    """Names as given; ``@FILE`` stands for the lines of a file."""
    if given is None:
        return None
    result: list[str] = []
    for item in given:
        if item.startswith("@"):
            lines = Path(local_path(item[1:])).read_text(encoding="utf-8").splitlines()
            result += [line for line in lines if line]
        else:
            result.append(item)
    return result


def array(path: Path) -> Any:
    """An array out of .npy, or a sparse matrix out of .npz as scipy saves it."""
    import numpy as np
    import scipy.sparse as sp

    suffix = path.suffix.lower()
    if suffix not in (".npy", ".npz"):
        raise UsageError(f"{path}: arrays are read from .npy (numpy.save) or .npz (scipy)")
    if not os.path.isfile(local_path(path)):
        raise FileNotFoundError(f"there is no file {path}")
    try:
        return sp.load_npz(path) if suffix == ".npz" else np.load(path, mmap_mode="r")
    except Exception as error:
        raise ValueError(f"{path} cannot be read: {error}") from error


def table(path: Path) -> Any:
    """A table out of .csv, .tsv (first column: the names of the rows) or .parquet.

    Names stay as they are written; so do columns with a number such as 001, which are labels.
    """
    import pandas as pd

    suffix = path.suffix.lower()
    if suffix not in (".csv", ".tsv", ".parquet"):
        raise UsageError(f"{path}: tables are read from .csv, .tsv or .parquet")
    if not os.path.isfile(local_path(path)):
        raise FileNotFoundError(f"there is no file {path}")
    separator = "\t" if suffix == ".tsv" else ","

    def read(**options: Any) -> pd.DataFrame:
        # only an empty field is missing: "NA" and "nan" are names of cells and genes as well
        frame: pd.DataFrame = pd.read_csv(
            path, sep=separator, index_col=0, na_values=[""], keep_default_na=False, **options
        )
        return frame

    try:
        if suffix == ".parquet":
            return pd.read_parquet(path)
        frame, texts = read(), read(dtype=str)
        # pandas makes numbers of names, whatever dtype it is given
        with path.open(encoding="utf-8", newline="") as file:
            names = [row[0] for row in csv.reader(file, delimiter=separator) if row][1:]
        frame.index = pd.Index(names, dtype=object)
    except Exception as error:
        raise ValueError(f"{path} cannot be read: {error}") from error
    for position, dtype in enumerate(frame.dtypes):
        written = texts.iloc[:, position]
        labels = LABEL if dtype.kind in "iu" else LABEL_WITH_GAPS
        if dtype.kind == "O" or (dtype.kind in "iuf" and written.str.match(labels, na=False).any()):
            frame.isetitem(position, written.to_numpy())
    return frame
