"""A MuData object as content for the writer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from scx_core._errors import NameNotFoundError
from scx_core.sources.anndata_memory import (
    components_in_memory,
    frame_in_memory,
    layer_names,
    modality_from_anndata,
)
from scx_core.sources.base import ExperimentContent, ModalityContent

if TYPE_CHECKING:
    import mudata


def content_from_mudata(
    mdata: mudata.MuData, *, layers: Sequence[str] | None = None
) -> ExperimentContent:
    """Describe `mdata` for `write_experiment`. The object stays as it is.

    `layers` names the layers to take; one that no modality has is a KeyError.

    Raises ValueError where the object's maps do not fit its modalities (they were changed without
    `mdata.update()`) and TypeError for a modality that is a MuData itself.
    """
    if not mdata.mod:
        raise ValueError("the MuData object has no modality, so there is nothing to write")
    _check_layers(mdata, layers)
    return ExperimentContent(
        obs=frame_in_memory(mdata.obs),
        var=frame_in_memory(mdata.var),
        modalities={str(name): _modality(mdata, name, layers) for name in mdata.mod},
        obsm=components_in_memory(mdata.obsm),
        obsp=components_in_memory(mdata.obsp),
        varm=components_in_memory(mdata.varm),
        varp=components_in_memory(mdata.varp),
        uns=mdata.uns,
        axis=int(mdata.axis),
        provenance={"source": "mudata"},
    )


def _modality(mdata: mudata.MuData, name: str, layers: Sequence[str] | None) -> ModalityContent:
    import anndata

    adata = mdata.mod[name]
    label = f"mod[{str(name)!r}]"
    if not isinstance(adata, anndata.AnnData):
        raise TypeError(
            f"{label} is a {type(adata).__name__}; a .scx file holds modalities of AnnData only: "
            "write the inner object to a file of its own"
        )
    rows = positions_from_map(mdata.obsmap[name], adata.n_obs, f"obsmap[{str(name)!r}]")
    columns = positions_from_map(mdata.varmap[name], adata.n_vars, f"varmap[{str(name)!r}]")
    ascending = bool(np.all(np.diff(rows) > 0))
    present = layer_names(adata)
    own_layers = None if layers is None else [layer for layer in layers if layer in present]
    content = modality_from_anndata(
        adata,
        layers=own_layers,
        order=None if ascending else np.argsort(rows),
        label=f"{label}.",
    )
    content.obs = frame_in_memory(adata.obs)
    content.rows = rows
    content.columns = columns
    return content


def positions_from_map(one_based_map: Any, n_members: int, label: str) -> npt.NDArray[np.int64]:
    """Turn MuData's map (per global entry: 1-based member, 0 for none) into positions of members.

    Raises ValueError, naming `label`, when the map does not name each member exactly once.
    """
    members = np.asarray(one_based_map).reshape(-1).astype(np.int64)
    positions = np.flatnonzero(members > 0)
    named = members[positions] - 1
    if len(named) != n_members or not np.array_equal(np.sort(named), np.arange(n_members)):
        raise ValueError(
            f"{label} does not name each of the modality's {n_members} entries once: "
            "call `mdata.update()` after changing a modality"
        )
    result = np.empty(n_members, dtype=np.int64)
    result[named] = positions
    return result


def _check_layers(mdata: mudata.MuData, layers: Sequence[str] | None) -> None:
    present = sorted({layer for member in mdata.mod.values() for layer in _layers_of(member)})
    for layer in layers or ():
        if layer not in present:
            raise NameNotFoundError(
                f"layers: no modality has a layer {layer!r}; there are {present}"
            )


def _layers_of(member: Any) -> list[str]:
    # a MuData as a modality, refused later on, has None for its layers
    return [] if member.layers is None else [str(layer) for layer in layer_names(member)]
