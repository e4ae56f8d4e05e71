"""Readers and writers of one file at the same time: nobody is told of damage, nothing is lost."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from blake3 import blake3

import scx_core
from scx_core._section_names import SectionType
from scx_core.native.container import FileReader, FileWriter

N_ROWS, N_GENERATIONS = 400, 150

MARKING = """
import sys
import scx_core
for row in range(int(sys.argv[2]), int(sys.argv[3]), 2):
    scx_core.mark_deleted(sys.argv[1], [row])
"""

READING = """
import sys
import scx_core
print("ready", flush=True)
seen, last = 0, -1
while last < int(sys.argv[2]):
    experiment = scx_core.open(sys.argv[1])
    n_deleted = len(experiment.deleted_rows)
    assert n_deleted >= last, (n_deleted, last)
    last = n_deleted
    if seen % 5 == 0:
        assert experiment.find_damage(deep=seen % 20 == 0) == []
    experiment.close()
    seen += 1
print(seen)
"""


@pytest.fixture
def wide(tmp_path: Path) -> Path:
    import anndata

    counts = np.random.default_rng(0).poisson(1.0, (N_ROWS, 30)).astype(np.float32)
    scx_core.from_anndata(anndata.AnnData(counts), tmp_path / "wide.scx", shard_size=64)
    return tmp_path / "wide.scx"


def damage(path: Path) -> list[tuple[str, str]]:
    with scx_core.open(path) as experiment:
        return experiment.find_damage(deep=True)


def test_readers_and_writers_at_once(wide: Path) -> None:
    def start(program: str, *arguments: object) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", program, str(wide), *map(str, arguments)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    readers = [start(READING, N_GENERATIONS) for _ in range(3)]
    for reader in readers:
        assert reader.stdout is not None
        reader.stdout.readline()
    writers = [start(MARKING, first, N_GENERATIONS) for first in (0, 1)]
    for process in [*writers, *readers]:
        _, errors = process.communicate(timeout=200)
        assert process.returncode == 0, errors
    assert scx_core.open(wide).deleted_rows.tolist() == list(range(N_GENERATIONS))


def test_a_change_costs_what_it_appends_and_its_sum_is_of_what_is_read_first(wide: Path) -> None:
    before = wide.read_bytes()
    scx_core.mark_deleted(wide, [3])
    after = bytearray(wide.read_bytes())
    assert len(after) - len(before) < 4000
    assert damage(wide) == []
    # a byte of the catalog, of the root catalog and of a section
    (catalog_at,) = np.frombuffer(after, "<u8", 1, offset=68)
    for place in (int(catalog_at) + 40, 300, 4360):
        damaged = bytearray(after)
        damaged[place] ^= 1
        wide.write_bytes(damaged)
        with pytest.raises((scx_core.CorruptFileError, AssertionError)):
            assert damage(wide) == []
    # what earlier versions wrote: the sum over all of it
    whole = after[:100] + bytes(8) + after[108:]
    after[100:108] = blake3(whole).digest()[:8]
    wide.write_bytes(after)
    assert damage(wide) == []


def test_any_section_can_be_added_replaced_and_dropped(wide: Path) -> None:
    with FileReader(wide) as file:
        obs = file.find(SectionType.OBS, "obs")
        assert obs is not None
        old = bytes(file.section_bytes(obs.index))
    with FileWriter.change(wide, note="labels") as writer:
        writer.drop_section("obs", section_type=SectionType.OBS)
        writer.add_section("obs", old, section_type=SectionType.OBS)
        writer.add_section("obsm/new", b"bytes", section_type=SectionType.OBSM)
        writer.begin_shard(
            "layer_shard_0",
            section_type=SectionType.LAYER_CSR_SHARD,
            codec=64,
            value_type=3,
            row_start=0,
            n_rows=N_ROWS,
            n_cols=30,
        )
        writer.append_dense(np.eye(N_ROWS, 30, dtype=np.float32))
        writer.finish_shard()
    with FileReader(wide) as file, FileReader(wide, generations_back=1) as earlier:
        names = {section.name for section in file.sections}
        assert {"obsm/new", "layer_shard_0", "generation"} <= names
        before = {section.name for section in earlier.sections}
        assert names - before == {"obsm/new", "layer_shard_0", "generation"}
    with pytest.raises(KeyError, match="2 before the last"):
        FileReader(wide, generations_back=2)
    with FileWriter.change(wide) as writer:
        writer.drop_section("obsm/new", section_type=SectionType.OBSM)
    layer = scx_core.open(wide).layers["layer"][:]
    np.testing.assert_array_equal(layer.toarray(), np.eye(N_ROWS, 30, dtype=np.float32))
    assert damage(wide) == []


def test_a_failing_block_leaves_the_file_as_it_was(wide: Path) -> None:
    before = wide.read_bytes()
    writer = FileWriter.change(wide)
    writer.add_section("obsm/new", bytes(10_000), section_type=SectionType.OBSM)
    with pytest.raises(ValueError, match="is written twice"), writer:
        writer.add_section("obsm/new", b"", section_type=SectionType.OBSM)
    with (
        pytest.raises(KeyError, match="no section 'uns/none'"),
        FileWriter.change(wide) as writer,
    ):
        writer.drop_section("uns/none", section_type=SectionType.UNS)
    assert wide.read_bytes() == before
