"""What a run that fails leaves, and what one that replaces tokens keeps."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from job_samples import cells, tree, written

import scx_tokenize
from scx_tokenize.jobs import _manifest, _shards


def run(folder: Path, **options: Any) -> dict[str, Any]:
    path = folder / "a.scx"
    if not path.exists():
        written(cells(40), path)
    return scx_tokenize.run("sample", path, folder / "out", n=5, shard_rows=10, **options)


def test_two_words_for_a_weight_are_one_job(tmp_path: Path) -> None:
    first = run(tmp_path, weight="count")
    assert run(tmp_path, weight="linear")["job_identity"] == first["job_identity"]
    with pytest.raises(ValueError, match="weight"):
        run(tmp_path, weight="log1p")


def full(*_: Any, **__: Any) -> Any:
    raise OSError(errno.ENOSPC, "Error writing bytes to file")


def test_a_full_disk_is_named_and_what_is_finished_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = _shards._table

    def full_at_the_third(job: Any, task: Any, *rest: Any) -> Any:
        return full() if task.number == 2 else made(job, task, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(_shards, "_table", full_at_the_third)
        with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)) as error:
            run(tmp_path, threads=1)
    assert str(error.value.filename).endswith("tokens-00002-of-00004.parquet")
    assert len(list((tmp_path / "out/data").iterdir())) == 2
    assert run(tmp_path)["complete"]


def test_a_disk_that_is_full_at_the_start_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(cells(40), tmp_path / "a.scx")
    before = tree(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_text", full)
        with pytest.raises(OSError, match="No space left") as error:
            run(tmp_path)
    assert str(error.value.filename).endswith("manifest.json")
    assert tree(tmp_path) == before
    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_text", full)
        with pytest.raises(OSError, match="No space left"):
            scx_tokenize.run("sample", tmp_path / "a.scx", tmp_path / "new" / "deep" / "out")
    assert tree(tmp_path) == before
    run(tmp_path)


def test_a_run_that_was_killed_before_its_manifest_starts_anew(tmp_path: Path) -> None:
    data = tmp_path / "out" / "data"
    data.mkdir(parents=True)
    for folder in (tmp_path / "out", data):
        (folder / ".tokens.json.00000001.tmp").touch()
    (tmp_path / "out" / ".lock").touch()
    run(tmp_path)
    names = {"data", "manifest.json", "token_dictionary.json"}
    assert set(os.listdir(tmp_path / "out")) == names
    assert not [name for name in os.listdir(data) if name.startswith(".")]
    # but what is somebody's stays his
    (tmp_path / "out" / "manifest.json").unlink()
    with pytest.raises(FileExistsError, match=r"has no manifest\.json"):
        run(tmp_path)


def test_replacing_tokens_keeps_what_no_job_has_made(tmp_path: Path) -> None:
    run(tmp_path)
    mine = tmp_path / "out" / "data" / "notes.txt"
    mine.write_text("mine")
    before = tree(tmp_path)
    with pytest.raises(FileExistsError, match=r"holds data/notes\.txt beside the tokens"):
        run(tmp_path, seed=1, overwrite=True)
    assert tree(tmp_path) == before
    mine.unlink()
    run(tmp_path, seed=1, overwrite=True)


def test_the_manifest_tells_what_the_bytes_depend_on(tmp_path: Path) -> None:
    run(tmp_path)
    software = json.loads((tmp_path / "out" / _manifest.MANIFEST).read_text())["software"]
    assert software["pyarrow"] == pa.__version__
    assert set(software) == {"scx_tokenize", "scx_core", "pyarrow"}


def test_quiet_is_quiet_with_hf_too(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("datasets")
    written(cells(40), tmp_path / "a.scx")
    capfd.readouterr()
    run(tmp_path, hf=True, progress=False)
    assert capfd.readouterr() == ("", "")
    assert {"hf"} <= set(os.listdir(tmp_path / "out"))


def test_a_folder_that_holds_an_input_is_not_replaced(tmp_path: Path) -> None:
    run(tmp_path)
    out = tmp_path / "out"
    turned = out / "turned"  # a job may leave such a folder, and one that replaces it clears it
    turned.mkdir()
    os.link(tmp_path / "a.scx", turned / "b.scx")
    (tmp_path / "link").symlink_to(out)
    before = tree(tmp_path)
    for folder in (out, tmp_path / "link"):
        with pytest.raises(ValueError, match=r"holds .*b\.scx, which is read"):
            scx_tokenize.run("sample", turned / "b.scx", folder, n=5, overwrite=True)
    dictionary = out / "token_dictionary.json"
    with pytest.raises(ValueError, match=r"holds .*token_dictionary\.json, which is read"):
        run(tmp_path, token_dictionary=dictionary, seed=1, overwrite=True)
    assert tree(tmp_path) == before


def test_a_run_goes_on_with_the_dictionary_that_it_has_left(tmp_path: Path) -> None:
    run(tmp_path)
    before = tree(tmp_path)
    assert run(tmp_path, token_dictionary=tmp_path / "out" / "token_dictionary.json")["complete"]
    after = tree(tmp_path)
    assert {name for name in before if before[name] != after[name]} <= {"out/manifest.json"}
