"""What all cells of a file share: obs, and in a multimodal file MuData's own parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from scx_core._section_names import SectionType
from scx_core.experiment._components import component_loaders
from scx_core.experiment._describe import describe_shared
from scx_core.experiment._lazy_mapping import LazyMapping
from scx_core.experiment._provenance import Provenance
from scx_core.experiment._read_only import kept
from scx_core.experiment._sections import Sections
from scx_core.experiment._shown_rows import ShownRows, pick_frame
from scx_core.metadata import column_names, decode_uns

if TYPE_CHECKING:
    import pandas as pd


class SharedParts:
    """The sections without a modality, but for those that a single modality's file keeps there."""

    def __init__(self, sections: Sections, provenance: Provenance, *, shown: ShownRows) -> None:
        self._sections = sections
        self._provenance = provenance
        self._shown = shown
        self._merged_obs: tuple[Any, str] | None = None

    def __repr__(self) -> str:
        file = self._sections.file
        if file.closed:
            return f"SharedParts of '{file.path}' (closed)"
        return describe_shared(self, f"SharedParts of '{file.path}'")

    @kept
    def obsm(self) -> Mapping[str, Any]:
        return LazyMapping(self.loaders("obsm"), what="obsm")

    @kept
    def varm(self) -> Mapping[str, Any]:
        return LazyMapping(self.loaders("varm"), what="varm")

    @kept
    def obsp(self) -> Mapping[str, Any]:
        return LazyMapping(self.loaders("obsp"), what="obsp")

    @kept
    def varp(self) -> Mapping[str, Any]:
        return LazyMapping(self.loaders("varp"), what="varp")

    def obs_names(self) -> npt.NDArray[np.object_]:
        """Names of the cells."""
        names = self._sections.names(self.obs_bytes(), self._shown.n_physical)
        selection = self._shown.selection
        return names if selection is None else names[selection]

    def var_names(self) -> npt.NDArray[np.object_]:
        """Names of the genes of all modalities; none when the file has no var over all."""
        table = self._sections.table(SectionType.SHARED_VAR, None, 0)
        if table is None:
            return np.empty(0, dtype=np.object_)
        return self._sections.names(table)

    def obs_keys(self) -> list[str]:
        """Names of obs' columns, in their order."""
        buffer, name = self.obs_bytes()
        return self._sections.decoded(name, lambda: column_names(buffer, where="obs"))

    def load_obs(self) -> pd.DataFrame:
        """A fresh copy of obs."""
        frame = self._sections.frame(self.obs_bytes(), self._shown.n_physical)
        return pick_frame(frame, self._shown.selection)

    @property
    def has_var(self) -> bool:
        """Whether there is a var over all modalities; other writers leave it out."""
        return bool(self._sections.of(SectionType.SHARED_VAR, 0))

    def load_var(self) -> pd.DataFrame:
        """A fresh copy of the var over all modalities; ValueError when the file has none."""
        table = self._sections.table(SectionType.SHARED_VAR, None, 0)
        if table is None:
            raise ValueError(
                f"{self._sections.file.path} has no var over all modalities; each has its own: "
                "`experiment[name].var`"
            )
        return self._sections.frame(table)

    def load_uns(self) -> dict[str, Any]:
        """A fresh copy of uns."""
        table = self._sections.table(SectionType.UNS, None, 0)
        if table is None:
            return {}
        buffer, name = table
        return self._sections.decoded(name, lambda: decode_uns(buffer, where=name))

    def loaders(self, kind: str) -> dict[str, Callable[[], Any]]:
        """For each key of obsm, varm, obsp or varp: a function that decodes a fresh copy."""
        if not kind.startswith("obs"):
            return component_loaders(self._sections, kind, 0, "", len(self.var_names()))
        n_rows, selection = self._shown.n_physical, self._shown.selection
        return component_loaders(self._sections, kind, 0, "", n_rows, selection=selection)

    @property
    def axis(self) -> int:
        """MuData's axis."""
        return self._provenance.axis

    def obs_bytes(self) -> tuple[Any, str]:
        """The encoded obs and the name of its section."""
        if self._merged_obs is not None:
            return self._merged_obs
        table = self._sections.table(SectionType.OBS, SectionType.OBS_ROW_SHARD, 0)
        if table is None:
            raise self._sections.damage("obs", "the section is missing")
        if self._sections.of(SectionType.OBS_ROW_SHARD, 0):
            self._merged_obs = table  # joining row shards is done once
        return table
