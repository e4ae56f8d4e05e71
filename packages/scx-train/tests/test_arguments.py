"""What the constructor refuses, and how it says so."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from scx_core import CorruptFileError
from scx_train import TrainingDataset

MakeFile = Callable[..., Path]


def test_defaults() -> None:
    parameters = inspect.signature(TrainingDataset).parameters
    assert {name: parameter.default for name, parameter in parameters.items()} == {
        "path": inspect.Parameter.empty,
        "batch_size": 1024,
        "hvg_indices": None,
        "obs_columns": (),
        "normalize": True,
        "log1p": True,
        "target_sum": 1e4,
        "shard_group_size": 8,
        "prefetch_batches": 4,
        "seed": 42,
        "threads": None,
        "shuffle": True,
        "rows": None,
        "drop_last": False,
        "min_batch": 1,
        "tail": "drop",
        "rank": None,
        "world_size": None,
        "shard": 0,
        "num_shards": 1,
        "modality": None,
        "source": "X",
        "obsm": (),
        "pflog": False,
        "pflog_alpha": None,
        "layout": "dense",
        "dtype": "float32",
        "max_memory_mb": None,
        "weights": None,
        "balance_by": None,
        "batch_by": None,
        "genes": None,
        "gene_key": None,
        "min_known_genes": 0.5,
        "allow_repeated_files": False,
    }


@pytest.mark.parametrize(
    ("argument", "value", "message"),
    [
        ("batch_size", 0, "must be >= 1, but batch_size=0"),
        ("batch_size", -5, ">= 1, .*=-5"),
        ("batch_size", 2**24 + 1, "16777216"),
        ("shard_group_size", 0, ">= 1"),
        ("prefetch_batches", 0, ">= 1"),
        ("prefetch_batches", 1025, "<= 1024"),
        ("seed", -1, ">= 0"),
        ("seed", 2**64, "18446744073709551615"),
        ("threads", 0, ">= 1"),
        ("threads", 65, "<= 64"),
        ("min_batch", 0, ">= 1"),
        ("min_batch", 1025, "<= 1024"),
        ("max_memory_mb", 0, ">= 1"),
        ("layout", "csc", "'dense', 'csr'"),
        ("dtype", {"rna": "float16"}, "must be one of 'float32'"),
        ("tail", "cut", "'drop', 'merge', 'keep'"),
        ("shard", 1, "<= 0"),
        ("num_shards", 0, ">= 1"),
        ("target_sum", 0, "finite and strictly positive"),
        ("target_sum", -1.0, "finite and strictly positive"),
        ("target_sum", float("nan"), "finite and strictly positive"),
        ("target_sum", float("inf"), "finite and strictly positive"),
        ("target_sum", 10**400, "finite and strictly positive"),
    ],
)
def test_values_out_of_bounds(make_file: MakeFile, argument: str, value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"{argument}.*{message}"):
        TrainingDataset(make_file(5), **{argument: value})


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("batch_size", 10.0),
        ("batch_size", True),
        ("batch_size", "10"),
        ("seed", None),
        ("threads", 2.5),
        ("normalize", 1),
        ("log1p", "no"),
        ("target_sum", "many"),
        ("target_sum", None),
        ("obs_columns", "cell_type"),
        ("obs_columns", [3]),
        ("obs_columns", None),
        ("hvg_indices", "0, 1"),
        ("rows", b"0"),
        ("source", None),
    ],
)
def test_values_of_the_wrong_kind(make_file: MakeFile, argument: str, value: Any) -> None:
    with pytest.raises(TypeError, match=argument):
        TrainingDataset(make_file(5), **{argument: value})


@pytest.mark.parametrize("argument", ["tail", "layout", "dtype"])
def test_a_word_among_a_few_is_text(make_file: MakeFile, argument: str) -> None:
    """Comparing these answers with an array, or fails."""
    path = make_file(5)
    for value in (np.array(["drop", "csr"]), pd.array([1, None], dtype="Int64"), pd.NA, ["csr"]):
        with pytest.raises(ValueError, match=f"(?s){argument}=.* must be one of '"):
            TrainingDataset(path, **{argument: value})


def test_arrays_without_a_dimension_are_no_lists(make_file: MakeFile) -> None:
    path, word = make_file(5), np.array("number")
    for given in ({"obs_columns": word}, {"obsm": word}, {"genes": word, "path": [path]}):
        (argument,) = given.keys() - {"path"}
        with pytest.raises(TypeError, match=rf"{argument}=array\('number'.* must be "):
            TrainingDataset(**{"path": path, **given})


def test_masked_entries_are_not_taken_for_others(make_file: MakeFile) -> None:
    path = make_file(5)
    for argument in ("hvg_indices", "rows"):
        masked = np.ma.array([1, 2], mask=[True, False])
        with pytest.raises(ValueError, match=f"{argument} has masked entries: pass {argument}"):
            TrainingDataset(path, **{argument: masked})
        with TrainingDataset(path, **{argument: masked.compressed()}) as dataset:
            assert 1 in (dataset.n_obs, dataset.n_output_genes)
    with pytest.raises(TypeError, match="weights must be "):
        TrainingDataset(path, weights=np.ma.array(np.ones(5), mask=[1, 0, 0, 0, 0]))


def test_numbers_of_numpy_are_numbers(make_file: MakeFile) -> None:
    with TrainingDataset(
        make_file(5),
        np.int32(2),
        seed=np.uint64(3),
        target_sum=np.float32(100),
        normalize=np.bool_(True),
    ) as dataset:
        assert len(dataset) == 3


@pytest.mark.parametrize(
    ("panel", "message"),
    [
        ([0, 30], "holds 30, but the genes are numbered 0 to 29"),
        ([-1, 3], "holds -1"),
        ([2**63], "holds 9223372036854775808"),
        ([0.0, 1.0], "float64"),
        (["gene"], "whole numbers"),
        ([True] * 30, r"np\.flatnonzero"),
        ([[0, 1]], "2 dimensions"),
        ([[0, 1], [2]], "one dimension"),
        (3, "0 dimensions"),
        ([], "empty"),
    ],
)
def test_panels_that_are_refused(make_file: MakeFile, panel: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"hvg_indices .*{message}"):
        TrainingDataset(make_file(5), hvg_indices=panel)


@pytest.mark.parametrize("argument", ["hvg_indices", "rows"])
def test_numbers_of_genes_and_cells_are_lists(make_file: MakeFile, argument: str) -> None:
    path = make_file(5)
    wrong: tuple[Any, ...] = ({1, 2}, {1: 2}, slice(3))
    for value in wrong:
        with pytest.raises(TypeError, match=f"{argument} must be a list"):
            TrainingDataset(path, **{argument: value})
    given: tuple[Any, ...] = (iter([1, 2]), range(1, 3), (1, 2), pd.array([1, 2], dtype="Int64"))
    for value in given:
        with TrainingDataset(path, **{argument: value}) as dataset:
            assert 2 in (dataset.n_obs, dataset.n_output_genes)


def test_without_genes_there_is_none_to_name(make_file: MakeFile) -> None:
    path = make_file(matrix=sp.csr_matrix((5, 0), dtype=np.float32))
    with pytest.raises(ValueError, match="hvg_indices holds 0, but there are no genes"):
        TrainingDataset(path, hvg_indices=[0])
    with TrainingDataset(path, 2) as dataset:
        assert [batch["X"].shape for batch in dataset] == [(2, 0), (2, 0), (1, 0)]


@pytest.mark.parametrize("dtype", ["uint32", "int64", "uint8", "int32", "uint64"])
def test_ascending_panels_of_any_integer_dtype_pass_silently(
    make_file: MakeFile, dtype: str
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with TrainingDataset(make_file(5), hvg_indices=np.array([1, 4, 29], dtype)) as dataset:
            assert dataset.n_output_genes == 3


@pytest.mark.parametrize("panel", [[4, 1], [1, 1, 4], [4, 1, 4]])
def test_panel_is_sorted_and_deduplicated_with_a_warning(
    make_file: MakeFile, panel: list[int]
) -> None:
    path = make_file(40)
    with pytest.warns(UserWarning, match="ascending") as record:
        dataset = TrainingDataset(path, 40, hvg_indices=panel, normalize=False, log1p=False)
    assert record[0].filename == __file__
    with dataset, TrainingDataset(path, 40, normalize=False, log1p=False) as whole:
        assert dataset.n_output_genes == 2
        (batch,), (all_genes,) = dataset, whole
        np.testing.assert_array_equal(batch["X"], all_genes["X"][:, np.unique(panel)])


def test_the_callers_panel_is_left_alone(make_file: MakeFile) -> None:
    panel = np.array([3, 9], dtype=np.uint32)
    with TrainingDataset(make_file(40), 40, hvg_indices=panel) as dataset:
        (first,) = dataset
        panel[:] = 0
        (second,) = dataset
    order = np.argsort(first["cell_indices"]), np.argsort(second["cell_indices"])
    np.testing.assert_array_equal(first["X"][order[0]], second["X"][order[1]])


def test_paths(make_file: MakeFile, tmp_path: Path) -> None:
    path = make_file(5)
    for given in (path, str(path), np.str_(path)):
        with TrainingDataset(given) as dataset:
            assert dataset.n_obs == 5
            assert repr(dataset).startswith(f"TrainingDataset({str(path)!r}: ")
    with pytest.raises(FileNotFoundError):
        TrainingDataset(tmp_path / "missing.scx")
    with pytest.raises(TypeError):
        TrainingDataset(3)  # type: ignore[arg-type]


def test_a_file_that_was_not_converted_is_told_so(tmp_path: Path) -> None:
    anndata.AnnData(np.ones((3, 2), dtype=np.float32)).write_h5ad(tmp_path / "cells.h5ad")
    with pytest.raises(CorruptFileError, match=r"cells\.h5ad: not an \.scx file.*from_h5ad"):
        TrainingDataset(tmp_path / "cells.h5ad")


def test_more_than_path_and_batch_size_must_be_named(make_file: MakeFile) -> None:
    with pytest.raises(TypeError):
        TrainingDataset(make_file(5), 8, [1, 2])  # type: ignore[misc]


def test_properties_and_repr(make_file: MakeFile) -> None:
    path = make_file(101, 30)
    dataset = TrainingDataset(path, 8, hvg_indices=[2, 3])
    assert (dataset.n_obs, dataset.n_vars, dataset.n_output_genes) == (101, 30, 2)
    assert (len(dataset), dataset.effective_batch_size) == (13, 8)
    assert repr(dataset) == (
        f"TrainingDataset({str(path)!r}: 101 cells × 2 of 30 genes, 13 batches of 8)"
    )
    dataset.close()
    assert repr(dataset).endswith("13 batches of 8, closed)")
