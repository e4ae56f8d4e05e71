"""The components of an AnnData: in memory, a view, backed by a file, or lazy; also of a `Part`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from cellucid_prepare._faults import Faults
from cellucid_prepare.checks.embeddings import split_obsm
from cellucid_prepare.inputs.components import Components, identity_in
from cellucid_prepare.inputs.matrices import reading_means
from cellucid_prepare.inputs.selected import selected
from scx_core.sources.anndata_memory import components_in_memory, frame_in_memory
from scx_core.sources.h5_matrices import matrix_source as source_on_disk


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
        layers=_Layers(adata),
        graph=graph_in(adata.obsp),
        identity=identity,
        defaults=defaults,
        is_data=True,
    )
    obsm = components_in_memory(adata.obsm)
    add_obsm(components, obsm)
    components.left_out = members_left_out(adata, obsm)
    components.left_out["layers"] = list(components.layers)
    if adata.raw is not None:
        components.left_out["raw"] = ["X", "var"]
    return components


def matrix_of(adata: Any) -> Any:
    """X as something that can be read in blocks of cells."""
    if not getattr(adata, "isbacked", False):
        return adata.X
    if not adata.is_view:
        return _stored_matrix(adata)
    some = _stored_selection(adata)
    return adata.X if some is None else some


def _stored_matrix(adata: Any) -> Any:
    file = adata.file
    if not file.is_open:
        file.open()  # `closed_as_before` closes it again
    return file["X"] if "X" in file else None  # noqa: SIM401  (it has no get)


def _stored_selection(view: Any) -> Any:
    """X of a view of what is backed by a file, which `view.X` would load; None where it must."""
    whole: Any = getattr(view, "_adata_ref", None)
    chosen = [getattr(view, name, None) for name in ("_oidx", "_vidx")]
    stored = None if whole is None else _stored_matrix(whole)
    if stored is None or any(index is None for index in chosen):
        return None
    rows, columns = (
        np.arange(length, dtype=np.int64)[index]
        for length, index in zip(whole.shape, chosen, strict=True)
    )
    means = reading_means()
    return selected(source_on_disk(stored, means), np.ravel(rows), np.ravel(columns), means)


class _Layers(Mapping[str, Any]):
    """The layers by name; since anndata 0.13 X stands among them too, under None."""

    def __init__(self, adata: Any) -> None:
        self._layers = adata.layers

    def __getitem__(self, name: str) -> Any:
        return self._layers[name]

    def __iter__(self) -> Iterator[str]:
        return (name for name in self._layers if name is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def members_left_out(data: Any, obsm: Mapping[str, Any]) -> dict[str, list[str]]:
    """By kind, the names of what an output does not hold of an AnnData, a MuData or their like."""
    kept = {"obsm": numeric_arrays(obsm), "obsp": {"connectivities"}, "uns": {"cellucid", "title"}}
    there = {
        "obsm": obsm,
        **{kind: getattr(data, kind) for kind in ("obsp", "varm", "varp", "uns")},
    }
    return {
        kind: [str(key) for key in members if key not in kept.get(kind, ())]
        for kind, members in there.items()
    }


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
    """The members that are arrays of numbers, of one or two axes; frames, text, flags are none."""
    return {key: value for key, value in obsm.items() if _is_numeric(value)}


def _is_numeric(value: Any) -> bool:
    import scipy.sparse as sp

    if not (isinstance(value, np.ndarray) or sp.issparse(value)):
        return False
    array: Any = value
    return array.dtype.kind in "iuf" and array.ndim in (1, 2)
