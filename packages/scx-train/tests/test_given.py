"""Paths and lists of names in forms that users have them in, and those that are refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import scx_core
from scx_train import IndexPlanDataset, SparseCellSetDataset, TrainingDataset


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("given")
    for number in range(2):
        adata = anndata.AnnData(
            sp.csr_matrix(np.arange(1, 13, dtype=np.float32).reshape(4, 3) + number),
            var=pd.DataFrame(index=["a", "b", "c"]),
        )
        scx_core.from_anndata(adata, folder / f"{number}.scx")
    return [folder / "0.scx", folder / "1.scx"]


@pytest.mark.parametrize(
    "form",
    [
        list,
        tuple,
        iter,
        lambda paths: np.array([str(path) for path in paths]),
        lambda paths: pd.Series([str(path) for path in paths]),
        lambda paths: sorted(paths[0].parent.glob("*.scx")),
    ],
)
def test_forms_of_a_list_of_paths(files: list[Path], form: Callable[[Any], Any]) -> None:
    with TrainingDataset(form(files), genes=np.array(["c", "a"])) as dataset:
        assert dataset.paths == tuple(map(str, files))
        assert list(dataset.var_names) == ["c", "a"]
        assert sum(len(batch["X"]) for batch in dataset) == 8


@pytest.mark.parametrize(
    ("form", "message"),
    [
        (set, "path must be a list, not set, which has no order"),
        (lambda paths: dict(enumerate(paths)), "path must be a list, not dict"),
        (lambda paths: [*paths, 3], r"path\[2\] must be a str or os.PathLike, not int"),
        (lambda paths: [str(paths[0]).encode()], r"path\[0\] must be .*, not bytes"),
        (lambda paths: [paths], r"path\[0\] must be a str or os.PathLike, one file, not list"),
        (lambda paths: np.array(str(paths[0])), "path must be a path or a list of paths"),
        (lambda paths: anndata.AnnData(), "list of paths, not AnnData: write it to a file first"),
        (lambda paths: None, "path must be a path or a list of paths, not NoneType"),
    ],
)
def test_what_is_no_list_of_paths(
    files: list[Path], form: Callable[[Any], Any], message: str
) -> None:
    with pytest.raises(TypeError, match=message):
        TrainingDataset(form(files))


def test_several_files_where_one_is_taken(files: list[Path]) -> None:
    with pytest.raises(TypeError, match=r"path must be a str or os.PathLike, one file, not"):
        IndexPlanDataset(files)  # type: ignore[arg-type]


def test_places_in_a_set_of_paths_mean_nothing(files: list[Path]) -> None:
    with pytest.raises(TypeError, match="file_ids are places in it"):
        SparseCellSetDataset(set(files))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"genes": {"a", "b"}}, "genes must be a list, not set, which has no order"),
        ({"genes": 5}, "genes=5 must be 'intersection', 'union', a list of names or None"),
        ({"genes": b"union"}, "genes=b'union' must be 'intersection'"),
        ({"min_known_genes": None}, "min_known_genes=None must be a number"),
        ({"min_known_genes": "x"}, "min_known_genes='x' must be a number"),
    ],
)
def test_genes_that_say_nothing(files: list[Path], options: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        TrainingDataset(files, **options)


def test_a_share_is_checked_for_a_single_file_too(files: list[Path]) -> None:
    with pytest.raises(ValueError, match="min_known_genes=7 must be from 0 to 1"):
        TrainingDataset(files[0], min_known_genes=7)


def test_relative_paths_outlive_the_working_directory(
    files: list[Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A data set opens its files again after `close`, and where names of genes are asked for."""
    monkeypatch.chdir(files[0].parent)
    link = tmp_path / "link"
    link.symlink_to(files[0].parent)
    one = TrainingDataset("0.scx")
    several = TrainingDataset(["0.scx", f"{link}/../{files[0].parent.name}/1.scx"])
    sets = SparseCellSetDataset(["0.scx", "1.scx"], reader_limit=1)
    monkeypatch.chdir(tmp_path)
    for dataset, n_cells in ((one, 4), (several, 8)):
        for _ in range(2):
            assert sum(len(batch["X"]) for batch in dataset) == n_cells
            dataset.close()
        assert list(dataset.var_names) == ["a", "b", "c"]
    assert one.paths == (str(files[0]),)
    plan = (np.array([1, 0]), np.array([3, 0]), np.zeros(2, np.int64), np.array([0, 2]))
    for _ in range(2):
        assert len(sets.gather(*plan)["indptr"]) == 3
    sets.close()
