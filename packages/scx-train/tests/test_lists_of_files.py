"""What data sets say of lists of files: repeated ones, faulty ones, few common genes, sources."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import scx_core
from scx_train import (
    MultimodalTrainingDataset,
    SparseCellSetDataset,
    TrainingDataset,
    split,
)

RAW: dict[str, Any] = {"normalize": False, "log1p": False}
GENES = [f"g{number}" for number in range(10)]


def cells(genes: list[str], seed: int, **obs: Any) -> anndata.AnnData:
    rng = np.random.default_rng(seed)
    values = sp.csr_matrix(rng.integers(1, 9, (6, len(genes))).astype(np.float32))
    index = [f"{seed}-{row}" for row in range(6)]
    frame = pd.DataFrame(obs, index=index)
    adata = anndata.AnnData(values, obs=frame, var=pd.DataFrame(index=genes))
    adata.layers["doubled"] = values * 2
    adata.raw = anndata.AnnData(values * 3, obs=frame, var=pd.DataFrame(index=genes))
    return adata


def save(folder: Path, *adatas: anndata.AnnData) -> list[Path]:
    paths = [folder / f"{number}.scx" for number in range(len(adatas))]
    for path, adata in zip(paths, adatas, strict=True):
        scx_core.from_anndata(adata, path)
    return paths


@pytest.fixture
def paths(tmp_path: Path) -> list[Path]:
    return save(tmp_path, *[cells(GENES, seed) for seed in range(3)])


@pytest.mark.parametrize("kind", ["same", "dot", "symlink", "hard link", "folder link"])
def test_a_file_that_is_there_twice_is_refused(
    paths: list[Path], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = paths[0].parent
    monkeypatch.chdir(folder)
    again: str | Path = paths[1]
    if kind == "dot":
        again = "./1.scx"
    elif kind == "symlink":
        again = folder / "link.scx"
        again.symlink_to(paths[1])
    elif kind == "hard link":
        again = folder / "link.scx"
        os.link(paths[1], again)
    elif kind == "folder link":
        (folder / "other").symlink_to(folder)
        again = folder / "other" / "1.scx"
    twice = [*paths, again]
    for take in (TrainingDataset, lambda given: split(given, [0.5])):
        with pytest.raises(ValueError, match=r"the paths name .*twice( \(also as .*1\.scx\))?:"):
            take(twice)
    with TrainingDataset(twice, shuffle=False, allow_repeated_files=True, **RAW) as dataset:
        batches = list(dataset)
    assert np.concatenate([batch["file_ids"] for batch in batches]).tolist() == [
        *[0] * 6, *[1] * 6, *[2] * 6, *[3] * 6,
    ]  # fmt: skip
    values = np.concatenate([batch["X"] for batch in batches])
    np.testing.assert_array_equal(values[6:12], values[18:])
    assert sum(map(len, split(twice, [0.5, 0.5], allow_repeated_files=True))) == 24
    with pytest.raises(TypeError, match="allow_repeated_files=1 must be True or False"):
        TrainingDataset(twice, allow_repeated_files=1)  # type: ignore[arg-type]


def test_copies_are_other_files_and_plans_may_name_a_file_twice(paths: list[Path]) -> None:
    copy = paths[0].with_name("copy.scx")
    copy.write_bytes(paths[0].read_bytes())
    TrainingDataset([paths[0], copy]).close()
    sets = SparseCellSetDataset([paths[0], paths[0]], source=["X", "layers/doubled"])
    with sets:
        batch = sets.gather([0, 1], [4, 4], [0, 0], [0, 2])
    first, second = np.split(batch["data"], 2)
    np.testing.assert_array_equal(first * 2, second)


def test_all_faulty_files_are_named(paths: list[Path]) -> None:
    folder = paths[0].parent
    paths[1].write_bytes(paths[1].read_bytes()[:-100])
    (folder / "text.scx").write_text("not a file of counts, but a text")
    given = [folder / "none.scx", paths[0], paths[1], folder / "text.scx", folder / "gone.scx"]
    for take in (
        TrainingDataset,
        SparseCellSetDataset,
        MultimodalTrainingDataset,
        lambda given: split(given, [0.5]),
    ):
        with pytest.raises(FileNotFoundError) as caught:
            take(given)
        lines = str(caught.value).split("\n")
        for name, line in zip(
            ["none", "1", "text", "gone"], [*lines[:1], *lines[-3:]], strict=True
        ):
            assert f"{name}.scx" in line
    with pytest.raises(ValueError, match=r"1\.scx(.|\n)*text\.scx"):
        TrainingDataset(given[1:4])


def test_all_missing_columns_are_named(tmp_path: Path) -> None:
    paths = save(
        tmp_path,
        cells(GENES, 0, kind=["a"] * 6, donor=["d"] * 6),
        cells(GENES, 1, kind=["a"] * 6),
        cells(GENES, 2),
    )
    with pytest.raises(KeyError) as caught:
        TrainingDataset(paths, obs_columns=["kind", "donor", "sex"])
    lines = str(caught.value).split("\n")  # without the quotes of a plain KeyError
    first, second, third = (line.partition("; it has ")[0] for line in lines)
    assert "0.scx" in first and "'sex'" in first and "'donor'" not in first
    assert "1.scx" in second and "'donor', 'sex'" in second
    assert "2.scx" in third and "'kind', 'donor', 'sex'" in third
    with pytest.raises(KeyError, match=r"1\.scx.*'donor'.*\n.*2\.scx.*'donor'"):
        split(paths, [0.5], group="donor")
    with pytest.raises(KeyError, match=r"1\.scx: obs has no columns 'donor', 'sex'; it has kind"):
        TrainingDataset(paths[1], obs_columns=["donor", "kind", "sex"])
    with pytest.raises(
        KeyError, match=r"0\.scx.*'X_pca'(?s:.*)0\.scx.*'X_umap'(?s:.*)2\.scx.*'X_umap'"
    ):
        TrainingDataset(paths, obsm=["X_pca", "X_umap"])
    with pytest.raises(KeyError, match=r"0\.scx has no var column 'id'(?s:.*)2\.scx has no var"):
        TrainingDataset(paths, genes="union", gene_key="id")


def test_all_files_with_unknown_genes_are_named(tmp_path: Path) -> None:
    others = [[f"{name}{number}" for number in range(10)] for name in "ab"]
    paths = save(tmp_path, cells(GENES, 0), *[cells(names, 1) for names in others])
    with pytest.raises(ValueError, match=r"1\.scx: 0 of its(.|\n)*2\.scx: 0 of its") as caught:
        TrainingDataset([*paths], genes=GENES)
    assert "0.scx:" not in str(caught.value)


def test_genes_that_no_file_has_are_told(paths: list[Path]) -> None:
    genes = ["g3", "unknown", "g1", "nan"]
    with pytest.warns(
        UserWarning, match=r"has 2 of the 4 genes .* first of them 'unknown'"
    ) as caught:
        dataset = TrainingDataset(paths, genes=genes, **RAW)
    assert caught[0].filename == __file__
    with dataset:
        assert dataset.measured[0].tolist() == [True, False, True, False]
        (batch,) = dataset
        assert not batch["X"][:, [1, 3]].any()
        match = dataset.gene_matches[0]
        assert (match.n_columns, match.n_measured, match.n_genes) == (4, 2, 10)
        assert match.share_kept == 0.2
        assert "4 of 10 genes" in repr(dataset)


def test_few_common_genes_are_told(tmp_path: Path) -> None:
    many = [f"h{number}" for number in range(30)]
    paths = save(
        tmp_path,
        cells([*GENES, *many[:20]], 0),
        cells([*GENES[:2], *many], 1),
        cells([*GENES, *many[10:]], 2),
        cells([*GENES[:3], *many[:2]], 3),
    )
    with pytest.warns(UserWarning, match=r"leaves 2 of the 32 genes of .*1\.scx.* 4 files") as told:
        dataset = TrainingDataset(paths, genes="intersection", hvg_indices=[0, 1])
    assert told[0].filename == __file__
    assert "3.scx has 5" in str(told[0].message)
    with dataset:
        assert [match.share_known for match in dataset.gene_matches] == [1] * 4
        kept = [match.share_kept for match in dataset.gene_matches]
        assert kept == pytest.approx([2 / 30, 2 / 32, 2 / 30, 2 / 5])
        assert "2 of 32 genes" in repr(dataset)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with TrainingDataset(paths, genes="union") as union:
            assert "× 40 genes" in repr(union)
        TrainingDataset(paths, genes="intersection", min_known_genes=0).close()
        TrainingDataset([paths[0], paths[2]], genes="intersection").close()


@pytest.mark.parametrize("form", ["list", "dict"])
def test_each_file_may_have_its_own_source(paths: list[Path], form: str) -> None:
    sources: Any = ["X", "layers/doubled", "raw"]
    if form == "dict":
        sources = {paths[2]: "raw", str(paths[1]): "layers/doubled"}
    factors = np.repeat([1, 2, 3], 6)[:, None]
    whole = np.concatenate([cells(GENES, seed).X.toarray() for seed in range(3)])
    with TrainingDataset(paths, source=sources, shuffle=False, **RAW) as dataset:
        np.testing.assert_array_equal(
            np.concatenate([batch["X"] for batch in dataset]), whole * factors
        )
        assert "[X and layers/doubled and raw]" in repr(dataset)
        state = dataset.state_dict()
    for other in ("X", ["layers/doubled", "X", "raw"]):
        with (
            TrainingDataset(paths, source=other, shuffle=False, **RAW) as dataset,
            pytest.raises(ValueError, match="matrix"),
        ):
            dataset.load_state_dict(state)
    with SparseCellSetDataset(paths, source=sources) as sets:
        batch = sets.gather([0, 1, 2], [3, 3, 3], [0, 0, 0], [0, 3])
    np.testing.assert_array_equal(batch["data"].reshape(3, 10), (whole * factors)[[3, 9, 15]])


def test_sources_that_fit_no_file_are_refused(paths: list[Path]) -> None:
    for take in (TrainingDataset, SparseCellSetDataset):
        with pytest.raises(ValueError, match="a list of 2, but there are 3 files"):
            take(paths, source=["X", "raw"])
        with pytest.raises(KeyError, match=r"entry for '.*9\.scx', which is none of the files"):
            take(paths, source={paths[0].with_name("9.scx"): "raw"})
        with pytest.raises(TypeError, match="a source=7 must be a str"):
            take(paths, source=["X", 7, "raw"])
        with pytest.raises(TypeError, match="source=7 must be a str, a list"):
            take(paths, source=7)
        with pytest.raises(KeyError, match=r"1\.scx has no layer 'x'.*\n.*2\.scx has no layer 'y'"):
            take(paths, source=["X", "layers/x", "layers/y"])
    with pytest.raises(TypeError, match=r"source=\['X'\] must be a str"):
        TrainingDataset(paths[0], source=["X"])


@pytest.mark.parametrize("form", ["folder", "path of a folder", "pattern", "deep pattern", "list"])
def test_folders_and_patterns_stand_for_their_files(
    paths: list[Path], form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = paths[0].parent
    (folder / "notes.txt").write_text("no file of counts")
    (folder / "._0.scx").write_text("what a Mac leaves beside a file")
    (folder / "deeper.scx").mkdir()
    monkeypatch.chdir(folder.parent)
    given: Any = {
        "folder": folder.name,
        "path of a folder": folder,
        "pattern": f"{folder.name}/[0-9].scx",
        "deep pattern": str(folder.parent / "**" / folder.name / "*.scx"),
        "list": [f"{folder.name}/0.scx", folder / "[12].scx"],
    }[form]
    with TrainingDataset(given, shuffle=False, **RAW) as dataset:
        assert dataset.paths == tuple(map(str, paths))
        monkeypatch.chdir("/")
        assert np.concatenate([batch["file_ids"] for batch in dataset]).tolist() == [
            *[0] * 6, *[1] * 6, *[2] * 6,
        ]  # fmt: skip
        monkeypatch.chdir(folder.parent)
    for one, other in zip(split(given, [0.5, 0.5]), split(paths, [0.5, 0.5]), strict=True):
        assert one.tolist() == other.tolist()
    with SparseCellSetDataset(given) as sets:
        assert sets.paths == tuple(map(str, paths))


def test_the_name_of_the_working_directory_is_no_pattern(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run [1]"
    folder.mkdir()
    paths = save(folder, cells(GENES, 0), cells(GENES, 1))
    monkeypatch.chdir(folder)
    with TrainingDataset("*.scx", **RAW) as dataset:
        assert dataset.paths == tuple(map(str, paths))
    with TrainingDataset(["0.scx", "[1].scx"], **RAW) as dataset:
        assert dataset.paths == tuple(map(str, paths))
    with pytest.raises(FileNotFoundError, match=r"run \[1\]/none\.scx"):
        TrainingDataset("none.scx")


def test_a_folder_of_one_file_is_a_list_of_one(tmp_path: Path) -> None:
    save(tmp_path, cells(GENES, 0))
    with TrainingDataset(tmp_path, genes="union") as dataset:
        assert "file_ids" in next(iter(dataset))


def test_folders_and_patterns_without_files(tmp_path: Path, paths: list[Path]) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    for take in (TrainingDataset, SparseCellSetDataset, MultimodalTrainingDataset):
        with pytest.raises(ValueError, match=r"the folder .*empty has no \.scx file; it is empty"):
            take(empty)
        with pytest.raises(
            ValueError, match=r"pattern .*x\*\.scx has no \.scx file; .* holds 0\.scx"
        ):
            take([paths[0], tmp_path / "x*.scx"])
    with pytest.raises(ValueError, match=r"1\.scx twice"):
        TrainingDataset([paths[0].parent, paths[1]])
    (empty / "a.h5ad").write_bytes(b"")
    with pytest.raises(ValueError, match=r"1 entries, but none is a \.scx file: .*a\.h5ad"):
        split(empty, [0.5])
    with pytest.raises(TypeError, match=r"for one file pass \[path\]"):
        SparseCellSetDataset(paths[0])
    for nothing in ("", [""]):
        with pytest.raises(ValueError, match="an empty text names no file"):
            TrainingDataset(nothing)
