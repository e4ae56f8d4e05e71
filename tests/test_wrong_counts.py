"""Counts, places and lengths that are wrong under checksums that fit: refused, and never followed.

Damage on a disk is found by a checksum. Here the checksums are made to fit, as a writer with a
mistake would make them, so that what the file says is all that protects its reader.
"""

from __future__ import annotations

import copy
import struct
from collections.abc import Callable
from pathlib import Path

import mudata
import numpy as np
import pytest
from blake3 import blake3

import scx_core
from mudata_samples import quiet
from resealed import Change, ScxFile, Section
from test_damaged_files import read_everything, sample

SHARD = "X_shard_1"
LAST = "X_shard_2"
X, LAYER, RAW, MODALITIES = 4, 7, 27, 15
ROWPACK, NONE = 64, 0
I32, U32, U64 = 2**31 - 1, 2**32 - 1, 2**64 - 1


@pytest.fixture(scope="module", params=["rowpack", "none"])
def good(request, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("counts") / "good.scx"
    scx_core.from_anndata(sample(), path, codec=request.param, shard_size=16, progress=False)
    return path


@pytest.fixture(scope="module")
def packed(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("counts") / "packed.scx"
    scx_core.from_anndata(sample(), path, shard_size=16, progress=False)
    return path


@pytest.fixture(scope="module")
def plain(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("counts") / "plain.scx"
    scx_core.from_anndata(sample(), path, codec="none", shard_size=16, progress=False)
    return path


def changed(source: Path, target: Path, change: Change) -> Path:
    file = ScxFile(source)
    change(file)
    for section in file.sections:
        if section.section_type in (X, LAYER, RAW):
            section.reseal()
    return file.write(target)


def set_columns(file: ScxFile, columns: int) -> None:
    file.set("n_vars", columns)
    for section in file.sections:
        if section.section_type in (X, LAYER):
            section.set("n_minor", columns)
            section.set_stat("col_end", columns)


def set_values(file: ScxFile, nnz: int) -> None:
    file[SHARD].set("nnz", nnz)
    file[SHARD].set_stat("nnz", nnz)
    file.count_values()


def set_rows(file: ScxFile, rows: int) -> None:
    file.set("n_obs", 32 + rows)
    file[LAST].set("n_major", rows)
    file[LAST].set_stat("row_end", 32 + rows)


def drop(file: ScxFile, name: str) -> None:
    file.sections.remove(file[name])
    file.set("n_csr_shards", 2)
    file.count_values()


def add_again(file: ScxFile, name: str) -> None:
    twin = copy.deepcopy(file[LAST])
    twin.name = name
    file.sections.append(twin)
    file.set("n_csr_shards", 4)
    file.count_values()


def swap_names(file: ScxFile) -> None:
    first, second = file["X_shard_0"], file[SHARD]
    first.name, second.name = second.name, first.name


def set_field(field: str, value: int) -> Change:
    return lambda file: file[SHARD].set(field, value)


def put(name: str, content: bytes) -> Change:
    def change(file: ScxFile) -> None:
        file[name].content[:] = content

    return change


def test_the_editor_changes_nothing_by_itself(good, tmp_path):
    copied = changed(good, tmp_path / "same.scx", lambda _: None)
    assert copied.read_bytes() == good.read_bytes()


REFUSED: dict[str, tuple[Change, str]] = {
    "more rows than the table": (lambda f: set_rows(f, 9), "indptr_length|rows instead of 41"),
    "rows beyond memory": (lambda f: set_rows(f, U32), "indptr_length|rows instead of"),
    "columns beyond memory": (lambda f: set_columns(f, I32), "rows instead of 2147483647|length"),
    "columns beyond int32": (lambda f: set_columns(f, U32), "n_minor|rows instead of"),
    "one column more": (lambda f: set_columns(f, 31), "30 rows instead of 31"),
    "no columns": (lambda f: set_columns(f, 0), "stored values in 16 x 0 places"),
    "no values": (lambda f: set_values(f, 0), "length"),
    "more values than places": (lambda f: set_values(f, 16 * 30 + 1), "stored values in 16 x 30"),
    "most values of all": (lambda f: set_values(f, U64), "stored values in 16 x 30 places"),
    "table outside": (set_field("indptr_offset", U32), "indptr_offset"),
    "table too long": (set_field("indptr_length", U32), "indptr_offset"),
    "table empty": (set_field("indptr_length", 0), "indptr_length"),
    "table in the header": (set_field("indptr_offset", 0), "place of a stream|n_major"),
    "values outside": (set_field("values_offset", U32), "values_offset"),
    "values too long": (set_field("values_length", U32), "values_offset"),
    "values empty": (set_field("values_length", 0), "values_length"),
    "values in the header": (set_field("values_offset", 0), "place of a stream"),
    "values in the table": (set_field("values_offset", 80), "place of a stream"),
    "columns' places outside": (set_field("indices_offset", U32), "indices_offset"),
    "another type": (set_field("encoding", 1), "values_length|of type u16"),
    "no type": (set_field("encoding", 200), "value_encoding"),
    "a column shard": (set_field("type", 1), "shard_type"),
    "no such index": (set_field("index_dtype", 7), "index_dtype"),
    "shard missing": (lambda f: drop(f, SHARD), "hold 16 rows, but the file has 40 cells"),
    "first shard missing": (lambda f: drop(f, "X_shard_0"), "the first shard of X is missing"),
    "shards swapped": (swap_names, "starts at row 16"),
    "shard twice": (lambda f: add_again(f, "X_shard_3"), "starts at row 32"),
    "section twice": (lambda f: add_again(f, LAST), "lists section 'X_shard_2' twice"),
    "no row range": (lambda f: setattr(f[SHARD], "stats", b""), "header is damaged: nnz|no row"),
    "row range cut off": (lambda f: setattr(f[SHARD], "stats", f[SHARD].stats[:40]), "are cut off"),
    "one entry more": (lambda f: setattr(f, "count_offset", 1), "ends inside an entry"),
    "one entry less": (lambda f: setattr(f, "count_offset", -1), "bytes lie behind its last entry"),
    "all entries": (lambda f: setattr(f, "count_offset", U32 - len(f.sections)), "promises 429"),
    "other rows": (lambda f: put("obs", f["var"].content)(f), "30 rows instead of 40"),
    "other columns": (lambda f: put("var", f["obs"].content)(f), "40 rows instead of 30"),
    "no rows' table": (put("obs", b""), "obs cannot be read"),
    "deep uns": (put("uns", b'{"a":' + b"[" * 99_999 + b"]" * 99_999 + b"}"), "uns cannot be read"),
    "other embedding": (lambda f: put("obsm/X_pca", f["varm/loadings"].content)(f), "30 rows"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(good, tmp_path, name):
    change, message = REFUSED[name]
    path = changed(good, tmp_path / "wrong.scx", change)
    with pytest.raises(scx_core.CorruptFileError, match=message):
        read_everything(path)
    try:
        experiment = scx_core.open(path)
    except scx_core.CorruptFileError:
        return
    with experiment:
        assert not all(ok for _, ok in experiment.validate(deep=True))


def entry(**fields: Callable[[float], float]) -> Change:
    def change(file: ScxFile) -> None:
        names = ("offset", "n_values", "n_bytes", "crc", "total")
        found = dict(zip(names, file[SHARD].entry(3), strict=True))
        file[SHARD].set_entry(3, **{name: fields[name](found[name]) for name in fields})

    return change


@pytest.mark.parametrize(
    "fields",
    [
        {"n_values": lambda count: count + 1},
        {"n_values": lambda count: count - 1},
        {"n_values": lambda _: 31},
        {"n_values": lambda _: U32},
        {"n_bytes": lambda length: length + 1},
        {"n_bytes": lambda length: length - 1},
        {"n_bytes": lambda _: 7},
        {"n_bytes": lambda _: U32},
        {"offset": lambda _: U32},
        {"offset": lambda _: U32 - 7, "n_bytes": lambda _: 16},
    ],
)
def test_rows_of_rowpack_are_refused_and_their_neighbours_read(packed, tmp_path, fields):
    path = changed(packed, tmp_path / "wrong.scx", entry(**fields))
    with scx_core.open(packed) as good, scx_core.open(path) as experiment:
        with pytest.raises(scx_core.CorruptFileError, match=r"row 19 .*cannot be"):
            experiment.gather_rows([19])
        others = [row for row in range(40) if row != 19]
        assert (experiment.gather_rows(others) != good.gather_rows(others)).nnz == 0
        assert [name for name, ok in experiment.validate(deep=True) if not ok] == [SHARD]


@pytest.mark.parametrize("total", [1e9, -5.0, float("nan"), float("inf")])
def test_a_total_that_is_not_true_is_found(packed, tmp_path, total):
    path = changed(packed, tmp_path / "wrong.scx", entry(total=lambda _: total))
    with scx_core.open(path) as experiment:
        assert [name for name, ok in experiment.validate(deep=True) if not ok] == [SHARD]


@pytest.mark.parametrize("seed", range(4))
def test_payloads_of_any_content_stay_inside(packed, tmp_path, seed):
    rng = np.random.default_rng(seed)

    def change(file: ScxFile) -> None:
        section = file[SHARD]
        for row in range(16):
            start, stop = section.payload(row)
            for place in rng.integers(start, stop, 3):
                section.content[place] = rng.integers(256)

    path = changed(packed, tmp_path / "wrong.scx", change)
    refused = 0
    with scx_core.open(path) as experiment:
        for row in range(16, 32):
            try:
                found = experiment.gather_rows([row])
            except scx_core.CorruptFileError:
                refused += 1
                continue
            assert found.indices.min(initial=0) >= 0
            assert found.indices.max(initial=0) < 30
    assert refused > 0


def set_word(stream: str, code: str, index: int, value: int) -> Change:
    def change(file: ScxFile) -> None:
        section: Section = file[SHARD]
        place = section.get(f"{stream}_offset") + struct.calcsize(code) * index
        struct.pack_into(code, section.content, place, value)

    return change


@pytest.mark.parametrize(
    ("change", "row"),
    [
        (set_word("indptr", "<Q", 4, 0), 19),
        (set_word("indptr", "<Q", 0, U64), 16),
        (set_word("indptr", "<Q", 4, 2**63), 19),
        (set_word("indptr", "<Q", 16, 10**6), 31),
        (set_word("indices", "<H", 0, 30), 16),
        (set_word("indices", "<H", 0, 65535), 16),
    ],
)
def test_rows_without_a_codec_are_refused(plain, tmp_path, change, row):
    path = changed(plain, tmp_path / "wrong.scx", change)
    with scx_core.open(path) as experiment:
        with pytest.raises(scx_core.CorruptFileError, match=rf"row {row} .*cannot be"):
            experiment.gather_rows(np.arange(40))
        assert [name for name, ok in experiment.validate(deep=True) if not ok] == [SHARD]


@pytest.mark.parametrize(
    "change",
    [
        set_word("indptr", "<Q", 0, 1),
        set_word("indices", "<H", 0, 29),
    ],
    ids=["a value left out", "columns that descend"],
)
def test_what_can_be_read_but_is_not_canonical_is_found(plain, tmp_path, change):
    path = changed(plain, tmp_path / "wrong.scx", change)
    with scx_core.open(path) as experiment:
        assert [name for name, ok in experiment.validate(deep=True) if not ok] == [SHARD]


VECTOR = struct.pack("<II", 0, 18) + bytes.fromhex("3a3000000100000000000000100000000500")
DELETED = {
    "more vectors than there are": (struct.pack("<BI", 1, 2) + VECTOR, "end inside a vector"),
    "most vectors of all": (struct.pack("<BI", 1, U32) + VECTOR, "end inside a vector"),
    "no vectors": (struct.pack("<BI", 1, 0) + VECTOR, "lie behind the last vector"),
    "the same rows twice": (struct.pack("<BI", 1, 2) + 2 * VECTOR, "row 5 is deleted twice"),
    "more rows than the file has": (struct.pack("<BI", 1, 99) + 99 * VECTOR, "deleted twice"),
    "no such shard": (struct.pack("<BIII", 1, 1, 3, 18) + VECTOR[8:], "name shard 3 of 3"),
    "a bitmap too long": (struct.pack("<BIII", 1, 1, 0, U32) + VECTOR[8:], "inside the bitmap"),
    "a row too many": (
        struct.pack("<BIII", 1, 1, 0, 18) + VECTOR[8:24] + struct.pack("<H", 16),
        "not one of its 16 rows",
    ),
}


@pytest.mark.parametrize("name", DELETED)
def test_deletion_vectors_are_refused(packed, tmp_path, name):
    content, message = DELETED[name]
    path = tmp_path / "wrong.scx"
    path.write_bytes(packed.read_bytes())
    assert scx_core.mark_deleted(path, [3]) == 1
    path = changed(path, path, put("deletion_vectors", content))
    with pytest.raises(scx_core.CorruptFileError, match=message):
        read_everything(path)
    with pytest.raises(scx_core.CorruptFileError, match=message):
        scx_core.mark_deleted(path, [4])


def test_a_file_that_counts_no_further_is_not_changed(packed, tmp_path):
    path = changed(packed, tmp_path / "last.scx", lambda f: f.set("manifest_sequence", U64))
    before = path.read_bytes()
    with pytest.raises(RuntimeError, match="as many changes as it can"):
        scx_core.mark_deleted(path, [3])
    assert path.read_bytes() == before


def modality_table(change: Callable[[bytearray], None]) -> Change:
    def reseal(file: ScxFile) -> None:
        table = next(s for s in file.sections if s.section_type == MODALITIES).content
        change(table)
        table[-4:] = blake3(table[:-4]).digest()[:4]

    return reseal


def set_bytes(code: str, place: int, value: int) -> Callable[[bytearray], None]:
    return lambda table: struct.pack_into(code, table, place, value)


# the first modality is called "a": its number of genes stands at 8 + 2 + 4
TABLES = {
    "one modality more": (set_bytes("<H", 6, 3), "ends inside an entry"),
    "one modality less": (set_bytes("<H", 6, 1), "longer than its entries"),
    "no modality": (set_bytes("<H", 6, 0), "promises 0 modalities"),
    "a name too long": (set_bytes("B", 8, 255), "ends inside an entry"),
    "a name that is no text": (set_bytes("B", 9, 0xFF), "not UTF-8"),
    "another name": (set_bytes("B", 9, ord("x")), "is missing, or called otherwise"),
    "fewer genes": (set_bytes("<Q", 14, 29), "the largest modality has 29"),
    "most genes of all": (set_bytes("<Q", 14, U64), "the largest modality has 1844"),
    "other values": (set_bytes("<Q", 22, 5), "disagree about modality 'a'"),
}


@pytest.mark.parametrize("name", TABLES)
def test_modality_tables_are_refused(tmp_path, name):
    good = tmp_path / "good.scx"
    parts = {"a": sample(), "b": sample()[:, :8].copy()}
    for part in parts.values():
        del part.raw, part.layers, part.obsm, part.varm, part.obsp
    parts["b"].var_names = [f"p{i}" for i in range(8)]
    with quiet():
        scx_core.from_mudata(mudata.MuData(parts), good, progress=False)
    change, message = TABLES[name]
    path = changed(good, tmp_path / "wrong.scx", modality_table(change))
    with (
        pytest.raises(scx_core.CorruptFileError, match=message),
        scx_core.open(path) as experiment,
        quiet(),
    ):
        experiment.to_mudata()
