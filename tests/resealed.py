"""A .scx file taken apart by its published layout, changed, and given checksums that fit.

Shares no code with the library: what it knows of the format stands in docs/format.md.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from blake3 import blake3

HEADER = 256
SECTIONS = 4352
SHARD_HEADER = 76
# name -> (place, struct code) in the header of the file, and in that of a shard
FILE_FIELDS = {
    "n_obs": (12, "Q"),
    "n_vars": (20, "Q"),
    "nnz": (28, "Q"),
    "n_csr_shards": (36, "I"),
    "manifest_sequence": (84, "Q"),
    "n_modalities": (124, "I"),
}
SHARD_FIELDS = {
    "version": (4, "B"),
    "type": (5, "B"),
    "codec": (6, "B"),
    "encoding": (7, "B"),
    "index_dtype": (8, "B"),
    "n_major": (12, "I"),
    "n_minor": (16, "I"),
    "nnz": (20, "Q"),
    "global_offset": (28, "Q"),
    "indptr_offset": (36, "I"),
    "indptr_length": (40, "I"),
    "indices_offset": (44, "I"),
    "indices_length": (48, "I"),
    "values_offset": (52, "I"),
    "values_length": (56, "I"),
    "block_offset": (60, "I"),
    "block_length": (64, "I"),
}
STATS = ("row_start", "row_end", "col_start", "col_end", "nnz")


def _crc_table() -> list[int]:
    table = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
        table.append(crc)
    return table


CRC_TABLE = _crc_table()


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = CRC_TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


@dataclass
class Section:
    name: str
    section_type: int
    modality: int
    stats: bytes
    content: bytearray

    def stat(self, field: str) -> int:
        return int(struct.unpack_from("<Q", self.stats, 8 * STATS.index(field))[0])

    def set_stat(self, field: str, value: int) -> None:
        changed = bytearray(self.stats)
        struct.pack_into("<Q", changed, 8 * STATS.index(field), value)
        self.stats = bytes(changed)

    def get(self, field: str) -> int:
        place, code = SHARD_FIELDS[field]
        return int(struct.unpack_from("<" + code, self.content, place)[0])

    def set(self, field: str, value: int) -> None:
        place, code = SHARD_FIELDS[field]
        struct.pack_into("<" + code, self.content, place, value)

    def entry(self, row: int) -> list[float]:
        """Offset, values, bytes, CRC and total of a row of rowpack."""
        return list(
            struct.unpack_from("<IIIId", self.content, self.get("indptr_offset") + 24 * row)
        )

    def set_entry(self, row: int, **fields: float) -> None:
        names = ("offset", "n_values", "n_bytes", "crc", "total")
        entry = dict(zip(names, self.entry(row), strict=True)) | fields
        whole = [int(entry[name]) for name in names[:4]]
        place = self.get("indptr_offset") + 24 * row
        struct.pack_into("<IIIId", self.content, place, *whole, entry["total"])

    def payload(self, row: int) -> tuple[int, int]:
        """Where the bytes of a row of rowpack lie in the content."""
        offset, _, length, _, _ = self.entry(row)
        start = self.get("values_offset") + int(offset)
        return start, start + int(length)

    def reseal(self) -> None:
        """CRCs of the rows and hash of the body, as far as the changed header allows."""
        rows = self.get("n_major")
        end = self.get("indptr_offset") + 24 * rows
        in_place = SHARD_HEADER <= self.get("indptr_offset") and end <= len(self.content)
        if self.get("codec") == 64 and in_place:
            identity = bytes(self.content[:20] + self.content[28:36])
            for row in range(rows):
                _, n_values, n_bytes, _, total = self.entry(row)
                start, stop = self.payload(row)
                words = struct.pack("<QIId", row, int(n_values), int(n_bytes), total)
                self.set_entry(row, crc=crc32c(identity + words + bytes(self.content[start:stop])))
        digest = blake3(self.content[SHARD_HEADER:]).digest()
        self.content[68:76] = digest[:8]


class ScxFile:
    def __init__(self, path: Path) -> None:
        whole = path.read_bytes()
        self.header = bytearray(whole[:HEADER])
        self.root = whole[HEADER:SECTIONS]
        place, length = struct.unpack_from("<QQ", self.header, 68)
        catalog = whole[place : place + length]
        self.version, self.sequence, self.previous, self.n_obs, count = struct.unpack_from(
            "<HQQQI", catalog
        )
        self.sections: list[Section] = []
        at = 30
        for _ in range(count):
            (n_name,) = struct.unpack_from("<H", catalog, at)
            name = catalog[at + 2 : at + 2 + n_name].decode()
            at += 2 + n_name
            offset, length, section_type = struct.unpack_from("<QQB", catalog, at)
            modality, n_stats = struct.unpack_from("<BH", catalog, at + 49)
            stats = catalog[at + 52 : at + 52 + n_stats]
            at += 52 + n_stats
            content = bytearray(whole[offset : offset + length])
            self.sections.append(Section(name, section_type, modality, stats, content))
        self.count_offset = 0

    def __getitem__(self, name: str) -> Section:
        return next(section for section in self.sections if section.name == name)

    def set(self, field: str, value: int) -> None:
        place, code = FILE_FIELDS[field]
        struct.pack_into("<" + code, self.header, place, value)
        if field == "n_obs":
            self.n_obs = value
        if field == "manifest_sequence":
            self.sequence = value

    def count_values(self) -> None:
        """The header's nnz as the catalog now adds up."""
        total = sum(s.stat("nnz") for s in self.sections if s.section_type == 4 and s.stats)
        self.set("nnz", min(total, 2**64 - 1))

    def write(self, path: Path, *, places: dict[str, tuple[int, int]] | None = None) -> Path:
        """With checksums that fit; `places` gives sections other offsets and lengths."""
        body = bytearray()
        entries = bytearray()
        for section in self.sections:
            body += bytes(-len(body) % 8)
            offset, length = SECTIONS + len(body), len(section.content)
            body += section.content
            digest = blake3(section.content).digest()
            if section.section_type == 15:
                struct.pack_into("<QQ", self.header, 128, offset, length)
            offset, length = (places or {}).get(section.name, (offset, length))
            name = section.name.encode()
            entries += struct.pack("<H", len(name)) + name
            entries += struct.pack("<QQB", offset, length, section.section_type) + digest
            entries += struct.pack("<BH", section.modality, len(section.stats)) + section.stats
        body += bytes(-len(body) % 8)
        count = len(self.sections) + self.count_offset
        catalog = struct.pack(
            "<HQQQI", self.version, self.sequence, self.previous, self.n_obs, count
        )
        catalog += entries
        catalog += blake3(catalog).digest()
        struct.pack_into("<QQ", self.header, 68, SECTIONS + len(body), len(catalog))
        struct.pack_into("<Q", self.header, 100, 0)
        digest = blake3(bytes(self.header) + self.root + bytes(body) + catalog).digest()
        self.header[100:108] = digest[:8]
        path.write_bytes(bytes(self.header) + self.root + bytes(body) + catalog)
        return path


Change = Callable[[ScxFile], None]
