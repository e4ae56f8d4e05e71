"""Telling files of other content apart, by the hashes in their catalogs."""

from __future__ import annotations

import hashlib
from collections.abc import Container

from scx_core._section_names import SectionType
from scx_core.native.container import FileReader

_ROWS = (
    SectionType.CSR_SHARD,
    SectionType.LAYER_CSR_SHARD,
    SectionType.RAW_CSR_SHARD,
    SectionType.MODALITY_ROWS,
)
_OF_DELETIONS = (SectionType.DELETION_VECTORS, SectionType.GENERATION)
_ALL_BUT_DELETIONS = tuple(each for each in SectionType if each not in _OF_DELETIONS)


def rows_digest(file: FileReader) -> bytes:
    """Of what rows are made of. Marking rows as deleted does not change it."""
    return _digest(file, _ROWS)


def whole_digest(file: FileReader) -> bytes:
    """Of all that a file has. Marking rows as deleted does not change it."""
    return _digest(file, _ALL_BUT_DELETIONS)


def _digest(file: FileReader, kinds: Container[SectionType]) -> bytes:
    parts = [
        part.name.encode("utf-8", "surrogatepass") + b"\0" + part.blake3
        for part in file.sections
        if part.section_type in kinds
    ]
    return hashlib.blake2b(b"".join(sorted(parts)), digest_size=16).digest()
