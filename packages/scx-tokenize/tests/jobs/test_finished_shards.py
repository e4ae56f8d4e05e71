"""Which shards a later run keeps: those whose bytes are what they were, and no others."""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from job_samples import cells, shard_bytes, tree, written

import scx_tokenize
from scx_core import ScxWarning
from scx_tokenize.jobs import _running
from scx_tokenize.jobs._finished import NOTES

N_SHARDS = 5


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return written(cells(50), tmp_path / "a.scx")


def run(path: Path, out: Path, **options: Any) -> dict[str, Any]:
    return scx_tokenize.run("sample", path, out, **({"n": 5, "shard_rows": 10} | options))


def shards(out: Path) -> list[Path]:
    return sorted((out / "data").glob("*.parquet"))


def interrupted(path: Path, out: Path, after: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that ends before the shard with the number `after`."""
    make = _running.make_shard

    def failing(job: Any, task: Any, **options: Any) -> Any:
        if task.number == after:
            raise OSError("no more")
        return make(job, task, **options)

    with monkeypatch.context() as patch:
        patch.setattr(_running, "make_shard", failing)
        with pytest.raises(OSError, match="no more"):
            run(path, out, threads=1)


def flipped(one: Path) -> None:
    data = bytearray(one.read_bytes())
    data[len(data) // 3] ^= 1  # among the tokens
    one.write_bytes(data)


def flipped_at_the_end(one: Path) -> None:
    data = bytearray(one.read_bytes())
    data[-20] ^= 1  # in what Parquet says of the file
    one.write_bytes(data)


def cut(one: Path) -> None:
    one.write_bytes(one.read_bytes()[:-1])


def emptied(one: Path) -> None:
    one.write_bytes(b"")


def longer(one: Path) -> None:
    one.write_bytes(one.read_bytes() + b"\0")


def swapped(one: Path) -> None:
    other = one.with_name(one.name.replace("00001-of", "00002-of"))
    mine = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(mine)


DAMAGES = [flipped, flipped_at_the_end, cut, emptied, longer, swapped, Path.unlink]


@pytest.mark.parametrize("whole", [True, False], ids=["whole", "interrupted"])
@pytest.mark.parametrize("damage", DAMAGES, ids=lambda one: one.__name__)
def test_a_shard_that_was_changed_is_made_anew_and_told(
    tmp_path: Path,
    path: Path,
    damage: Callable[[Path], None],
    whole: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run(path, tmp_path / "right")
    out = tmp_path / "out"
    if whole:
        run(path, out)
    else:
        interrupted(path, out, 3, monkeypatch)
    damage(shards(out)[1])
    with pytest.warns(ScxWarning, match=r"tokens-00001-of-00005\.parquet.*made anew"):
        run(path, out)
    assert tree(out) == tree(tmp_path / "right")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(path, out)


def test_what_is_finished_is_kept_and_only_that(
    tmp_path: Path, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    interrupted(path, out, 3, monkeypatch)
    lines = (out / NOTES).read_text().splitlines()
    assert [json.loads(line)["file"] for line in lines] == [
        f"data/{one.name}" for one in shards(out)
    ]
    assert len(lines) == 3
    # a shard whose note was lost, and the half of a line that a run left that was killed
    (out / NOTES).write_text("\n".join(lines[:2]) + "\n" + lines[2][:40])
    before = {one.name: one.stat().st_mtime_ns for one in shards(out)}
    run(path, out)
    after = {one.name: one.stat().st_mtime_ns for one in shards(out)}
    kept = [name for name in before if before[name] == after[name]]
    assert kept == sorted(before)[:2]
    assert not (out / NOTES).exists()


def test_a_run_that_ends_again_keeps_what_both_have_made(
    tmp_path: Path, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    interrupted(path, out, 1, monkeypatch)
    interrupted(path, out, 3, monkeypatch)
    run(path, tmp_path / "right")
    before = {one.name: one.stat().st_mtime_ns for one in shards(out)}
    assert len(before) == 3
    run(path, out)
    after = {one.name: one.stat().st_mtime_ns for one in shards(out)}
    assert {name: after[name] for name in before} == before
    assert tree(out) == tree(tmp_path / "right")


def test_a_whole_job_of_which_a_shard_is_lost_can_end_again(
    tmp_path: Path, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the manifest said of the others is not lost with it."""
    out = tmp_path / "out"
    run(path, out)
    expected = tree(out)
    files = shards(out)
    for number in (1, 3):
        files[number].unlink()
    with pytest.warns(ScxWarning, match="made anew"):
        interrupted(path, out, 3, monkeypatch)
    before = {one.name: one.stat().st_mtime_ns for one in shards(out)}
    assert len(before) == 4
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run(path, out)
    assert {one.name: one.stat().st_mtime_ns for one in shards(out)}.items() >= before.items()
    assert tree(out) == expected


def test_the_manifest_tells_bytes_and_hash_of_each_shard(tmp_path: Path, path: Path) -> None:
    manifest = run(path, tmp_path / "out")
    data = shard_bytes(tmp_path / "out")
    assert len(manifest["shards"]) == N_SHARDS
    for entry in manifest["shards"]:
        content = data[Path(entry["file"]).name]
        assert entry["bytes"] == len(content)
        assert entry["sha256"] == hashlib.sha256(content).hexdigest()
        assert entry["whole_numbers"] is True
    assert sum(entry["empty_cells"] for entry in manifest["shards"]) == 3


def test_manifests_that_were_edited_by_hand_are_no_obstacle(tmp_path: Path, path: Path) -> None:
    out = tmp_path / "out"
    run(path, out)
    expected = tree(out)
    manifest = json.loads((out / "manifest.json").read_text())
    del manifest["shards"][0]["sha256"]
    manifest["shards"][1] = "odd"
    manifest["shards"][2]["cells"] = 3
    del manifest["shards"][3]["file"]
    (out / "manifest.json").write_text(json.dumps(manifest))
    run(path, out)
    assert tree(out) == expected


def test_a_shard_that_goes_while_the_job_runs_is_told(
    tmp_path: Path, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    interrupted(path, out, 2, monkeypatch)

    def lose(done: int, total: int) -> None:
        if done == total:
            shards(out)[0].unlink(missing_ok=True)

    with pytest.raises(RuntimeError, match=r"tokens-00000-of-00005\.parquet was changed or remove"):
        run(path, out, progress=lose)
    with pytest.warns(ScxWarning, match="made anew"):
        assert run(path, out)["complete"]


def test_an_h5ad_that_is_written_to_meanwhile_is_noticed(tmp_path: Path) -> None:
    path = written(cells(50), tmp_path / "a.h5ad")
    data, facts = path.read_bytes(), path.stat()

    def change(done: int, total: int) -> None:
        if done == 0:  # one byte, and the same size
            with path.open("r+b") as file:
                file.seek(len(data) - 1)
                file.write(bytes([data[-1] ^ 1]))
            os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns + 1))

    with pytest.raises(RuntimeError, match=r"a\.h5ad has been changed since the job was planned"):
        run(path, tmp_path / "out", progress=change)
    path.write_bytes(data)  # the same content, but later
    run(path, tmp_path / "out")


def test_an_h5ad_that_is_written_to_while_it_is_read_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(cells(50), tmp_path / "a.h5ad")
    make = _running.make_shard

    def touching(job: Any, task: Any, **options: Any) -> Any:
        if task.number == 2:
            os.utime(path, ns=(0, 0))
        return make(job, task, **options)

    monkeypatch.setattr(_running, "make_shard", touching)
    with pytest.raises(RuntimeError, match=r"a\.h5ad has been changed since the job was planned"):
        run(path, tmp_path / "out", threads=1)
    assert len(shards(tmp_path / "out")) == 2


def test_a_file_that_is_replaced_stays_open_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(cells(50), tmp_path / "a.h5ad")
    new = written(cells(50, seed=5), tmp_path / "new.h5ad")
    run(path, tmp_path / "right")
    make = _running.make_shard

    def replacing(job: Any, task: Any, **options: Any) -> Any:
        if task.number == 2:
            new.rename(path)
        return make(job, task, **options)

    monkeypatch.setattr(_running, "make_shard", replacing)
    run(path, tmp_path / "out", threads=1)
    assert tree(tmp_path / "out") == tree(tmp_path / "right")
