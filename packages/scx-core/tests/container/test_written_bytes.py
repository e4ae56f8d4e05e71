"""What FileWriter writes, taken apart by an independent reader."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from scx_core.native.container import FileReader, FileWriter

OBS, VAR, OBSM, UNS, OBSP, OBS_ROWS, RAW_VAR, VENDOR = 0, 2, 8, 10, 18, 24, 28, 240


def test_every_field_of_a_small_file(tmp_path: Path, walk) -> None:
    path = tmp_path / "a.scx"
    with FileWriter(
        path, n_obs=2**40 + 1, n_vars=70_000, shard_target_rows=777, codec=64
    ) as writer:
        writer.add_section("obs", b"cells", section_type=OBS)
        writer.add_section("var", bytes(range(16)), section_type=VAR)
        writer.add_section("obsm/X_é", np.arange(3.0), section_type=OBSM)
        writer.add_section("obsm/zwei", memoryview(b"x"), section_type=OBSM)
        writer.add_section("raw/var", b"", section_type=RAW_VAR)
        writer.add_section("rest", b"v", section_type=VENDOR)
    walked = walk(path)
    header = walked.header
    assert (header["format_version"], walked.catalog_version) == (3, 2)
    assert (header["n_obs"], header["n_vars"], header["nnz"]) == (2**40 + 1, 70_000, 0)
    assert header["flags"] == 1 << 2 | 1 << 8  # obsm and raw
    assert (header["shard_target_rows"], header["codec_id"]) == (777, 64)
    assert (header["index_dtype"], header["endian"]) == (1, 0)
    assert (header["manifest_sequence"], header["prev_catalog_offset"]) == (0, 0)
    assert (header["front_offset"], header["front_length"]) == (0, 0)
    assert (header["n_modalities"], header["table_offset"], header["table_length"]) == (0, 0, 0)
    assert [(section.name, section.data) for section in walked.sections] == [
        ("obs", b"cells"),
        ("var", bytes(range(16))),
        ("obsm/X_é", np.arange(3.0).tobytes()),
        ("obsm/zwei", b"x"),
        ("raw/var", b""),
        ("rest", b"v"),
    ]
    assert all(section.stats == b"" for section in walked.sections)
    assert walked.groups == [
        (OBS, 4352, 5, 1, 0),
        (VAR, 4360, 16, 1, 0),
        (OBSM, 4376, 25, 2, 0),
        (RAW_VAR, 4408, 0, 1, 0),
        (VENDOR, 4408, 1, 1, 0),
    ]


def test_a_file_without_sections(tmp_path: Path, walk) -> None:
    path = tmp_path / "a.scx"
    FileWriter(path, n_obs=0, n_vars=0).finish()
    walked = walk(path)
    assert walked.sections == [] and walked.groups == []
    assert walked.header["catalog_offset"] == 4352
    with FileReader(path) as reader:
        assert reader.sections == () and reader.info.file_bytes == path.stat().st_size
        reader.verify_checksum()


def test_modalities(tmp_path: Path, walk) -> None:
    path = tmp_path / "a.scx"
    with FileWriter(path, n_obs=5, n_vars=300) as writer:
        writer.add_modality("rna", modality_type=0, n_vars=300, codec=64, value_type=2)
        writer.add_modality("Ω", modality_type=255, n_vars=2, codec=0, value_type=65)
        writer.add_section("var", b"a", section_type=VAR, modality_id=1)
        writer.add_section("var", b"b", section_type=VAR, modality_id=2)
        writer.add_section("obs", b"c", section_type=OBS)
    walked = walk(path)
    assert walked.header["flags"] == 1 << 7
    assert walked.header["n_modalities"] == 2
    assert walked.modalities == [("rna", 0, 64, 2, 300, 0, 0, 0), ("Ω", 255, 0, 65, 2, 0, 0, 0)]
    assert walked.named("var", VAR, 2).data == b"b"
    table = walked.sections[-1]
    assert (table.name, table.section_type, table.modality_id) == ("modality_table", 15, 0)
    assert table.offset == walked.header["table_offset"]


def test_tables_in_row_shards_raise_the_catalog_version(tmp_path: Path, walk) -> None:
    path = tmp_path / "a.scx"
    with FileWriter(path, n_obs=5, n_vars=3) as writer:
        writer.add_section("obs_metadata/shard_0", b"a", section_type=OBS_ROWS)
    assert walk(path).catalog_version == 3


def test_obsp_flag_and_small_index_hint(tmp_path: Path, walk) -> None:
    path = tmp_path / "a.scx"
    with FileWriter(path, n_obs=5, n_vars=2**16) as writer:
        writer.add_section("obsp/k", b"a", section_type=OBSP)
    header = walk(path).header
    assert (header["flags"], header["index_dtype"]) == (1 << 3, 0)


@pytest.mark.parametrize("length", [0, 1, 7, 8, 9, 2**20 - 1, 2**20, 2**20 + 1, 3 * 2**20 + 5])
def test_sections_around_the_edges_of_alignment_and_hashing(
    tmp_path: Path, walk, length: int
) -> None:
    path = tmp_path / "a.scx"
    data = np.random.default_rng(length).bytes(length)
    with FileWriter(path, n_obs=0, n_vars=0) as writer:
        writer.add_section("one", data, section_type=UNS)
        writer.add_section("two", data[::-1], section_type=UNS)
    assert [section.data for section in walk(path).sections] == [data, data[::-1]]
    with FileReader(path) as reader:
        assert bytes(reader.section_bytes(0)) == data
        assert bytes(reader.section_bytes(1)) == data[::-1]
        reader.verify_checksum()


def test_the_same_input_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a.scx", "b.scx"):
        with FileWriter(tmp_path / name, n_obs=5, n_vars=300) as writer:
            writer.add_modality("rna", modality_type=0, n_vars=300)
            writer.add_section("var", b"a", section_type=VAR, modality_id=1)
    assert (tmp_path / "a.scx").read_bytes() == (tmp_path / "b.scx").read_bytes()


def test_many_sections(tmp_path: Path, walk) -> None:
    path = tmp_path / "a.scx"
    with FileWriter(path, n_obs=0, n_vars=0) as writer:
        for index in range(3000):
            writer.add_section(f"obsm/{index}", struct.pack("<I", index), section_type=OBSM)
    assert len(walk(path).sections) == 3000
    with FileReader(path) as reader:
        found = reader.find(OBSM, "obsm/2999")
        assert found is not None and found.index == 2999
        assert bytes(reader.section_bytes(1234)) == struct.pack("<I", 1234)
