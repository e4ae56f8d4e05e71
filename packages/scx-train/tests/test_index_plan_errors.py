"""Plans and arguments that are refused: which error, and when."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import scx_core
from scx_train import IndexPlanDataset

MakeFile = Callable[..., Path]
N_OBS = 50
GOOD = [(0, 1), (2, 3)]


@pytest.fixture
def dataset(make_file: MakeFile) -> Iterator[IndexPlanDataset]:
    with IndexPlanDataset(make_file(N_OBS)) as dataset:
        yield dataset


@pytest.mark.parametrize(
    ("plan", "place", "row"),
    [
        ([(0, N_OBS)], 0, N_OBS),
        ([(0, 1), (N_OBS, 1)], 1, N_OBS),
        ([(0, 1), (3, -1), (-5, 2)], 1, -1),
        ([(0, 1), (3, 4), (2**40, 2)], 2, 2**40),
        (np.array([[0, 2**63]], dtype=np.uint64), 0, 2**63),
        (np.array([[-128, 2]], dtype=np.int8), 0, -128),
    ],
)
@pytest.mark.parametrize("lookahead", [0, 1, 4])
def test_rows_out_of_range(
    dataset: IndexPlanDataset, plan: Any, place: int, row: int, lookahead: int
) -> None:
    batches = dataset.iter_with_plans([GOOD, GOOD, plan, GOOD], lookahead=lookahead)
    assert [next(batches)["pairs"], next(batches)["pairs"]] == [GOOD, GOOD]
    message = rf"pair {place} of the plan has row {row}, but the cells are numbered 0 to 49"
    with pytest.raises(IndexError, match=message):
        next(batches)
    assert list(batches) == []


def test_numbers_beyond_all_integer_types(dataset: IndexPlanDataset) -> None:
    with pytest.raises(IndexError, match=str(2**70)):
        next(dataset.iter_with_plans([[(1, 2**70)]]))


@pytest.mark.parametrize(
    ("plan", "error", "message"),
    [
        ([1, 2], ValueError, r"shape \(pairs, 2\), not \(2,\)"),
        ([(1, 2, 3)], ValueError, r"not \(1, 3\)"),
        ([(1, 2), (3,)], ValueError, "shape"),
        (np.zeros((2, 2, 2), int), ValueError, r"not \(2, 2, 2\)"),
        ([(1.0, 2.0)], TypeError, "whole numbers, not float64"),
        (np.array([[True, False]]), TypeError, "whole numbers, not bool"),
        ([("1", "2")], TypeError, "whole numbers"),
        ([(1, None)], TypeError, "whole numbers"),
        (np.array([[0, 1]], dtype=object), TypeError, "whole numbers, not object"),
        (np.array([[0, True]], dtype=object), TypeError, "whole numbers, not object"),
        ([(-1, 2**63)], IndexError, "row 9223372036854775808"),
        ([(2**70, -(2**90))], IndexError, f"row {-(2**90)}"),
        ("12", TypeError, "not str"),
        ({1: 2}, TypeError, "not dict"),
        (5, TypeError, "not int"),
        (None, TypeError, "not NoneType"),
    ],
)
def test_what_is_no_plan(
    dataset: IndexPlanDataset, plan: Any, error: type[Exception], message: str
) -> None:
    batches = dataset.iter_with_plans([GOOD, plan])
    assert next(batches)["pairs"] == GOOD
    with pytest.raises(error, match=message):
        next(batches)
    with pytest.raises(error, match=message):
        dataset.suggested_cache_shards(plan)


def test_plans_that_are_too_wide(make_file: MakeFile) -> None:
    with IndexPlanDataset(make_file(N_OBS), max_plan_size=3) as dataset:
        batches = dataset.iter_with_plans([[(0, 1)] * 3, [(0, 1)] * 4])
        assert len(next(batches)["X"]) == 3
        with pytest.raises(RuntimeError, match=r"4 pairs, but max_plan_size=3"):
            next(batches)


def test_an_exception_of_the_generator(dataset: IndexPlanDataset) -> None:
    def plans() -> Iterator[Any]:
        yield GOOD
        yield GOOD
        raise LookupError("no control left")

    batches = dataset.iter_with_plans(plans())
    assert [next(batches)["pairs"], next(batches)["pairs"]] == [GOOD, GOOD]
    with pytest.raises(RuntimeError, match=r"plan iterator raised: .*no control left") as caught:
        next(batches)
    assert isinstance(caught.value.__cause__, LookupError)
    assert list(batches) == []


def test_plans_that_are_no_iterable(dataset: IndexPlanDataset) -> None:
    with pytest.raises(TypeError, match="iterable of plans"):
        dataset.iter_with_plans(5)  # type: ignore[arg-type]
    for wrong, error in ((-1, ValueError), (1025, ValueError), (1.5, TypeError), (True, TypeError)):
        with pytest.raises(error, match="lookahead="):
            dataset.iter_with_plans([GOOD], lookahead=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"hvg_indices": [30]}, ValueError),
        ({"hvg_indices": [-1]}, ValueError),
        ({"hvg_indices": []}, ValueError),
        ({"hvg_indices": [0.5]}, ValueError),
        ({"target_sum": 0}, ValueError),
        ({"target_sum": float("inf")}, ValueError),
        ({"cache_shards": 0}, ValueError),
        ({"lookahead": -1}, ValueError),
        ({"lookahead": 2.0}, TypeError),
        ({"max_plan_size": 0}, ValueError),
        ({"max_memory_mb": 0}, ValueError),
        ({"threads": 0}, ValueError),
        ({"normalize": 1}, TypeError),
        ({"sort_by_shard": "yes"}, TypeError),
        ({"scatter_block_index": 1}, TypeError),
        ({"obs_columns": "number"}, TypeError),
        ({"obs_columns": ["number", "donor"]}, KeyError),
        ({"source": "layers/counts"}, KeyError),
        ({"source": "Y"}, ValueError),
        ({"pflog_alpha": -1.0, "pflog": True}, ValueError),
    ],
    ids=repr,
)
def test_arguments(make_file: MakeFile, options: dict[str, Any], error: type[Exception]) -> None:
    name = next(iter(options))
    named = {"obs_columns": "obs_columns|donor", "source": "layer|source"}.get(name, name)
    with pytest.raises(error, match=named):
        IndexPlanDataset(make_file(N_OBS), **options)


def test_a_column_that_is_missing_names_those_there_are(make_file: MakeFile) -> None:
    with pytest.raises(KeyError, match=r"donor.*number"):
        IndexPlanDataset(make_file(N_OBS), obs_columns=["donor"])


def test_groups_of_rows_that_are_not_there_warn(make_file: MakeFile) -> None:
    with pytest.warns(UserWarning, match="scatter_block_index=True has no effect") as caught:
        IndexPlanDataset(make_file(N_OBS), scatter_block_index=True).close()
    assert caught[0].filename == __file__


def test_values_that_are_no_counts_warn(make_file: MakeFile) -> None:
    path = make_file(matrix=np.full((20, 5), 0.5, np.float32))
    with pytest.warns(UserWarning, match="normalize=False") as caught:
        IndexPlanDataset(path).close()
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        IndexPlanDataset(path, normalize=False, log1p=False).close()


def test_damage_shows_when_its_batch_is_due(make_file: MakeFile) -> None:
    path = make_file(N_OBS, 200)
    with scx_core.open(path) as experiment:
        (section,) = [part for part in experiment.sections() if part["name"] == "X_shard_2"]
    data = bytearray(path.read_bytes())
    data[section["offset"] + section["length"] // 2] ^= 0xFF
    path.write_bytes(data)
    with IndexPlanDataset(path) as dataset:
        whole = [[(row, row)] for row in range(20, 30)]
        with pytest.raises(scx_core.CorruptFileError):
            list(dataset.iter_with_plans(whole))
        assert len(list(dataset.iter_with_plans([GOOD]))) == 1


def test_a_file_without_cells(make_file: MakeFile) -> None:
    with IndexPlanDataset(make_file(matrix=np.zeros((0, 4), np.float32))) as dataset:
        assert list(dataset.iter_with_plans([[], []])) == []
        with pytest.raises(IndexError, match="row 0, but the file has no cells"):
            next(dataset.iter_with_plans([[(0, 0)]]))


def test_cells_that_a_modality_lacks(tmp_path: Path) -> None:
    import anndata
    import mudata
    import pandas as pd

    def part(names: list[str], n_vars: int) -> anndata.AnnData:
        matrix = np.arange(1, len(names) * n_vars + 1, dtype=np.float32).reshape(-1, n_vars)
        return anndata.AnnData(matrix, obs=pd.DataFrame(index=names))

    cells = [f"c{i}" for i in range(6)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        both = mudata.MuData({"rna": part(cells, 3), "adt": part(cells[1::2], 2)})
        scx_core.from_mudata(both, tmp_path / "two.scx")
    options: dict[str, Any] = {"normalize": False, "log1p": False}
    with IndexPlanDataset(tmp_path / "two.scx", modality="adt", **options) as dataset:
        assert dataset.modality == "adt" and "[adt]" in repr(dataset)
        (batch,) = dataset.iter_with_plans([[(5, 1)]])
        assert batch["X"].tolist() == [[5, 6]] and batch["X_paired"].tolist() == [[1, 2]]
        with pytest.raises(IndexError, match=r"row 2, which modality 'adt' does not have"):
            next(dataset.iter_with_plans([[(1, 2)]]))
    with pytest.warns(UserWarning, match="no modality was named: 'adt' is read") as caught:
        IndexPlanDataset(tmp_path / "two.scx").close()
    assert caught[0].filename == __file__
