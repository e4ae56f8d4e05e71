"""The layout of a MuData: what its modalities share, and each modality as an AnnData."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cellucid_prepare.layout.anndata import AnnDataParts, anndata_layout
from cellucid_prepare.layout.chunks import CELL_CHUNK_ELEMENTS
from cellucid_prepare.layout.elements import mapping, table, vector
from cellucid_prepare.layout.nodes import Group, Node

MUDATA = {"encoding-type": "MuData", "encoding-version": "0.1.0", "axis": 0}


@dataclass(frozen=True)
class ModalityParts:
    """One modality. `members` has for each shared cell its row there, counted from 1, or 0."""

    parts: AnnDataParts
    members: npt.NDArray[np.uint32]


def mudata_layout(
    root: AnnDataParts, modalities: Mapping[str, ModalityParts], threads: int
) -> Group:
    """The groups and arrays of a MuData; `root.gene_names` are those of all modalities."""
    shared = anndata_layout(root, threads).children
    obsm: dict[str, Node] = dict(_group(shared["obsm"]).children)
    obsmap: dict[str, Node] = {}
    varmap: dict[str, Node] = {}
    start = 0
    for name, modality in modalities.items():
        obsm[name] = table((modality.members > 0)[:, np.newaxis])
        obsmap[name] = vector(modality.members, CELL_CHUNK_ELEMENTS)
        n_genes = len(modality.parts.gene_names)
        genes: npt.NDArray[np.uint32] = np.zeros(len(root.gene_names), np.uint32)
        genes[start : start + n_genes] = np.arange(1, n_genes + 1)
        varmap[name] = vector(genes)
        start += n_genes
    children: dict[str, Node] = {
        "obs": shared["obs"],
        "var": shared["var"],
        "obsm": mapping(obsm),
        "varm": mapping({}),
        "obsp": shared["obsp"],
        "varp": mapping({}),
        "obsmap": mapping(obsmap),
        "varmap": mapping(varmap),
        "uns": shared["uns"],
        "mod": Group(
            {"mod-order": list(modalities)},
            {name: anndata_layout(part.parts, threads) for name, part in modalities.items()},
        ),
    }
    return Group(MUDATA, children)


def _group(node: Any) -> Group:
    assert isinstance(node, Group)
    return node
