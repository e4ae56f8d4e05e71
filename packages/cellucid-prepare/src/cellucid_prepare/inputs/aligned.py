"""Tables that were given by hand, in the order of the cells and genes of the output."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cellucid_prepare._faults import Faults, plural, some
from cellucid_prepare.checks.names import LOG, is_default_index
from cellucid_prepare.inputs.components import Components, OfData

if TYPE_CHECKING:
    import pandas as pd

PER_CELL = ("X", "graph", "embeddings", "vector_fields")


def aligned(
    by_hand: Components, held: Components, faults: Faults, *, cells_stay: bool = False
) -> Components:
    """`by_hand` with its tables in the order of the cells and genes of `held`, the data.

    Where the data gives nothing that has a row for each cell (`cells_stay` says that it does all
    the same) and obs names other cells, the first table with names gives the order of the others.
    What has no names keeps its order.
    """
    import pandas as pd

    stay = cells_stay or _stay(by_hand, held) or _same_cells(by_hand.obs, held.obs)
    cells = _Names("cell", held.obs.index if stay and held.obs is not None else None, faults)

    def rows(value: Any, where: str) -> Any:
        return cells.rows(value, where) if isinstance(value, pd.DataFrame | pd.Series) else value

    given = replace(by_hand, obs=rows(by_hand.obs, "obs"))
    if isinstance(given.embeddings, Mapping):
        given.embeddings = {
            key: rows(value, f"obsm[{key!r}]") for key, value in given.embeddings.items()
        }
    if isinstance(given.vector_fields, Mapping):
        given.vector_fields = {
            field: {
                key: rows(value, f"vector_fields[{field!r}][{key!r}]")
                for key, value in arrays.items()
            }
            if isinstance(arrays, Mapping)
            else arrays
            for field, arrays in given.vector_fields.items()
        }
    given.X = rows(given.X, "X")
    given.graph = rows(given.graph, "obsp['connectivities']")
    if isinstance(given.graph, pd.DataFrame):
        given.graph = cells.columns(given.graph, "obsp['connectivities'] columns")
    _align_genes(given, held, faults)
    return given


def _stay(by_hand: Components, held: Components) -> bool:
    """Whether a part of the data that has a row for each cell is written."""
    kept = any(
        getattr(by_hand, part) is None and getattr(held, part) is not None for part in PER_CELL
    )
    fields = by_hand.vector_fields if isinstance(by_hand.vector_fields, Mapping) else {}
    groups = [{"X": by_hand.X}, by_hand.embeddings, *fields.values()]
    return kept or any(
        isinstance(value, OfData)
        for group in groups
        if isinstance(group, Mapping)
        for value in group.values()
    )


def _same_cells(given: Any, held: Any) -> bool:
    import pandas as pd

    both = isinstance(given, pd.DataFrame) and held is not None
    return given is None or (both and set(given.index) == set(held.index))


def _align_genes(given: Components, held: Components, faults: Faults) -> None:
    """var and the columns of X. A table of X names the genes where var does not."""
    import pandas as pd

    var = held.var if given.var is None else given.var
    if isinstance(given.X, pd.DataFrame):
        if var is None and not is_default_index(given.X.columns):
            given.var = pd.DataFrame(index=given.X.columns)
        elif isinstance(var, pd.DataFrame) and not is_default_index(var.index):
            given.X = _Names("gene", var.index, faults).columns(given.X, "X columns")
    elif (
        isinstance(given.var, pd.DataFrame)
        and held.var is not None
        and (given.X is None or isinstance(given.X, OfData))
    ):
        given.var = _Names("gene", held.var.index, faults).rows(given.var, "var")


class _Names:
    """Names of cells or genes, whose order tables get; None until a table gives some."""

    def __init__(self, noun: str, names: pd.Index | None, faults: Faults) -> None:
        self._noun = noun
        self._names = None if names is None else _texts(names)
        self._faults = faults

    def rows(self, table: Any, where: str) -> Any:
        """`table` with its rows in the order of the names."""
        order = self._order(table.index, where)
        return table if order is None else table.iloc[order]

    def columns(self, table: pd.DataFrame, where: str) -> pd.DataFrame:
        """`table` with its columns in the order of the names."""
        order = self._order(table.columns, where)
        return table if order is None else table.iloc[:, order]

    def _order(self, index: pd.Index, where: str) -> npt.NDArray[np.intp] | None:
        """Where each name stands in `index`; None where the order stays as it is.

        Other names are a fault. So are repeated names in another order.
        """
        if is_default_index(index) or index.nlevels > 1:
            return None
        here, there = _texts(index), self._names
        if there is None:
            self._names = here
            return None
        if len(here) != len(there) or here.equals(there):
            return None  # another number is a fault wherever the table comes from
        if here.is_unique and there.is_unique and here.isin(there).all():
            return here.get_indexer(there)
        if there.tolist() == [str(number) for number in range(len(there))]:
            LOG.warning(
                "%s: the data only numbers its %ss, so they are taken in the order of the table",
                where,
                self._noun,
            )
            return None
        self._refuse(here, there, where)
        return None

    def _refuse(self, here: Any, there: Any, where: str) -> None:
        # without names obs would number the cells of the output
        mend = "give the table their names" if where in ("obs", "var") else "pass .to_numpy()"
        unknown = here[~here.isin(there)].unique()
        missing = there[~there.isin(here)].unique()
        if len(unknown):
            problem = f"{plural(len(unknown), 'name')} of no {self._noun}: {some(unknown)}"
            problem += f"; it lacks {some(missing)}" if len(missing) else ""
        else:
            problem = f"names of {self._noun}s repeat, and their order is not that of the others"
        self._faults.add(
            where,
            problem,
            f"use the names of the {self._noun}s; where the order is the same, {mend}",
            n_cells=len(unknown) if len(unknown) and self._noun == "cell" else None,
        )


def _texts(names: pd.Index) -> pd.Index:
    import pandas as pd

    return pd.Index([str(name) for name in names], dtype=object)
