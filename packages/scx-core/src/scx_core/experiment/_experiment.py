"""An open .scx file, in the words of AnnData."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from scx_core._closing import Closing
from scx_core._errors import NameNotFoundError
from scx_core._user_warnings import warn_user
from scx_core.experiment._conversions import Conversions
from scx_core.experiment._describe import describe, section_list
from scx_core.experiment._matrix_view import MatrixView
from scx_core.experiment._modality import Modality, declare_columns
from scx_core.experiment._provenance import Provenance
from scx_core.experiment._raw import RawView
from scx_core.experiment._read_only import kept, locked, read_only_frame
from scx_core.experiment._sections import Sections
from scx_core.experiment._shared import SharedParts
from scx_core.experiment._shown_rows import ShownRows
from scx_core.experiment._validate import WHOLE_FILE, WHOLE_FILE_NAME, find_damage
from scx_core.metadata import read_column
from scx_core.native.container import FileInfo, FileReader

if TYPE_CHECKING:
    import pandas as pd
    import scipy.sparse as sp


class Experiment(Conversions, Closing):
    """A .scx file that is open for reading.

    Opening reads the catalog alone. `obs`, `var`, `uns` and the entries of `obsm`, `varm`, `obsp`
    and `varp` are decoded when they are first asked for, and kept. Nothing that is assigned
    reaches the file: arrays are read-only and raise ValueError, `obs`, `var`, `uns` and the
    mappings raise TypeError, properties AttributeError. `to_anndata()` gives objects of your own.
    Rows of `X`, `layers` and `raw.X` are decoded on every call. Threads may share an experiment;
    pickling keeps the path alone.

    Cells that `mark_deleted` has marked are left out of every part, and the others are numbered
    without gaps, so that obs, X and the rest fit together: `live_rows` holds the file's row of
    each.

    In a multimodal file `obs`, `obsm`, `obsp`, `varm`, `varp` and `uns` are those that all
    modalities share; each modality's own parts are those of `modality(name)`, `experiment[name]`
    for short.

    Parameters
    ----------
    path
        The file.
    verify
        Check what is read: sections against their hashes on first use, rows against their
        checksums. Damage is a `CorruptFileError` that names the place.
    include_deleted
        Show rows that are marked as deleted like all others, default False: everything has a row
        for each row of the file then.

    Raises
    ------
    CorruptFileError
        The file is no .scx file, damaged or cut off.
    ValueError
        It needs something that this version cannot do.
    OSError
        It cannot be opened.

    Warns
    -----
    ScxWarning
        The file has sections of types that this version does not know, which are left aside.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        verify: bool = True,
        include_deleted: bool = False,
    ) -> None:
        self._file = FileReader(path, verify=verify)
        self._sections = Sections(self._file)
        declare_columns(self._sections)
        self._shown = ShownRows(self._file, include_deleted=include_deleted)
        unknown = self._sections.unknown_types()
        if unknown:
            warn_user(f"{self.path}: sections of unknown types {unknown} are left aside")

    # ---- the file ----

    @property
    def path(self) -> str:
        """The file's path."""
        return self._file.path

    @property
    def file(self) -> FileReader:
        """The container underneath."""
        return self._file

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._file.closed

    def close(self) -> None:
        """Forget the file. Matrices and further parts can no longer be read."""
        self._file.close()

    def __reduce__(self) -> tuple[object, ...]:
        return _reopen, (self.path, self._file.verify, self._shown.include_deleted)

    def __repr__(self) -> str:
        return describe(self)

    def sections(self) -> list[dict[str, Any]]:
        """Every section of the file, in the order of the catalog.

        Returns
        -------
        Dicts with `name`, `type` (a word), `modality` (a name or None), `offset` and `length` in
        bytes; for shards also `codec`, `dtype`, `rows` (first, end), `nnz`, for others None.
        """
        return section_list(self._file)

    def provenance(self) -> list[dict[str, str | None]]:
        """By which steps the file was made, as far as it tells, the first one first.

        Returns
        -------
        Dicts with `time` (in UTC, None where it is not told), `action`, `tool` and `parameters`
        (JSON, or ""). Files of this package tell what they were made from, as the action, and by
        which version.
        """
        return [step.told() for step in self._provenance.steps()]

    def validate(self, *, deep: bool = False) -> list[tuple[str, bool]]:
        """Compare every section with its hash, and the file with its checksum.

        Parameters
        ----------
        deep
            Also decode every row and check its canonical form and the catalog's figures, and
            decode obs, var and all other tables.

        Returns
        -------
        A pair of name and verdict for each section, and one for the whole file, "(file)".
        `find_damage` gives the reasons.
        """
        damage = find_damage(self, deep=deep)
        verdicts = [(section.name, section.index not in damage) for section in self._file.sections]
        return [*verdicts, (WHOLE_FILE_NAME, WHOLE_FILE not in damage)]

    def find_damage(self, *, deep: bool = False) -> list[tuple[str, str]]:
        """What `validate` finds wrong: names of sections and messages; empty when all is well."""
        damage = find_damage(self, deep=deep)
        names = {section.index: section.name for section in self._file.sections}
        names[WHOLE_FILE] = WHOLE_FILE_NAME
        return [(names[index], message) for index, message in sorted(damage.items())]

    # ---- shape and axes ----

    @property
    def n_obs(self) -> int:
        """How many cells, without those that are marked as deleted."""
        return self._shown.n_shown

    @property
    def n_obs_physical(self) -> int:
        """How many rows the file has, those of deleted cells included."""
        return self._shown.n_physical

    @property
    def live_rows(self) -> npt.NDArray[np.int64]:
        """The file's row of each cell that is not deleted: int64, ascending, read-only.

        Row numbers of data sets and of `mark_deleted` are these.
        """
        live = self._shown.live
        if live is None:
            live = np.arange(self.n_obs_physical, dtype=np.int64)
            live.setflags(write=False)
        return live

    @property
    def deleted_rows(self) -> npt.NDArray[np.int64]:
        """The file's rows that are marked as deleted: int64, ascending, read-only."""
        return self._shown.deleted

    @property
    def n_vars(self) -> int:
        """How many genes; in a multimodal file, of the modality with the most."""
        return self._info.n_vars

    @property
    def shape(self) -> tuple[int, int]:
        """`(n_obs, n_vars)`."""
        return self.n_obs, self.n_vars

    @property
    def nnz(self) -> int:
        """How many values X stores; in a multimodal file, those of all modalities."""
        views = [modality.X for modality in self.parts()]
        return sum(view.nnz for view in views if view is not None)

    def __len__(self) -> int:
        return self.n_obs

    @property
    def obs(self) -> pd.DataFrame:
        """What is known of the cells, as a frame that refuses changes with a TypeError.

        `experiment.obs.copy()` can be changed at will.
        """
        return read_only_frame(self._obs)

    @kept
    def _obs(self) -> pd.DataFrame:
        return locked(self.shared.load_obs())

    @property
    def var(self) -> pd.DataFrame:
        """What is known of the genes; in a multimodal file, of those of all modalities.

        It refuses changes, as `obs` does.
        """
        return read_only_frame(self._var) if self.is_multimodal else self._only.var

    @kept
    def _var(self) -> pd.DataFrame:
        return locked(self.shared.load_var())

    @kept
    def obs_names(self) -> npt.NDArray[np.object_]:
        """Names of the cells, read without pandas; read-only."""
        return locked(self.shared.obs_names())

    @property
    def var_names(self) -> npt.NDArray[np.object_]:
        """Names of the genes, read without pandas; read-only."""
        if not self.is_multimodal:
            return self._only.var_names
        return self.shared.load_var().index.to_numpy(dtype=object)

    def obs_keys(self) -> list[str]:
        """Names of obs' columns, in their order."""
        return self.shared.obs_keys()

    def obs_column(self, name: str) -> Any:
        """One column of obs, read without pandas and without the other columns.

        Returns
        -------
        A numpy array of `n_obs` entries, or for a categorical
        `{"codes": int32 array, "categories": list}` with code -1 for a gap. Numbers with gaps are
        floats with NaN, text is an object array with None in its gaps.

        Raises
        ------
        KeyError
            There is no such column; the message lists those there are.
        OverflowError
            The column has gaps and whole numbers too large for float64; `obs` has it exactly.
        """
        buffer, section = self.shared.obs_bytes()
        column = self._sections.decoded(section, lambda: read_column(buffer, name, where="obs"))
        values = column["codes"] if isinstance(column, dict) else column
        self._sections.check_length(section, values, self.n_obs_physical)
        selection = self._shown.selection
        if selection is None:
            return column
        if isinstance(column, dict):
            return {**column, "codes": column["codes"][selection]}
        return column[selection]

    # ---- matrices ----

    @property
    def X(self) -> MatrixView | Any:  # not "| None": users know whether their file has one
        """The matrix, None when the file has none; of a modality in a multimodal file."""
        return self._single("X").X

    @property
    def layers(self) -> Mapping[str, MatrixView]:
        """The layers by name."""
        return self._single("layers").layers

    @property
    def raw(self) -> RawView | Any:
        """The matrix as it was before genes were taken out, or None."""
        return self._single("raw").raw

    def gather_rows(self, rows: Any, *, threads: int = 0) -> sp.csr_matrix:
        """Rows of X as a scipy CSR matrix, in the order asked for, repeats included.

        `rows` are whole numbers from 0 or names of cells, a slice or a boolean mask.
        """
        if self.X is None:
            raise ValueError(f"{self.path} has no X; its layers are {list(self.layers)}")
        return self.X.gather_rows(rows, threads=threads)

    # ---- aligned with the axes ----

    @property
    def obsm(self) -> Mapping[str, Any]:
        """Embeddings of the cells; arrays are read-only."""
        return self.shared.obsm if self.is_multimodal else self._only.obsm

    @property
    def varm(self) -> Mapping[str, Any]:
        """Embeddings of the genes."""
        return self.shared.varm if self.is_multimodal else self._only.varm

    @property
    def obsp(self) -> Mapping[str, Any]:
        """Square matrices over the cells; their arrays are read-only."""
        return self.shared.obsp if self.is_multimodal else self._only.obsp

    @property
    def varp(self) -> Mapping[str, Any]:
        """Square matrices over the genes."""
        return self.shared.varp if self.is_multimodal else self._only.varp

    @kept
    def uns(self) -> dict[str, Any]:
        """What has no axis, as a dict that refuses changes, as dicts, lists and arrays in it do."""
        return locked(self.shared.load_uns())

    # ---- modalities ----

    @property
    def is_multimodal(self) -> bool:
        """Whether the file has named modalities."""
        return self._info.n_modalities > 0

    @kept
    def modality_names(self) -> list[str]:
        """Names of the modalities in their order; none in a single-modality file."""
        return [modality.name for modality in self._file.modalities]

    def modality(self, name: str) -> Modality:
        """One modality of a multimodal file; KeyError when there is none of that name."""
        if not self.is_multimodal:
            raise NameNotFoundError(
                f"{self.path} has a single modality without a name, not {name!r}"
            )
        if name not in self._all_modalities:
            raise NameNotFoundError(
                f"{self.path} has no modality {name!r}; it has {self.modality_names}"
            )
        return self._all_modalities[name]

    def __getitem__(self, name: str) -> Modality:
        if not isinstance(name, str):
            raise TypeError(
                "an experiment is indexed by the name of a modality; rows are those of its "
                "matrices: `experiment.X[rows]`"
            )
        return self.modality(name)

    # ---- inside ----

    @kept
    def _info(self) -> FileInfo:
        return self._file.info

    @kept
    def _provenance(self) -> Provenance:
        return Provenance(self._sections)

    @kept
    def _all_modalities(self) -> dict[str, Modality]:
        modalities = [
            (modality.name, modality.modality_id, modality.n_vars)
            for modality in self._file.modalities
        ]
        return {
            name: Modality(
                self._sections,
                self._provenance,
                name=name,
                modality_id=modality_id,
                shown=self._shown,
                n_vars=n_vars,
                cell_names=self.shared.obs_names,
            )
            for name, modality_id, n_vars in modalities or [("", 0, self.n_vars)]
        }

    def parts(self) -> list[Modality]:
        """Every modality; of a single-modality file its one part, without a name."""
        return list(self._all_modalities.values())

    @property
    def _only(self) -> Modality:
        return self._all_modalities[""]

    def _single(self, what: str) -> Modality:
        if self.is_multimodal:
            raise ValueError(
                f"{self.path} is multimodal, so {what} belongs to a modality: "
                f"`experiment[{self.modality_names[0]!r}].{what}`; it has {self.modality_names}"
            )
        return self._only

    @kept
    def shared(self) -> SharedParts:
        """What all modalities share; of a single-modality file, obs and uns."""
        return SharedParts(self._sections, self._provenance, shown=self._shown)

    @property
    def sections_by_type(self) -> Sections:
        """The file's sections, for who reads parts of one."""
        return self._sections

    def with_deleted(self) -> Experiment:
        """The same open file with its deleted rows."""
        whole = object.__new__(Experiment)
        whole._file = self._file
        whole._sections = self._sections
        whole._shown = ShownRows(self._file, include_deleted=True)
        return whole


def _reopen(path: str, verify: bool, include_deleted: bool) -> Experiment:  # noqa: FBT001
    return Experiment(path, verify=verify, include_deleted=include_deleted)


def open(
    path: str | os.PathLike[str], *, verify: bool = True, include_deleted: bool = False
) -> Experiment:
    """Open a .scx file for reading; see `Experiment`.

    Parameters
    ----------
    path
        The file.
    verify
        Check what is read against its hashes and checksums.
    include_deleted
        Show rows that are marked as deleted like all others.
    """
    return Experiment(path, verify=verify, include_deleted=include_deleted)
