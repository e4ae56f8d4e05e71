"""What HuggingFace's datasets makes of the tokens."""

from __future__ import annotations

from pathlib import Path

import pytest
from job_samples import cells, ids_of, medians_of, read_tokens, tokens_of, tree, written

import scx_tokenize

datasets = pytest.importorskip("datasets")


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    datasets.disable_progress_bars()


def run(tmp_path: Path, **options: bool) -> Path:
    path = tmp_path / "a.scx"
    if not path.exists():
        written(cells(), path)
    scx_tokenize.run(
        "rank",
        path,
        tmp_path / "out",
        preset="geneformer-v2",
        token_dictionary=tokens_of(),
        gene_medians=medians_of(),
        obs_columns=["cell_type", "n_counts"],
        shard_rows=20,
        **options,
    )
    return tmp_path / "out"


def test_load_dataset_opens_the_shards(tmp_path: Path) -> None:
    out = run(tmp_path)
    loaded = datasets.load_dataset(
        "parquet", data_files=str(out / "data" / "*.parquet"), cache_dir=str(tmp_path / "cache")
    )["train"]
    assert loaded["input_ids"][:] == ids_of(out)
    assert loaded["cell_type"][:] == read_tokens(out)["cell_type"].tolist()
    by_folder = datasets.load_dataset(
        "parquet", data_dir=str(out / "data"), cache_dir=str(tmp_path / "cache")
    )["train"]
    assert len(by_folder) == 50


def test_a_folder_for_load_from_disk(tmp_path: Path) -> None:
    out = run(tmp_path, hf=True)
    loaded = datasets.load_from_disk(str(out / "hf"))
    assert loaded["input_ids"][:] == ids_of(out)
    assert loaded["row_id"][:] == list(range(50))
    assert sorted(path.name for path in out.iterdir()) == [
        "data", "gene_medians.json", "hf", "manifest.json", "token_dictionary.json",
    ]  # fmt: skip
    before = tree(out)
    run(tmp_path, hf=True)
    assert {name: data for name, data in tree(out).items() if name != "manifest.json"} == {
        name: data for name, data in before.items() if name != "manifest.json"
    }
