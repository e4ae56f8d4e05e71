"""A Zarr store as a tree, from its documents: a folder or a zip, of format 2 or 3."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from cellucid_prepare.inputs.zarr_library import zarr_for
from cellucid_prepare.ready.report import Findings, NotJudgedError
from cellucid_prepare.ready.tree import StoredArray, StoredGroup, place

# what viewers decode
V2_COMPRESSORS = {"gzip", "zlib", "blosc", "zstd", "lz4"}
V2_FILTERS = {"vlen-utf8", "shuffle"}
V3_CODECS = {"bytes", "vlen-utf8", "gzip", "zstd", "blosc", "crc32c", "transpose"}
SHARDING = "sharding_indexed"
V3_NUMBERS = ("bool", "int", "uint", "float", "complex")
DOCUMENTS = (".zarray", ".zgroup", ".zattrs", "zarr.json")


class Files(Protocol):
    """The files of a store."""

    def names(self) -> list[str]:
        """Their paths."""
        ...

    def content(self, name: str) -> bytes:
        """Of one of them."""
        ...

    def links(self) -> list[str]:
        """Those that are symbolic links, and folders that are."""
        ...


class FolderFiles:
    """Of a folder."""

    def __init__(self, root: Path) -> None:
        self._root = root
        # a store may have very many files, so they are looked up once
        paths = sorted(root.rglob("*"))
        self._names = [path.relative_to(root).as_posix() for path in paths if path.is_file()]
        self._links = [path.relative_to(root).as_posix() for path in paths if path.is_symlink()]

    def names(self) -> list[str]:
        """See `Files`."""
        return self._names

    def content(self, name: str) -> bytes:
        """See `Files`."""
        return (self._root / name).read_bytes()

    def links(self) -> list[str]:
        """See `Files`."""
        return self._links


class ZipFiles:
    """Of a zip, in its order; `top` is the folder of it that is the store."""

    def __init__(self, archive: zipfile.ZipFile, top: str) -> None:
        self._archive = archive
        self._top = f"{top}/" if top else ""

    def names(self) -> list[str]:
        """See `Files`."""
        return [
            name.removeprefix(self._top)
            for name in self._archive.namelist()
            if name.startswith(self._top) and not name.endswith("/")
        ]

    def content(self, name: str) -> bytes:
        """See `Files`."""
        return self._archive.read(self._top + name)

    def links(self) -> list[str]:
        """See `Files`."""
        return []


@contextmanager
def opened_values(path: Path, top: str) -> Iterator[Any]:
    """The store as zarr reads it.

    Raises
    ------
    ImportError
        zarr is not installed, or too old for the store.
    NotJudgedError
        It cannot be opened.
    """
    zarr = zarr_for(path, top, "checking")
    store: Any = str(path) if path.is_dir() else zarr.storage.ZipStore(str(path), mode="r")
    try:
        yield zarr.open_group(store, mode="r", path=top)
    except (OSError, KeyError, zipfile.BadZipFile) as error:
        raise NotJudgedError(f"{path} is damaged: {error}") from error
    finally:
        if not path.is_dir():
            store.close()


def documents(files: Files, path: Path) -> dict[str, Any]:
    """Every document of the store by its path.

    Raises `NotJudgedError` where one is no JSON object.
    """
    found: dict[str, Any] = {}
    for name in files.names():
        if name.rpartition("/")[2] not in DOCUMENTS:
            continue
        try:
            content = json.loads(files.content(name))
        except (ValueError, zipfile.BadZipFile, OSError) as error:
            raise NotJudgedError(f"{path} is damaged: {name} is no JSON ({error})") from error
        if not isinstance(content, dict):
            raise NotJudgedError(f"{path} is damaged: {name} is no JSON object")
        found[name] = content
    return found


def zarr_tree(found: Mapping[str, Any], values: Any, findings: Findings) -> StoredGroup:
    """The tree that documents describe; `values` is the store as zarr reads it."""
    paths = {name.rpartition("/")[0] for name in found}
    inner: dict[str, list[str]] = {}
    for path in sorted(paths - {""}):
        above = path.rpartition("/")[0]
        if above not in paths:
            findings.fault(place(path), "lies in a folder that is no group", "write it anew")
            continue
        inner.setdefault(above, []).append(path)

    def node(path: str) -> StoredArray | StoredGroup:
        def document(name: str) -> Any:
            return found.get(f"{path}/{name}" if path else name)

        plain = document(".zarray")
        three = document("zarr.json")
        if plain is not None:
            return _v2_array(path, plain, document(".zattrs") or {}, values)
        if three is not None and three.get("node_type") == "array":
            return _v3_array(path, three, values)
        attributes = (three or {}).get("attributes") if three else document(".zattrs")
        children = {child.rpartition("/")[2]: node(child) for child in inner.get(path, [])}
        return StoredGroup(path, attributes or {}, children)

    root = node("")
    if not isinstance(root, StoredGroup):
        return StoredGroup("", {})
    return root


def _reader(path: str, values: Any) -> Any:
    def read(start: int, stop: int) -> Any:
        array = values[path]
        return np.asarray(array[start:stop] if array.shape else array[()])

    return read


def _v2_array(path: str, document: Any, attributes: Any, values: Any) -> StoredArray:
    dtype = document.get("dtype")
    filters = [item.get("id") for item in document.get("filters") or []]
    compressor = (document.get("compressor") or {}).get("id")
    missing = [str(name) for name in filters if name not in V2_FILTERS]
    if compressor is not None and compressor not in V2_COMPRESSORS:
        missing.append(str(compressor))
    kind, size = "V", 0
    if isinstance(dtype, str):
        kind, size = np.dtype(dtype).kind, np.dtype(dtype).itemsize
    if kind == "O":
        kind = "T" if "vlen-utf8" in filters else "V"
    return StoredArray(
        path,
        attributes,
        tuple(int(length) for length in document["shape"]),
        kind,
        size,
        tuple(int(length) for length in document["chunks"]),
        _reader(path, values),
        tuple(missing),
        is_packed=compressor is not None,
    )


def _v3_array(path: str, document: Any, values: Any) -> StoredArray:
    codecs = document.get("codecs") or []
    sharded = [codec for codec in codecs if _name(codec) == SHARDING]
    chunks = document["chunk_grid"]["configuration"]["chunk_shape"]
    if sharded:
        inner = sharded[0]["configuration"]
        chunks = inner["chunk_shape"]
        codecs = [*inner.get("codecs", []), *inner.get("index_codecs", [])]
    data_type = document.get("data_type")
    kind, size = "V", 0
    if data_type == "string":
        kind = "T"
    elif isinstance(data_type, str) and data_type.startswith(V3_NUMBERS):
        kind, size = np.dtype(data_type).kind, np.dtype(data_type).itemsize
    return StoredArray(
        path,
        document.get("attributes") or {},
        tuple(int(length) for length in document["shape"]),
        kind,
        size,
        tuple(int(length) for length in chunks),
        _reader(path, values),
        tuple(name for codec in codecs if (name := _name(codec)) not in V3_CODECS),
        is_packed=len(codecs) > 1,
        is_sharded=bool(sharded),
    )


def _name(codec: Any) -> str:
    return str(codec.get("name") if isinstance(codec, dict) else codec)
