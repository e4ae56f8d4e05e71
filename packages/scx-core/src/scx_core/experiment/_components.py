"""obsm, varm, obsp and varp of an open file."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from scx_core._section_names import SHARD_NAME, SectionType, key_of
from scx_core.experiment._memory import GatheredRows, as_csr_matrix
from scx_core.experiment._sections import Sections
from scx_core.experiment._shown_rows import Rows, pick, pick_pairs
from scx_core.metadata import decode_embedding, decode_pairwise
from scx_core.native.matrix import Matrix

COMPONENT_TYPES: dict[str, tuple[SectionType, SectionType | None]] = {
    "obsm": (SectionType.OBSM, SectionType.OBSM_ROW_SHARD),
    "varm": (SectionType.VARM, SectionType.VARM_ROW_SHARD),
    "obsp": (SectionType.OBSP, SectionType.OBSP_ROW_SHARD),
    "varp": (SectionType.VARP, SectionType.VARP_ROW_SHARD),
    "raw/varm": (SectionType.RAW_VARM, None),
}


def component_loaders(
    sections: Sections,
    kind: str,
    modality_id: int,
    modality: str,
    length: int,
    *,
    selection: Rows | None = None,
) -> dict[str, Callable[[], Any]]:
    """For each key of a kind: a function that decodes a fresh copy.

    It is stored `length` entries long; those at `selection` are given, None for all.
    """
    whole, row_shards = COMPONENT_TYPES[kind]
    members = sections.members(whole, row_shards, modality_id, kind, modality)
    loaders: dict[str, Callable[[], Any]] = {
        key: partial(_component, sections, kind, get, length) for key, get in members.items()
    }
    if kind == "obsp":
        loaders.update(_sharded_graphs(sections, modality_id, modality, length))
    if selection is None:
        return loaders
    picked = pick if kind.endswith("m") else pick_pairs
    return {key: partial(_picked, load, picked, selection) for key, load in loaders.items()}


def _picked(
    load: Callable[[], Any], picked: Callable[[Any, Rows | None], Any], selection: Rows
) -> Any:
    return picked(load(), selection)


def _sharded_graphs(
    sections: Sections, modality_id: int, modality: str, length: int
) -> dict[str, Callable[[], Any]]:
    """Graphs that other writers store as row shards, like X."""
    first_names: dict[str, str] = {}
    for section in sections.of(SectionType.OBSP_CSR_SHARD, modality_id):
        match = SHARD_NAME.fullmatch(section.name)
        base = section.name if match is None else match["matrix"]
        key = sections.decoded(section.name, partial(key_of, base, "obsp", modality))
        first_names.setdefault(key, section.name)
    return {
        key: partial(_graph, sections, modality_id, key, name, length)
        for key, name in first_names.items()
    }


def _graph(sections: Sections, modality_id: int, key: str, first_name: str, length: int) -> Any:
    matrix = Matrix(
        sections.file,
        section_type=SectionType.OBSP_CSR_SHARD,
        name=key,
        modality_id=modality_id,
    )
    if matrix.shape != (length, length):
        raise sections.damage(
            first_name, f"the graph is {matrix.shape[0]} x {matrix.shape[1]}, not {length} wide"
        )
    arrays = matrix.gather_csr(np.arange(length, dtype=np.int64))
    return as_csr_matrix(GatheredRows(*arrays, n_cols=length))


def _component(
    sections: Sections, kind: str, get: Callable[[], tuple[Any, str]], length: int
) -> Any:
    buffer, name = get()
    if kind.endswith("m"):
        return sections.decoded(name, lambda: decode_embedding(buffer, n_rows=length, where=name))
    return sections.decoded(name, lambda: decode_pairwise(buffer, n=length, where=name))
