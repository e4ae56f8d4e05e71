"""Elements as anndata encodes them: tables, columns, arrays, matrices, uns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from cellucid_prepare.checks.columns import (
    CategoryColumn,
    ColumnData,
    GappedColumn,
    NumberColumn,
    TextColumn,
)
from cellucid_prepare.layout.chunks import (
    CELL_CHUNK_ELEMENTS,
    SLICED_CHUNK_ELEMENTS,
    WHOLE_CHUNK_ELEMENTS,
    gene_strip_chunk,
    index_dtype,
    table_chunk,
    vector_chunk,
)
from cellucid_prepare.layout.nodes import ArraySpec, Bundle, Group, Node, Numbers, Text, Turn
from cellucid_prepare.matrix.expression import Judged

ARRAY = {"encoding-type": "array", "encoding-version": "0.2.0"}
STRINGS = {"encoding-type": "string-array", "encoding-version": "0.2.0"}
STRING = {"encoding-type": "string", "encoding-version": "0.2.0"}
SCALAR = {"encoding-type": "numeric-scalar", "encoding-version": "0.2.0"}
DICT = {"encoding-type": "dict", "encoding-version": "0.1.0"}
INDEX = "_index"


def mapping(children: Mapping[str, Node]) -> Group:
    """A dictionary of elements."""
    return Group(DICT, children)


def vector(
    values: npt.NDArray[Any], elements: int = WHOLE_CHUNK_ELEMENTS, turn: Turn = Turn.REST
) -> Numbers:
    """A one-dimensional array."""
    return Numbers(values, (vector_chunk(len(values), elements),), ARRAY, turn)


def texts(
    values: Sequence[str], elements: int = WHOLE_CHUNK_ELEMENTS, turn: Turn = Turn.REST
) -> Text:
    """A one-dimensional array of text."""
    return Text(list(values), vector_chunk(len(values), elements), STRINGS, turn)


def table(values: npt.NDArray[Any]) -> Numbers:
    """Numbers with a row for each cell."""
    n_rows, n_columns = values.shape
    return Numbers(values, table_chunk(n_rows, n_columns), ARRAY)


def frame(
    names: Sequence[str],
    columns: Mapping[str, ColumnData],
    *,
    elements: int,
    names_turn: Turn = Turn.REST,
) -> Group:
    """obs or var; `elements` is how many rows a chunk has."""
    children: dict[str, Node] = {INDEX: texts(names, elements, names_turn)}
    for name, column in columns.items():
        children[name] = column_node(column, elements)
    attributes = {
        "encoding-type": "dataframe",
        "encoding-version": "0.2.0",
        "_index": INDEX,
        "column-order": list(columns),
    }
    return Group(attributes, children)


def column_node(column: ColumnData, elements: int) -> Node:
    """One column of a table."""
    if isinstance(column, NumberColumn):
        return vector(column.values, elements)
    if isinstance(column, TextColumn):
        return texts(column.values, elements)
    if isinstance(column, GappedColumn):
        kind = "boolean" if column.values.dtype == np.bool_ else "integer"
        attributes = {"encoding-type": f"nullable-{kind}", "encoding-version": "0.1.0"}
        parts = {"values": vector(column.values, elements), "mask": vector(column.mask, elements)}
        return Group(attributes, parts)
    return _categorical(column, elements)


def _categorical(column: CategoryColumn, elements: int) -> Group:
    attributes = {
        "encoding-type": "categorical",
        "encoding-version": "0.2.0",
        "ordered": column.ordered,
    }
    labels: Node = (
        texts(column.labels, turn=Turn.LABELS)
        if isinstance(column.labels, list)
        else vector(column.labels, turn=Turn.LABELS)
    )
    return Group(attributes, {"categories": labels, "codes": vector(column.codes, elements)})


def graph(matrix: Any) -> Group:
    """A square CSR matrix over the cells."""
    pointers = index_dtype(int(matrix.indptr[-1]))
    parts = {
        "data": matrix.data,
        "indices": matrix.indices.astype(index_dtype(matrix.shape[1]), copy=False),
        "indptr": matrix.indptr.astype(pointers, copy=False),
    }
    return Group(
        _sparse_attributes("csr_matrix", matrix.shape),
        {
            name: Numbers(values, (vector_chunk(len(values), WHOLE_CHUNK_ELEMENTS),), {})
            for name, values in parts.items()
        },
    )


def _sparse_attributes(encoding: str, shape: tuple[int, int]) -> dict[str, Any]:
    return {
        "encoding-type": encoding,
        "encoding-version": "0.1.0",
        "shape": [int(length) for length in shape],
    }


def expression(matrix: Judged, threads: int) -> Node:
    """X: by gene in CSC, or strips of genes where it is dense."""
    n_cells, n_genes = matrix.expression.n_cells, matrix.expression.n_genes
    if matrix.expression.is_dense:
        chunks = gene_strip_chunk(n_cells, n_genes)
        spec = ArraySpec((n_cells, n_genes), matrix.dtype, chunks, ARRAY, shuffled=False)
        return Bundle({"X": spec}, matrix.strips)
    indptr = matrix.indptr
    n_values = int(indptr[-1])
    chunk = (vector_chunk(n_values, SLICED_CHUNK_ELEMENTS),)
    pointers = indptr.astype(index_dtype(n_values))
    arrays = {
        "data": ArraySpec((n_values,), matrix.dtype, chunk, {}, shuffled=False),
        "indices": ArraySpec((n_values,), index_dtype(n_cells), chunk, {}, shuffled=True),
    }
    pointer_chunk = (vector_chunk(len(pointers), WHOLE_CHUNK_ELEMENTS),)
    return Group(
        _sparse_attributes("csc_matrix", (n_cells, n_genes)),
        {"indptr": Numbers(pointers, pointer_chunk, {}, Turn.POINTERS)},
        Bundle(arrays, lambda: matrix.sliced(threads)),
    )


def described(values: Mapping[str, Any]) -> Group:
    """A dictionary of text, flags, whole numbers and lists, as uns holds them."""
    return mapping({name: _described(value) for name, value in values.items()})


def _described(value: Any) -> Node:
    turn = Turn.DESCRIPTION
    if isinstance(value, Mapping):
        return described(value)
    if isinstance(value, Group | Numbers | Text):
        return value
    if isinstance(value, str):
        return Text(value, 1, STRING, turn)
    if isinstance(value, list):
        return texts(value, turn=turn)
    if isinstance(value, np.ndarray):
        return vector(value, turn=turn)
    dtype = np.bool_ if isinstance(value, bool) else np.int64
    return Numbers(np.array(value, dtype), (), SCALAR, turn)


def quantiles(values: npt.NDArray[np.float32]) -> Numbers:
    """The outlier quantiles of one column."""
    return vector(values, CELL_CHUNK_ELEMENTS, Turn.QUANTILES)
