"""Rules on the files of a Zarr store that hold its values."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from math import prod
from typing import Any

from cellucid_prepare._faults import plural
from cellucid_prepare.ready.report import PREPARE, Findings
from cellucid_prepare.ready.tree import place
from cellucid_prepare.ready.zarr_tree import Files

# what the files of chunks are called below their array: "3.0", "3/0", "c/3/0", "c.3.0", "c"
CHUNK = re.compile(r"(?P<array>.*?)/(?:c(?:[./]\d+)*|\d+(?:[./]\d+)*)")


def check_files(files: Files, found: Mapping[str, Any], findings: Findings) -> None:
    """Every chunk has its file, and none is a link; `found` has the documents of the store.

    What is lost where chunks of zeros may have been left out is noted, and is no fault.
    """
    for name in files.links():
        findings.fault(
            place(name), "is a symbolic link, which uploads may not follow", "copy it there"
        )
    stored = Counter(
        match["array"] for name in files.names() if (match := CHUNK.fullmatch(name)) is not None
    )
    for name, document in found.items():
        path, _, kind = name.rpartition("/")
        if kind == ".zarray":
            shape, chunks = document["shape"], document["chunks"]
        elif kind == "zarr.json" and document.get("node_type") == "array":
            shape = document["shape"]
            chunks = document["chunk_grid"]["configuration"]["chunk_shape"]
        else:
            continue
        wanted = prod(-(-length // step) for length, step in zip(shape, chunks, strict=True))
        lacking = wanted - stored[path]
        if lacking <= 0:
            continue
        is_lost = _holds_no_zeros(path, found)
        (findings.fault if is_lost else findings.note)(
            place(path),
            f"{plural(lacking, 'chunk', 'are')} not there of {wanted:,}: what they held reads as "
            "zeros or empty text, and a browser's requests for them fail",
            "copy the store again if they were lost, or " + PREPARE,
        )


def _holds_no_zeros(path: str, found: Mapping[str, Any]) -> bool:
    """Whether no chunk of it can be zeros or empty text alone, which writers may leave out."""
    above, _, name = path.rpartition("/")
    attributes = found.get(f"{above}/.zattrs") or found.get(f"{above}/zarr.json", {}).get(
        "attributes", {}
    )
    if str(attributes.get("encoding-type")) in ("csr_matrix", "csc_matrix"):
        return name in ("data", "indices", "indptr")
    return bool(name == attributes.get("_index"))
