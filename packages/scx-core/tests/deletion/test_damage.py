"""Deletion vectors that are damaged, or that another writer made otherwise."""

from __future__ import annotations

import struct
from pathlib import Path

import blake3
import numpy as np
import pytest
from pyroaring import BitMap

import scx_core
from scx_core._errors import CorruptFileError


def with_section(path: Path, section: bytes, *, target: Path) -> Path:
    """The same file with other deletion vectors, all hashes being right."""
    raw = bytearray(path.read_bytes())
    catalog_at, catalog_length = struct.unpack_from("<QQ", raw, 68)
    catalog = bytearray(raw[catalog_at:])
    assert len(catalog) == catalog_length
    at = catalog.rindex(b"deletion_vectors") + 16
    struct.pack_into("<QQ", catalog, at, catalog_at, len(section))
    catalog[at + 17 : at + 49] = blake3.blake3(section).digest()
    catalog[-32:] = blake3.blake3(bytes(catalog[:-32])).digest()
    raw[catalog_at:] = section + bytes(-len(section) % 8)
    struct.pack_into("<Q", raw, 68, len(raw))
    raw += catalog
    raw[100:108] = blake3.blake3(bytes(raw[:100]) + bytes(8) + bytes(raw[108:])).digest()[:8]
    target.write_bytes(raw)
    return target


def packed(vectors: list[tuple[int, bytes]]) -> bytes:
    parts = [struct.pack("<BI", 1, len(vectors))]
    for shard, bitmap in vectors:
        parts += [struct.pack("<II", shard, len(bitmap)), bitmap]
    return b"".join(parts)


@pytest.fixture
def marked(path: Path) -> Path:
    scx_core.mark_deleted(path, [0])
    return path


def test_other_writers_may_order_shards_as_they_like(marked: Path, tmp_path: Path) -> None:
    run = BitMap(range(5, 12))
    run.run_optimize()
    vectors = [(6, BitMap([3]).serialize()), (2, run.serialize()), (4, BitMap().serialize())]
    changed = with_section(marked, packed(vectors), target=tmp_path / "other.scx")
    assert scx_core.open(changed).deleted_rows.tolist() == [*range(37, 44), 99]
    assert scx_core.open(changed).find_damage(deep=True) == []
    assert scx_core.mark_deleted(changed, [1]) == 1
    assert scx_core.open(changed).deleted_rows.tolist() == [1, *range(37, 44), 99]
    nothing = with_section(marked, packed([]), target=tmp_path / "nothing.scx")
    assert scx_core.open(nothing).n_obs == 100


ROW_0 = BitMap([0]).serialize()


@pytest.mark.parametrize(
    ("section", "text"),
    [
        (packed([(7, ROW_0)]), "shard 7 of 7"),
        (packed([(2**32 - 1, ROW_0)]), "shard 4294967295"),
        (packed([(6, BitMap([4]).serialize())]), "shard 6"),  # the last shard has 4 rows
        (packed([(0, BitMap([16]).serialize())]), "shard 0"),
        (packed([(0, BitMap([2**31]).serialize())]), "shard 0"),
        (packed([(1, ROW_0), (1, ROW_0)]), "row 16 is deleted twice"),
        (packed([(0, ROW_0 + b"\0")]), "shard 0"),
        (packed([(0, ROW_0[:-1])]), "shard 0"),
        (packed([(0, b"")]), "shard 0"),
        (packed([(0, ROW_0)]) + b"x", "behind"),
        (packed([(0, ROW_0)])[:-1], "end inside"),
        (b"\1\0\0\0", "4 bytes"),
        (b"\1\xff\xff\xff\xff", "end inside"),
        (b"", "0 bytes"),
    ],
)
def test_vectors_that_cannot_be(marked: Path, tmp_path: Path, section: bytes, text: str) -> None:
    changed = with_section(marked, section, target=tmp_path / "changed.scx")
    before = changed.read_bytes()
    experiment = scx_core.open(changed)
    for read in (lambda: experiment.n_obs, lambda: experiment.obs, lambda: experiment.to_anndata()):
        with pytest.raises(CorruptFileError, match=text) as caught:
            read()
        assert caught.value.section == "deletion_vectors"
    with pytest.raises(CorruptFileError, match=text):
        scx_core.mark_deleted(changed, [1])
    assert changed.read_bytes() == before
    damage = scx_core.open(changed).find_damage(deep=True)
    assert [name for name, _ in damage] == ["deletion_vectors"]
    # and the cells can be had all the same
    assert scx_core.open(changed, include_deleted=True).to_anndata().n_obs == 100


def test_a_later_version_is_no_damage(marked: Path, tmp_path: Path) -> None:
    changed = with_section(marked, b"\3\0\0\0\0", target=tmp_path / "changed.scx")
    with pytest.raises(ValueError, match="version 3"):
        _ = scx_core.open(changed).n_obs


def test_any_change_of_a_bitmap_is_an_error_or_other_rows(marked: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    full = BitMap(range(16))
    full.run_optimize()
    good = packed([(0, BitMap([0, 3, 7]).serialize()), (1, full.serialize()), (6, ROW_0)])
    target = tmp_path / "changed.scx"
    n_refused = 0
    for at in range(len(good)):
        for value in {good[at] ^ 1, good[at] ^ 0x80, int(rng.integers(256))}:
            section = good[:at] + bytes([value]) + good[at + 1 :]
            experiment = scx_core.open(with_section(marked, section, target=target), verify=False)
            try:
                rows = experiment.deleted_rows
            except (CorruptFileError, ValueError):
                n_refused += 1
                continue
            assert np.all(np.diff(rows) > 0) and (not len(rows) or 0 <= rows[0] <= rows[-1] < 100)
            assert experiment.n_obs == 100 - len(rows)
    assert n_refused > len(good)


def test_a_flipped_bit_is_found_by_the_hash(marked: Path) -> None:
    raw = bytearray(marked.read_bytes())
    section = scx_core.open(marked).file.find(12, "deletion_vectors")
    assert section is not None
    raw[section.offset + section.length - 2] ^= 1  # another row of the same shard
    marked.write_bytes(raw)
    with pytest.raises(CorruptFileError, match="deletion_vectors"):
        _ = scx_core.open(marked).n_obs
    assert scx_core.open(marked, verify=False).deleted_rows.tolist() == [1]
