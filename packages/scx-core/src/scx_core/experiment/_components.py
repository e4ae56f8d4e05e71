"""obsm, varm, obsp and varp of an open file."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from scx_core._section_names import SectionType
from scx_core.experiment._sections import Sections
from scx_core.metadata import decode_embedding, decode_pairwise

COMPONENT_TYPES: dict[str, tuple[SectionType, SectionType | None]] = {
    "obsm": (SectionType.OBSM, SectionType.OBSM_ROW_SHARD),
    "varm": (SectionType.VARM, SectionType.VARM_ROW_SHARD),
    "obsp": (SectionType.OBSP, SectionType.OBSP_ROW_SHARD),
    "varp": (SectionType.VARP, SectionType.VARP_ROW_SHARD),
    "raw/varm": (SectionType.RAW_VARM, None),
}


def component_loaders(
    sections: Sections, kind: str, modality_id: int, modality: str, length: int
) -> dict[str, Callable[[], Any]]:
    """For each key of a kind: a function that decodes a fresh copy, `length` entries long."""
    whole, row_shards = COMPONENT_TYPES[kind]
    members = sections.members(whole, row_shards, modality_id, kind, modality)
    return {key: partial(_component, sections, kind, get, length) for key, get in members.items()}


def _component(
    sections: Sections, kind: str, get: Callable[[], tuple[Any, str]], length: int
) -> Any:
    buffer, name = get()
    if kind.endswith("m"):
        return sections.decoded(name, lambda: decode_embedding(buffer, n_rows=length, where=name))
    return sections.decoded(name, lambda: decode_pairwise(buffer, n=length, where=name))
