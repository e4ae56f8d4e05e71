"""raw of an open file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from scx_core._section_names import SectionType
from scx_core.experiment._components import component_loaders
from scx_core.experiment._lazy_mapping import LazyMapping
from scx_core.experiment._matrices import Names, open_matrix
from scx_core.experiment._matrix_view import Address, MatrixView
from scx_core.experiment._read_only import kept, locked, read_only_frame
from scx_core.experiment._sections import Sections
from scx_core.experiment._shown_rows import ShownRows

if TYPE_CHECKING:
    import pandas as pd


class RawView:
    """The unfiltered matrix beside X: its own genes, the same cells."""

    def __init__(
        self,
        sections: Sections,
        *,
        name: str,
        modality_id: int,
        shown: ShownRows,
        described: Any,
        cell_names: Names,
    ) -> None:
        self._sections = sections
        self._name = name
        self._modality_id = modality_id
        self._shown = shown
        self._described = described
        self._cell_names = cell_names

    @kept
    def n_vars(self) -> int:
        """How many genes."""
        return len(self.load_var_names())

    @property
    def shape(self) -> tuple[int, int]:
        """Rows of X and genes of raw."""
        return self._shown.n_shown, self.n_vars

    @property
    def var(self) -> pd.DataFrame:
        """Genes and what is known of them; read-only, see `Experiment.obs`."""
        return read_only_frame(self._var)

    @kept
    def _var(self) -> pd.DataFrame:
        return locked(self.load_var())

    @kept
    def var_names(self) -> npt.NDArray[np.object_]:
        """Names of the genes, read without pandas."""
        return locked(self.load_var_names())

    def load_var_names(self) -> npt.NDArray[np.object_]:
        """Names of the genes, which are not kept here."""
        return _var_names(self._sections, self._modality_id)

    @kept
    def X(self) -> MatrixView:
        """The matrix."""
        return open_matrix(
            self._sections,
            SectionType.RAW_CSR_SHARD,
            self._modality_id,
            "raw/X",
            described=self._described,
            shape=(self._shown.n_physical, self.n_vars),
            selection=self._shown.selection,
            address=Address("raw", self._name),
            cell_names=self._cell_names,
            gene_names=partial(_var_names, self._sections, self._modality_id),
        )

    @kept
    def varm(self) -> Mapping[str, Any]:
        """Embeddings of the genes."""
        return LazyMapping(self.varm_loaders(), what="raw.varm")

    def load_var(self) -> pd.DataFrame:
        """A fresh copy of var."""
        return self._sections.frame(_var_table(self._sections, self._modality_id))

    def varm_loaders(self) -> dict[str, Callable[[], Any]]:
        """For each key of varm: a function that decodes a fresh copy."""
        return component_loaders(
            self._sections, "raw/varm", self._modality_id, self._name, self.n_vars
        )

    def __repr__(self) -> str:
        n_obs, n_vars = self.shape
        return f"raw: {n_obs} x {n_vars}"


def _var_table(sections: Sections, modality_id: int) -> tuple[Any, str]:
    table = sections.table(SectionType.RAW_VAR, None, modality_id)
    if table is None:
        raise sections.damage("raw/var", "the section is missing")
    return table


def _var_names(sections: Sections, modality_id: int) -> npt.NDArray[np.object_]:
    return sections.names(_var_table(sections, modality_id))
