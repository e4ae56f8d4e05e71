"""Looking for damage: every hash, and in depth every row and every table."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from scx_core._errors import CorruptFileError
from scx_core._section_names import MATRIX_SHARD_TYPES, SectionType
from scx_core.native.container import FileReader

if TYPE_CHECKING:
    from scx_core.experiment._experiment import Experiment
    from scx_core.experiment._matrix_view import MatrixView
    from scx_core.experiment._modality import Modality
    from scx_core.experiment._raw import RawView
    from scx_core.experiment._shared import SharedParts

Value = TypeVar("Value")

# stands for the file as a whole among the numbers of sections
WHOLE_FILE = -1
WHOLE_FILE_NAME = "(file)"


def find_damage(experiment: Experiment, *, deep: bool) -> dict[int, str]:
    """What is wrong, by the number of the section (or `WHOLE_FILE`); empty when all is well."""
    search = _Search(experiment)
    search.hashes(experiment.file)
    if deep:
        search.attempt(lambda: experiment.deleted_rows)
        search.attempt(experiment._provenance.steps)
        experiment = experiment.with_deleted()  # what is wrong with those counts as well
        search.shared(experiment.shared, multimodal=experiment.is_multimodal)
        for modality in experiment.parts():
            search.modality(modality)
    return search.damage


class _Search:
    """Tries to read one part after another and writes down where that fails."""

    def __init__(self, experiment: Experiment) -> None:
        self._sections = experiment.file.sections
        self.damage: dict[int, str] = {}

    def attempt(
        self, read: Callable[[], Value], *, shards: SectionType | None = None
    ) -> Value | None:
        """What `read` gives; `shards` is the type of a matrix's sections, None for no matrix."""
        try:
            return read()
        except CorruptFileError as error:
            self.damage.setdefault(self._place(error, shards), str(error))
            return None

    def hashes(self, file: FileReader) -> None:
        for section in self._sections:
            try:
                file.verify_section(section.index)
            except CorruptFileError as error:
                self.damage[section.index] = str(error)
        self.attempt(file.verify_checksum)

    def shared(self, shared: SharedParts, *, multimodal: bool) -> None:
        self.attempt(shared.load_obs)
        self.attempt(shared.load_uns)
        if multimodal:
            self.attempt(lambda: shared.axis)
            if shared.has_var:
                self.attempt(shared.load_var)
            for kind in ("obsm", "varm", "obsp", "varp"):
                self._components(partial(shared.loaders, kind))

    def modality(self, modality: Modality) -> None:
        self.attempt(modality.load_var)
        self.attempt(modality.load_obs)
        self.attempt(modality.load_uns)
        for kind in ("obsm", "varm", "obsp", "varp"):
            self._components(partial(modality.loaders, kind))
        self._matrix(lambda: modality.X, SectionType.CSR_SHARD)
        layers = self.attempt(lambda: modality.layers)
        for name in layers or ():
            self._matrix(partial(modality.layers.__getitem__, name), SectionType.LAYER_CSR_SHARD)
        raw = self.attempt(lambda: modality.raw)
        if raw is not None:
            self._raw(raw)

    def _raw(self, raw: RawView) -> None:
        self.attempt(raw.load_var)
        self._components(raw.varm_loaders)
        self._matrix(lambda: raw.X, SectionType.RAW_CSR_SHARD)

    def _components(self, loaders: Callable[[], dict[str, Callable[[], object]]]) -> None:
        for load in (self.attempt(loaders) or {}).values():
            self.attempt(load)

    def _matrix(self, get: Callable[[], MatrixView | None], shards: SectionType) -> None:
        view = self.attempt(get, shards=shards)
        if view is not None:
            self.attempt(view.validate, shards=shards)

    def _place(self, error: CorruptFileError, shards: SectionType | None) -> int:
        # names are unique among the sections of a type only: a layer may be called X
        places = [section for section in self._sections if section.name == error.section]
        for section in places:
            if section.section_type == shards:
                return section.index
        for section in places:
            if section.section_type not in MATRIX_SHARD_TYPES:
                return section.index
        return WHOLE_FILE
