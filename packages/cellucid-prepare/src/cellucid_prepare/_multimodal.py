"""The checked parts of an output of several modalities."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from cellucid_prepare._description import Identity, check_identity, described_uns
from cellucid_prepare._faults import Faults, plural
from cellucid_prepare._resolve import (
    Coordinates,
    GeneParts,
    resolve_cells,
    resolve_genes,
    resolve_graph,
    resolve_obsm,
    resolve_quantiles,
    vector_keys,
)
from cellucid_prepare.checks.defaults import MIN_POINTS, Contents, LaunchDefaults, check_defaults
from cellucid_prepare.checks.names import check_element_names
from cellucid_prepare.inputs.components import MEASURED, Components
from cellucid_prepare.inputs.from_mudata import MuDataComponents
from cellucid_prepare.layout.anndata import AnnDataParts
from cellucid_prepare.layout.mudata import ModalityParts

# names of modalities that a viewer opens on, where nothing else was chosen
EXPRESSION_NAMES = {"rna", "gex", "gene expression", "gene_expression", "sct"}


def multimodal_parts(
    given: MuDataComponents, identity: Identity, defaults: LaunchDefaults, faults: Faults
) -> tuple[AnnDataParts, dict[str, ModalityParts]] | None:
    """Root and modalities; None when something is wrong."""
    texts = check_identity(identity, faults)
    check_element_names(given.modalities, "mod", faults)
    modalities: dict[str, ModalityParts] = {}
    opened = _opened_first(list(given.modalities), defaults.modality)
    has_embedding = bool(given.root.embeddings)
    for name, components in given.modalities.items():
        inner = Faults()
        column = defaults.var_gene_id_column if name == opened else None
        parts = _modality(components, column, inner)
        for fault in inner.found:
            faults.add(
                f"mod[{name!r}].{fault.where}", fault.problem, fault.mend, n_cells=fault.n_cells
            )
        faults.wrong_types |= inner.wrong_types
        has_embedding |= bool(components.embeddings)
        if parts is not None:
            modalities[name] = ModalityParts(parts, given.members[name])
    if not has_embedding:
        faults.add_type("embeddings", "there is none", "pass embeddings={'X_umap': array}")
    n_cells = len(next(iter(given.members.values())))
    obsm, keys = resolve_obsm(given.root, faults) if given.root.embeddings else ({}, [])
    cells = resolve_cells(given.root.obs, n_cells, faults)
    graph = resolve_graph(given.root.graph, n_cells, faults)
    stored = check_defaults(defaults, _contents(given, obsm, keys, modalities), faults)
    latent_key: Any = stored.get("latentKey")
    latent = None
    if latent_key is not None:
        latent = obsm.get(latent_key)
        if latent is None:
            latent = _latent_of_modality(latent_key, modalities, faults)
    if faults.found or cells is None:
        return None
    uns = described_uns(texts, stored)
    if latent is not None:
        points = stored.get("centroidMinPoints", MIN_POINTS)
        uns["cellucid"]["outlierQuantiles"] = resolve_quantiles(cells, latent, latent_key, points)
    root = AnnDataParts(
        cell_names=cells.names,
        obs=cells.columns,
        gene_names=[name for part in modalities.values() for name in part.parts.gene_names],
        obsm=obsm,
        graph=graph,
        uns=uns,
    )
    return root, modalities


def _modality(components: Components, id_column: str | None, faults: Faults) -> AnnDataParts | None:
    n_cells = len(components.obs)
    obsm, _ = resolve_obsm(components, faults) if components.embeddings else ({}, [])
    cells = resolve_cells(components.obs, n_cells, faults)
    genes: GeneParts = resolve_genes(components, n_cells, id_column, None, faults)
    graph = resolve_graph(components.graph, n_cells, faults)
    if faults.found or cells is None:
        return None
    return AnnDataParts(
        cell_names=cells.names,
        obs=cells.columns,
        gene_names=genes.names,
        var=genes.columns,
        X=genes.matrix,
        obsm=obsm,
        graph=graph,
    )


def _latent_of_modality(
    key: str, modalities: Mapping[str, ModalityParts], faults: Faults
) -> Coordinates | None:
    """The embedding ``<modality>:<name>`` in the order of the shared cells."""
    modality, _, name = key.partition(":")
    members = modalities[modality].members
    missing = int((members == 0).sum())
    if missing:
        faults.add(
            "latent_key",
            f"{plural(missing, 'cell')} have no place in {key!r}, since mod[{modality!r}] has not "
            "measured them",
            "choose an embedding that every cell has",
            n_cells=missing,
        )
        return None
    return modalities[modality].parts.obsm[name][members.astype(np.int64) - 1]


def _opened_first(names: list[str], wanted: Any) -> str:
    if wanted in names:
        return str(wanted)
    return next((name for name in names if name.lower() in EXPRESSION_NAMES), names[0])


def _contents(
    given: MuDataComponents,
    obsm: dict[str, Any],
    keys: list[str],
    modalities: dict[str, ModalityParts],
) -> Contents:
    """What the launch defaults may name; members of modalities as ``<modality>:<name>``."""
    widths = {key: obsm[key].shape[1] for key in keys}
    columns = list(given.root.obs.columns)
    for name, modality in modalities.items():
        for key in given.modalities[name].embeddings or {}:
            widths[f"{name}:{key}"] = modality.parts.obsm[key].shape[1]
        columns += [f"{name}:{column}" for column in [*modality.parts.obs, MEASURED]]
    return Contents(widths, vector_keys(obsm, keys), columns, list(given.modalities))
