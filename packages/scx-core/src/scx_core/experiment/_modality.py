"""What belongs to one modality of an open file: its genes and everything aligned with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from scx_core._section_names import SectionType
from scx_core.experiment._components import component_loaders
from scx_core.experiment._describe import describe_modality
from scx_core.experiment._lazy_mapping import LazyMapping
from scx_core.experiment._matrices import Names, layer_names, open_matrix
from scx_core.experiment._matrix_view import Address, MatrixView
from scx_core.experiment._provenance import Provenance
from scx_core.experiment._raw import RawView
from scx_core.experiment._read_only import kept, locked, read_only_frame
from scx_core.experiment._sections import Sections
from scx_core.experiment._shown_rows import ShownRows, pick_frame
from scx_core.metadata import column_names, decode_embedding, decode_uns

if TYPE_CHECKING:
    import pandas as pd

Loader = Callable[[], Any]


class Modality:
    """One modality; of a single-modality file, all of it but obs.

    In a multimodal file `X`, `layers` and `raw` have a row for every cell of the experiment, empty
    where the modality was not measured, while `obs`, `obsm` and `obsp` describe its own cells, in
    their own order: `rows` holds the experiment's row of each.
    """

    def __init__(
        self,
        sections: Sections,
        provenance: Provenance,
        *,
        name: str,
        modality_id: int,
        shown: ShownRows,
        n_vars: int,
        cell_names: Names,
    ) -> None:
        self._sections = sections
        self._provenance = provenance
        self._shown = shown
        self._n_vars = n_vars
        self._cell_names = cell_names
        self.name = name
        self.modality_id = modality_id

    def __repr__(self) -> str:
        file = self._sections.file
        name = f"Modality {self.name!r}" if self.name else "The only modality"
        if file.closed:
            return f"{name} of '{file.path}' (closed)"
        return describe_modality(self, f"{name} of '{file.path}'")

    @property
    def n_obs(self) -> int:
        """How many cells the modality has of its own."""
        return self._shown.n_shown if self.rows is None else len(self.rows)

    @property
    def n_vars(self) -> int:
        """How many genes."""
        return self._n_vars

    @kept
    def rows(self) -> npt.NDArray[np.int64] | None:
        """The experiment's row of each cell of the modality; None when they are the same."""
        in_file = self._rows_in_file
        if in_file is None or self._shown.selection is None:
            return in_file
        places = self._shown.places(in_file)
        return locked(places[places >= 0])

    @kept
    def _rows_in_file(self) -> npt.NDArray[np.int64] | None:
        """The file's row of each cell that is stored; None when they are the same."""
        return locked(self._positions(SectionType.MODALITY_ROWS, self._shown.n_physical))

    @property
    def _n_stored(self) -> int:
        """How many cells are stored."""
        in_file = self._rows_in_file
        return self._shown.n_physical if in_file is None else len(in_file)

    @kept
    def _own_selection(self) -> npt.NDArray[np.int64] | None:
        """Which of the stored cells are shown; None for all."""
        in_file = self._rows_in_file
        if in_file is None or self._shown.selection is None:
            return self._shown.selection
        return np.flatnonzero(self._shown.places(in_file) >= 0)

    def columns(self, n_shared: int) -> npt.NDArray[np.int64] | None:
        """The row in the shared var, of `n_shared` rows, of each gene; None when none is kept."""
        return self._positions(SectionType.MODALITY_COLUMNS, n_shared)

    @property
    def obs(self) -> pd.DataFrame | Any:
        """The modality's own obs, read-only; None where it has only the file's."""
        return read_only_frame(self._obs)

    @kept
    def _obs(self) -> pd.DataFrame | None:
        return locked(self.load_obs())

    @property
    def var(self) -> pd.DataFrame:
        """Genes and what is known of them; read-only, see `Experiment.obs`."""
        return read_only_frame(self._var)

    @kept
    def _var(self) -> pd.DataFrame:
        return locked(self.load_var())

    def var_keys(self) -> list[str]:
        """Names of var's columns, in their order."""
        buffer, name = _var_table(self._sections, self.modality_id)
        return self._sections.decoded(name, lambda: column_names(buffer, where=name))

    @kept
    def var_names(self) -> npt.NDArray[np.object_]:
        """Names of the genes, read without pandas."""
        return locked(self.load_var_names())

    def load_var_names(self) -> npt.NDArray[np.object_]:
        """Names of the genes, which are not kept here."""
        return _var_names(self._sections, self.modality_id, self.n_vars)

    @kept
    def X(self) -> MatrixView | Any:  # as that of the experiment
        """The matrix; None when the file has none."""
        found = self._sections.of(SectionType.CSR_SHARD, self.modality_id)
        described = self._described.get("X")
        # of no rows there are no shards: only our own writer says whether there was a matrix
        is_empty = "X" not in self._described and self._shown.n_physical == 0
        if not found and described is None and not is_empty:
            return None
        return self._matrix(SectionType.CSR_SHARD, "X", described, Address("X", self.name))

    @kept
    def layers(self) -> Mapping[str, MatrixView]:
        """The layers, in the order in which they were written."""
        described = self._described
        names = layer_names(self._sections, self.modality_id, self.name, described)
        remembered = described.get("layers", {})
        loaders = {
            key: partial(
                self._matrix,
                SectionType.LAYER_CSR_SHARD,
                key,
                remembered.get(key),
                Address("layers", self.name, key),
            )
            for key in names
        }
        return LazyMapping(loaders, what="layers")

    @kept
    def obsm(self) -> Mapping[str, Any]:
        """Embeddings of the cells."""
        return LazyMapping(self.loaders("obsm"), what="obsm")

    @kept
    def varm(self) -> Mapping[str, Any]:
        """Embeddings of the genes."""
        return LazyMapping(self.loaders("varm"), what="varm")

    @kept
    def obsp(self) -> Mapping[str, Any]:
        """Square matrices over the cells."""
        return LazyMapping(self.loaders("obsp"), what="obsp")

    @kept
    def varp(self) -> Mapping[str, Any]:
        """Square matrices over the genes."""
        return LazyMapping(self.loaders("varp"), what="varp")

    @kept
    def uns(self) -> dict[str, Any]:
        """What has no axis; read-only, see `Experiment.uns`."""
        return locked(self.load_uns())

    @kept
    def raw(self) -> RawView | Any:
        """The matrix as it was before genes were taken out; None when the file has none."""
        found = self._sections.of(SectionType.RAW_VAR, self.modality_id)
        if not found:
            return None
        return RawView(
            self._sections,
            name=self.name,
            modality_id=self.modality_id,
            shown=self._shown,
            described=self._described.get("raw"),
            cell_names=self._cell_names,
        )

    def load_obs(self) -> pd.DataFrame | None:
        """A fresh copy of the modality's own obs."""
        table = self._sections.table(SectionType.MODALITY_OBS, None, self.modality_id)
        if table is None:
            return None
        return pick_frame(self._sections.frame(table, self._n_stored), self._own_selection)

    def load_var(self) -> pd.DataFrame:
        """A fresh copy of var."""
        return self._sections.frame(_var_table(self._sections, self.modality_id), self.n_vars)

    def load_uns(self) -> dict[str, Any]:
        """A fresh copy of uns."""
        table = self._sections.table(SectionType.UNS, None, self.modality_id)
        if table is None:
            return {}
        buffer, name = table
        return self._sections.decoded(name, lambda: decode_uns(buffer, where=name))

    def loaders(self, kind: str) -> dict[str, Loader]:
        """For each key of obsm, varm, obsp or varp: a function that decodes a fresh copy."""
        of_cells = kind.startswith("obs")
        return component_loaders(
            self._sections,
            kind,
            self.modality_id,
            self.name,
            self._n_stored if of_cells else self.n_vars,
            selection=self._own_selection if of_cells else None,
        )

    def _matrix(
        self, section_type: SectionType, name: str, described: Any, address: Address
    ) -> MatrixView:
        return open_matrix(
            self._sections,
            section_type,
            self.modality_id,
            name,
            described=described,
            shape=(self._shown.n_physical, self.n_vars),
            selection=self._shown.selection,
            address=address,
            cell_names=self._cell_names,
            # not a method: a view that holds what holds it keeps its file open for long
            gene_names=partial(_var_names, self._sections, self.modality_id, self.n_vars),
        )

    @kept
    def _described(self) -> Mapping[str, Any]:
        return self._provenance.matrices(self.name)

    def _positions(self, kind: SectionType, length: int) -> npt.NDArray[np.int64] | None:
        table = self._sections.table(kind, None, self.modality_id)
        if table is None:
            return None
        buffer, name = table
        positions = self._sections.decoded(name, lambda: decode_embedding(buffer, where=name))
        wrong = (
            not isinstance(positions, np.ndarray)
            or positions.ndim != 1
            or positions.dtype != np.int64
            or (positions.size > 0 and (positions.min() < 0 or positions.max() >= length))
            or len(np.unique(positions)) != len(positions)
        )
        if wrong:
            raise self._sections.damage(name, f"it must hold distinct numbers below {length}")
        result: npt.NDArray[np.int64] = positions
        return result


def declare_columns(sections: Sections) -> None:
    """Tell an early multimodal file how many genes each modality has: only var has them."""
    for modality in sections.file.modalities:
        if modality.n_vars == 0:
            n_vars = len(sections.names(_var_table(sections, modality.modality_id)))
            if n_vars:
                sections.file.declare_columns(modality.modality_id, n_vars)


def _var_table(sections: Sections, modality_id: int) -> tuple[Any, str]:
    table = sections.table(SectionType.VAR, SectionType.VAR_ROW_SHARD, modality_id)
    if table is None:
        raise sections.damage("var", "the section is missing")
    return table


def _var_names(sections: Sections, modality_id: int, n_vars: int) -> npt.NDArray[np.object_]:
    return sections.names(_var_table(sections, modality_id), n_vars)
