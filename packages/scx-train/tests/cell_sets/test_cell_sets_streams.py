"""Streams of cell sets: threads of the library decode them into buffers that are used again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anndata
import numpy as np
import pytest
from cell_set_files import MakeCollection, dense_of

import scx_core
from scx_core import CorruptFileError
from scx_core.native.container import FileReader
from scx_train import SparseCellSetDataset

SHAPES = [(9, 12, 3), (30, 12, 5), (4, 12, 2)]


def test_batches_that_are_kept_are_not_written_over(make_collection: MakeCollection) -> None:
    files = make_collection(SHAPES)
    plans = [files.plan(number, 25) for number in range(40)]
    kept = list(SparseCellSetDataset(files.paths, threads=2).iter_with_plans(plans, lookahead=3))
    for batch, plan in zip(kept, plans, strict=True):
        np.testing.assert_array_equal(dense_of(batch, 12), files.rows(plan))
    data = kept[0]["data"].copy()
    kept[1]["data"][:] = -1  # nobody else's
    np.testing.assert_array_equal(kept[0]["data"], data)


def test_files_without_cells_among_others(make_collection: MakeCollection, tmp_path: Path) -> None:
    files = make_collection(SHAPES)
    empty = tmp_path / "empty.scx"
    adata = anndata.AnnData(np.zeros((0, 12), dtype=np.float32))
    adata.var_names = [f"gene{gene}" for gene in range(12)]
    scx_core.from_anndata(adata, empty)
    dataset = SparseCellSetDataset([empty, files.paths[0], empty, *files.paths[1:], empty])
    plan = files.plan(3, 40)
    moved = (np.array([1, 3, 4])[plan[0]], *plan[1:])
    (batch,) = dataset.iter_with_plans([moved])
    np.testing.assert_array_equal(dense_of(batch, 12), files.rows(plan))
    with pytest.raises(IndexError, match=r"row 0 of file 2 .*its cells are none"):
        next(dataset.iter_with_plans([([2], [0], [0], [0, 1])]))


def test_the_widest_plans_are_decoded_when_they_are_due(
    make_collection: MakeCollection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches of more values than 32 bits count; here it is a few."""
    monkeypatch.setattr("scx_core.native.mapped_rows.VALUES_MAX", 12 * 10)
    files = make_collection(SHAPES)
    plans = [files.plan(number, n_rows) for number, n_rows in enumerate([3, 11, 10, 30, 2])]
    iterator = SparseCellSetDataset(files.paths).iter_with_plans(plans)
    for batch, plan in zip(iterator, plans, strict=True):
        np.testing.assert_array_equal(dense_of(batch, 12), files.rows(plan))
    prefetch = iterator.metrics()["prefetch"]
    assert prefetch["plans_decoded_ahead"] <= 3
    assert prefetch["prefetch_skipped_reader_limit"] == 0


@pytest.mark.parametrize("reader_limit", [None, 1])
def test_damage_names_the_file_and_comes_in_its_place(
    make_collection: MakeCollection, reader_limit: int | None
) -> None:
    files = make_collection([(20, 40, 20)] * 3, shard_size=20)
    path = Path(files.paths[1])
    raw = path.read_bytes()
    plan: Any = ([1], [7], [0], [0, 1])
    good: Any = ([0, 2], [1, 3], [0, 0], [0, 2])
    shard = next(s for s in FileReader(path).sections if s.name == "X_shard_0")
    for place in range(shard.offset + shard.length - 600, shard.offset + shard.length, 5):
        damaged = bytearray(raw)
        damaged[place] ^= 0x10
        path.unlink()
        path.write_bytes(damaged)
        try:
            dataset = SparseCellSetDataset(files.paths, reader_limit=reader_limit)
            dataset.gather(*plan)
        except CorruptFileError as error:
            if error.row == 7:
                break
    batches = dataset.iter_with_plans([good, plan, good])
    np.testing.assert_array_equal(dense_of(next(batches), 40), files.rows(good))
    with pytest.raises(CorruptFileError, match="row 7") as caught:
        next(batches)
    assert (caught.value.path, caught.value.row) == (files.paths[1], 7)
    assert "file 1:" not in str(caught.value)
    assert list(batches) == []


def test_what_is_no_count_names_the_file(tmp_path: Path) -> None:
    paths = []
    for number, value in enumerate([3.0, 2.0**60]):
        paths.append(tmp_path / f"{number}.scx")
        matrix = np.full((4, 3), value, dtype=np.float32)
        scx_core.from_anndata(anndata.AnnData(matrix), paths[-1])
    dataset = SparseCellSetDataset(paths, downsample_target_library_size=5)
    plans: Any = [([0], [1], [0], [0, 1]), ([1], [2], [0], [0, 1])]
    batches = dataset.iter_with_plans(plans)
    assert next(batches)["data"].sum() <= 9
    with pytest.raises(ValueError, match=r"1\.scx: row 2 holds a value above 2\^53"):
        next(batches)


