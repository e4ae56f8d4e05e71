"""Rules on what a browser must fetch of a file before it shows anything."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from cellucid_prepare.ready.hdf5_tree import WatchedFile
from cellucid_prepare.ready.report import PREPARE, Findings, NotJudgedError
from cellucid_prepare.ready.tree import StoredArray, StoredGroup, encoding

# a viewer's first request of an HDF5 file
FIRST_REQUEST_BYTES = 512 << 10


def read_for_opening(group: StoredGroup) -> None:
    """Read the values that opening needs: uns, names of genes, pointers, labels."""
    for _, modality in modalities(group):
        var = modality.group("var")
        if var is not None:
            index = var.array(str(var.attributes.get("_index", "_index")))
            _read([index])
        X = modality.group("X")
        _read([None if X is None else X.array("indptr")])
        obs = modality.group("obs")
        for column in (obs.children if obs is not None else {}).values():
            if isinstance(column, StoredGroup) and encoding(column) == "categorical":
                _read([column.array("categories")])
    uns = group.group("uns")
    if uns is not None:
        _read(_described(uns))


def modalities(root: StoredGroup) -> list[tuple[str, StoredGroup]]:
    """The root itself and, of a MuData, each modality by name."""
    held = root.group("mod")
    inner = [] if held is None else list(held.children.items())
    return [("", root), *((name, item) for name, item in inner if isinstance(item, StoredGroup))]


def _described(group: StoredGroup) -> Iterable[StoredArray]:
    for name, item in group.children.items():
        if isinstance(item, StoredArray):
            yield item
        elif name != "outlierQuantiles":
            yield from _described(item)


def _read(arrays: Iterable[StoredArray | None]) -> None:
    for array in arrays:
        if array is not None and array.size and not array.undecodable:
            array.values()


def check_opening(root: StoredGroup, watched: WatchedFile, size: int, findings: Findings) -> None:
    """Opening an HDF5 file takes hardly more requests than what it reads fills."""
    try:
        read_for_opening(root)
    except Exception as error:
        findings.fault("the file", f"what opening reads is damaged: {error}")
        return
    blocks = {
        block
        for start, stop in watched.ranges
        for block in range(
            start // FIRST_REQUEST_BYTES, -(-max(stop, start + 1) // FIRST_REQUEST_BYTES)
        )
    }
    needed = -(-_covered(watched.ranges) // FIRST_REQUEST_BYTES)
    if size > FIRST_REQUEST_BYTES and len(blocks) > 1 + needed:
        furthest = max(stop for _, stop in watched.ranges)
        findings.fault(
            "the file",
            f"what opening reads is scattered: {len(blocks)} requests up to byte {furthest:,} "
            f"where {needed} would do; the structure and its texts belong into the first 512 KiB",
            f"declare all arrays before the first value: {PREPARE}",
        )


def _covered(ranges: Iterable[tuple[int, int]]) -> int:
    """How many bytes lie in at least one of the ranges."""
    total, end = 0, 0
    for start, stop in sorted(ranges):
        total += max(0, stop - max(start, end))
        end = max(end, stop)
    return total


def check_consolidated(found: Mapping[str, Any], findings: Findings, whole: Any) -> None:
    """One document describes all of a Zarr store, as the others do.

    `found` has the other documents, `whole` that one: ``.zmetadata``, or the root's ``zarr.json``.
    """
    mend = f"call zarr.consolidate_metadata, or {PREPARE}"
    root = found.get("zarr.json")
    if root is not None:
        inline = root.get("consolidated_metadata") or {}
        stored = inline.get("metadata") if isinstance(inline, Mapping) else None
        own = {
            name.removesuffix("/zarr.json"): content
            for name, content in found.items()
            if name != "zarr.json"
        }
    else:
        stored = whole.get("metadata") if isinstance(whole, Mapping) else None
        own = dict(found)
    if not isinstance(stored, Mapping) or (own and not stored):
        findings.fault(
            "the store",
            f"has no consolidated metadata: a browser asks for {len(found):,} documents",
            mend,
        )
        return
    differing = sorted(
        name
        for name in own.keys() | stored.keys()
        if _plain(own.get(name)) != _plain(stored.get(name))
    )
    if differing:
        findings.fault(
            "the store",
            f"its consolidated metadata does not say what the documents say, of {differing[0]!r} "
            "for instance",
            mend,
        )


def _plain(content: Any) -> Any:
    if not isinstance(content, Mapping):
        return content
    # groups inside the whole document may bear an empty one of their own
    return {name: value for name, value in content.items() if name != "consolidated_metadata"}


def check_zip(archive: zipfile.ZipFile, top: str, findings: Findings) -> None:
    """Chunks first and uncompressed, the document of the whole store last, all at the top."""
    if top:
        findings.fault(
            "the archive",
            f"the store lies in its folder {top!r}, not at its top",
            f"zip the content of the folder, or {PREPARE}",
        )
    entries = [entry for entry in archive.infolist() if not entry.is_dir()]
    packed = [entry for entry in entries if entry.compress_type != zipfile.ZIP_STORED]
    if packed:
        findings.fault(
            "the archive",
            f"{len(packed):,} of its {len(entries):,} entries are compressed: a part of one "
            "cannot be fetched",
            f"zip without compression (zip -0), or {PREPARE}",
        )
    if any(entry.flag_bits & 1 for entry in entries):
        findings.fault("the archive", "is encrypted", "zip it without a password")
    names = [entry.filename for entry in entries]
    if len(set(names)) < len(names):
        findings.fault("the archive", "has several entries of one name")
    documents = [
        name.rpartition("/")[2] in (".zarray", ".zattrs", ".zgroup", ".zmetadata", "zarr.json")
        for name in names
    ]
    last = names[-1].removeprefix(f"{top}/") if names else ""
    if documents != sorted(documents) or last not in (".zmetadata", "zarr.json"):
        findings.fault(
            "the archive",
            "its documents do not lie together at its end, which is read when it is opened",
            f"put chunks first and the consolidated metadata last: {PREPARE}",
        )


def stored_document(text: bytes, path: Path) -> Any:
    """A document's content; `NotJudgedError` where it is no JSON."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise NotJudgedError(f"{path} is damaged: .zmetadata is no JSON ({error})") from error
