"""FileReader on files that the library had no part in writing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from scx_core._errors import CorruptFileError
from scx_core.native.container import FileReader, ShardInfo

OBS, CSR, CSC, LAYER, OBSM, UNS, RAW = 0, 4, 5, 7, 8, 10, 27


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_every_version_of_the_catalog(make, section, version: int) -> None:
    rows = (0, 20, 77) if version == 1 else (0, 20, 0, 50, 77)
    columns = (10, 30, 5) if version == 1 else (0, 20, 10, 30, 5)
    path = make(
        [
            section("obs", OBS, b"cells"),
            section("X_shard_0", CSR, b"SCXS\x01\x00\x07\x42", ranges=rows),
            section("X_csc_0", CSC, b"12345678", ranges=columns),
        ],
        n_obs=20,
        n_vars=50,
        nnz=77,
        flags=1,
        catalog_version=version,
        generations=(3, 2) if version == 4 else (0, 0),
        shard_target_rows=99,
        format_version=version,
    )
    with FileReader(path) as reader:
        info = reader.info
        assert (info.format_version, info.catalog_version, info.flags) == (version, version, 1)
        assert (info.n_obs, info.n_vars, info.nnz) == (20, 50, 77)
        assert (info.n_sections, info.n_modalities, info.n_unknown_sections) == (3, 0, 0)
        assert (info.shard_target_rows, info.manifest_sequence) == (99, 0)
        assert info.file_bytes == path.stat().st_size
        obs, csr, csc = reader.sections
        assert (obs.index, obs.name, obs.section_type, obs.modality_id) == (0, "obs", OBS, 0)
        assert (obs.offset, obs.length, obs.shard) == (4352, 5, None)
        assert csr.shard == ShardInfo(0, 20, 0, 50, 77, 1, 9, 20)
        assert csc.shard == ShardInfo(0, 20, 10, 30, 5, 1, 9, 20)
        encoding = reader.shard_encoding(1)
        assert (encoding.codec, encoding.value_type) == (7, 0x42)
        assert [bytes(reader.section_bytes(index)) for index in range(3)] == [
            b"cells",
            b"SCXS\x01\x00\x07\x42",
            b"12345678",
        ]
        reader.verify_checksum()


def test_find(make, section) -> None:
    path = make(
        [section("a", OBSM, b"1"), section("a", UNS, b"2"), section("é", UNS, b"3")], flags=4
    )
    with FileReader(path) as reader:
        for index, (kind, name) in enumerate([(OBSM, "a"), (UNS, "a"), (UNS, "é")]):
            found = reader.find(kind, name)
            assert found == reader.sections[index]
        assert reader.find(OBS, "a") is None
        assert reader.find(300, "a") is None
        assert reader.find(OBSM, "a", modality_id=1) is None
        assert reader.find(OBSM, "") is None
        with pytest.raises(ValueError, match="NUL"):
            reader.find(OBSM, "a\0")


def test_unknown_types_are_listed_and_counted(make, section) -> None:
    path = make(
        [section("later", 99, b"x"), section("obs", OBS, b"y"), section("other", 251, b"z")]
    )
    with FileReader(path) as reader:
        assert reader.info.n_unknown_sections == 2
        assert [s.section_type for s in reader.sections] == [99, 0, 251]
        assert bytes(reader.section_bytes(0)) == b"x"


def test_bytes_between_sections_and_behind_the_catalog_do_not_matter(make, section) -> None:
    path = make([section("obs", OBS, b"y")], gap=b"left by an interrupted append")
    with path.open("ab") as file:
        file.write(b"more of it")
    with FileReader(path) as reader:
        assert bytes(reader.section_bytes(0)) == b"y"


UNSUPPORTED = [
    ({"format_version": 5}, "format version 5"),
    ({"flags": 1 << 4}, "features"),
    ({"flags": 1 << 9}, "features"),
    ({"flags": 1 << 31}, "features"),
    ({"endian": 1}, "big-endian"),
    ({"catalog_version": 5}, "catalog has version 5"),
]


@pytest.mark.parametrize(("change", "message"), UNSUPPORTED)
def test_what_a_later_version_may_bring_is_refused_by_name(
    make, section, change: dict[str, int], message: str
) -> None:
    path = make([section("obs", OBS, b"y")], **change)
    with pytest.raises(ValueError, match=message) as caught:
        FileReader(path)
    assert not isinstance(caught.value, CorruptFileError)


CORRUPT = [
    {"magic": b"SCX\x02"},
    {"header_length": 255},
    {"format_version": 0},
    {"n_csr_shards": 1},
    {"nnz": 1},
    {"flags": 1 << 2},
    {"manifest_sequence": 1},
    {"prev_catalog_offset": 8},
    {"n_modalities": 1},
    {"table_offset": 4352, "table_length": 8},
    {"front_offset": 4352, "front_length": 8},
    {"root_offset": 264},
    {"root_length": 4097},
    {"catalog_offset": 2**64 - 8},
    {"catalog_offset": 0},
    {"catalog_length": 40},
    {"catalog_version": 0},
]


@pytest.mark.parametrize("change", CORRUPT, ids=str)
def test_a_header_that_contradicts_the_file(make, section, change: dict[str, int]) -> None:
    path = make([section("obs", OBS, b"y")], **change)
    with pytest.raises(CorruptFileError) as caught:
        FileReader(path)
    assert caught.value.path == os.fspath(path)
    assert os.fspath(path) in str(caught.value)


def test_sizes_that_only_the_catalog_knows_better(make, section) -> None:
    shards = [
        section("X_shard_0", CSR, b"a", ranges=(0, 12, 0, 50, 7)),
        section("X_shard_1", CSR, b"b", ranges=(12, 20, 0, 50, 8)),
        section("counts_shard_0", LAYER, b"c", ranges=(0, 20, 0, 50, 9)),
        section("raw/X_shard_0", RAW, b"d", ranges=(0, 20, 0, 80, 10)),
    ]
    right = {"n_obs": 20, "n_vars": 50, "nnz": 15, "flags": 1 << 8}
    FileReader(make(shards, **right)).close()
    for wrong in ({"n_vars": 51}, {"n_vars": 49}, {"nnz": 16}, {"n_csr_shards": 3}):
        with pytest.raises(CorruptFileError):
            FileReader(make(shards, **right | wrong))
    doubled = [*shards, section("X_shard_1", CSR, b"e", ranges=(0, 0, 0, 50, 0))]
    with pytest.raises(CorruptFileError, match="twice") as caught:
        FileReader(make(doubled, **right))
    assert caught.value.section == "X_shard_1"


def test_a_modality_that_no_table_names(make, section) -> None:
    for kind in (OBSM, CSR):
        part = section("a", kind, b"a", modality_id=1)
        with pytest.raises(CorruptFileError, match="modality 1 of 0"):
            FileReader(make([part], flags=4 if kind == OBSM else 0))


def test_names_from_a_file_cannot_break_messages(make, section) -> None:
    bad = section("a\n\x1b[31m\\'{x}%s" + "n" * 900, CSR, b"a", ranges=(0, 21, 0, 50, 7))
    with pytest.raises(CorruptFileError) as caught:
        FileReader(make([bad], n_obs=20, n_vars=50, nnz=7))
    text = str(caught.value)
    assert "\n" not in text and "\x1b" not in text and "\\x0a\\x1b[31m" in text
    assert caught.value.section is not None and len(caught.value.section) <= 128


def test_damage_in_a_section_is_found_when_it_is_used(make, section) -> None:
    path = make([section("obs", OBS, b"cells"), section("uns", UNS, b"{}")])
    raw = bytearray(path.read_bytes())
    raw[4353] ^= 1
    path.write_bytes(raw)
    with FileReader(path) as reader:
        assert bytes(reader.section_bytes(1)) == b"{}"
        for _ in range(2):
            with pytest.raises(CorruptFileError, match="damaged") as caught:
                reader.section_bytes(0)
            assert (caught.value.section, caught.value.shard, caught.value.row) == (
                "obs",
                None,
                None,
            )
        assert bytes(reader.section_bytes(0, verify=False)) == b"cdlls"
        with pytest.raises(CorruptFileError):
            reader.verify_section(0)
        with pytest.raises(CorruptFileError, match="checksum"):
            reader.verify_checksum()
    with FileReader(path, verify=False) as reader:
        assert bytes(reader.section_bytes(0)) == b"cdlls"
        with pytest.raises(CorruptFileError):
            reader.section_bytes(0, verify=True)


def test_index_out_of_range_and_no_shard(make, section) -> None:
    with FileReader(make([section("obs", OBS, b"y"), section("X", CSR, b"junk")])) as reader:
        for index in (2, -1, 2**32):
            for method in (
                reader.section,
                reader.section_bytes,
                reader.verify_section,
                reader.shard_encoding,
            ):
                with pytest.raises(IndexError):
                    method(index)
        with pytest.raises(ValueError, match="no shard"):
            reader.shard_encoding(0)
        with pytest.raises(CorruptFileError) as caught:
            reader.shard_encoding(1)
        assert caught.value.section == "X"


def test_what_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        FileReader(tmp_path / "missing.scx")
    assert caught.value.filename == os.fspath(tmp_path / "missing.scx")
    with pytest.raises(IsADirectoryError):
        FileReader(tmp_path)
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(CorruptFileError, match="empty"):
        FileReader(tmp_path / "file")
    with pytest.raises(NotADirectoryError):
        FileReader(tmp_path / "file" / "a.scx")
    (tmp_path / "file").write_bytes(b"SC")
    with pytest.raises(CorruptFileError, match="2 bytes"):
        FileReader(tmp_path / "file")
    (tmp_path / "file").write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(5000))
    with pytest.raises(CorruptFileError, match="not an"):
        FileReader(tmp_path / "file")
    with pytest.raises(ValueError, match="NUL"):
        FileReader("a\0b")
    with pytest.raises(TypeError, match="bytes"):
        FileReader(b"a.scx")  # type: ignore[arg-type]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names")
def test_a_pipe_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="regular"):
        FileReader(tmp_path / "pipe")


@pytest.mark.skipif(os.name == "nt", reason="names are text there")
def test_a_path_that_is_no_utf8(make, section, tmp_path: Path) -> None:
    path = make([section("obs", OBS, b"y")])
    odd = os.fsdecode(os.fsencode(tmp_path) + b"/\xff.scx")
    try:
        os.rename(path, odd)
    except OSError:
        pytest.skip("the file system takes UTF-8 alone")
    with FileReader(odd) as reader:
        assert bytes(reader.section_bytes(0)) == b"y"
