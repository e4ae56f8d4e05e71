"""An AnnData in an HDF5 file as content for the writer, its matrices left on disk."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from scx_core._errors import NameNotFoundError
from scx_core._user_warnings import warn_user
from scx_core.sources.anndata_memory import modality_from_anndata
from scx_core.sources.base import ExperimentContent, MatrixSource, ModalityContent
from scx_core.sources.h5_elements import (
    ALIGNED,
    assembled,
    label_old_categoricals,
    read_element,
    read_frame,
    read_without_matrices,
)
from scx_core.sources.h5_matrices import OnDisk, ReadingMeans, matrix_source
from scx_core.sources.hdf5 import (
    Dataset,
    Group,
    attribute,
    check_readable,
    is_dataset,
    is_group,
    open_hdf5,
    where,
)
from scx_core.sources.lazy_components import add_lazy_components, lazy_kinds
from scx_core.sources.unreadable import UnreadableMatrix

KNOWN = {"X", "layers", "obs", "var", *ALIGNED, "uns", "raw"}


@contextmanager
def h5ad_content(
    path: Path, means: ReadingMeans, *, layers: Sequence[str] | None = None
) -> Iterator[ExperimentContent]:
    """Describe the AnnData file at `path`; the content can be read inside the `with` block only.

    Raises
    ------
    ValueError
        The file is something else, is damaged, or uses a compression that is missing here.
    KeyError
        `layers` names a layer that is not there.
    """
    with open_hdf5(path, "from_h5ad", "an .h5ad file") as file:
        _refuse_other_kinds(path, file)
        check_readable(file)
        name_what_is_left(file)
        adata = read_without_matrices(file, without=lazy_kinds(file))
        modality = modality_from_anndata(adata)
        add_lazy_components(modality, file, adata)
        matrices_on_disk(modality, file, adata.shape, means, layers=layers)
        yield ExperimentContent(
            obs=adata.obs,
            modalities={"": modality},
            provenance={"source": "h5ad", "file": path.name},
        )


def matrices_on_disk(
    content: ModalityContent,
    group: Group,
    shape: tuple[int, int],
    means: ReadingMeans,
    *,
    layers: Sequence[str] | None,
) -> None:
    """Give `content` the matrices of the AnnData in `group`: X, the chosen layers, and raw."""
    content.X = _matrix_at(group, "X", shape, means)
    content.layers = _layers(group, shape, layers, means)
    _add_raw(content, group, shape[0], means)


def layer_names(group: Group) -> list[str]:
    """The layers of an AnnData in HDF5."""
    return list(_group_at(group, "layers"))


def _refuse_other_kinds(path: Path, file: Group) -> None:
    from scx_core.sources.detect import advice, source_kind

    if source_kind(path) != "h5ad":
        raise ValueError(f"{path} is not an .h5ad file: {advice(path, 'from_h5ad')}")


def name_what_is_left(group: Group) -> None:
    """Warn of elements that AnnData does not know."""
    left = [name for name in group if name not in KNOWN and not name.startswith("raw.")]
    if left:
        warn_user(
            f"{where(group)} holds {', '.join(map(repr, left))}, which AnnData does not know; not "
            "converted"
        )


def _layers(
    group: Group, shape: tuple[int, int], wanted: Sequence[str] | None, means: ReadingMeans
) -> dict[str, MatrixSource]:
    present = layer_names(group)
    chosen = present if wanted is None else [wanted] if isinstance(wanted, str) else list(wanted)
    for name in chosen:
        if name not in present:
            raise NameNotFoundError(f"layers: there is no layer {name!r}; there are {present}")
    # listed by name, so that a slash in a name is no path
    return {
        name: _source_of(item, item.name.strip("/"), shape, means)
        for name, item in _members(group, "layers")
        if name in chosen
    }


def _members(group: Group, name: str) -> list[tuple[str, Group | Dataset]]:
    return list(_group_at(group, name).items())


def _group_at(group: Group, name: str) -> Mapping[str, Any]:
    """The group `name`, which may be missing or null; ValueError for anything else."""
    item = group.get(name)
    if item is None or is_null(item):
        return {}
    if not is_group(item):
        raise ValueError(f"{where(item)} is a dataset where a group is expected")
    return cast("Mapping[str, Any]", item)


def _matrix_at(
    group: Group, name: str, shape: tuple[int, int], means: ReadingMeans
) -> MatrixSource | None:
    item = group.get(name)
    if item is None or is_null(item):
        return None
    return _source_of(item, item.name.strip("/"), shape, means)


def _source_of(
    item: Group | Dataset, name: str, shape: tuple[int, int], means: ReadingMeans
) -> MatrixSource:
    """The matrix, which `skip` calls `name`: it may be left out where it cannot be read."""
    try:
        return checked_shape(item, matrix_source(item, means), shape)
    except ValueError as error:
        return UnreadableMatrix(error, name)


def is_null(item: Group | Dataset) -> bool:
    """Whether an element stands for None."""
    return is_dataset(item) and (item.shape is None or attribute(item, "encoding-type") == "null")


def checked_shape(item: Group | Dataset, source: OnDisk, shape: tuple[int, int]) -> OnDisk:
    """`source`, once it is known to have `shape`."""
    if source.shape != shape:
        raise ValueError(
            f"{where(item)} is {source.shape[0]} x {source.shape[1]}, but obs and var are for "
            f"{shape[0]} cells x {shape[1]} genes"
        )
    return source


def _add_raw(content: ModalityContent, group: Group, n_obs: int, means: ReadingMeans) -> None:
    import pandas as pd

    parts = raw_parts(group)
    if not parts:
        return
    if "var" not in parts:
        raise ValueError(f"{where(group)} has a raw matrix without the table of its genes")
    name = f"{group.name}/raw".strip("/")
    try:
        _add_raw_annotations(content, parts)
    except ValueError as error:
        # Nothing but its being there is known of it.
        content.raw_var, content.raw_X = pd.DataFrame(), UnreadableMatrix(error, name)
        return
    if "X" in parts and not is_null(parts["X"]):
        assert content.raw_var is not None
        shape = n_obs, len(content.raw_var)
        content.raw_X = _source_of(parts["X"], name, shape, means)


def _add_raw_annotations(content: ModalityContent, parts: dict[str, Group | Dataset]) -> None:
    var = read_frame(parts["var"])
    labels = read_element(parts["cat"]) if "cat" in parts else None
    if isinstance(labels, Mapping):
        label_old_categoricals([var], labels)
    annotations = assembled(
        parts["var"],
        var=var,
        varm=raw_components(read_element(parts["varm"])) if "varm" in parts else {},
    )
    content.raw_var = annotations.var
    content.raw_varm = dict(annotations.varm)


def raw_parts(group: Group) -> dict[str, Group | Dataset]:
    """The elements of raw: in a group since anndata 0.7, as `raw.X` and so on before.

    `raw.cat` has the labels of the categorical columns of `raw.var`.
    """
    if "raw" in group:
        raw = _group_at(group, "raw")
        return {name: raw[name] for name in ("X", "var", "varm") if name in raw}
    names = ("X", "var", "varm", "cat")
    return {name: group[f"raw.{name}"] for name in names if f"raw.{name}" in group}


def raw_components(value: Any) -> dict[str, Any]:
    """raw.varm as a plain mapping; a table of records before anndata 0.7."""
    if isinstance(value, Mapping):
        return dict(value)
    names = getattr(getattr(value, "dtype", None), "names", None) or ()
    return {name: value[name] for name in names}
