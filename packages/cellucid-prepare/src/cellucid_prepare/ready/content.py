"""Rules on what a file holds: tables, matrices and embeddings that viewers understand."""

from __future__ import annotations

from typing import Any

import numpy as np

from cellucid_prepare._faults import plural
from cellucid_prepare.checks.names import check_element_names
from cellucid_prepare.ready.report import PREPARE, Findings
from cellucid_prepare.ready.storage import check_matrix, check_pieces
from cellucid_prepare.ready.tree import StoredArray, StoredGroup, encoding, place
from scx_core._label_codes import codes_problem

NUMBERS = "biuf"
OLD = "is stored as versions of anndata before 0.7 did, which viewers do not read"
UNREAD = ("raw", "layers", "varm", "varp")
# values of embeddings that are looked at together
BLOCK_ELEMENTS = 1 << 22


def check_modality(group: StoredGroup, findings: Findings) -> tuple[int, int]:
    """The tables, X, embeddings and graph of an AnnData; how many cells and genes it has."""
    n_cells = check_table(group, "obs", findings)
    n_genes = check_table(group, "var", findings)
    X = group.children.get("X")
    if X is not None and encoding(X) != "null":
        _check_values(X, (n_cells, n_genes), findings)
        check_matrix(X, findings)
    check_embeddings(group, n_cells, findings)
    check_graph(group, n_cells, findings)
    for name in UNREAD:
        there = group.group(name)
        if there is not None and there.children:
            findings.note(place(there.path), "takes space, and no viewer reads it", "leave it out")
    return n_cells, n_genes


def check_table(group: StoredGroup, name: str, findings: Findings) -> int:
    """obs or var; how many rows it has."""
    item = group.children.get(name)
    where = place(f"{group.path}/{name}")
    if item is None:
        findings.fault(where, "is missing")
        return 0
    if isinstance(item, StoredArray):
        findings.fault(where, OLD)
        return item.shape[0] if item.shape else 0
    if encoding(item) != "dataframe":
        findings.fault(where, OLD)
    index_name = item.attributes.get("_index", "_index")
    index = item.children.get(str(index_name))
    if index is None:
        findings.fault(where, "has no names of its rows")
        return 0
    n_rows = _length(index)
    if not (isinstance(index, StoredArray) and index.kind == "T"):
        findings.fault(f"{where}.index", f"is {_described(index)}, and viewers read plain text")
    elif len(index.shape) != 1:
        findings.fault(f"{where}.index", f"is {_described(index)}, not of one")
    elif name == "obs":
        check_pieces(index, findings)
    _check_columns(item, where, str(index_name), n_rows, findings)
    return n_rows


def _check_columns(
    table: StoredGroup, where: str, index: str, n_rows: int, findings: Findings
) -> None:
    listed = table.attributes.get("column-order")
    names = [name for name in table.children if name not in (index, "__categories")]
    listed = listed if isinstance(listed, list) else []
    for name in listed:
        if name not in table.children:
            findings.fault(f"{where}[{name!r}]", "is listed and not there")
    for name in names:
        if name not in listed:
            findings.fault(
                f"{where}[{name!r}]", "is there and not listed in column-order, so nobody reads it"
            )
    check_element_names(names, where, findings.faults)
    for name in names:
        column = table.children[name]
        _check_column(column, findings)
        if _length(column) != n_rows:
            findings.fault(
                place(column.path), f"has {plural(_length(column), 'value')} for {n_rows:,} rows"
            )


