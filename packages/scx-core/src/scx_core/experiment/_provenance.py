"""Reading back what a file remembers of how its matrices were held."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast, get_args

import numpy as np

from scx_core._value_types import stored_dtype
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


@dataclass(frozen=True)
class Provenance:
    """The provenance section; empty for files of other writers."""

    content: Mapping[str, Any]

    @classmethod
    def parse(cls, section: bytes) -> Provenance:
        """From the section's bytes; ValueError when they are no JSON object."""
        content = json.loads(section)
        if not isinstance(content, dict):
            raise ValueError("it is no JSON object")
        return cls(content)

    @property
    def axis(self) -> int:
        """MuData's axis."""
        axis = self.content.get("axis", 0)
        if axis not in (0, 1, -1):
            raise ValueError(f"the axis {axis!r} is none of 0, 1 and -1")
        return int(axis)

    def matrices(self, modality: str) -> Mapping[str, Any] | None:
        """How the matrices of a modality were held; None when nothing is remembered."""
        described: Any = self.content
        if modality:
            modalities = self.content.get("modalities", {})
            described = modalities.get(modality, {}) if isinstance(modalities, dict) else {}
        matrices = described.get("matrices") if isinstance(described, dict) else None
        if matrices is not None and not isinstance(matrices, dict):
            raise ValueError("its matrices are no JSON object")
        return matrices
