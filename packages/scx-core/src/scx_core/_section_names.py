"""Which section holds which part of an experiment: types, names, and names taken apart again.

A single-modality file has everything under modality id 0. In a multimodal file each modality's
parts carry its id (1, 2, ...) and its name inside theirs; id 0 keeps what belongs to all cells.
"""

from __future__ import annotations

import re
from enum import IntEnum


class SectionType(IntEnum):
    """The byte of a section in the catalog; the values from 240 on are this software's own."""

    OBS = 0
    OBS_INDEX = 1
    VAR = 2
    VAR_INDEX = 3
    CSR_SHARD = 4
    CSC_SHARD = 5
    BITMAP = 6
    LAYER_CSR_SHARD = 7
    OBSM = 8
    OBSP_CSR_SHARD = 9
    UNS = 10
    PROVENANCE = 11
    DELETION_VECTORS = 12
    OBS_PREDICATE_INDEX = 13
    VAR_PREDICATE_INDEX = 14
    MODALITY_TABLE = 15
    LAYER_CSC_SHARD = 16
    VARM = 17
    OBSP = 18
    VARP = 19
    OBSM_ROW_SHARD = 20
    VARM_ROW_SHARD = 21
    OBSP_ROW_SHARD = 22
    VARP_ROW_SHARD = 23
    OBS_ROW_SHARD = 24
    VAR_ROW_SHARD = 25
    DECODE_SIDECAR = 26
    RAW_CSR_SHARD = 27
    RAW_VAR = 28
    GROUP_INDEX = 29
    MODALITY_OBS = 240  # a modality's own obs: "obs/{mod}"
    MODALITY_ROWS = 241  # the file's row of each of its cells: "rows/{mod}"
    MODALITY_COLUMNS = 242  # the row in the shared var of each of its genes: "columns/{mod}"
    SHARED_VAR = 243  # var over all modalities: "var"
    RAW_VARM = 244  # "raw/varm/{key}"
    GENERATION = 245  # the header of the generation before, and a note


MATRIX_SHARD_TYPES = frozenset(
    {
        SectionType.CSR_SHARD,
        SectionType.LAYER_CSR_SHARD,
        SectionType.RAW_CSR_SHARD,
        SectionType.OBSP_CSR_SHARD,
    }
)

SHARD_NAME = re.compile(r"(?P<matrix>.*)[_/]shard_(?P<index>[0-9]+)", re.DOTALL)


def x_shard(modality: str, index: int) -> str:
    """Name of a shard of X."""
    return f"X/{modality}/shard_{index}" if modality else f"X_shard_{index}"


def layer_shard(modality: str, layer: str, index: int) -> str:
    """Name of a shard of a layer."""
    return f"layer/{modality}/{layer}/shard_{index}" if modality else f"{layer}_shard_{index}"


def raw_shard(modality: str, index: int) -> str:
    """Name of a shard of raw's matrix."""
    return f"raw/{modality}/X/shard_{index}" if modality else f"raw/X_shard_{index}"


def member(kind: str, modality: str, key: str | None = None) -> str:
    """Name of a section that is no matrix: "obs", "var/rna", "obsm/X_pca", "obsm/rna/X_pca"."""
    name = f"{kind}/{modality}" if modality else kind
    return name if key is None else f"{name}/{key}"


def key_of(name: str, kind: str, modality: str) -> str:
    """The key in a name that `member` made; ValueError when the name has another pattern."""
    prefix = member(kind, modality) + "/"
    if not name.startswith(prefix):
        raise ValueError(f"the name {name!r} does not begin with {prefix!r}")
    return name[len(prefix) :]


def layer_of(name: str, modality: str) -> str:
    """The layer that a shard belongs to; ValueError when the name has another pattern."""
    match = SHARD_NAME.fullmatch(name)
    if match is None:
        raise ValueError(f"the name {name!r} does not end in the number of a shard")
    return key_of(match["matrix"], "layer", modality) if modality else match["matrix"]
