"""The content of a .scx file; its matrices stay packed until they are read in blocks of cells."""

from __future__ import annotations

from typing import Any

import numpy as np

from cellucid_prepare.inputs.parts import Multimodal, Part
from scx_core.experiment._lazy_mapping import LazyMapping


def experiment_part(experiment: Any) -> Part:
    """An open file of a single modality."""
    return Part(
        obs=experiment.obs,
        var=experiment.var,
        X=experiment.X,
        layers=experiment.layers,
        obsm=experiment.obsm,
        obsp=experiment.obsp,
        varm=experiment.varm,
        varp=experiment.varp,
        uns=experiment.uns,
        raw=experiment.raw,
    )


def experiment_parts(experiment: Any) -> Multimodal:
    """An open file of several modalities, each with its own cells in its own order."""
    shared = experiment.shared
    obs = shared.load_obs()
    modalities: dict[str, Part] = {}
    obsmap: dict[str, Any] = {}
    for modality in experiment.parts():
        modalities[modality.name] = _modality(modality, obs)
        rows = np.arange(len(obs)) if modality.rows is None else modality.rows
        members = np.zeros(len(obs), np.uint32)
        members[rows] = np.arange(1, len(rows) + 1)
        obsmap[modality.name] = members
    return Multimodal(
        modalities,
        obs=obs,
        obsmap=obsmap,
        uns=shared.load_uns(),
        axis=shared.axis,
        **_components(shared),
    )


def _components(holder: Any) -> dict[str, Any]:
    """obsm, obsp, varm and varp, of which a member is decoded when it is asked for."""
    kinds = ("obsm", "obsp", "varm", "varp")
    return {kind: LazyMapping(holder.loaders(kind), what=kind) for kind in kinds}


def _modality(modality: Any, shared_obs: Any) -> Part:
    obs = modality.load_obs()
    if obs is None:
        obs = shared_obs if modality.rows is None else shared_obs.iloc[modality.rows]

    def own(view: Any) -> Any:
        return view if modality.rows is None else view.taking(modality.rows)

    return Part(
        obs=obs,
        var=modality.load_var(),
        X=None if modality.X is None else own(modality.X),
        layers={name: own(view) for name, view in modality.layers.items()},
        **_components(modality),
        uns=modality.load_uns(),
        raw=modality.raw,
    )
