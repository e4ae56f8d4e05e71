"""The components of an AnnData: in memory, a view, backed by a file, or lazy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from cellucid_prepare._faults import Faults
from cellucid_prepare.checks.embeddings import split_obsm
from cellucid_prepare.inputs.components import Components, identity_in
from scx_core.sources.anndata_memory import components_in_memory, frame_in_memory


def anndata_components(adata: Any, faults: Faults) -> Components:
    """What `adata` holds of an output; it stays as it is."""
    uns = adata.uns
    try:
        identity, defaults = identity_in(uns.get("cellucid"))
    except TypeError as error:
        faults.add_type("uns['cellucid']", f"is a {error}, not a dictionary", "remove it")
        identity, defaults = {}, {}
    X = matrix_of(adata)
    components = Components(
        obs=frame_in_memory(adata.obs),
        var=None if X is None else frame_in_memory(adata.var),
        X=X,
        graph=graph_in(adata.obsp),
        identity=identity,
        defaults=defaults,
        is_data=True,
    )
    add_obsm(components, components_in_memory(adata.obsm))
    return components


def matrix_of(adata: Any) -> Any:
    """X as something that can be read in blocks of cells."""
    if getattr(adata, "isbacked", False) and not adata.is_view:
        file = adata.file
        if not file.is_open:
            file.open()
        return file["X"] if "X" in file else None  # noqa: SIM401  (it has no get)
    return adata.X


def graph_in(obsp: Mapping[str, Any]) -> Any:
    """The graph of neighbours."""
    if "connectivities" not in obsp:
        return None
    return components_in_memory({"connectivities": obsp["connectivities"]})["connectivities"]


def add_obsm(components: Components, obsm: Mapping[str, Any]) -> None:
    """Give `components` the embeddings and vector fields of `obsm`."""
    embeddings, fields = split_obsm(numeric_arrays(obsm))
    components.embeddings = embeddings
    by_field: dict[str, dict[str, Any]] = {}
    for key, (name, embedding) in fields.items():
        by_field.setdefault(name, {})[embedding] = obsm[key]
    components.vector_fields = by_field or None


def numeric_arrays(obsm: Mapping[str, Any]) -> dict[str, Any]:
    """The members that are arrays of numbers, of one or two axes; frames and text are none."""
    return {key: value for key, value in obsm.items() if _is_numeric(value)}


def _is_numeric(value: Any) -> bool:
    import scipy.sparse as sp

    if not (isinstance(value, np.ndarray) or sp.issparse(value)):
        return False
    array: Any = value
    return array.dtype.kind in "biuf" and array.ndim in (1, 2)