def _check_column(column: StoredArray | StoredGroup, findings: Findings) -> None:
    where = place(column.path)
    if isinstance(column, StoredArray):
        if "categories" in column.attributes:
            findings.fault(where, "has its labels elsewhere, as before anndata 0.8")
        elif len(column.shape) != 1:
            findings.fault(where, f"is {_described(column)}, not of one")
        elif column.kind not in "T" + NUMBERS or (column.item_bytes > 8 and column.kind != "T"):
            findings.fault(where, f"is {_described(column)}, which viewers do not read")
        else:
            check_pieces(column, findings)
        return
    kind = encoding(column)
    parts = {
        "categorical": ("codes", "categories"),
        "nullable-integer": ("values", "mask"),
        "nullable-boolean": ("values", "mask"),
    }.get(kind)
    if parts is None:
        mend = "make it labels (categories) or text without gaps, or " + PREPARE
        findings.fault(where, f"is {_described(column)}, which viewers do not read", mend)
        return
    for name in parts:
        part = column.array(name)
        if part is None:
            findings.fault(where, f"has no plain {name}")
        elif len(part.shape) != 1:
            findings.fault(where, f"has {name} of {len(part.shape)} axes, not of one")
        elif name == "codes" and part.kind != "i":
            findings.fault(where, f"has codes of type {part.kind}, not signed integers")
        else:
            check_pieces(part, findings)
            if name == "codes":
                _check_codes(column, part, findings)


def _check_codes(column: StoredGroup, codes: StoredArray, findings: Findings) -> None:
    where = place(column.path)
    if not isinstance(column.attributes.get("ordered"), bool | int):
        findings.fault(where, "does not say whether its labels are ordered")
    labels = column.array("categories")
    if labels is None or codes.undecodable:
        return
    values = _values(codes, findings)
    problem = codes_problem(values, _length(labels))
    if problem is not None:
        findings.fault(where, problem)


def _check_values(X: StoredArray | StoredGroup, shape: tuple[int, int], findings: Findings) -> None:
    where = place(X.path)
    stored = shape_of(X)
    if stored != shape:
        findings.fault(where, f"is {_times(stored)}, and obs and var are for {_times(shape)}")
        return
    values = X if isinstance(X, StoredArray) else X.array("data")
    if values is None or values.kind not in NUMBERS:
        findings.fault(where, "holds no numbers")
        return
    if values.kind in "iu" and values.item_bytes == 8:
        findings.note(
            where, "has integers of 64 bits: larger, and slower in a browser", "use float32"
        )
    if isinstance(X, StoredGroup):
        _check_pointers(X, shape, findings)


def _check_pointers(X: StoredGroup, shape: tuple[int, int], findings: Findings) -> None:
    where = place(X.path)
    parts = [X.array(name) for name in ("data", "indices", "indptr")]
    if any(part is None for part in parts):
        findings.fault(where, "lacks one of data, indices and indptr")
        return
    data, indices, indptr = (part for part in parts if part is not None)
    if indices.kind not in "iu" or indptr.kind not in "iu":
        findings.fault(where, "has indices or pointers that are no whole numbers: it is damaged")
        return
    if any(len(part.shape) != 1 for part in (data, indices, indptr)):
        findings.fault(where, "has data, indices or indptr of other than one axis: it is damaged")
        return
    n_majors = shape[1 if encoding(X) == "csc_matrix" else 0]
    pointers = np.asarray(_values(indptr, findings), dtype=np.int64)
    if (
        len(pointers) != n_majors + 1
        or pointers[0] != 0
        or (np.diff(pointers) < 0).any()
        or pointers[-1] != data.size
        or data.size != indices.size
    ):
        findings.fault(where, "its pointers do not fit its values: it is damaged")
        return
    n_minors = shape[0 if encoding(X) == "csc_matrix" else 1]
    for start in range(0, indices.size if not indices.undecodable else 0, BLOCK_ELEMENTS):
        some = _values(indices, findings, start, min(start + BLOCK_ELEMENTS, indices.size))
        if not len(some):
            return  # what cannot be read has a fault of its own
        if int(some.min()) < 0 or int(some.max()) >= n_minors:
            findings.fault(where, "has indices that lie outside of it: it is damaged")
            return


