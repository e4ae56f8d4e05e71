"""Columns of obs in batches."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anndata
import numpy as np
import pandas as pd
import pytest

from scx_train import (
    IndexPlanDataset,
    MultimodalTrainingDataset,
    TrainingDataset,
    paired_plans,
    split,
)

MakeFile = Callable[..., Path]
N = 23


def stream(path: Path, name: str) -> Any:
    """A whole column, back in the order of the file."""
    with TrainingDataset(path, 4, obs_columns=[name]) as dataset:
        batches = list(dataset)
    order = np.argsort(np.concatenate([batch["cell_indices"] for batch in batches]))
    parts = [batch["obs"][name] for batch in batches]
    if not isinstance(parts[0], dict):
        return np.concatenate(parts)[order]
    assert all(part["categories"] == parts[0]["categories"] for part in parts)
    codes = np.concatenate([part["codes"] for part in parts])[order]
    assert codes.dtype == np.int32
    return codes.tolist(), parts[0]["categories"]


def file_with(make_file: MakeFile, column: Any) -> Path:
    return make_file(N, obs=pd.DataFrame({"column": column}))


def repeated(values: list[Any]) -> list[Any]:
    return (values * N)[:N]


def test_categorical_keeps_order_gaps_and_unused_categories(make_file: MakeFile) -> None:
    labels = repeated(["T", None, "B", "T"])
    column = pd.Categorical(labels, categories=["unused", "T", "B"], ordered=True)
    codes, categories = stream(file_with(make_file, column), "column")
    assert categories == ["unused", "T", "B"]
    assert codes == repeated([1, -1, 2, 1])


def test_labels_that_are_numbers_become_text(make_file: MakeFile) -> None:
    column = pd.Categorical(repeated([3000000000, 2, 2]))
    codes, categories = stream(file_with(make_file, column), "column")
    assert categories == ["2", "3000000000"]
    assert codes == repeated([1, 0, 0])


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "int64", "uint64"])
def test_whole_numbers_become_int64(make_file: MakeFile, dtype: str) -> None:
    values = np.array(repeated([1, 100, 7]), dtype=dtype)
    result = stream(file_with(make_file, values), "column")
    assert result.dtype == np.int64
    np.testing.assert_array_equal(result, values)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_floats_become_float64(make_file: MakeFile, dtype: str) -> None:
    values = np.array(repeated([1.5, np.nan, -0.1]), dtype=dtype)
    result = stream(file_with(make_file, values), "column")
    assert result.dtype == np.float64
    np.testing.assert_array_equal(result, values.astype(np.float64))


def test_booleans_become_int64(make_file: MakeFile) -> None:
    result = stream(file_with(make_file, repeated([True, False, False])), "column")
    assert result.dtype == np.int64
    assert result.tolist() == repeated([1, 0, 0])


@pytest.mark.parametrize("dtype", ["Int64", "boolean"])
def test_gaps_make_floats_with_nan(make_file: MakeFile, dtype: str) -> None:
    column = pd.array(repeated([1, None, 0]), dtype=dtype)
    result = stream(file_with(make_file, column), "column")
    assert result.dtype == np.float64
    np.testing.assert_array_equal(result, repeated([1.0, np.nan, 0.0]))


def test_nullable_without_gaps_is_whole(make_file: MakeFile) -> None:
    column = pd.array(repeated([1, 2]), dtype="Int64")
    assert stream(file_with(make_file, column), "column").dtype == np.int64


def test_text_becomes_a_categorical_with_sorted_labels(make_file: MakeFile) -> None:
    codes, categories = stream(file_with(make_file, repeated(["z", "a", "m"])), "column")
    assert categories == ["a", "m", "z"]
    assert codes == repeated([2, 0, 1])


def test_whole_numbers_beyond_int64_are_refused(make_file: MakeFile) -> None:
    path = file_with(make_file, np.full(N, 2**63, dtype=np.uint64))
    with pytest.raises(ValueError, match=r"'column'.*int64"):
        TrainingDataset(path, obs_columns=["column"])


LARGE = 2**53 + 1
WHAT_BATCHES_CANNOT_HOLD = {
    "beyond int64": np.full(N, 2**63, dtype=np.uint64),
    r"whole numbers beyond 2\*\*53.*categorical": pd.array(
        repeated([1, None, LARGE]), dtype="Int64"
    ),
    "datetime64.*store it as numbers or as a categorical": pd.date_range("2020", periods=N),
}


@pytest.mark.parametrize("message", WHAT_BATCHES_CANNOT_HOLD)
def test_what_is_refused_names_column_and_file(make_file: MakeFile, message: str) -> None:
    path = file_with(make_file, WHAT_BATCHES_CANNOT_HOLD[message])
    readings: list[Callable[[], Any]] = [
        lambda: TrainingDataset(path, obs_columns=["column"]),
        lambda: TrainingDataset([path, path], allow_repeated_files=True, obs_columns=["column"]),
        lambda: TrainingDataset(path, balance_by="column"),
        lambda: TrainingDataset(path, batch_by="column"),
        lambda: split(path, [0.5, 0.5], stratify="column"),
        lambda: split([path, path], [0.5, 0.5], group="column", allow_repeated_files=True),
        lambda: paired_plans(path, "column", 1, match=[], batch_size=8),
        lambda: IndexPlanDataset(path, obs_columns=["column"]),
    ]
    for read in readings:
        with pytest.raises(ValueError, match=f"{path.name}: .*'column'.*{message}"):
            read()


def test_a_column_of_one_modality_is_refused_as_one_of_the_file_is(tmp_path: Path) -> None:
    import warnings

    import mudata

    import scx_core

    few, all_cells = np.arange(15), np.arange(20)
    rna, adt = (
        anndata.AnnData(np.ones((len(cells), 3), dtype=np.float32)) for cells in (few, all_cells)
    )
    rna.obs_names, adt.obs_names = few.astype(str), all_cells.astype(str)
    rna.var_names, adt.var_names = list("abc"), list("xyz")
    rna.obs["nullable"] = pd.array([1, None, LARGE] * 5, dtype="Int64")
    rna.obs["whole"] = np.full(15, LARGE)
    rna.obs["day"] = pd.date_range("2020", periods=15)
    adt.obs["exact"] = np.full(20, LARGE)
    rna.obsm["large"] = np.full((15, 1), LARGE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        joint = mudata.MuData({"rna": rna, "adt": adt})
        joint.obs = joint.obs[[]]
        scx_core.from_mudata(joint, tmp_path / "joint.scx")
    path = tmp_path / "joint.scx"
    for name, message in (("nullable", r"beyond 2\*\*53"), ("day", "datetime64")):
        with pytest.raises(ValueError, match=f"joint.scx: .*{name}.*{message}"):
            TrainingDataset(path, modality="rna", obs_columns=[name])
        with pytest.raises(ValueError, match=f"joint.scx: .*{name}.*{message}"):
            MultimodalTrainingDataset(path, obs_columns=[name])
    # Only where some cells lack it does it have to be held beside NaN.
    with TrainingDataset(path, modality="rna", obs_columns=["whole"], obsm=["large"]) as dataset:
        assert next(iter(dataset))["obs"]["whole"].tolist() == [LARGE] * 15
    with MultimodalTrainingDataset(path, obs_columns=["exact"]) as both:
        assert next(iter(both))["obs"]["exact"].tolist() == [LARGE] * 20
    for wanted in ({"obs_columns": ["whole"]}, {"obsm": ["large"]}):
        with pytest.raises(ValueError, match=r"joint.scx: .*'rna' alone.*beyond 2\*\*53"):
            MultimodalTrainingDataset(path, **wanted)


def test_missing_column_names_those_there_are(make_file: MakeFile) -> None:
    path = make_file(N, obs=pd.DataFrame({"cell_type": repeated(["T"]), "donor": repeated([1])}))
    with pytest.raises(KeyError, match=r"cells.scx: .*'cell_typ'.*cell_type.*donor"):
        TrainingDataset(path, obs_columns=["cell_typ"])


def test_columns_keep_the_order_asked_for_and_come_once(make_file: MakeFile) -> None:
    path = make_file(N, obs=pd.DataFrame({name: repeated([1]) for name in "abc"}))
    with TrainingDataset(path, obs_columns=("c", "a", "c")) as dataset:
        assert list(next(iter(dataset))["obs"]) == ["c", "a"]
    with TrainingDataset(path) as dataset:
        assert next(iter(dataset))["obs"] == {}


def test_a_batch_does_not_share_its_column_with_the_data_set(make_file: MakeFile) -> None:
    path = make_file(N)
    with TrainingDataset(path, N, obs_columns=["number"]) as dataset:
        next(iter(dataset))["obs"]["number"][:] = -1
        assert sorted(next(iter(dataset))["obs"]["number"]) == list(range(N))
