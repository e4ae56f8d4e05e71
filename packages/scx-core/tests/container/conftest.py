"""A second reader and a second maker of the container, sharing no code with the library.

Both work on bytes with `struct` and take BLAKE3 from the package of that name.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import blake3
import pytest

HEADER = struct.Struct("<4sHHIQQQIIIBBBBQQQQQQQQQIQQ112s")
HEADER_FIELDS = (
    *("magic", "format_version", "header_length", "flags", "n_obs", "n_vars", "nnz"),
    *("n_csr_shards", "n_csc_shards", "shard_target_rows"),
    *("codec_id", "index_dtype", "endian", "reserved_byte"),
    *("root_offset", "root_length", "catalog_offset", "catalog_length"),
    *("manifest_sequence", "prev_catalog_offset", "file_checksum", "front_offset", "front_length"),
    *("n_modalities", "table_offset", "table_length", "reserved"),
)
assert HEADER.size == 256
CHECKSUM_AT = 100
SECTIONS_AT = 4352


@dataclass
class WalkedSection:
    """One entry of the full catalog."""

    name: str
    offset: int
    length: int
    section_type: int
    modality_id: int
    blake3: bytes
    stats: bytes
    data: bytes


@dataclass
class WalkedFile:
    """All that stands in a file of catalog version 2 or 3."""

    header: dict[str, int | bytes]
    groups: list[tuple[int, int, int, int, int]]
    catalog_version: int
    n_obs: int
    sections: list[WalkedSection]
    modalities: list[tuple[str, int, int, int, int, int, int, int]] = field(default_factory=list)

    def named(self, name: str, section_type: int, modality_id: int = 0) -> WalkedSection:
        """The only section of that name, type and modality."""
        (found,) = [
            section
            for section in self.sections
            if (section.name, section.section_type, section.modality_id)
            == (name, section_type, modality_id)
        ]
        return found


def walk_bytes(raw: bytes) -> WalkedFile:
    """Take a file apart, checking every hash and every byte of padding on the way."""
    header = dict(zip(HEADER_FIELDS, HEADER.unpack_from(raw), strict=True))
    assert header["magic"] == b"SCX\x01"
    assert header["reserved"] == bytes(112) and header["reserved_byte"] == 0
    assert (header["root_offset"], header["header_length"]) == (256, 256)
    start, length = header["catalog_offset"], header["catalog_length"]
    assert start % 8 == 0 and start + length == len(raw)

    zeroed = raw[:CHECKSUM_AT] + bytes(8) + raw[CHECKSUM_AT + 8 :]
    checksum = blake3.blake3(zeroed).digest()[:8]
    assert header["file_checksum"] == int.from_bytes(checksum, "little")

    version, n_obs, sections = walk_catalog(raw, raw[start : start + length], header)
    check_padding(raw, sections, start)
    walked = WalkedFile(header, walk_root(raw, header), version, n_obs, sections)
    if header["table_length"]:
        table = raw[header["table_offset"] : header["table_offset"] + header["table_length"]]
        walked.modalities = walk_modalities(table)
    return walked


def walk_catalog(
    raw: bytes, catalog: bytes, header: dict[str, int]
) -> tuple[int, int, list[WalkedSection]]:
    """Every entry, each section's hash compared."""
    assert catalog[-32:] == blake3.blake3(catalog[:-32]).digest()
    version, sequence, previous, n_obs, n_entries = struct.unpack_from("<HQQQI", catalog)
    assert version in (2, 3)
    assert (sequence, previous) == (header["manifest_sequence"], header["prev_catalog_offset"])
    at = 30
    sections = []
    for _ in range(n_entries):
        (name_length,) = struct.unpack_from("<H", catalog, at)
        name = catalog[at + 2 : at + 2 + name_length].decode()
        at += 2 + name_length
        entry = struct.unpack_from("<QQB32sBH", catalog, at)
        offset, length, section_type, digest, modality_id, stats_length = entry
        at += 52
        stats = catalog[at : at + stats_length]
        at += stats_length
        data = raw[offset : offset + length]
        assert len(data) == length and offset % 8 == 0
        assert digest == blake3.blake3(data).digest(), name
        sections.append(
            WalkedSection(name, offset, length, section_type, modality_id, digest, stats, data)
        )
    assert at == len(catalog) - 32
    return version, n_obs, sections


def check_padding(raw: bytes, sections: list[WalkedSection], end: int) -> None:
    """Sections follow one another; what lies between them is zeros."""
    at = SECTIONS_AT
    for section in sections:
        assert section.offset == at, section.name
        data_end = at + section.length
        at = (data_end + 7) // 8 * 8
        assert raw[data_end:at] == bytes(at - data_end), section.name
    assert at == end


