"""The metadata documents of Zarr 2 and Zarr 3."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from cellucid_prepare.encode.codecs import LEVEL
from cellucid_prepare.layout.nodes import ArraySpec, Attributes, Text


def document(content: Any) -> bytes:
    """JSON as it lies in a store."""
    return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False).encode("utf-8")


def v2_array(spec: ArraySpec) -> dict[str, Any]:
    """``.zarray`` of an array of numbers."""
    filters = [{"id": "shuffle", "elementsize": spec.dtype.itemsize}] if spec.shuffled else None
    return _v2(
        spec.shape, spec.chunks, spec.dtype.newbyteorder("<").str, _fill(spec.dtype), filters
    )


def v2_text(text: Text) -> dict[str, Any]:
    """``.zarray`` of text."""
    return _v2(text.shape, text.chunks, "|O", "", [{"id": "vlen-utf8"}])


def _v2(
    shape: tuple[int, ...],
    chunks: tuple[int, ...],
    dtype: str,
    fill: Any,
    filters: list[dict[str, Any]] | None,
) -> dict[str, Any]:
    return {
        "shape": list(shape),
        "chunks": list(chunks),
        "dtype": dtype,
        "fill_value": fill,
        "order": "C",
        "filters": filters,
        "dimension_separator": ".",
        "compressor": {"id": "zlib", "level": LEVEL},
        "zarr_format": 2,
    }


def v3_array(spec: ArraySpec) -> dict[str, Any]:
    """``zarr.json`` of an array of numbers."""
    to_bytes: dict[str, Any] = {"name": "bytes"}
    if spec.dtype.itemsize > 1:
        to_bytes["configuration"] = {"endian": "little"}
    compression: dict[str, Any] = _gzip()
    if spec.shuffled:
        compression = {
            "name": "blosc",
            "configuration": {
                "typesize": spec.dtype.itemsize,
                "cname": "zlib",
                "clevel": LEVEL,
                "shuffle": "shuffle",
                "blocksize": 0,
            },
        }
    codecs = [to_bytes, compression]
    return _v3(spec.shape, spec.chunks, spec.dtype.name, _fill(spec.dtype), codecs, spec.attributes)


def v3_text(text: Text) -> dict[str, Any]:
    """``zarr.json`` of text."""
    codecs = [{"name": "vlen-utf8", "configuration": {}}, _gzip()]
    return _v3(text.shape, text.chunks, "string", "", codecs, text.attributes)


def _gzip() -> dict[str, Any]:
    return {"name": "gzip", "configuration": {"level": LEVEL}}


def _v3(
    shape: tuple[int, ...],
    chunks: tuple[int, ...],
    dtype: str,
    fill: Any,
    codecs: list[dict[str, Any]],
    attributes: Attributes,
) -> dict[str, Any]:
    return {
        "shape": list(shape),
        "data_type": dtype,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(chunks)}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": fill,
        "codecs": codecs,
        "attributes": dict(attributes),
        "zarr_format": 3,
        "node_type": "array",
        "storage_transformers": [],
    }


def v3_group(attributes: Attributes) -> dict[str, Any]:
    """``zarr.json`` of a group."""
    return {"attributes": dict(attributes), "zarr_format": 3, "node_type": "group"}


def v3_consolidated(
    root: Mapping[str, Any], members: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """The root's ``zarr.json`` with the documents of all that lies under it."""
    inline = {"kind": "inline", "must_understand": False, "metadata": dict(members)}
    return {
        "attributes": root["attributes"],
        "zarr_format": 3,
        "consolidated_metadata": inline,
        "node_type": "group",
    }


def v2_consolidated(documents: Mapping[str, Any]) -> dict[str, Any]:
    """``.zmetadata`` over documents by their paths."""
    return {"metadata": dict(documents), "zarr_consolidated_format": 1}


def _fill(dtype: np.dtype[Any]) -> Any:
    if dtype.kind == "b":
        return False
    return 0.0 if dtype.kind == "f" else 0
