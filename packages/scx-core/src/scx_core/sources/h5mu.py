"""A MuData in an HDF5 file as content for the writer, its matrices left on disk."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from scx_core._errors import NameNotFoundError
from scx_core.sources.base import ExperimentContent, MatrixSource, ModalityContent
from scx_core.sources.detect import advice, source_kind
from scx_core.sources.h5_elements import (
    ALIGNED,
    read_element,
    read_frame,
    read_uns,
    read_without_matrices,
)
from scx_core.sources.h5_matrices import OnDisk, ReadingMeans
from scx_core.sources.h5ad import layer_names, matrices_on_disk, name_what_is_left
from scx_core.sources.hdf5 import (
    Group,
    attribute,
    check_readable,
    is_group,
    open_hdf5,
    where,
)
from scx_core.sources.lazy_components import add_lazy_components, lazy_kinds
from scx_core.sources.mudata_memory import content_from_mudata
from scx_core.sources.reordered_rows import ReorderedRows
from scx_core.sources.unreadable import UnreadableMatrix

if TYPE_CHECKING:
    import mudata


@contextmanager
def h5mu_content(
    path: Path, means: ReadingMeans, *, layers: Sequence[str] | None = None
) -> Iterator[ExperimentContent]:
    """Describe the MuData file at `path`; the content can be read inside the `with` block only.

    Raises
    ------
    ValueError
        The file is something else, is damaged, or uses a compression that is missing here.
    KeyError
        `layers` names a layer that no modality has.
    ImportError
        mudata is not installed.
    """
    with open_hdf5(path, "from_h5mu", "an .h5mu file") as file:
        if source_kind(path) != "h5mu":
            raise ValueError(f"{path} is not an .h5mu file: {advice(path, 'from_h5mu')}")
        check_readable(file)
        groups = modality_groups(file)
        _check_layers(groups, layers)
        mdata = _without_matrices(file, groups)
        content = content_from_mudata(mdata)
        for name, group in groups.items():
            name_what_is_left(group)
            add_lazy_components(content.modalities[name], group, mdata.mod[name])
            _add_matrices(content.modalities[name], group, means, layers)
        content.provenance = {"source": "h5mu", "file": path.name}
        yield content


def modality_groups(file: Group) -> dict[str, Group]:
    """The modalities of a MuData file, in MuData's order."""
    held = file["mod"]
    names = list(held)
    ordered = attribute(held, "mod-order")
    if ordered is not None:
        listed = [name.decode() if isinstance(name, bytes) else str(name) for name in ordered]
        names = listed if sorted(listed) == sorted(names) else names
    for name in names:
        if not is_group(held[name]) or "mod" in held[name]:
            raise ValueError(
                f"{where(held[name])} is no AnnData; a .scx file holds modalities of AnnData only"
            )
    return {name: held[name] for name in names}


def _without_matrices(file: Group, groups: dict[str, Group]) -> mudata.MuData:
    """The MuData that mudata would read, but for the matrices of its modalities."""
    try:
        import mudata
    except ImportError as error:
        raise ImportError(
            "reading an .h5mu file needs mudata, which is not installed: `pip install mudata`"
        ) from error
    parts: dict[str, Any] = {
        name: read_frame(file[name]) for name in ("obs", "var") if name in file
    }
    for name in (*ALIGNED, "uns", "obsmap", "varmap"):
        if name in file:
            parts[name] = read_uns(file[name]) if name == "uns" else read_element(file[name])
    axis = attribute(file, "axis")
    if axis is not None:
        parts["axis"] = int(axis)
    with warnings.catch_warnings():
        # what mudata remarks on repeated names concerns whoever made the file
        warnings.simplefilter("ignore")
        modalities = {
            name: read_without_matrices(group, without=lazy_kinds(group))
            for name, group in groups.items()
        }
        try:
            return mudata.MuData(modalities, **parts)
        except (ValueError, TypeError, IndexError, KeyError) as error:
            raise ValueError(f"{where(file)} is no sound MuData: {error}") from error


def _check_layers(groups: dict[str, Group], layers: Sequence[str] | None) -> None:
    there = sorted({layer for group in groups.values() for layer in layer_names(group)})
    for layer in layers or ():
        if layer not in there:
            raise NameNotFoundError(f"layers: no modality has a layer {layer!r}; there are {there}")


def _add_matrices(
    content: ModalityContent, group: Group, means: ReadingMeans, layers: Sequence[str] | None
) -> None:
    own = None if layers is None else [name for name in layers if name in layer_names(group)]
    assert content.rows is not None and content.obs is not None  # content_from_mudata sets them
    shape = len(content.obs), len(content.var)
    matrices_on_disk(content, group, shape, means, layers=own)
    if np.all(np.diff(content.rows) > 0):
        return
    order = np.argsort(content.rows)

    def ordered(source: MatrixSource) -> MatrixSource:
        if isinstance(source, UnreadableMatrix):
            return source
        return reordered(source, order, means)

    content.X = None if content.X is None else ordered(content.X)
    content.raw_X = None if content.raw_X is None else ordered(content.raw_X)
    content.layers = {name: ordered(layer) for name, layer in content.layers.items()}


def reordered(
    source: MatrixSource, order: npt.NDArray[np.int64], means: ReadingMeans
) -> MatrixSource:
    """`source` with its rows in `order`."""
    assert isinstance(source, OnDisk)
    return ReorderedRows(source, order, means)