def walk_root(raw: bytes, header: dict[str, int]) -> list[tuple[int, int, int, int, int]]:
    """Type, first offset, total length, count and stored values of each group."""
    root = raw[256:SECTIONS_AT]
    (n_groups,) = struct.unpack_from("<H", root)
    assert header["root_length"] == 2 + 53 * n_groups
    assert root[2 + 53 * n_groups :] == bytes(4096 - 2 - 53 * n_groups)
    groups = []
    for index in range(n_groups):
        *group, zeros = struct.unpack_from("<BQQIQ24s", root, 2 + 53 * index)
        assert zeros == bytes(24)
        groups.append(tuple(group))
    return groups


def walk_modalities(table: bytes) -> list[tuple[str, int, int, int, int, int, int, int]]:
    """Name, type, codec, value type, n_vars, nnz, CSR shards and CSC shards."""
    assert table[-4:] == blake3.blake3(table[:-4]).digest()[:4]
    magic, version, count = struct.unpack_from("<4sHH", table)
    assert (magic, version) == (b"MTBL", 1)
    at = 8
    modalities = []
    for _ in range(count):
        name = table[at + 1 : at + 1 + table[at]].decode()
        at += 1 + table[at]
        kind, codec, value_type, zero, n_vars, nnz, n_csr, n_csc, _flags, zeros = (
            struct.unpack_from("<BBBBQQIIB7s", table, at)
        )
        assert zero == 0 and zeros == bytes(7)
        at += 36
        modalities.append((name, kind, codec, value_type, n_vars, nnz, n_csr, n_csc))
    assert at == len(table) - 4
    return modalities


@dataclass
class MadeSection:
    """A section for `make_bytes`; `ranges` are the shard statistics up to nnz."""

    name: str
    section_type: int
    data: bytes = b""
    modality_id: int = 0
    ranges: tuple[int, ...] = ()


def make_bytes(
    sections: list[MadeSection],
    *,
    n_obs: int = 0,
    n_vars: int = 0,
    nnz: int = 0,
    flags: int = 0,
    catalog_version: int = 2,
    generations: tuple[int, int] = (0, 0),
    gap: bytes = b"",
    **header_fields: int | bytes,
) -> bytes:
    """A file as another writer might make it: `gap` lies between sections and catalog."""
    body = bytearray()
    entries = bytearray()
    for section in sections:
        offset = SECTIONS_AT + len(body)
        body += section.data + bytes(-len(section.data) % 8)
        name = section.name.encode()
        entries += struct.pack("<H", len(name)) + name
        entries += struct.pack("<QQB", offset, len(section.data), section.section_type)
        entries += blake3.blake3(section.data).digest()
        if catalog_version >= 2:
            entries += bytes([section.modality_id])
        stats = b""
        if section.ranges:
            stats = struct.pack(f"<{len(section.ranges)}Q", *section.ranges)
            stats += struct.pack("<IIQB", 1, 9, 20, 0)
        entries += struct.pack("<H", len(stats)) + stats
    body += gap + bytes(-len(gap) % 8)
    catalog = struct.pack("<HQQQI", catalog_version, 0, 0, n_obs, len(sections)) + entries
    if any(generations):
        catalog += struct.pack("<QQ", *generations)
    catalog += blake3.blake3(catalog).digest()
    values: dict[str, int | bytes] = dict.fromkeys(HEADER_FIELDS, 0)
    values |= {
        "magic": b"SCX\x01",
        "format_version": 2,
        "header_length": 256,
        "flags": flags,
        "n_obs": n_obs,
        "n_vars": n_vars,
        "nnz": nnz,
        "n_csr_shards": sum(section.section_type == 4 for section in sections),
        "n_csc_shards": sum(section.section_type == 5 for section in sections),
        "root_offset": 256,
        "root_length": 2,
        "catalog_offset": SECTIONS_AT + len(body),
        "catalog_length": len(catalog),
        "reserved": bytes(112),
    }
    values |= header_fields
    raw = bytearray(HEADER.pack(*values.values()) + bytes(4096) + body + catalog)
    checksum = blake3.blake3(bytes(raw)).digest()[:8]
    if "file_checksum" not in header_fields:
        raw[CHECKSUM_AT : CHECKSUM_AT + 8] = checksum
    return bytes(raw)


@pytest.fixture(scope="session")
def walk() -> Callable[[Path], WalkedFile]:
    """Takes a file apart."""
    return lambda path: walk_bytes(path.read_bytes())


@pytest.fixture(scope="session")
def section() -> type[MadeSection]:
    """A section for `make`."""
    return MadeSection


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Path]:
    """Writes a file that the library had no part in."""

    def write(sections: list[MadeSection], *, name: str = "made.scx", **options: object) -> Path:
        path = tmp_path / name
        path.write_bytes(make_bytes(sections, **options))  # type: ignore[arg-type]
        return path

    return write