def check_embeddings(group: StoredGroup, n_cells: int, findings: Findings) -> dict[str, int]:
    """obsm: finite numbers, a row for each cell; the columns of each member."""
    widths: dict[str, int] = {}
    obsm = group.group("obsm")
    if obsm is None:
        return widths
    check_element_names(obsm.children, place(obsm.path), findings.faults)
    for name, item in obsm.children.items():
        where = place(item.path)
        if not isinstance(item, StoredArray) or item.kind not in NUMBERS or len(item.shape) > 2:
            findings.note(where, f"is {_described(item)}, which no viewer shows", "leave it out")
            continue
        widths[name] = item.shape[1] if len(item.shape) == 2 else 1
        if item.shape[0] != n_cells:
            findings.fault(where, f"has {plural(item.shape[0], 'row')} for {n_cells:,} cells")
            continue
        check_pieces(item, findings)
        bad = _not_finite(item, findings)
        if bad:
            mend = "leave these cells out, or compute it anew"
            findings.fault(where, f"{plural(bad, 'cell', 'have')} NaN or infinite values", mend)
        if item.kind == "f" and item.item_bytes == 8:
            findings.note(where, "is float64, twice as large as float32", "use float32")
    return widths


def _not_finite(item: StoredArray, findings: Findings) -> int:
    if item.kind != "f" or item.undecodable:
        return 0
    step = max(1, BLOCK_ELEMENTS // max(1, item.size // max(1, item.shape[0])))
    bad = 0
    for start in range(0, item.shape[0], step):
        values = _values(item, findings, start, min(start + step, item.shape[0]))
        if not len(values):
            return bad  # what cannot be read has a fault of its own
        bad += int((~np.isfinite(values.reshape(len(values), -1)).all(axis=1)).sum())
    return bad


def check_graph(group: StoredGroup, n_cells: int, findings: Findings) -> None:
    """obsp: the graph of neighbours, over the cells."""
    obsp = group.group("obsp")
    for name, item in (obsp.children if obsp is not None else {}).items():
        if name != "connectivities":
            findings.note(place(item.path), "takes space, and no viewer reads it", "leave it out")
        elif shape_of(item) != (n_cells, n_cells):
            findings.fault(place(item.path), f"is {_times(shape_of(item))}, not over the cells")
        else:
            _check_values(item, (n_cells, n_cells), findings)


def shape_of(item: StoredArray | StoredGroup) -> tuple[int, ...]:
    """The shape of a matrix, dense or sparse."""
    if isinstance(item, StoredArray):
        return item.shape
    given = item.attributes.get("shape")
    return tuple(int(length) for length in given) if isinstance(given, list) else ()


def _values(item: StoredArray, findings: Findings, start: int = 0, stop: int = -1) -> Any:
    """Entries of an array; none, with a fault, where they cannot be read."""
    try:
        return item.values() if stop < 0 else item.read(start, stop)
    except Exception as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else repr(error)
        findings.fault(place(item.path), f"cannot be read, it is damaged: {reason}")
        return np.zeros(0)


def _length(item: StoredArray | StoredGroup) -> int:
    if isinstance(item, StoredArray):
        return item.shape[0] if item.shape else 0
    for name in ("codes", "values", "mask"):
        part = item.array(name)
        if part is not None:
            return part.shape[0] if part.shape else 0
    return 0


def _described(item: StoredArray | StoredGroup) -> str:
    kind = encoding(item)
    if kind and kind not in ("array", "dict"):
        return f"of the kind {kind}"
    if isinstance(item, StoredGroup):
        return "a group"
    names = {"T": "text", "V": "records", "O": "objects", "c": "complex numbers"}
    numbers = f"numbers of {item.item_bytes} bytes" if item.kind in NUMBERS else "bytes"
    return f"{names.get(item.kind, numbers)} of {len(item.shape)} axes"


def _times(shape: tuple[int, ...]) -> str:
    return " x ".join(f"{length:,}" for length in shape) or "without a shape"
