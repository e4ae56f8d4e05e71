"""Matrix Market folders as content for the writer: counts as text beside tables of names.

The text is parsed piece by piece, so that its size does not matter; entries may come in any order.
Everything is read and checked before the first row is handed on, because the type of the counts
depends on the largest of them.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from scx_core.metadata._text import default_text_dtype
from scx_core.sources.base import (
    CsrBlock,
    ExperimentContent,
    IndexDtypes,
    MatrixForm,
    MatrixSource,
    ModalityContent,
)
from scx_core.sources.csc_transpose import Collection, Transposition, Turned
from scx_core.sources.derived import SelectedColumns
from scx_core.sources.detect import advice, matrices_elsewhere, matrix_files, source_kind
from scx_core.sources.h5_matrices import ReadingMeans
from scx_core.sources.mtx_text import MatrixMarketFile, open_text, whole_text
from scx_core.sources.tenx import float32_if_exact, selected_features

if TYPE_CHECKING:
    import pandas as pd

VarNames: TypeAlias = Literal["gene_symbols", "gene_ids"]

MATRIX = "matrix.mtx"
FEATURES = ("features.tsv", "genes.tsv")
BARCODES = ("barcodes.tsv",)
GZ = ("", ".gz")

# columns of a table of features after the third, as Cell Ranger ARC writes them
EXTRA_COLUMNS = ("chromosome", "start", "end")


@dataclass(frozen=True)
class MtxFolder:
    """The three files of one matrix."""

    matrix: Path
    features: Path
    barcodes: Path


@dataclass
class MtxMatrix:
    """The counts as cells x genes, after all of the text has been read."""

    collection: Collection
    shape: tuple[int, int]
    dtype: np.dtype[Any]
    form: MatrixForm = "csr_matrix"
    index_dtypes: IndexDtypes | None = None

    def row_blocks(self, block_bytes: int) -> Iterator[CsrBlock]:
        for block in self.collection.blocks(block_bytes):
            yield CsrBlock(block.indptr, block.indices, block.values.astype(self.dtype))


@dataclass
class _Seen:
    """What was seen of the values while they passed."""

    largest: float = 0.0


@contextmanager
def mtx_content(
    path: Path,
    means: ReadingMeans,
    *,
    prefix: str | None = None,
    var_names: VarNames = "gene_symbols",
    make_unique: bool = True,
    feature_types: str | Sequence[str] | None = None,
) -> Iterator[ExperimentContent]:
    """Describe the folder (or .mtx file) at `path`; to be read inside the `with` block only.

    Raises
    ------
    FileNotFoundError
        The folder or one of the three files is not there; the message lists what is.
    ValueError
        The files do not fit together, are cut off or hold something else.
    """
    if var_names not in ("gene_symbols", "gene_ids"):
        raise ValueError(f'var_names={var_names!r} must be "gene_symbols" or "gene_ids"')
    folder = find_files(path, prefix)
    var = feature_table(folder.features, var_names=var_names, make_unique=make_unique)
    obs = barcode_table(folder.barcodes)
    kept = selected_features(var, folder.features, feature_types=feature_types)
    with MatrixMarketFile(folder.matrix) as text:
        _check_size(text, folder, len(obs), len(var))
        values = np.dtype(np.int64 if text.field == "integer" else np.float64)
        turning = Transposition(len(obs), len(var), values, means.memory_bytes, means.folder)
        seen = _Seen()
        parts = _turned(text, turning, seen)
        with turning.collected(parts, text.n_entries) as collection:
            dtype = float32_if_exact(values, seen.largest)
            source: MatrixSource = MtxMatrix(collection, (len(obs), len(var)), dtype)
            if kept is not None:
                var, source = var[kept], SelectedColumns(source, kept)
            yield ExperimentContent(
                obs=obs,
                modalities={"": ModalityContent(var=var, X=source)},
                provenance={"source": "mtx", "file": folder.matrix.name},
            )


def find_files(path: Path, prefix: str | None) -> MtxFolder:
    """The files of the matrix in folder `path`, or of the .mtx file that `path` is.

    The tables of a file have its prefix: what precedes matrix.mtx in its name, or, where it is
    called otherwise, as much of its name as two tables have, up to a "_", "." or "-".
    """
    if path.is_file() and source_kind(path) != "mtx_file":
        raise ValueError(f"{path} is no Matrix Market file: {advice(path, 'from_mtx')}")
    if path.is_file():
        return _files_in(path.parent, _prefix_of(path) if prefix is None else prefix, path)
    if not path.is_dir():
        raise FileNotFoundError(f"there is no folder {path}")
    return _files_in(path, prefix or "", None)


def _prefix_of(matrix: Path) -> str:
    match = re.fullmatch(r"(.*)matrix\.mtx(\.gz)?", matrix.name)
    if match is not None:
        return match.group(1)
    ends = [mark.end() for mark in re.finditer("[_.-]", matrix.name)]
    for prefix in (matrix.name[:end] for end in reversed(ends)):
        if all(
            any(matrix.with_name(f"{prefix}{name}{end}").is_file() for name in names for end in GZ)
            for names in (FEATURES, BARCODES)
        ):
            return prefix
    return ""


def _files_in(folder: Path, prefix: str, matrix: Path | None) -> MtxFolder:
    return MtxFolder(
        matrix=matrix or _one_of(folder, prefix, [MATRIX]),
        features=_one_of(folder, prefix, FEATURES),
        barcodes=_one_of(folder, prefix, BARCODES),
    )


def _one_of(folder: Path, prefix: str, names: Sequence[str]) -> Path:
    candidates = [folder / f"{prefix}{name}{end}" for name in names for end in GZ]
    there = [path for path in candidates if path.is_file()]
    if len(there) == 1:
        return there[0]
    if len(there) > 1:
        raise ValueError(
            f"{folder} holds {' and '.join(path.name for path in there)}: move away what is not "
            "meant"
        )
    text = f"{folder} has no {' or '.join(path.name for path in candidates)}"
    prefixes = [re.sub(r"matrix\.mtx(\.gz)?$", "", path.name) for path in matrix_files(folder)]
    others = [other for other in prefixes if other != prefix]
    if others:
        text += f"; choose another matrix that lies there with prefix=: {others}"
    elif MATRIX in names:
        text += matrices_elsewhere(folder)
    raise FileNotFoundError(text)


def feature_table(path: Path, *, var_names: VarNames, make_unique: bool) -> pd.DataFrame:
    """The genes of a table of one (name), two (id, symbol), three (and type) or more columns.

    Every entry is text: a gene may be called NA, nan or ".
    """
    import pandas as pd

    rows = _table(path)
    columns = [list(column) for column in zip(*rows, strict=True)]
    if len(columns) < 2:
        return pd.DataFrame(index=_names(columns[0] if columns else [], make_unique=make_unique))
    identifiers, symbols, *others = columns
    if var_names == "gene_symbols":
        frame = pd.DataFrame({"gene_ids": identifiers}, dtype=default_text_dtype())
        frame.index = _names(symbols, make_unique=make_unique)
    else:
        frame = pd.DataFrame({"gene_symbols": symbols}, dtype=default_text_dtype())
        frame.index = pd.Index(identifiers, dtype=default_text_dtype())
    for number, values in enumerate(others):
        frame[_column_name(number, len(others))] = values
    return frame


def _names(values: list[str], *, make_unique: bool) -> pd.Index:
    """An index of text, repeated entries numbered by anndata's rule if asked for."""
    import pandas as pd
    from anndata.utils import make_index_unique

    names: pd.Index = pd.Index(values, dtype=default_text_dtype())
    if not make_unique:
        return names
    with warnings.catch_warnings():
        # advice about an argument that is not offered here
        warnings.filterwarnings("ignore", "Suffix used", UserWarning)
        unique: pd.Index = make_index_unique(names)
    return unique


