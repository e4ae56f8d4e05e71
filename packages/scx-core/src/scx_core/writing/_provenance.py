"""What a file remembers of how its matrices were held, so that they come back the same."""

from __future__ import annotations

from typing import Any

from scx_core.sources.base import ExperimentContent, MatrixSource, ModalityContent
from scx_core.writing._checks import is_multimodal


def provenance_of(content: ExperimentContent, version: str) -> dict[str, Any]:
    """The provenance section's JSON: deterministic, so equal content makes equal files."""
    provenance: dict[str, Any] = {
        **content.provenance,
        "writer": f"scx-core {version}",
    }
    if not is_multimodal(content):
        provenance["matrices"] = _matrices(content.modalities[""])
        return provenance
    provenance["axis"] = content.axis
    provenance["modalities"] = {
        name: {"matrices": _matrices(modality)} for name, modality in content.modalities.items()
    }
    return provenance


def _matrices(modality: ModalityContent) -> dict[str, Any]:
    matrices: dict[str, Any] = {
        "X": _matrix(modality.X),
        "layers": {name: _matrix(layer) for name, layer in modality.layers.items()},
    }
    if modality.raw_var is not None:
        matrices["raw"] = _matrix(modality.raw_X)
    return matrices


def _matrix(source: MatrixSource | None) -> dict[str, Any] | None:
    if source is None:
        return None
    described: dict[str, Any] = {"dtype": source.dtype.str, "form": source.form}
    if source.index_dtypes is not None:
        described["indices"], described["indptr"] = source.index_dtypes
    return described
