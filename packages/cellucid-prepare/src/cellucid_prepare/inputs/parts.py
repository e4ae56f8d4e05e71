"""What a file holds, with its matrices left where they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Part:
    """One modality of a file, or all of a file that has a single one.

    The names are those of AnnData. X and the members of `layers` are anything that
    `expression_source` takes; obsm and obsp may read a member when it is asked for. Of varm, varp
    and raw, which no output holds, no more is asked than what there is.
    """

    obs: Any
    var: Any
    X: Any = None
    layers: Mapping[str, Any] = field(default_factory=dict)
    obsm: Mapping[str, Any] = field(default_factory=dict)
    obsp: Mapping[str, Any] = field(default_factory=dict)
    varm: Mapping[str, Any] = field(default_factory=dict)
    varp: Mapping[str, Any] = field(default_factory=dict)
    uns: Mapping[str, Any] = field(default_factory=dict)
    raw: Any = None

    @property
    def n_obs(self) -> int:
        """How many cells."""
        return len(self.obs)


@dataclass
class Multimodal:
    """Several modalities and what they share; the names are those of MuData.

    `obsmap` has for every shared cell its row in the modality, counted from 1, or 0.
    """

    mod: dict[str, Part]
    obs: Any
    obsmap: Mapping[str, Any]
    obsm: Mapping[str, Any] = field(default_factory=dict)
    obsp: Mapping[str, Any] = field(default_factory=dict)
    varm: Mapping[str, Any] = field(default_factory=dict)
    varp: Mapping[str, Any] = field(default_factory=dict)
    uns: Mapping[str, Any] = field(default_factory=dict)
    axis: int = 0

    @property
    def n_obs(self) -> int:
        """How many cells the modalities share."""
        return len(self.obs)
