"""Names of the genes, and which of them are written."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cellucid_prepare._faults import Faults, Refused, plural, some
from cellucid_prepare.checks.names import (
    LOG,
    is_default_index,
    row_names,
    text_fault,
    unique_names,
)

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Genes:
    """The genes of the output: names, the table of them, and where they come from.

    `places` has the place of each column of the matrix, -1 for those left out; None where all
    genes are written in their order.
    """

    names: list[str]
    frame: pd.DataFrame
    places: npt.NDArray[np.int32] | None


def check_genes(
    var: pd.DataFrame | None,
    n_genes: int,
    id_column: str | None,
    identifiers: Any,
    faults: Faults,
) -> Genes | None:
    """The genes that are written, in their order."""
    import pandas as pd

    if var is not None and len(var) != n_genes:
        faults.add(
            "var", f"has {plural(len(var), 'row')}, the matrix has {n_genes} columns", "align them"
        )
        return None
    frame = pd.DataFrame(index=pd.RangeIndex(n_genes)) if var is None else var
    shown = _shown_names(frame, id_column, faults)
    if is_default_index(frame.index) and n_genes:
        if shown is None:
            if id_column is None:
                faults.add(
                    "var.index",
                    "the genes have no names",
                    "name the rows of var, or pass var_gene_id_column",
                )
            return None
        names = shown
    else:
        try:
            own = row_names(frame.index, "var", faults)
        except Refused:
            return None
        names = unique_names(own, "gene names") if shown is None or id_column else own
        if id_column is None:
            shown = names
    if shown is None:
        return None
    return _chosen(names, shown, frame, identifiers, faults)


def _shown_names(frame: pd.DataFrame, id_column: str | None, faults: Faults) -> list[str] | None:
    """The names that a viewer shows, where a column holds them."""
    import pandas as pd

    if id_column is None:
        return None
    where = f"var[{id_column!r}]"
    if id_column not in frame.columns:
        faults.add(
            "var_gene_id_column",
            f"{id_column!r} is no column of var",
            f"choose one of {[str(name) for name in frame.columns]}"
            if len(frame.columns)
            else "var has no columns; leave it out",
        )
        return None
    column: Any = frame[id_column]
    if getattr(column, "ndim", 1) != 1:
        return None  # two columns of one name are a fault of their own
    missing = column.isna().to_numpy(dtype=bool)
    values = column.to_numpy(dtype=object)
    if isinstance(column.dtype, pd.CategoricalDtype):
        # with gaps among them, pandas makes floats of labels that are whole numbers
        labels = column.cat.categories.astype(object).to_numpy()
        values = np.array([*labels, None], dtype=object)[column.cat.codes]
    named: list[str | None] = []
    for row, value in enumerate(values):
        if missing[row] or value == "":
            named.append(None)
        elif isinstance(value, str) or (
            isinstance(value, int | np.integer) and not isinstance(value, bool | np.bool_)
        ):
            named.append(str(value))
        else:
            faults.add(
                where,
                f"values of type {type(value).__name__} cannot name genes",
                "use text or whole numbers",
            )
            return None
    if any(name is not None and text_fault(name) for name in named):
        return None  # noted with the column
    gaps = sum(name is None for name in named)
    if gaps:
        if is_default_index(frame.index):
            faults.add(
                where, f"{plural(gaps, 'gene', 'have')} no name there", "name the rows of var"
            )
            return None
        LOG.warning("%s: %s without a name keep that of the index", where, plural(gaps, "gene"))
    own = frame.index.astype(object).tolist()
    filled = [str(own[row]) if name is None else name for row, name in enumerate(named)]
    return unique_names(filled, f"gene names in {where}")


def _chosen(
    names: list[str], shown: list[str], frame: pd.DataFrame, identifiers: Any, faults: Faults
) -> Genes | None:
    if identifiers is None:
        return Genes(names, frame, None)
    where = "gene_identifiers"
    wanted = _identifier_list(identifiers)
    if wanted is None:
        faults.add_type(where, "is no sequence of names", "pass a list of gene names")
        return None
    if len(set(wanted)) != len(wanted):
        twice = sorted(name for name, count in Counter(wanted).items() if count > 1)
        faults.add(where, f"names genes twice: {some(twice)}", "name each once")
        return None
    position = {name: place for place, name in enumerate(shown)}
    unknown = [name for name in wanted if name not in position]
    if unknown:
        faults.add(
            where,
            f"{plural(len(unknown), 'name')} of no gene: {some(unknown)}",
            "use the names that are shown, repeats made unique",
        )
        return None
    columns = np.array([position[name] for name in wanted], dtype=np.int64)
    places = np.full(len(names), -1, np.int32)
    places[columns] = np.arange(len(columns), dtype=np.int32)
    return Genes([names[column] for column in columns], frame.iloc[columns], places)


def _identifier_list(identifiers: Any) -> list[str] | None:
    if isinstance(identifiers, str | bytes) or not hasattr(identifiers, "__iter__"):
        return None
    names = list(identifiers)
    return [str(name) for name in names] if all(isinstance(name, str) for name in names) else None
