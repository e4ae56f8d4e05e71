"""Marking rows as deleted: what is taken, refused and written."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anndata
import blake3
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyroaring import BitMap

import scx_core
from scx_core._errors import CorruptFileError

SHARD_SIZE, N_OBS = 16, 100


def bitmaps_of(raw: bytes) -> tuple[dict[int, list[int]], dict[str, int]]:
    """Deleted rows by shard, and the header, taken apart without the library."""
    (flags,) = struct.unpack_from("<I", raw, 8)
    catalog_at, catalog_length, sequence, previous = struct.unpack_from("<4Q", raw, 68)
    catalog = raw[catalog_at : catalog_at + catalog_length]
    # of header, root catalog and catalog, not of what lies between them
    summed = raw[:100] + bytes(8) + raw[108:4352] + catalog
    assert blake3.blake3(summed).digest()[:8] == raw[100:108]
    assert catalog_at + catalog_length == len(raw)
    assert blake3.blake3(catalog[:-32]).digest() == catalog[-32:]
    assert struct.unpack_from("<QQ", catalog, 2) == (sequence, previous)
    at = catalog.rindex(b"deletion_vectors") + 16
    offset, length, kind = struct.unpack_from("<QQB", catalog, at)
    assert kind == 12 and offset % 8 == 0 and catalog.count(b"deletion_vectors") == 1
    section = raw[offset : offset + length]
    assert blake3.blake3(section).digest() == catalog[at + 17 : at + 49]
    version, n_shards = struct.unpack_from("<BI", section)
    assert version == 1
    found, at = {}, 5
    for _ in range(n_shards):
        shard, size = struct.unpack_from("<II", section, at)
        found[shard] = list(BitMap.deserialize(section[at + 8 : at + 8 + size]))
        at += 8 + size
    assert at == length
    header = {"flags": flags, "sequence": sequence, "previous": previous, "catalog": catalog_at}
    return found, header


def test_what_is_written(path: Path) -> None:
    before = path.read_bytes()
    (catalog_before,) = struct.unpack_from("<Q", before, 68)
    assert scx_core.mark_deleted(path, [3, 17, 99, 17]) == 3
    raw = path.read_bytes()
    found, header = bitmaps_of(raw)
    assert found == {0: [3], 1: [1], 6: [3]}
    assert header["flags"] & 1 << 5 and header["sequence"] == 1
    assert header["previous"] == catalog_before
    assert raw[4352 : len(before)] == before[4352:], "what was there has been changed"

    assert scx_core.mark_deleted(path, [4, 17]) == 1
    found, header = bitmaps_of(path.read_bytes())
    assert found == {0: [3, 4], 1: [1], 6: [3]}
    assert header["sequence"] == 2

    unchanged = path.read_bytes()
    assert scx_core.mark_deleted(path, [99]) == 0
    assert scx_core.mark_deleted(path, []) == 0
    assert path.read_bytes() == unchanged, "nothing new, but the file was written"


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", ">i4", "u4", "i8", "u8", "O"])
def test_integers_of_any_dtype(path: Path, dtype: str) -> None:
    rows: Any = [7, 3, 90]
    if dtype != "O":
        rows = np.array(rows, dtype=dtype)
    assert scx_core.mark_deleted(path, rows) == 3
    assert scx_core.open(path).deleted_rows.tolist() == [3, 7, 90]


def test_masks_are_over_all_rows(path: Path) -> None:
    mask = np.zeros(N_OBS, dtype=bool)
    mask[[5, 50]] = True
    assert scx_core.mark_deleted(path, mask) == 2
    assert scx_core.mark_deleted(path, mask.tolist()) == 0
    with pytest.raises(IndexError, match="mask of 98 entries, but the file has 100 rows"):
        scx_core.mark_deleted(path, mask[:98])
    assert scx_core.open(path).deleted_rows.tolist() == [5, 50]


@pytest.mark.parametrize(
    ("rows", "kind", "text"),
    [
        ([1, 100], IndexError, "row 100 is out of range for a file of 100 rows"),
        ([-1], IndexError, "row -1"),
        (np.array([2**64 - 1], dtype=np.uint64), IndexError, "row 18446744073709551615"),
        ([1.5], TypeError, "float64"),
        (["cell 1"], TypeError, "whole numbers"),
        (3, TypeError, "0 dimensions"),
        ([[1]], TypeError, "2 dimensions"),
    ],
)
def test_refusals_leave_the_file_alone(
    path: Path, rows: Any, kind: type[Exception], text: str
) -> None:
    before = path.read_bytes()
    with pytest.raises(kind, match=text):
        scx_core.mark_deleted(path, rows)
    assert path.read_bytes() == before


@settings(
    deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    steps=st.lists(st.lists(st.integers(0, 300), max_size=60), min_size=1, max_size=3),
    run=st.tuples(st.integers(0, 300), st.integers(0, 300)),
)
def test_any_rows_in_any_steps(
    tmp_path: Path, steps: list[list[int]], run: tuple[int, int]
) -> None:
    path = tmp_path / "any.scx"
    adata = anndata.AnnData(np.ones((301, 2), dtype=np.float32))
    scx_core.from_anndata(adata, path, shard_size=128, overwrite=True)
    gone: set[int] = set()
    for rows in [*steps, list(range(*sorted(run)))]:
        assert scx_core.mark_deleted(path, rows) == len(set(rows) - gone)
        gone |= set(rows)
    with scx_core.open(path) as experiment:
        assert experiment.deleted_rows.tolist() == sorted(gone)
        assert experiment.live_rows.tolist() == sorted(set(range(301)) - gone)
        assert (experiment.n_obs, experiment.n_obs_physical) == (301 - len(gone), 301)
    if gone:
        by_shard, _ = bitmaps_of(path.read_bytes())
        assert sorted(128 * shard + row for shard in by_shard for row in by_shard[shard]) == sorted(
            gone
        )


def test_a_large_shard_uses_every_kind_of_container(tmp_path: Path) -> None:
    n_obs = 300_000
    path = tmp_path / "large.scx"
    adata = anndata.AnnData(np.zeros((n_obs, 1), dtype=np.uint8))
    scx_core.from_anndata(adata, path, shard_size=n_obs)
    rng = np.random.default_rng(0)
    rows = np.concatenate(
        [rng.choice(65_536, 100), 65_536 + rng.choice(65_536, 30_000), np.arange(131_072, 290_000)]
    )
    n_new = scx_core.mark_deleted(path, rows)
    expected = np.unique(rows)
    assert n_new == len(expected)
    np.testing.assert_array_equal(scx_core.open(path).deleted_rows, expected)


def test_a_file_of_the_published_layout_without_matrix_or_with_layers_alone(
    tmp_path: Path, check: Callable[[Path], None]
) -> None:
    for name in ("nothing", "layers"):
        path = tmp_path / f"{name}.scx"
        adata = anndata.AnnData(obs={"number": np.arange(40)}, shape=(40, 2))
        if name == "layers":
            adata.layers["counts"] = np.ones((40, 2))
        scx_core.from_anndata(adata, path, shard_size=16)
        assert scx_core.mark_deleted(path, [0, 20, 39]) == 3
        found, _ = bitmaps_of(path.read_bytes())
        expected = {0: [0, 20, 39]} if name == "nothing" else {0: [0], 1: [4], 2: [7]}
        assert found == expected
        check(path)
        assert scx_core.read(path).obs["number"].tolist() == [*range(1, 20), *range(21, 39)]


def test_missing_and_foreign_files(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        scx_core.mark_deleted(tmp_path / "missing.scx", [0])
    other = tmp_path / "other.scx"
    other.write_bytes(b"something else")
    with pytest.raises(CorruptFileError):
        scx_core.mark_deleted(other, [0])
    assert other.read_bytes() == b"something else"
