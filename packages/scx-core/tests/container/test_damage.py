"""Every byte changed, every length cut: an error of the right kind, or the same content."""

from __future__ import annotations

from pathlib import Path

import pytest

from scx_core._errors import CorruptFileError
from scx_core.native.container import FileReader, FileWriter

# bytes of the header and behind it that reading does not depend on
HARMLESS = [
    range(4, 6),  # format version: shards say themselves how they are built
    range(44, 52),  # hints
    range(60, 62),  # length of the root catalog
    range(100, 108),  # the checksum: compared by validation
    range(144, 4352),  # reserved, and the root catalog
]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("damage") / "a.scx"
    with FileWriter(path, n_obs=9, n_vars=4) as writer:
        writer.add_modality("rna", modality_type=0, n_vars=4)
        writer.add_section("obs", b"cells of this file", section_type=0)
        writer.add_section("obsm/X_pca", bytes(range(40)), section_type=8)
        writer.add_section("var/rna", b"genes", section_type=2, modality_id=1)
    return path.read_bytes()


def content(path: Path) -> list[object]:
    with FileReader(path) as reader:
        info = reader.info
        return [
            (info.n_obs, info.n_vars, info.nnz, info.flags),
            reader.modalities,
            *((s.name, s.section_type, s.modality_id) for s in reader.sections),
            *(bytes(reader.section_bytes(s.index)) for s in reader.sections),
        ]


def test_flipped_bytes(tmp_path: Path, written: bytes) -> None:
    path = tmp_path / "a.scx"
    path.write_bytes(written)
    original = content(path)
    raw = bytearray(written)
    # the zeros of the root catalog are all alike
    positions = [*range(600), *range(4300, len(raw))]
    for position in positions:
        for mask in (0x01, 0x80, 0xFF):
            raw[position] ^= mask
            path.write_bytes(raw)
            raw[position] ^= mask
            found = content_or_error(path)
            if found == "refused":
                continue
            assert found == original, position
            assert any(position in harmless for harmless in HARMLESS) or is_padding(position, raw)


def content_or_error(path: Path) -> list[object] | str:
    """ "refused" when the error is of the right kind and says where."""
    try:
        return content(path)
    except CorruptFileError as error:
        return "refused" if error.path == str(path) else f"no path: {error}"
    except ValueError as error:  # what only a later version or another machine would write
        expected = "update scx-core" in str(error) or "big-endian" in str(error)
        return "refused" if expected else str(error)


def is_padding(position: int, raw: bytearray) -> bool:
    """Behind "cells of this file" and "genes", up to the next multiple of 8."""
    return (
        position in range(4352 + 18, 4376)
        or position in range(4416 + 5, 4424)
        or (position in range(4424, len(raw)) and raw[position] == 0)
    )


def test_cut_anywhere(tmp_path: Path, written: bytes) -> None:
    path = tmp_path / "a.scx"
    for length in [*range(0, 300), *range(4340, len(written))]:
        path.write_bytes(written[:length])
        with pytest.raises(CorruptFileError):
            FileReader(path)


def test_missing_4_kilobytes(tmp_path: Path) -> None:
    path = tmp_path / "a.scx"
    with FileWriter(path, n_obs=9, n_vars=4) as writer:
        writer.add_section("uns", bytes(20_000), section_type=10)
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size - 4096)
    with pytest.raises(CorruptFileError, match="cut off"):
        FileReader(path)
