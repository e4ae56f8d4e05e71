"""Everything of an experiment that is no matrix, as the bytes of its sections."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from scx_core._section_names import SectionType, member
from scx_core.metadata import encode_embedding, encode_pairwise, encode_uns
from scx_core.sources.base import ExperimentContent, ModalityContent
from scx_core.writing._checks import is_multimodal, label_of
from scx_core.writing._provenance import provenance_of
from scx_core.writing._skipping import encoded_frame, part_path, skippable


@dataclass(frozen=True)
class MetadataSection:
    """A section whose bytes are there."""

    section_type: SectionType
    modality_id: int
    name: str
    data: bytes


def table_sections(
    content: ExperimentContent, *, strict_uns: bool, version: str
) -> list[MetadataSection]:
    """The frames, uns, and what the file remembers: small, and made before the file is begun.

    Their encoders look at every value, so what they refuse is refused while nothing is written.
    """
    kinds = SectionType
    sections = [MetadataSection(kinds.OBS, 0, "obs", encoded_frame(content.obs, "obs"))]
    multimodal = is_multimodal(content)
    if multimodal and content.var is not None:
        shared_var = encoded_frame(content.var, "var")
        sections.append(MetadataSection(kinds.SHARED_VAR, 0, "var", shared_var))
    if multimodal:
        shared_uns = encode_uns(content.uns, strict=strict_uns, where="uns")
        sections.append(MetadataSection(kinds.UNS, 0, "uns", shared_uns))
    for index, (name, modality) in enumerate(content.modalities.items()):
        modality_id = index + 1 if multimodal else 0
        sections.extend(_modality_tables(modality, name, modality_id, strict_uns=strict_uns))
    provenance = json.dumps(provenance_of(content, version), separators=(",", ":")).encode()
    sections.append(MetadataSection(kinds.PROVENANCE, 0, "provenance", provenance))
    return sections


def _modality_tables(
    modality: ModalityContent, name: str, modality_id: int, *, strict_uns: bool
) -> Iterator[MetadataSection]:
    kinds = SectionType
    label = label_of(name)

    def section(kind: SectionType, base: str, data: bytes) -> MetadataSection:
        return MetadataSection(kind, modality_id, member(base, name), data)

    yield section(kinds.VAR, "var", encoded_frame(modality.var, f"{label}var"))
    yield section(
        kinds.UNS, "uns", encode_uns(modality.uns, strict=strict_uns, where=f"{label}uns")
    )
    if modality.raw_var is not None:
        raw_var = encoded_frame(modality.raw_var, f"{label}raw.var")
        raw_name = f"raw/{name}/var" if name else "raw/var"
        yield MetadataSection(kinds.RAW_VAR, modality_id, raw_name, raw_var)
    if modality.obs is not None:
        yield section(kinds.MODALITY_OBS, "obs", encoded_frame(modality.obs, f"{label}obs"))
    for kind, base, positions in (
        (kinds.MODALITY_ROWS, "rows", modality.rows),
        (kinds.MODALITY_COLUMNS, "columns", modality.columns),
    ):
        if positions is not None:
            data = encode_embedding(positions, len(positions), where=f"{label}{base}")
            yield section(kind, base, data)


def component_sections(content: ExperimentContent) -> Iterator[MetadataSection]:
    """obsm, varm, obsp and varp, one after another, each encoded when it is asked for."""
    multimodal = is_multimodal(content)
    if multimodal:
        n_shared = 0 if content.var is None else len(content.var)
        shared = _Axes("", 0, len(content.obs), n_shared)
        yield from shared.sections(content.obsm, content.varm, content.obsp, content.varp)
    for index, (name, modality) in enumerate(content.modalities.items()):
        n_cells = len(content.obs) if modality.obs is None else len(modality.obs)
        axes = _Axes(name, index + 1 if multimodal else 0, n_cells, len(modality.var))
        yield from axes.sections(modality.obsm, modality.varm, modality.obsp, modality.varp)
        if modality.raw_var is not None:
            yield from axes.raw_sections(modality.raw_varm, len(modality.raw_var))


@dataclass(frozen=True)
class _Axes:
    """Whose components they are, and how long its axes."""

    name: str
    modality_id: int
    n_cells: int
    n_vars: int

    def sections(
        self,
        obsm: Mapping[str, Any],
        varm: Mapping[str, Any],
        obsp: Mapping[str, Any],
        varp: Mapping[str, Any],
    ) -> Iterator[MetadataSection]:
        kinds = SectionType
        for kind, base, encode, length, components in (
            (kinds.OBSM, "obsm", encode_embedding, self.n_cells, obsm),
            (kinds.VARM, "varm", encode_embedding, self.n_vars, varm),
            (kinds.OBSP, "obsp", encode_pairwise, self.n_cells, obsp),
            (kinds.VARP, "varp", encode_pairwise, self.n_vars, varp),
        ):
            yield from self._encoded(kind, base, base, encode, length, components)

    def raw_sections(self, varm: Mapping[str, Any], n_vars: int) -> Iterator[MetadataSection]:
        yield from self._encoded(
            SectionType.RAW_VARM, "raw/varm", "raw.varm", encode_embedding, n_vars, varm
        )

    def _encoded(
        self,
        kind: SectionType,
        base: str,
        shown: str,
        encode: Callable[[Any, int, str], bytes],
        length: int,
        components: Mapping[str, Any],
    ) -> Iterator[MetadataSection]:
        for key in components:
            where = f"{label_of(self.name)}{shown}[{key!r}]"
            with skippable(part_path(where)):
                data = encode(components[key], length, where)
            yield MetadataSection(kind, self.modality_id, member(base, self.name, key), data)
