"""Opening the matrices of a file: which there are, how they were held, and their views."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from scx_core._section_names import SectionType, layer_of
from scx_core._value_types import stored_dtype
from scx_core.experiment._indexing import Axis
from scx_core.experiment._matrix_view import Address, MatrixView, ViewRows
from scx_core.experiment._provenance import HeldAs
from scx_core.experiment._sections import Sections
from scx_core.experiment._shown_rows import Rows
from scx_core.native.matrix import Matrix

Names = Callable[[], npt.NDArray[np.object_]]

FLOAT32 = np.dtype(np.float32)


def open_matrix(
    sections: Sections,
    section_type: SectionType,
    modality_id: int,
    name: str,
    *,
    described: Any,
    shape: tuple[int, int],
    selection: Rows | None,
    address: Address,
    cell_names: Names,
    gene_names: Names,
) -> MatrixView:
    """The view of a matrix. `described` is what the provenance remembers of it, or None.

    `shape` is that in the file, `selection` the rows that the view has, None for all; `cell_names`
    and `gene_names` give the names of the view's axes.

    A matrix of a file without rows has no shards: it is known from the provenance alone.
    """
    file = sections.file
    matrix = None
    if sections.of(section_type, modality_id):
        try:
            matrix = Matrix(file, section_type=section_type, name=name, modality_id=modality_id)
        except KeyError:
            raise sections.damage(
                name, f"the first shard of {address.label} is missing, or called otherwise"
            ) from None
        if matrix.shape != shape:
            raise sections.damage(
                name,
                f"{address.label} is {matrix.shape[0]} x {matrix.shape[1]} by its shards, "
                f"but {shape[0]} x {shape[1]} by obs and var",
            )
    elif shape[0] > 0:
        raise sections.damage(name, f"the shards of {address.label} are missing")
    stored = None if matrix is None else matrix.dtype
    if described is None:
        held = HeldAs.default(FLOAT32 if stored is None else stored)
    else:
        held = sections.decoded("provenance", lambda: HeldAs.parse(described, stored))
    if stored is None:
        stored = stored_dtype(held.dtype)
        assert stored is not None  # HeldAs.parse refuses others
    rows = ViewRows(shape[0], selection)
    return MatrixView(
        file,
        matrix,
        rows=rows,
        cells=Axis("cell", len(rows), cell_names),
        genes=Axis("gene", shape[1], gene_names),
        stored_dtype=stored,
        held=held,
        address=address,
    )


def layer_names(
    sections: Sections, modality_id: int, modality: str, described: Mapping[str, Any]
) -> list[str]:
    """The layers, in the order in which they were written."""
    found: dict[str, None] = dict.fromkeys(described.get("layers", {}))
    for section in sections.of(SectionType.LAYER_CSR_SHARD, modality_id):
        name = section.name
        found[sections.decoded(name, partial(layer_of, name, modality))] = None
    return list(found)
