"""What SparseCellSetDataset refuses, and how it says so."""

from __future__ import annotations

import inspect
import re
import warnings
from pathlib import Path
from typing import Any

import anndata
import numpy as np
import pytest
import scipy.sparse as sp
from cell_set_files import MakeCollection, dense_of

import scx_core
from scx_core.experiment._to_mudata import no_columns_pulled
from scx_train import SparseCellSetDataset

GOOD: tuple[Any, ...] = ([0, 1], [3, 4], [0, 1], [0, 1, 2])


def test_defaults() -> None:
    parameters = inspect.signature(SparseCellSetDataset).parameters
    defaults = {name: parameter.default for name, parameter in parameters.items()}
    assert defaults.pop("paths") is inspect.Parameter.empty
    assert defaults.pop("scatter_block_index") is False
    assert defaults.pop("source") == "X"
    assert set(defaults.values()) == {None}
    assert {
        "cache_shards",
        "max_memory_mb",
        "remap_tables",
        "n_global_genes",
        "normalize",
        "log1p",
        "target_sum",
        "lookahead",
        "max_plan_rows",
        "reader_limit",
        "downsample_target_library_size",
        "downsample_method",
        "downsample_seed",
    } <= set(defaults)


@pytest.mark.parametrize(
    ("plan", "error", "message"),
    [
        (([0, 3], *GOOD[1:]), IndexError, "entry 1 of the plan has file id 3"),
        (([-1, 0], *GOOD[1:]), IndexError, "entry 0 of the plan has file id -1"),
        (([0, 1], [3, 30], [0, 1], [0, 2]), IndexError, r"entry 1 .* row 30 of file 1 \(.*1\.scx"),
        (([0, 1], [-1, 3], [0, 1], [0, 2]), IndexError, "entry 0 of the plan has row -1"),
        (([0, 1], [3], [0, 1], [0, 2]), ValueError, "rows of the plan has 1 entries"),
        (([0, 1], [3, 3], [0], [0, 2]), ValueError, "role_tags of the plan has 1 entries"),
        (([0, 1], [3, 3], [0, 1], [0, 1]), ValueError, "set_offsets of the plan must span"),
        (([0, 1], [3, 3], [0, 1], [1, 2]), ValueError, "set_offsets of the plan must span"),
        (([0, 1], [3, 3], [0, 1], [0, 2, 1, 2]), ValueError, "must not descend"),
        (([0, 1], [3, 3], [0, 1], []), ValueError, "set_offsets of the plan is empty"),
        (([0, 1], [3.0, 3.0], [0, 1], [0, 2]), TypeError, "rows of the plan has dtype float64"),
        (([[0], [1]], [3, 3], [0, 1], [0, 2]), ValueError, "file_ids of the plan has 2 dimensions"),
        (([0, 1], [3, 2**63], [0, 1], [0, 2]), IndexError, "9223372036854775808"),
        (([0, 1], [-1, 2**63], [0, 1], [0, 2]), IndexError, "9223372036854775808"),
        (([0, 1], [True, False], [0, 1], [0, 2]), TypeError, "rows of the plan has dtype bool"),
        (([False] * 2, [3, 3], [0, 1], [0, 2]), TypeError, "file_ids of the plan has dtype bool"),
        (([0, 1], [3, 3], [0, 2**63], [0, 2]), ValueError, "role_tags .* range of int64"),
        (([0, 1], [3, 3], [0, 2**80], [0, 2]), ValueError, "role_tags .* range of int64"),
        (([0, 1], [3, 3], [0, 1], [0, 2**64]), ValueError, "set_offsets .* range of int64"),
        (([0, 1], [3, 3], [0, 1]), ValueError, "but it has 3"),
        ("plan", TypeError, "not str"),
        (7, TypeError, "not int"),
    ],
)
def test_plans(
    make_collection: MakeCollection, plan: Any, error: type[Exception], message: str
) -> None:
    files = make_collection([(20, 6, 2), (30, 6, 2)])
    dataset = SparseCellSetDataset(files.paths)
    iterator = dataset.iter_with_plans([GOOD, plan, GOOD])
    next(iterator)  # the batches before the wrong plan come first
    with pytest.raises(error, match=message):
        next(iterator)
    assert list(iterator) == []
    if isinstance(plan, tuple) and len(plan) == 4:
        for method in (dataset.gather, lambda *parts: dataset.suggested_cache_shards(parts)):
            with pytest.raises(error, match=message):
                method(*plan)


def test_max_plan_rows_is_enforced(make_collection: MakeCollection) -> None:
    files = make_collection([(20, 6, 2)])
    dataset = SparseCellSetDataset(files.paths, max_plan_rows=2)
    dataset.gather([0, 0], [1, 2], [0, 0], [0, 2])
    wide = ([0] * 3, [1, 2, 3], [0] * 3, [0, 3])
    with pytest.raises(RuntimeError, match="the plan has 3 rows, but max_plan_rows=2"):
        dataset.gather(*wide)
    with pytest.raises(RuntimeError, match="max_plan_rows=2"):
        list(dataset.iter_with_plans([wide]))