def _column_name(number: int, n_others: int) -> str:
    if number == 0:
        return "feature_types"
    if n_others == 1 + len(EXTRA_COLUMNS):
        return EXTRA_COLUMNS[number - 1]
    return f"column_{number + 3}"


def barcode_table(path: Path) -> pd.DataFrame:
    """The cells, named by the first column of the file."""
    import pandas as pd

    barcodes = [row[0] for row in _table(path)]
    return pd.DataFrame(index=pd.Index(barcodes, dtype=default_text_dtype()))


def _table(path: Path) -> list[list[str]]:
    with open_text(path) as file:
        content = whole_text(file, path)
    rows = [line.rstrip("\r").split("\t") for line in content.split("\n")]
    while rows and rows[-1] == [""]:
        rows.pop()
    for number, row in enumerate(rows):
        if len(row) != len(rows[0]):
            raise ValueError(
                f"{path}: line {number + 1} has {len(row)} columns, the first line has "
                f"{len(rows[0])}"
            )
    return rows


def _check_size(text: MatrixMarketFile, folder: MtxFolder, n_obs: int, n_vars: int) -> None:
    for number, there, what, file in (
        (text.n_rows, n_vars, "rows", folder.features),
        (text.n_cols, n_obs, "columns", folder.barcodes),
    ):
        if number != there:
            hint = ""
            if (text.n_rows, text.n_cols) == (n_obs, n_vars):
                hint = "; it seems to hold cells x genes, and must be genes x cells"
            raise ValueError(
                f"{text.path} has {number} {what}, but {file.name} has {there} entries{hint}"
            )


def _turned(text: MatrixMarketFile, turning: Transposition, seen: _Seen) -> Iterator[Turned]:
    """The entries of the file in pieces, each in the order of its cells."""
    # a value takes its text, two indices and itself, and all but the text once more when sorted
    for genes, cells, values in text.pieces(turning.values_at_most):
        if len(values):
            seen.largest = max(seen.largest, _magnitude(values))
        yield in_order(cells, genes, values, turning)


def _magnitude(values: npt.NDArray[Any]) -> float:
    """The largest whole number, of either sign; infinity and fractions round anyway."""
    if values.dtype.kind == "i":
        return float(max(int(values.max()), -int(values.min())))
    whole = np.abs(values[np.isfinite(values) & (values == np.floor(values))])
    return float(whole.max()) if len(whole) else 0.0


def in_order(
    majors: npt.NDArray[Any],
    minors: npt.NDArray[Any],
    values: npt.NDArray[Any],
    turning: Transposition,
) -> Turned:
    """Entries in the order of their majors; those of one major stay in the order they have."""
    if np.any(majors[1:] < majors[:-1]):
        order = np.argsort(majors, kind="stable")
        majors, minors, values = majors[order], minors[order], values[order]
    starts = np.flatnonzero(np.diff(majors, prepend=-1))
    return Turned(
        majors=majors[starts].astype(turning.major_dtype, copy=False),
        counts=np.diff(starts, append=len(majors)).astype(turning.major_dtype, copy=False),
        minors=minors.astype(turning.minor_dtype, copy=False),
        values=values,
    )
