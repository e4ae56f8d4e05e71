"""Whether anndata opens what a file holds: everything but large matrices is read as it reads it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from cellucid_prepare.ready.opening import modalities
from cellucid_prepare.ready.report import PREPARE, Findings
from cellucid_prepare.ready.tree import Stored, StoredArray, StoredGroup, arrays_in, encoding, place

READ = ("obs", "var", "obsm", "varm", "uns", "obsmap", "varmap")
MATRIX_GROUPS = ("layers", "obsp", "varp", "raw")
# how anndata encodes what is not read here
VERSIONS = {
    "anndata": "0.1.0",
    "MuData": "0.1.0",
    "raw": "0.1.0",
    "dict": "0.1.0",
    "array": "0.2.0",
    "csr_matrix": "0.1.0",
    "csc_matrix": "0.1.0",
    "null": "0.1.0",
}


def check_readable(root: StoredGroup, at: Callable[[str], Any], findings: Findings) -> None:
    """Every element of the root and its modalities; `at` gives what HDF5 or Zarr has at a path."""
    for name, group in modalities(root):
        kinds = ("MuData",) if not name and root.group("mod") is not None else ("anndata",)
        _check_encoding(group, kinds, findings)
        for part in READ:
            item = group.children.get(part)
            if item is not None:
                _check_element(item, at, findings)
        raw = group.group("raw")
        for part in ("var", "varm"):
            if raw is not None and part in raw.children:
                _check_element(raw.children[part], at, findings)
        for item in _unread(group):
            sparse = ("csr_matrix", "csc_matrix") if isinstance(item, StoredGroup) else ()
            _check_encoding(item, sparse or ("array", "null"), findings)
        for part in MATRIX_GROUPS:
            item = group.group(part)
            if item is not None:
                _check_encoding(item, ("raw",) if part == "raw" else ("dict",), findings)


def _unread(group: StoredGroup) -> list[Stored]:
    """The matrices of a modality."""
    found = [group.children["X"]] if "X" in group.children else []
    for name in MATRIX_GROUPS:
        held = group.group(name)
        for part, item in (held.children if held is not None else {}).items():
            if name != "raw" or part == "X":
                found.append(item)
    return found


def _check_encoding(item: Stored, kinds: tuple[str, ...], findings: Findings) -> None:
    kind, version = encoding(item), str(item.attributes.get("encoding-version", ""))
    if not kind and not version:
        return  # of before anndata 0.8, which all versions read
    if kind not in kinds or version != VERSIONS[kind]:
        where = place(item.path) if item.path else "the file"
        _add(
            where,
            f"is encoded as {kind or 'nothing'} of version {version or 'none'}, which anndata does "
            "not read there",
            findings,
        )


def _check_element(item: Stored, at: Callable[[str], Any], findings: Findings) -> None:
    before = len(findings.faults.found)
    if isinstance(item, StoredGroup):
        # the innermost element that cannot be read is the one to name
        for child in item.children.values():
            _check_element(child, at, findings)
    if isinstance(item, StoredArray):
        _check_text(item, findings)
    arrays = [item] if isinstance(item, StoredArray) else list(arrays_in(item))
    # what is packed in a way that browsers lack has a fault of its own
    if len(findings.faults.found) > before or any(array.undecodable for array in arrays):
        return
    reason = _failure(at(item.path)) if _is_element(item) else None
    if reason is not None:
        _add(place(item.path), f"cannot be read by anndata: {reason}", findings)


def _check_text(item: StoredArray, findings: Findings) -> None:
    """Text of tables, and of what describes the data set, that anndata would read as bytes."""
    parts = item.path.split("/")
    if parts[0] == "mod":
        parts = parts[2:]
    read_as_text = parts[0] in ("obs", "var") or parts[:2] in (
        ["uns", "cellucid"],
        ["uns", "title"],
    )
    if read_as_text and item.kind == "T" and encoding(item) == "array":
        _add(
            place(item.path),
            "is text that is marked as an array, which anndata reads as bytes",
            findings,
        )


def _is_element(item: Stored) -> bool:
    """Whether anndata can read it alone; what bears no encoding is read with the whole."""
    return "encoding-type" in item.attributes or "encoding-version" in item.attributes


def _failure(element: Any) -> str | None:
    """Why anndata cannot read an element; None where it can."""
    import anndata

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            anndata.io.read_elem(element)
    except MemoryError:
        raise
    except Exception as error:
        text = str(error).strip()
        return text.splitlines()[0] if text else repr(error)
    return None


def _add(where: str, problem: str, findings: Findings) -> None:
    """Note it unless a rule has found the place, or a part of it, to be wrong before."""
    if not any(fault.where.startswith(where) for fault in findings.faults.found):
        findings.fault(where, problem, f"get it again, or {PREPARE}")