def test_a_writer_replaces_a_file_of_a_running_stream(make_collection: MakeCollection) -> None:
    files = make_collection(SHAPES)
    other = make_collection([(2, 12, 4)], prefix="other", seed=1)
    dataset = SparseCellSetDataset(files.paths)
    plans = [files.plan(number, 25) for number in range(12)]
    batches = dataset.iter_with_plans(plans, lookahead=2)
    found = [next(batches)]
    os.replace(other.paths[0], files.paths[1])
    found += batches
    for batch, plan in zip(found, plans, strict=True):
        np.testing.assert_array_equal(dense_of(batch, 12), files.rows(plan))  # the old content
    np.testing.assert_array_equal(dense_of(dataset.gather(*plans[0]), 12), files.rows(plans[0]))
    (batch,) = SparseCellSetDataset(files.paths).iter_with_plans([([1], [1], [0], [0, 1])])
    np.testing.assert_array_equal(dense_of(batch, 12), other.dense[0][1:2])


def test_streams_at_the_same_time(make_collection: MakeCollection) -> None:
    files = make_collection(SHAPES)
    dataset = SparseCellSetDataset(files.paths, threads=2)
    plans = [[files.plan(10 * stream + number, 20) for number in range(9)] for stream in range(3)]
    streams = [dataset.iter_with_plans(of_stream) for of_stream in plans]
    dataset.close()  # they hold what they need
    for number in range(9):
        for stream, of_stream in zip(streams, plans, strict=True):
            batch = next(stream)
            np.testing.assert_array_equal(dense_of(batch, 12), files.rows(of_stream[number]))
    assert [list(stream) for stream in streams] == [[], [], []]


class CountedPlans:
    """Plans of 3 cells each, and how many were asked for."""

    def __init__(self, count: int) -> None:
        self.count, self.asked = count, 0

    def __iter__(self) -> Iterator[Any]:
        for number in range(self.count):
            self.asked += 1
            yield [0, 0, 0], [number % 20, 1, 2], [0, 1, 1], [0, 3]


@pytest.mark.parametrize("count", [10_000, 100_000])
def test_what_comes_before_the_first_batch_does_not_grow(
    make_collection: MakeCollection, count: int
) -> None:
    files = make_collection([(20, 6, 2)])
    plans = CountedPlans(count)
    with SparseCellSetDataset(files.paths).iter_with_plans(plans) as batches:
        next(batches)
        assert plans.asked <= 1 + 4


MANIFEST = """
import json, os, resource, sys
import numpy as np

resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))  # far fewer than there are files
from scx_train import SparseCellSetDataset

def private():
    lines = open("/proc/self/smaps_rollup").read().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_Dirty"))

path, n_files, limit = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
paths = [path.replace(".scx", f"-{number}.scx") for number in range(n_files)]
SparseCellSetDataset(paths[:1]).gather([0], [0], [0], [0, 1])
before, descriptors = private(), len(os.listdir("/proc/self/fd"))
dataset = SparseCellSetDataset(paths, reader_limit=limit)
rng = np.random.default_rng(0)
n_rows = 0
plans = [(np.sort(rng.integers(0, n_files, 12)), rng.integers(0, 5, 12), [0] * 12, [0, 12])
         for _ in range(20)]
for batch in dataset.iter_with_plans(plans):
    n_rows += len(batch["cell_indices"])
    assert len(os.listdir("/proc/self/fd")) <= descriptors + 2
print(private() - before, n_rows, dataset.cache_metrics()["reader_hwm"])
"""


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="reads /proc")
def test_5000_files(make_collection: MakeCollection) -> None:
    """Under 64 file descriptors; with 16 files open it takes a fraction of what all take."""
    (path,) = make_collection([(5, 50, 10)]).paths
    n_files = 5000
    for number in range(n_files):
        os.link(path, path.replace(".scx", f"-{number}.scx"))
    used = {}
    for limit in (None, 16):
        done = subprocess.run(
            [sys.executable, "-c", MANIFEST, path, str(n_files), json.dumps(limit)],
            capture_output=True,
            text=True,
            check=True,
            timeout=200,
        )
        used[limit], n_rows, most_open = map(int, done.stdout.split())
        assert n_rows == 240
        assert most_open == n_files if limit is None else most_open <= 16 + 5 * 12
    assert used[None] < 1_000_000  # kB
    assert used[16] < used[None] / 4
