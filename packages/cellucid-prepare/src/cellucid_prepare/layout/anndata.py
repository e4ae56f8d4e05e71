"""The layout of an AnnData."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from cellucid_prepare.checks.columns import ColumnData
from cellucid_prepare.layout.chunks import CELL_CHUNK_ELEMENTS, WHOLE_CHUNK_ELEMENTS
from cellucid_prepare.layout.elements import (
    described,
    expression,
    frame,
    graph,
    mapping,
    table,
)
from cellucid_prepare.layout.nodes import Group, Node, Turn
from cellucid_prepare.matrix.expression import Judged

ANNDATA = {"encoding-type": "anndata", "encoding-version": "0.1.0"}


@dataclass(frozen=True)
class AnnDataParts:
    """Everything that an output of one modality holds, checked."""

    cell_names: Sequence[str]
    obs: Mapping[str, ColumnData]
    gene_names: Sequence[str] = ()
    var: Mapping[str, ColumnData] = field(default_factory=dict)
    X: Judged | None = None
    obsm: Mapping[str, npt.NDArray[np.float32]] = field(default_factory=dict)
    graph: Any = None
    uns: Mapping[str, Any] = field(default_factory=dict)


def anndata_layout(parts: AnnDataParts, threads: int) -> Group:
    """The groups and arrays of an AnnData, in the order of its elements."""
    children: dict[str, Node] = {
        "obs": frame(parts.cell_names, parts.obs, elements=CELL_CHUNK_ELEMENTS),
        "var": frame(
            parts.gene_names,
            parts.var,
            elements=WHOLE_CHUNK_ELEMENTS,
            names_turn=Turn.GENE_NAMES,
        ),
        # by name, as files list them: the bytes do not depend on where they come from
        "obsm": mapping({key: table(parts.obsm[key]) for key in sorted(parts.obsm)}),
        "varm": mapping({}),
        "obsp": mapping({} if parts.graph is None else {"connectivities": graph(parts.graph)}),
        "varp": mapping({}),
        "layers": mapping({}),
        "uns": described(parts.uns),
    }
    if parts.X is not None:
        children["X"] = expression(parts.X, threads)
    return Group(ANNDATA, children)
