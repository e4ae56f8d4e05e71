"""Shards and manifest: whole or not there, the same bytes however they came about, never mixed."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from job_samples import (
    IDS,
    as_json,
    cells,
    ids_of,
    medians_of,
    read_tokens,
    shard_bytes,
    tokens_of,
    tree,
    written,
)

import scx_tokenize
from scx_tokenize.jobs import _shards as shards
from scx_tokenize.jobs import forget_inputs, make_shard, plan_job


def run(inputs: Any, out: Path, **options: Any) -> dict[str, Any]:
    given = {"token_dictionary": tokens_of(), "gene_medians": medians_of(), "shard_rows": 16}
    return scx_tokenize.run("rank", inputs, out, **(given | options))


@pytest.fixture
def paths(tmp_path: Path) -> list[Path]:
    """Two files: six shards of 16 cells."""
    return [
        written(cells(60, seed=1), tmp_path / "a.scx"),
        written(cells(20, seed=2), tmp_path / "b.h5ad"),
    ]


def test_threads_give_the_same_bytes(tmp_path: Path, paths: list[Path]) -> None:
    for threads in (1, 2, 5):
        run(paths, tmp_path / f"t{threads}", threads=threads, obs_columns=["cell_type"])
    expected = shard_bytes(tmp_path / "t1")
    assert len(expected) == 6
    assert shard_bytes(tmp_path / "t2") == expected == shard_bytes(tmp_path / "t5")


def test_size_of_shards_does_not_change_tokens(tmp_path: Path, paths: list[Path]) -> None:
    run(paths, tmp_path / "small", shard_rows=7)
    run(paths, tmp_path / "large", shard_rows=10_000)
    assert len(shard_bytes(tmp_path / "small")) == 9 + 3
    assert ids_of(tmp_path / "small") == ids_of(tmp_path / "large")


def test_the_manifest_repeats_the_run(tmp_path: Path, paths: list[Path]) -> None:
    made = run(paths, tmp_path / "one", preset="geneformer-v2", obs_columns=["donor"])
    manifest = json.loads((tmp_path / "one" / "manifest.json").read_text("utf-8"))
    assert manifest == made
    arguments = manifest["arguments"]
    for name in ("token_dictionary", "gene_medians"):  # given as mappings, so kept beside it
        arguments[name] = tmp_path / "one" / arguments[name]
    again = scx_tokenize.run(out=tmp_path / "two", **arguments)
    assert again["job_identity"] == manifest["job_identity"]
    assert shard_bytes(tmp_path / "one") == shard_bytes(tmp_path / "two")
    assert manifest["contract_version"] == scx_tokenize.CONTRACT_VERSION
    assert manifest["counts"]["cells"] == 80 == sum(one["cells"] for one in manifest["shards"])
    frame = read_tokens(tmp_path / "one")
    assert manifest["counts"]["tokens"] == frame["length"].sum()
    assert manifest["inputs"][1]["path"] == str(paths[1])


def test_the_manifest_repeats_the_run_from_another_folder(
    tmp_path: Path, paths: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    as_json(tokens_of(), tmp_path / "tokens.json")
    as_json(medians_of(), tmp_path / "medians.json")
    monkeypatch.chdir(tmp_path)
    given = {"token_dictionary": "tokens.json", "gene_medians": "medians.json"}
    one = run("*.scx", Path("one"), **given)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    two = scx_tokenize.run(out="two", **one["arguments"])
    assert two == one


def test_norm_identity_is_the_kernels(tmp_path: Path, paths: list[Path]) -> None:
    changed = {**medians_of(), IDS[5]: 3.0}
    one = run(paths, tmp_path / "one")["vocabulary"]
    two = run(paths, tmp_path / "two", gene_medians=changed)["vocabulary"]
    assert one["norm_identity"] != two["norm_identity"]
    for made, medians in ((one, medians_of()), (two, changed)):
        assert made["n_genes"] == 60
        # the kernel's ids are places in the order of the tokens
        ordered = [medians[name] for name in sorted(IDS, key=tokens_of().__getitem__)]
        ranked = scx_tokenize.rank_tokens([0], [], [], ordered, 1, made["identity"])
        assert made["norm_identity"] == f"{ranked['norm_identity']:016x}"


def test_a_run_that_was_interrupted_goes_on(
    tmp_path: Path, paths: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    run(paths, tmp_path / "whole")
    out, made = tmp_path / "out", []

    def failing(job: Any, task: Any, **options: Any) -> Any:
        if task.number == 3:
            raise OSError("disk full")
        made.append(task.number)
        return make_shard(job, task, **options)

    monkeypatch.setattr("scx_tokenize.jobs._running.make_shard", failing)
    with pytest.raises(OSError, match="disk full"):
        run(paths, out, threads=1)
    assert made == [0, 1, 2]  # and nothing is begun after the failure
    assert sorted(shard_bytes(out)) == [f"tokens-0000{n}-of-00006.parquet" for n in range(3)]
    manifest = json.loads((out / "manifest.json").read_text("utf-8"))
    assert not manifest["complete"]
    kept = {path.name: path.stat().st_mtime_ns for path in (out / "data").iterdir()}
    monkeypatch.undo()
    finished = run(paths, out)
    assert finished["complete"]
    assert shard_bytes(out) == shard_bytes(tmp_path / "whole")
    for name, changed in kept.items():
        assert (out / "data" / name).stat().st_mtime_ns == changed
    assert (out / "manifest.json").read_bytes() == (tmp_path / "whole/manifest.json").read_bytes()


def test_damaged_and_foreign_shards_are_made_anew(tmp_path: Path, paths: list[Path]) -> None:
    run(paths, tmp_path / "out")
    expected = shard_bytes(tmp_path / "out")
    one, two, three, *_ = sorted((tmp_path / "out" / "data").iterdir())
    one.write_bytes(one.read_bytes()[:100])
    two.write_bytes(three.read_bytes())
    three.unlink()
    with pytest.warns(UserWarning, match="changed or went missing"):
        run(paths, tmp_path / "out")
    assert shard_bytes(tmp_path / "out") == expected


CHANGES: list[tuple[str, dict[str, Any]]] = [
    (r"options\.l_max is 2048 there and 9 here", {"l_max": 9}),
    (r"options\.target_sum is 10000\.0 there and 5000\.0 here", {"target_sum": 5e3}),
    (r"vocabulary\.norm_identity is", {"gene_medians": {**medians_of(), IDS[1]: 3.0}}),
    (r"special_tokens\.cls is None there and <cls> here", {"cls": "<cls>"}),
    (r"obs_columns\.donor is nothing there and string here", {"obs_columns": ["donor"]}),
    (r"obs_filter is None there and n_counts > 3 here", {"obs_filter": "n_counts > 3"}),
    (r"shard_rows is 16 there and 8 here", {"shard_rows": 8}),
]


@pytest.mark.parametrize(("message", "options"), CHANGES)
def test_a_changed_parameter_is_not_mixed(
    tmp_path: Path, paths: list[Path], message: str, options: dict[str, Any]
) -> None:
    out = tmp_path / "out"
    run(paths, out)
    before = tree(out)
    with pytest.raises(ValueError, match=message):
        run(paths, out, **options)
    assert tree(out) == before
    run(paths, out, overwrite=True, **options)
    run(paths, tmp_path / "fresh", **options)
    assert shard_bytes(out) == shard_bytes(tmp_path / "fresh")


def test_a_changed_input_is_not_mixed_and_a_moved_one_is_the_same(
    tmp_path: Path, paths: list[Path]
) -> None:
    out = tmp_path / "out"
    run(paths, out)
    moved = [path.rename(path.with_name(f"moved-{path.name}")) for path in paths]
    before = shard_bytes(out)
    run(moved, out)
    assert shard_bytes(out) == before
    written(cells(20, seed=9), moved[1])
    with pytest.raises(ValueError, match=r"inputs\.1\.identity is \w+ there and \w+ here"):
        run(moved, out)
    with pytest.raises(ValueError, match=r"inputs\.0\.(identity|kind) is"):
        run(moved[::-1], out)
    assert shard_bytes(out) == before


def test_folders_of_others_are_left_alone(tmp_path: Path, paths: list[Path]) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "thesis.txt").write_text("mine")
    before = tree(tmp_path)
    for overwrite in (False, True):
        with pytest.raises(FileExistsError, match=r"not empty and has no manifest\.json"):
            run(paths, out, overwrite=overwrite)
    with pytest.raises(ValueError, match=r"a\.scx is the file that is read"):
        run(paths, paths[0])
    with pytest.raises(FileExistsError, match="is a file; OUT is a folder"):
        run(paths, out / "thesis.txt")
    assert tree(tmp_path) == before
    run(paths, tmp_path / "ours")
    (tmp_path / "ours" / "thesis.txt").write_text("mine")
    before = tree(tmp_path)
    with pytest.raises(FileExistsError, match=r"holds thesis\.txt beside the tokens"):
        run(paths, tmp_path / "ours", l_max=7, overwrite=True)
    assert tree(tmp_path) == before


def test_a_task_is_a_function_of_what_it_is_given(tmp_path: Path, paths: list[Path]) -> None:
    """As processes on other machines run it: pickled, alone, in any order."""
    run(paths, tmp_path / "whole")
    job = plan_job(
        "rank", paths, tmp_path / "out", preset=None, options={},
        token_dictionary=tokens_of(), gene_medians=medians_of(), gene_synonyms=None, genes=None,
        gene_filter=None, gene_key=None, min_known_genes=0.5, source="X", modality=None,
        obs_columns=(), obs_filter=None, shard_rows=16, allow_pickle=False,
    )  # fmt: skip
    assert not (tmp_path / "out").exists()
    job.data_folder.mkdir(parents=True)
    for task in reversed(job.tasks):
        forget_inputs()
        record = make_shard(*pickle.loads(pickle.dumps((job, task))))
        assert record.n_cells == task.n_cells
    forget_inputs()
    assert shard_bytes(tmp_path / "out") == shard_bytes(tmp_path / "whole")


def test_an_input_that_changes_meanwhile_is_noticed(tmp_path: Path, paths: list[Path]) -> None:
    def change(done: int, total: int) -> None:
        if done == 0:
            written(cells(60, seed=8), paths[0].with_name("new.scx")).rename(paths[0])

    with pytest.raises(RuntimeError, match=r"a\.scx has been changed since the job was planned"):
        run(paths, tmp_path / "out", progress=change)
    assert sorted(shard_bytes(tmp_path / "out"))[:1] in ([], ["tokens-00004-of-00006.parquet"])


def test_progress_counts_all_cells(tmp_path: Path, paths: list[Path]) -> None:
    seen: list[tuple[int, int]] = []
    run(paths, tmp_path / "out", progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (80, 80)
    assert all(one[0] <= two[0] for one, two in pairwise(seen))


def test_parquet_is_what_loaders_expect(tmp_path: Path, paths: list[Path]) -> None:
    run(paths, tmp_path / "out", obs_columns=["cell_type", "n_counts"])
    path = next(iter(sorted((tmp_path / "out" / "data").iterdir())))
    schema = pq.read_schema(path)
    assert [f"{field.name}: {field.type}" for field in schema] == [
        "input_ids: list<element: int32>",
        "length: int32",
        "row_id: int64",
        "file_id: int32",
        "cell_type: string",
        "n_counts: int64",
    ]
    assert pq.read_metadata(path).row_group(0).num_rows == 16


def test_row_groups_bound_memory(
    tmp_path: Path, paths: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    run(paths, tmp_path / "one", shard_rows=60)
    monkeypatch.setattr(shards, "BATCH_ROWS", 7)
    run(paths, tmp_path / "two", shard_rows=60)
    path = next(iter(sorted((tmp_path / "two" / "data").iterdir())))
    assert pq.read_metadata(path).num_row_groups == 9
    assert ids_of(tmp_path / "one") == ids_of(tmp_path / "two")


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_killed_run_leaves_whole_shards_and_the_next_one_goes_on(
    tmp_path: Path, end: signal.Signals
) -> None:
    path = written(cells(4000), tmp_path / "a.scx")
    tokens = as_json(tokens_of(), tmp_path / "tokens.json")
    medians = as_json(medians_of(), tmp_path / "medians.json")
    out = tmp_path / "out"
    command = [sys.executable, "-m", "scx_tokenize", "rank", str(path), str(out)]
    command += ["--token-dictionary", str(tokens), "--gene-medians", str(medians)]
    command += ["--shard-rows", "8", "--threads", "2", "--quiet"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while len(list((out / "data").glob("*.parquet"))) < 5 and time.monotonic() < deadline:
        time.sleep(0.005)
    process.send_signal(end)
    _, said = process.communicate(timeout=60)
    assert process.returncode == {9: -9, 15: 143, 2: 130}[int(end)], said
    done = sorted((out / "data").glob("*.parquet"))
    assert 5 <= len(done) < 500
    for one in done:
        assert pq.read_metadata(one).num_rows == 8
    if end != signal.SIGKILL:
        assert not [name for name in os.listdir(out / "data") if name.endswith(".tmp")]
    manifest = run(path, out, token_dictionary=tokens, gene_medians=medians, shard_rows=8)
    assert manifest["complete"]
    assert len(list((out / "data").iterdir())) == 500
    assert not (out / ".lock").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="locks")
def test_two_runs_do_not_share_a_folder(tmp_path: Path, paths: list[Path]) -> None:
    out = tmp_path / "out"

    def again(done: int, total: int) -> None:
        if done == 0:
            with pytest.raises(RuntimeError, match="another process makes tokens in"):
                run(paths, out)

    run(paths, out, progress=again)
    assert len(ids_of(out)) == 80
