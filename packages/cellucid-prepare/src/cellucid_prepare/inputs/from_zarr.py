"""AnnData and MuData in Zarr, as a folder or a zip; their matrices stay in the store."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from traceback import walk_tb
from typing import Any

from cellucid_prepare._faults import PrepareError
from cellucid_prepare._threads import zarr_at_most
from cellucid_prepare.inputs.matrices import reading_means
from cellucid_prepare.inputs.parts import Multimodal, Part
from cellucid_prepare.inputs.zarr_library import zarr_for
from cellucid_prepare.inputs.zarr_matrices import zarr_source
from scx_core.sources.frames_with_bad_codes import LabelCodesError, element_despite_codes

ROOT_DOCUMENTS = ("zarr.json", ".zgroup")


class Members(Mapping[str, Any]):
    """The elements of a group, each read when it is asked for."""

    def __init__(self, group: Any, read: Any) -> None:
        self._group = group
        self._read = read

    def __getitem__(self, key: str) -> Any:
        return self._read(self._group[key])

    def __iter__(self) -> Iterator[str]:
        return iter(self._group)

    def __len__(self) -> int:
        return len(self._group)


@contextmanager
def zarr_content(path: Path) -> Iterator[Part | Multimodal]:
    """What the store at `path` holds; it can be read inside the block only.

    Raises
    ------
    ValueError
        It holds neither an AnnData nor a MuData, or is damaged.
    ImportError
        zarr is not installed, or too old for the store.
    """
    if path.is_dir():
        zarr = zarr_for(path, "", "reading")
        with _damage_named(path), zarr_at_most(zarr):
            yield _content(_opened(zarr, str(path), "", path), path)
        return
    inside = root_in_zip(path)
    zarr = zarr_for(path, inside, "reading")
    store = zarr.storage.ZipStore(str(path), mode="r")
    try:
        with _damage_named(path), zarr_at_most(zarr):
            yield _content(_opened(zarr, store, inside, path), path)
    finally:
        store.close()


@contextmanager
def _damage_named(path: Path) -> Iterator[None]:
    """What zarr raises while it reads knows neither the store nor the array; told with both."""
    try:
        yield
    except (OSError, MemoryError):
        raise  # the machine's, not the store's
    except Exception as error:
        frames = [frame for frame, _ in walk_tb(error.__traceback__)]
        if isinstance(error, PrepareError) or not any(map(_is_of_zarr, frames)):
            raise
        names = (getattr(frame.f_locals.get("self"), "name", None) for frame in frames)
        place = next((f"{name} " for name in names if isinstance(name, str)), "it ")
        raise ValueError(
            f"{path} is damaged: {place}cannot be read: {_reason(error)}; get it again, or write "
            "it anew"
        ) from error


def _is_of_zarr(frame: Any) -> bool:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] == "zarr"


def _reason(error: Exception) -> str:
    text = str(error).strip()
    return text.splitlines()[0] if text else repr(error)


def root_in_zip(path: Path) -> str:
    """The folder of a zip in which the store lies: "" or a single one at the top.

    Raises ValueError where there is no store.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, OSError) as error:
        raise ValueError(f"{path} is a damaged zip archive: {error}") from error
    for document in ROOT_DOCUMENTS:
        if document in names:
            return ""
    tops = {name.partition("/")[0] for name in names if not name.startswith("__MACOSX/")}
    if len(tops) == 1 and any(f"{next(iter(tops))}/{name}" in names for name in ROOT_DOCUMENTS):
        return tops.pop()
    raise ValueError(f"{path} is a zip archive without a Zarr store at its top")


def _opened(zarr: Any, store: Any, inside: str, path: Path) -> Any:
    try:
        return zarr.open_group(store, mode="r", path=inside)
    except Exception as error:
        raise ValueError(f"{path} cannot be opened as a Zarr store: {error}") from error


def _content(root: Any, path: Path) -> Part | Multimodal:
    if "mod" not in root:
        return _part(root, path)
    held = root["mod"]
    order = [str(name) for name in held.attrs.get("mod-order", [])]
    names = order if sorted(order) == sorted(held) else list(held)
    _need(root, ("obs", "obsmap"), path, "MuData")
    read = partial(_read, path=path)
    return Multimodal(
        {name: _part(held[name], path) for name in names},
        obs=read(root["obs"]),
        obsmap=Members(root["obsmap"], read),
        axis=int(root.attrs.get("axis", 0)),
        **{name: _members(root, name, read) for name in ("obsm", "obsp", "varm", "varp")},
        uns=read(root["uns"]) if "uns" in root else {},
    )


def _part(group: Any, path: Path) -> Part:
    _need(group, ("obs", "var"), path, "AnnData")
    read = partial(_read, path=path)

    def matrix(item: Any) -> Any:
        return zarr_source(item, reading_means())

    def is_there(name: str) -> bool:
        return name in group and group[name].attrs.get("encoding-type") != "null"

    return Part(
        obs=read(group["obs"]),
        var=read(group["var"]),
        X=matrix(group["X"]) if is_there("X") else None,
        layers=Members(group["layers"], matrix) if "layers" in group else {},
        **{name: _members(group, name, read) for name in ("obsm", "obsp", "varm", "varp")},
        uns=read(group["uns"]) if "uns" in group else {},
        raw=group["raw"] if is_there("raw") else None,
    )


def _need(group: Any, names: tuple[str, ...], path: Path, what: str) -> None:
    for name in names:
        if name not in group:
            raise ValueError(f"{path}: {group.name} has no {name!r}, so it is no {what}")


def _members(group: Any, name: str, read: Any) -> Mapping[str, Any]:
    return Members(group[name], read) if name in group else {}


def _read(item: Any, *, path: Path) -> Any:
    import anndata

    try:
        return anndata.io.read_elem(item)
    except (OSError, MemoryError):
        raise
    except Exception as error:
        try:
            despite = element_despite_codes(item, partial(_read, path=path))
        except LabelCodesError as codes:
            raise ValueError(f"{path}: {item.name}: {codes}") from error
        if despite is not None:
            return despite
        raise ValueError(f"{path}: {item.name} cannot be read: {_reason(error)}") from error