def test_sets_over_files_of_different_genes_need_a_remap(make_collection: MakeCollection) -> None:
    one = make_collection([(20, 6, 2)], prefix="a")
    other = make_collection([(20, 8, 2)], prefix="b")
    dataset = SparseCellSetDataset([*one.paths, *other.paths])
    assert dataset.n_cols == 8
    dataset.gather([0, 1], [1, 1], [0, 0], [0, 1, 2])  # each set within a file
    with pytest.raises(ValueError, match=r"spans files 0 .* and 1 .* pass remap_tables"):
        dataset.gather([0, 1], [1, 1], [0, 0], [0, 2])


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"remap_tables": [[0] * 6] * 2}, ValueError, "belong together"),
        ({"n_global_genes": 6}, ValueError, "belong together"),
        ({"remap_tables": [[0] * 6], "n_global_genes": 6}, ValueError, "1 tables for 2 files"),
        (
            {"remap_tables": [[0] * 6, [0] * 5], "n_global_genes": 6},
            ValueError,
            r"remap_tables\[1\] has 5 entries",
        ),
        (
            {"remap_tables": [[0] * 6, [0, 1, 2, 3, 4, 6]], "n_global_genes": 6},
            ValueError,
            r"remap_tables\[1\] maps gene 5 to 6",
        ),
        (
            {"remap_tables": [[0.5] * 6] * 2, "n_global_genes": 6},
            TypeError,
            "has dtype float64",
        ),
        ({"downsample_method": "binomial"}, ValueError, "downsample_method without"),
        ({"downsample_seed": 0}, ValueError, "downsample_seed without"),
        (
            {"downsample_target_library_size": 0},
            ValueError,
            "downsample_target_library_size=0",
        ),
        (
            {"downsample_target_library_size": 5, "downsample_method": "x"},
            ValueError,
            "downsample_method='x'",
        ),
        (
            {"downsample_target_library_size": 5, "downsample_method": ["binomial"]},
            ValueError,
            r"downsample_method=\['binomial'\]",
        ),
        ({"target_sum": 0.0}, ValueError, "target_sum=0.0"),
        ({"normalize": 1}, TypeError, "normalize=1"),
        ({"reader_limit": 0}, ValueError, "reader_limit=0"),
        ({"max_plan_rows": 0}, ValueError, "max_plan_rows=0"),
        ({"cache_shards": 0}, ValueError, "cache_shards=0"),
        ({"lookahead": -1}, ValueError, "lookahead=-1"),
        ({"max_memory_mb": 0}, ValueError, "max_memory_mb=0"),
    ],
)
def test_arguments(
    make_collection: MakeCollection, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    files = make_collection([(20, 6, 2), (20, 6, 2)])
    with pytest.raises(error, match=message):
        SparseCellSetDataset(files.paths, **options)


def test_deleted_rows_keep_their_numbers_and_are_refused(make_collection: MakeCollection) -> None:
    files = make_collection([(20, 6, 2), (20, 6, 2)])
    scx_core.mark_deleted(files.paths[1], [3, 9])
    dataset = SparseCellSetDataset(files.paths, reader_limit=1)
    plan = ([0, 1, 1, 0], [3, 4, 19, 9], [0] * 4, [0, 4])
    np.testing.assert_array_equal(dense_of(dataset.gather(*plan), 6), files.rows(plan))
    with pytest.raises(IndexError, match=r"entry 1 .* row 9 of file 1 .* is marked as deleted"):
        dataset.gather([0, 1], [9, 9], [0, 0], [0, 2])


def test_cells_that_a_modality_lacks_are_refused(tmp_path: Path) -> None:
    mudata = pytest.importorskip("mudata")
    values = np.arange(20 * 4, dtype=np.float32).reshape(20, 4)
    rna = anndata.AnnData(sp.csr_matrix(values))
    adt = anndata.AnnData(sp.csr_matrix(values[5:, :2]))
    rna.obs_names, adt.obs_names = np.arange(20).astype(str), np.arange(5, 20).astype(str)
    adt.var_names = ["p0", "p1"]
    path = tmp_path / "both.scx"
    with no_columns_pulled():
        mdata = mudata.MuData({"rna": rna, "adt": adt})
    scx_core.from_mudata(mdata, path)
    dataset = SparseCellSetDataset([path], modality="adt")
    assert dataset.n_cols == 2
    batch = dataset.gather([0, 0], [19, 5], [0, 0], [0, 2])
    np.testing.assert_array_equal(dense_of(batch, 2), values[[19, 5], :2])
    with pytest.raises(IndexError, match=r"row 4 of file 0 .* which the modality does not have"):
        dataset.gather([0], [4], [0], [0, 1])
    with pytest.warns(UserWarning, match="'adt' is read") as caught:
        SparseCellSetDataset([path])
    assert caught[0].filename == __file__


def test_paths(make_collection: MakeCollection, tmp_path: Path) -> None:
    files = make_collection([(20, 6, 2)])
    with pytest.raises(TypeError, match=r"for one file pass \[path\]"):
        SparseCellSetDataset(files.paths[0])
    with pytest.raises(ValueError, match="paths is an empty list"):
        SparseCellSetDataset([])
    with pytest.raises(TypeError, match="paths"):
        SparseCellSetDataset([3])  # type: ignore[list-item]
    missing = tmp_path / "missing.scx"
    with pytest.raises(FileNotFoundError, match=re.escape(str(missing))):
        SparseCellSetDataset([files.paths[0], missing])


def test_scatter_block_index_warns_that_no_file_is_framed(make_collection: MakeCollection) -> None:
    files = make_collection([(20, 6, 2)])
    with pytest.warns(UserWarning, match="scatter_block_index=True has no effect") as caught:
        dataset = SparseCellSetDataset(files.paths, scatter_block_index=True)
    assert caught[0].filename == __file__
    dataset.gather([0], [1], [0], [0, 1])
    assert dataset.cache_metrics()["block_index_groups"] == 0


def test_a_damaged_row_names_its_file(make_collection: MakeCollection) -> None:
    files = make_collection([(20, 40, 20), (20, 40, 20)], shard_size=20)
    raw = bytearray(Path(files.paths[1]).read_bytes())
    good = SparseCellSetDataset(files.paths).gather([1], [7], [0], [0, 1])
    broken = 0
    for place in range(len(raw) // 8, len(raw), len(raw) // 40):
        damaged = raw.copy()
        damaged[place] ^= 0x10
        Path(files.paths[1]).unlink()
        Path(files.paths[1]).write_bytes(damaged)
        try:
            batch = SparseCellSetDataset(files.paths).gather([1], [7], [0], [0, 1])
        except ValueError as error:
            assert "1.scx" in str(error)  # noqa: PT017
            broken += 1
        else:
            np.testing.assert_array_equal(batch["data"], good["data"])
    assert broken


def _values(path: Path, values: Any) -> Path:
    scx_core.from_anndata(anndata.AnnData(sp.csr_matrix(np.asarray(values, np.float32))), path)
    return path


@pytest.mark.parametrize("reader_limit", [None, 1])
def test_normalising_what_is_no_counts_warns_once_of_the_first_such_file(
    tmp_path: Path, reader_limit: int | None
) -> None:
    counts = _values(tmp_path / "counts.scx", [[1, 2], [0, 3]])
    fractions = _values(tmp_path / "fractions.scx", [[1, 2], [0, 3], [0.5, 1]])
    negative = _values(tmp_path / "negative.scx", [[1, -2]])
    paths = [counts, fractions, negative]
    with pytest.warns(UserWarning, match=r"^X of .*fractions\.scx holds 0\.5 in row 2") as caught:
        SparseCellSetDataset(paths, normalize=True, reader_limit=reader_limit)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SparseCellSetDataset(paths, log1p=True)  # nothing is divided by a total
        SparseCellSetDataset([counts], normalize=True)
        scx_core.mark_deleted(fractions, [2])
        SparseCellSetDataset([counts, fractions], normalize=True)


def test_negative_values_that_come_out_as_0_are_told(tmp_path: Path) -> None:
    fractions = _values(tmp_path / "fractions.scx", [[1.5, 2.25], [0, 2.5]])
    scaled = _values(tmp_path / "scaled.scx", [[1.5, 2.25], [-0.5, 2.5]])
    with pytest.warns(
        UserWarning, match=r"holds -0\.5 in row 1.*negative values and NaN as 0"
    ) as caught:
        SparseCellSetDataset([fractions, scaled, scaled])
    assert len(caught) == 1
    assert caught[0].filename == __file__


def test_drawing_down_what_is_no_counts_warns_once(tmp_path: Path) -> None:
    counts = _values(tmp_path / "counts.scx", [[1, 2], [0, 3]])
    fractions = _values(tmp_path / "fractions.scx", [[1.5, 2.25], [0, 2.5]])
    with pytest.warns(UserWarning, match=r"holds 1\.5 in row 0.*rounded to whole") as caught:
        dataset = SparseCellSetDataset(
            [counts, fractions, fractions], downsample_target_library_size=100, normalize=True
        )
    assert len(caught) == 1
    assert caught[0].filename == __file__
    dataset.close()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SparseCellSetDataset([counts], downsample_target_library_size=2)
        SparseCellSetDataset([fractions])
