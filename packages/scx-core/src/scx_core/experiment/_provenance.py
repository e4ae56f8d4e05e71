"""Reading back what a file remembers of how its matrices were held."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, cast, get_args

import numpy as np

from scx_core._section_names import SectionType
from scx_core._value_types import stored_dtype
from scx_core.experiment._sections import Sections
from scx_core.metadata.history import Step, read_history
from scx_core.sources.base import IndexDtypes, IndexWidth, MatrixForm


@dataclass(frozen=True)
class HeldAs:
    """The dtype, form and index widths that a matrix had when it was written."""

    dtype: np.dtype[Any]
    form: MatrixForm
    index_dtypes: IndexDtypes | None

    @classmethod
    def default(cls, dtype: np.dtype[Any]) -> HeldAs:
        """For matrices of which nothing is remembered: scipy's usual one, as it is stored."""
        return cls(dtype, "csr_matrix", ("int32", "int32"))

    @classmethod
    def parse(cls, described: Any, stored: np.dtype[Any] | None) -> HeldAs:
        """From the provenance's JSON; ValueError when it is none or contradicts the shards.

        `stored` is the dtype of the values in the file, None where there are no shards.
        """
        if not isinstance(described, Mapping):
            raise ValueError("a matrix is not described by an object")
        try:
            dtype = np.dtype(described["dtype"])
        except (KeyError, TypeError, SyntaxError, ValueError) as error:
            raise ValueError(f"the dtype {described.get('dtype')!r} is none") from error
        if stored_dtype(dtype) is None or (stored is not None and stored_dtype(dtype) != stored):
            raise ValueError(f"the dtype {dtype} does not fit the stored values of {stored}")
        form = described.get("form")
        if form not in get_args(MatrixForm):
            raise ValueError(f"the form {form!r} is unknown")
        if form == "dense":
            return cls(dtype, "dense", None)
        widths = (described.get("indices", "int32"), described.get("indptr", "int32"))
        if any(width not in get_args(IndexWidth) for width in widths):
            raise ValueError(f"the index widths {widths} are unknown")
        return cls(dtype, cast(MatrixForm, form), cast(IndexDtypes, widths))


class Provenance:
    """The provenance section, parsed when it is first asked for; empty where there is none."""

    def __init__(self, sections: Sections) -> None:
        self._sections = sections

    @cached_property
    def content(self) -> Mapping[str, Any]:
        """The section's JSON; empty where another writer has put something else there.

        No matrix of such a file needs it.
        """
        encoded = self._encoded
        if encoded is None or not encoded.startswith(b"{"):
            return {}
        content: dict[str, Any] = self._sections.decoded("provenance", partial(json.loads, encoded))
        return content

    def steps(self) -> list[Step]:
        """What was done to make the file; CorruptFileError where it is neither JSON nor a list."""
        encoded = self._encoded
        if encoded is None:
            return []
        if not encoded.startswith(b"{"):
            return self._sections.decoded("provenance", partial(read_history, encoded))
        return [Step(None, str(self.content.get("source")), str(self.content.get("writer")), "")]

    @property
    def _encoded(self) -> bytes | None:
        found = self._sections.of(SectionType.PROVENANCE, 0)
        return bytes(self._sections.bytes_of(found[0])) if found else None

    @property
    def axis(self) -> int:
        """MuData's axis."""
        axis = self.content.get("axis", 0)
        if axis not in (0, 1, -1):
            raise self._sections.damage("provenance", f"the axis {axis!r} is none of 0, 1 and -1")
        return int(axis)

    def matrices(self, modality: str) -> Mapping[str, Any]:
        """How the matrices of a modality were held; empty when nothing is remembered."""
        described: Any = self.content
        if modality:
            modalities = self.content.get("modalities", {})
            described = modalities.get(modality, {}) if isinstance(modalities, dict) else None
        matrices = described.get("matrices", {}) if isinstance(described, dict) else None
        layers = matrices.get("layers", {}) if isinstance(matrices, dict) else None
        if not isinstance(matrices, dict) or not isinstance(layers, dict):
            raise self._sections.damage("provenance", "its matrices are no JSON objects")
        return matrices
