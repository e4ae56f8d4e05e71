"""The built library shows the functions of zig/scx.h to the outside, and nothing else."""

from __future__ import annotations

import re
import struct
import sys
from pathlib import Path

import pytest

import scx_core
from checkout import ROOT

LIBRARY_FOLDER = Path(scx_core.__file__).parent / "_lib"
SECTION_DYNSYM = 11


def declared_functions() -> set[str]:
    """Every scx_ name with a parameter list behind it, comments left out."""
    text = (ROOT / "zig/scx.h").read_text(encoding="utf-8")
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    return set(re.findall(r"\b(scx_\w+)\s*\(", text))


def exported_symbols(library: bytes) -> set[str]:
    """Names that a little-endian ELF64 file defines in its dynamic symbol table."""
    assert library[:6] == b"\x7fELF\x02\x01"
    (section_offset,) = struct.unpack_from("<Q", library, 0x28)
    section_bytes, section_count = struct.unpack_from("<HH", library, 0x3A)
    # type, offset, size, link (here: the number of the section with the names)
    sections = [
        struct.unpack_from("<4xI16xQQI", library, section_offset + i * section_bytes)
        for i in range(section_count)
    ]
    (symbols,) = [section for section in sections if section[0] == SECTION_DYNSYM]
    names_offset = sections[symbols[3]][1]
    exported = set()
    for position in range(symbols[1], symbols[1] + symbols[2], 24):
        name, _info, _other, defined_in = struct.unpack_from("<IBBH", library, position)
        if defined_in != 0:
            start = names_offset + name
            exported.add(library[start : library.index(b"\0", start)].decode())
    return exported


@pytest.mark.skipif(sys.platform != "linux", reason="reads ELF")
def test_exports_are_the_declared_functions() -> None:
    exported = exported_symbols((LIBRARY_FOLDER / "libscx.so").read_bytes())
    declared = declared_functions()
    assert exported - declared == set(), "exported, but not in scx.h"
    assert declared - exported == set(), "in scx.h, but not exported"


def test_header_beside_the_library_is_the_projects() -> None:
    assert (LIBRARY_FOLDER / "scx.h").read_bytes() == (ROOT / "zig/scx.h").read_bytes()
