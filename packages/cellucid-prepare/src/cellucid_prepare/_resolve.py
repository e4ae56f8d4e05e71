"""From components as given to the checked parts of an output."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cellucid_prepare._faults import Faults, Refused, plural
from cellucid_prepare.checks.columns import ColumnData, check_columns, codes_of
from cellucid_prepare.checks.embeddings import (
    check_embeddings,
    check_vector_fields,
    parse_field_key,
)
from cellucid_prepare.checks.expression import check_expression
from cellucid_prepare.checks.genes import Genes, check_genes
from cellucid_prepare.checks.graph import check_graph
from cellucid_prepare.checks.names import row_names, unique_names
from cellucid_prepare.inputs.components import Components
from cellucid_prepare.inputs.matrices import expression_source
from cellucid_prepare.layout.elements import quantiles
from cellucid_prepare.matrix.expression import Expression, Judged
from cellucid_prepare.matrix.native import outlier_shares

Coordinates = npt.NDArray[np.float32]


@dataclass
class Cells:
    """The cells of an output: how many, their names and columns."""

    n_cells: int
    names: list[str]
    columns: dict[str, ColumnData]


@dataclass
class GeneParts:
    """The genes and their matrix."""

    names: list[str]
    columns: dict[str, ColumnData]
    matrix: Judged | None


def resolve_obsm(
    components: Components, faults: Faults
) -> tuple[dict[str, Coordinates], list[str]]:
    """obsm with embeddings before vector fields, and the keys of the embeddings."""
    embeddings = check_embeddings(components.embeddings, faults, is_data=components.is_data)
    fields: dict[str, Coordinates] = {}
    if components.vector_fields is not None:
        fields = check_vector_fields(components.vector_fields, embeddings, faults)
    lengths = {key: len(array) for key, array in embeddings.items()}
    n_cells = next(iter(lengths.values()), None)
    for key, array in {**embeddings, **fields}.items():
        if len(array) != n_cells:
            faults.add(
                f"obsm[{key!r}]",
                f"has {plural(len(array), 'row')}, the first embedding has {n_cells}",
                "give a row for each cell",
            )
    if n_cells == 0:
        faults.add("obsm", "there is no cell", "give at least one")
    return {**embeddings, **fields}, list(embeddings)


def resolve_cells(obs: Any, n_cells: int, faults: Faults, *, where: str = "obs") -> Cells | None:
    """obs, for that many cells."""
    import pandas as pd

    if obs is None:
        return Cells(n_cells, [str(number) for number in range(n_cells)], {})
    if not isinstance(obs, pd.DataFrame):
        faults.add_type(where, f"is a {type(obs).__name__}", "pass a pandas DataFrame")
        return None
    if len(obs) != n_cells:
        faults.add(
            where,
            f"has {plural(len(obs), 'row')}, the embeddings have {n_cells}",
            "give a row for each cell",
        )
        return None
    columns = check_columns(obs, where, faults)
    try:
        names = row_names(obs.index, where, faults)
    except Refused:
        return None
    return Cells(n_cells, unique_names(names, "cell names"), columns)


def resolve_genes(
    components: Components,
    n_cells: int,
    id_column: str | None,
    identifiers: Any,
    faults: Faults,
    *,
    where: str = "X",
) -> GeneParts:
    """The expression matrix with its genes; empty where there is none."""
    import pandas as pd

    var = components.var
    if var is not None and not isinstance(var, pd.DataFrame):
        faults.add_type("var", f"is a {type(var).__name__}", "pass a pandas DataFrame")
        return GeneParts([], {}, None)
    if components.X is None:
        if var is not None:
            faults.add("var", "describes genes, and there is no matrix", "pass gene_expression")
        if identifiers is not None:
            faults.add("gene_identifiers", "there is no matrix to take genes from")
        if id_column is not None:
            faults.add("var_gene_id_column", "there is no matrix, so there are no genes")
        return GeneParts([], {}, None)
    source = expression_source(components.X, where, faults)
    if source is None:
        return GeneParts([], {}, None)
    genes = check_genes(var, source.shape[1], id_column, identifiers, faults)
    if source.shape[0] != n_cells:
        faults.add(
            where,
            f"has {plural(source.shape[0], 'row')}, and there are {plural(n_cells, 'cell')}",
            "give cells x genes; transpose a matrix of genes x cells",
        )
        return GeneParts([], {}, None)
    return _with_matrix(source, genes, faults, where)


def _with_matrix(source: Any, genes: Genes | None, faults: Faults, where: str) -> GeneParts:
    if genes is None:
        # the values are judged all the same, for one report of everything
        check_expression(Expression(source, source.shape[1]), where, faults)
        return GeneParts([], {}, None)
    columns = check_columns(genes.frame, "var", faults)
    matrix = check_expression(
        Expression(source, len(genes.names), genes.places), where, faults, genes.names
    )
    return GeneParts(genes.names, columns, matrix)


def resolve_graph(graph: Any, n_cells: int, faults: Faults) -> Any:
    """The graph of neighbours."""
    return None if graph is None else check_graph(graph, n_cells, faults)


def resolve_quantiles(
    cells: Cells, latent: Coordinates, latent_key: str, cells_min: int
) -> dict[str, Any]:
    """``uns['cellucid']['outlierQuantiles']``: every column that sorts cells into categories.

    A column of which no category is large enough is left out.
    """
    fields: dict[str, Any] = {}
    for name, column in cells.columns.items():
        coded = codes_of(column)
        if coded is None:
            continue
        codes, n_categories = coded
        # found out first: where each cell has a category of its own, centres take much memory
        if np.bincount(codes[codes >= 0]).max(initial=0) < cells_min:
            continue
        shares = outlier_shares(
            latent, np.ascontiguousarray(codes), n_categories, cells_min=cells_min
        )
        fields[name] = quantiles(shares)
    return {"latentKey": latent_key, "minPoints": cells_min, "fields": fields}


def vector_keys(obsm: Mapping[str, Any], embeddings: list[str]) -> dict[str, tuple[str, str]]:
    """The keys of obsm that are vector fields, with field and embedding."""
    known = dict.fromkeys(embeddings)
    keys = {key: parse_field_key(key, known) for key in obsm if key not in known}
    return {key: read_as for key, read_as in keys.items() if read_as is not None}
