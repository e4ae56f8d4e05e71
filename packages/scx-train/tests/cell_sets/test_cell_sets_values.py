"""What batches of cell sets hold, beside dense arrays."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import anndata
import numpy as np
import numpy.typing as npt
import pytest
import scipy.sparse as sp
from cell_set_files import Collection, MakeCollection, dense_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import scx_core
from scx_train import SparseCellSetDataset, downsample_counts_csr, downsample_file_identity

SHAPES = [(20, 12, 1), (30, 12, 5), (10, 12, 0)]


def test_files_with_1_5_and_0_values_a_row_read_as_one(make_collection: MakeCollection) -> None:
    files = make_collection(SHAPES)
    for order in ([0, 1, 2], [2, 0, 1], [1, 2, 0]):
        permuted = Collection([files.paths[i] for i in order], [files.dense[i] for i in order])
        dataset = SparseCellSetDataset(permuted.paths)
        plan = permuted.plan(3, 40)
        batch = dataset.gather(*plan)
        np.testing.assert_array_equal(dense_of(batch, 12), permuted.rows(plan))
        expected_lengths = [[1, 5, 0][order[file]] for file in plan[0]]
        assert np.diff(batch["indptr"]).tolist() == expected_lengths
        np.testing.assert_array_equal(batch["file_ids"], plan[0])


def test_batch_has_the_keys_and_dtypes_of_the_page(make_collection: MakeCollection) -> None:
    files = make_collection(SHAPES)
    batch = SparseCellSetDataset(files.paths).gather(
        [0, 1, 1], (np.int64(3), 2, 2), np.array([0, 1, 1], np.uint8), [0, 1, 3]
    )
    assert batch["shape"] == (3, 12)
    arrays = {name: array for name, array in batch.items() if name != "shape"}
    assert {name: array.dtype.name for name, array in arrays.items()} == {  # type: ignore[attr-defined]
        "indptr": "int64",
        "indices": "int32",
        "data": "float32",
        "set_offsets": "int64",
        "file_ids": "int64",
        "cell_indices": "int64",
        "role_tags": "int64",
    }
    assert batch["cell_indices"].tolist() == [3, 2, 2]
    assert batch["role_tags"].tolist() == [0, 1, 1]
    assert batch["set_offsets"].tolist() == [0, 1, 3]


@pytest.mark.parametrize("dtype", ["uint8", "int16", "uint32", "int32", "uint64", "int64"])
def test_plans_of_any_integer_dtype(make_collection: MakeCollection, dtype: str) -> None:
    files = make_collection(SHAPES)
    plan = files.plan(4, 15)
    dataset = SparseCellSetDataset(files.paths)
    expected = dense_of(dataset.gather(*plan), 12)
    cast = tuple(part.astype(dtype) for part in plan)
    for form in (cast, list(cast), [part.tolist() for part in cast]):
        (batch,) = dataset.iter_with_plans([form])
        np.testing.assert_array_equal(dense_of(batch, 12), expected)


def test_the_plan_may_change_after_it_was_given(make_collection: MakeCollection) -> None:
    files = make_collection(SHAPES)
    dataset = SparseCellSetDataset(files.paths)
    plan = files.plan(4, 15)
    shared = [part.copy() for part in plan]
    batch = dataset.gather(*shared)
    for part in shared:
        part[:] = 0
    np.testing.assert_array_equal(batch["cell_indices"], plan[1])


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(seed=st.integers(0, 10**6), limit=st.sampled_from([None, 1, 2]), lookahead=st.integers(0, 5))
def test_streams_equal_gathers(
    make_collection: MakeCollection, seed: int, limit: int | None, lookahead: int
) -> None:
    files = make_collection([(9, 12, 3), (1, 12, 12), (30, 12, 2)], prefix=f"s{seed}")
    rng = np.random.default_rng(seed)
    plans = [files.plan(seed + i, int(rng.integers(0, 30))) for i in range(7)]
    dataset = SparseCellSetDataset(files.paths, reader_limit=limit, threads=2)
    batches = list(dataset.iter_with_plans(plans, lookahead=lookahead))
    wanted = [plan for plan in plans if len(plan[0])]
    assert len(batches) == len(wanted)
    for batch, plan in zip(batches, wanted, strict=True):
        np.testing.assert_array_equal(dense_of(batch, 12), files.rows(plan))
        alone = dataset.gather(*plan)
        for name, array in alone.items():
            np.testing.assert_array_equal(batch[name], array)  # type: ignore[literal-required]


def remapped(
    dense: npt.NDArray[Any], table: npt.NDArray[Any], n_global: int
) -> npt.NDArray[np.float64]:
    result = np.zeros((len(dense), n_global))
    for gene, place in enumerate(table):
        if place >= 0:
            result[:, place] += np.maximum(np.nan_to_num(dense[:, gene], nan=0.0), 0)
    return result


@pytest.mark.filterwarnings("ignore:.*negative values and NaN as 0:UserWarning")
def test_remap_drops_sorts_sums_and_clips(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    dense, paths = [], []
    for number, n_genes in enumerate((15, 8)):
        values = rng.choice([0, 0, 1, 2.5, -3, 70], size=(11, n_genes)).astype(np.float32)
        paths.append(tmp_path / f"{number}.scx")
        scx_core.from_anndata(anndata.AnnData(sp.csr_matrix(values)), paths[-1])
        dense.append(values)
    tables = [rng.integers(-1, 10, 15), rng.permutation(8)]  # places shared; places in any order
    dataset = SparseCellSetDataset(paths, remap_tables=tables, n_global_genes=10)
    assert dataset.n_cols == 10
    files = rng.integers(0, 2, 50)
    rows = rng.integers(0, 11, 50)
    batch = dataset.gather(files, rows, np.zeros(50, int), [0, 50])
    expected = np.array(
        [remapped(dense[f], tables[f], 10)[r] for f, r in zip(files, rows, strict=True)]
    )
    np.testing.assert_array_equal(dense_of(batch, 10), expected)


@pytest.mark.filterwarnings("ignore:.*negative values and NaN as 0:UserWarning")
@pytest.mark.parametrize("log1p", [None, True])
@pytest.mark.parametrize(
    "table",
    [[0, 1, 2, 3, 4, 5], [-1, 0, -1, 3, 4, 6], [6, 5, 4, 2, 1, 0], [2, 0, 2, -1, 0, 2], [3] * 6],
    ids=["as it is", "dropped", "reversed", "shared", "all in one"],
)
def test_nan_and_negative_values_count_as_0_under_a_remap(
    tmp_path: Path, table: list[int], *, log1p: bool | None
) -> None:
    """Before they are summed: a NaN or -3 does not touch the others of its place."""
    values = np.array(
        [
            [np.nan, 2, 3, -4, np.nan, 6],
            [-1, -2, -3, -4, -5, -6],
            [np.nan] * 6,
            [-0.5, np.nan, 0, 7, 0, 1.5],
            [0, 0, 0, 0, 0, 0],
            [-np.inf, 1, np.nan, 2, 3, -np.inf],
        ],
        dtype=np.float32,
    )
    path = tmp_path / "signed.scx"
    with pytest.warns(scx_core.ScxWarning, match="NaN or infinite"):
        scx_core.from_anndata(anndata.AnnData(sp.csr_matrix(values)), path)
    plan = ([0] * 6, range(6), [0] * 6, [0, 2, 6])
    dataset = SparseCellSetDataset([path], remap_tables=[table], n_global_genes=7, log1p=log1p)
    expected = np.zeros((6, 7))
    for row, gene in np.ndindex(values.shape):
        if table[gene] >= 0 and values[row, gene] > 0:  # NaN is not
            expected[row, table[gene]] += values[row, gene]
    found = dense_of(dataset.gather(*plan), 7)
    if log1p:
        np.testing.assert_allclose(found, np.log1p(expected), rtol=1e-6)
    else:
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int32, np.int64])
@pytest.mark.parametrize("n_cells", [6, 30_000], ids=["few", "past the caches"])
def test_nan_and_negative_values_count_as_0_without_a_remap(
    tmp_path: Path, dtype: Any, n_cells: int
) -> None:
    """In gathers and streams, before a total is taken; their entries stay stored."""
    rng = np.random.default_rng(2)
    values = rng.choice([-7, -1, 1, 2, 60], size=(n_cells, 40)).astype(dtype)
    if np.issubdtype(dtype, np.floating):
        values[0, :4] = [np.nan, -np.inf, -0.5, 3]
    path = tmp_path / "signed.scx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scx_core.from_anndata(anndata.AnnData(values), path)
    clipped = np.where(values > 0, values, 0).astype(np.float64)
    totals = clipped.sum(axis=1, keepdims=True)
    plan: tuple[Any, ...] = ([0] * n_cells, range(n_cells), [0] * n_cells, [0, n_cells])
    for options, expected in (
        ({}, clipped),
        ({"normalize": True, "target_sum": 300.0}, clipped * (300 / np.where(totals, totals, 300))),
        ({"log1p": True}, np.log1p(clipped)),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            dataset = SparseCellSetDataset([path], **options)  # type: ignore[arg-type]
        gathered = dataset.gather(*plan)
        (streamed,) = dataset.iter_with_plans([plan])
        for batch in (gathered, streamed):
            assert len(batch["data"]) == values.size
            np.testing.assert_allclose(dense_of(batch, 40), expected, rtol=1e-6)


def test_unmapped_genes_of_unsigned_tables(make_collection: MakeCollection) -> None:
    files = make_collection([(6, 5, 4)])
    table = np.array([2, 2**32 - 1, 0, 1, 2**32 - 1], dtype=np.uint32)
    dataset = SparseCellSetDataset(files.paths, remap_tables=[table], n_global_genes=3)
    batch = dataset.gather([0] * 6, range(6), [0] * 6, [0, 6])
    np.testing.assert_array_equal(dense_of(batch, 3), files.dense[0][:, [2, 3, 0]])


@pytest.mark.parametrize("remap", [False, True])
@pytest.mark.parametrize(("normalize", "log1p"), [(True, True), (True, False), (None, True)])
def test_transforms(
    make_collection: MakeCollection, *, remap: bool, normalize: bool | None, log1p: bool
) -> None:
    files = make_collection(SHAPES)
    table = np.array([3, -1, 0, 1, -1, 2, 5, 4, -1, 6, 7, 8])
    options: dict[str, Any] = {}
    if remap:
        options = {"remap_tables": [table] * 3, "n_global_genes": 9}
    dataset = SparseCellSetDataset(
        files.paths, normalize=normalize, log1p=log1p, target_sum=300.0, **options
    )
    plan = files.plan(7, 40)
    values = files.rows(plan).astype(np.float64)
    if normalize:
        totals = values.sum(axis=1, keepdims=True)  # of all genes, those without a place too
        values *= 300.0 / np.where(totals > 0, totals, 300.0)
    if log1p:
        values = np.log1p(values)
    n_cols = 12
    if remap:
        values, n_cols = remapped(values, table, 9), 9
    np.testing.assert_allclose(dense_of(dataset.gather(*plan), n_cols), values, rtol=1e-6)


@pytest.mark.parametrize("method", ["binomial", "multinomial"])
@pytest.mark.parametrize("remap", [False, True])
def test_downsampling_is_that_of_the_function(
    make_collection: MakeCollection, *, method: Any, remap: bool
) -> None:
    files = make_collection([(30, 40, 30), (20, 40, 25)])
    options: dict[str, Any] = {}
    if remap:
        table = np.random.default_rng(0).permutation(40)
        options = {"remap_tables": [table, table], "n_global_genes": 40}
    plan = files.plan(1, 33)
    raw = SparseCellSetDataset(files.paths, **options).gather(*plan)
    identities = [downsample_file_identity(path) for path in files.paths]
    expected = downsample_counts_csr(
        raw["indptr"],
        raw["indices"],
        raw["data"],
        plan[1],
        np.array(identities, dtype=np.uint64)[plan[0]],
        200,
        method,
        9,
    )
    dataset = SparseCellSetDataset(
        files.paths,
        downsample_target_library_size=200,
        downsample_method=method,
        downsample_seed=9,
        **options,
    )
    batch = dataset.gather(*plan)
    for name, array in expected.items():
        np.testing.assert_array_equal(batch[name], array)  # type: ignore[literal-required]
    if method == "multinomial":
        default = SparseCellSetDataset(
            files.paths, downsample_target_library_size=200, downsample_seed=9, **options
        ).gather(*plan)
        np.testing.assert_array_equal(default["data"], batch["data"])
    logged = SparseCellSetDataset(
        files.paths,
        downsample_target_library_size=200,
        downsample_method=method,
        downsample_seed=9,
        normalize=True,
        log1p=True,
        **options,
    ).gather(*plan)
    totals = np.add.reduceat(batch["data"].astype(np.float64), batch["indptr"][:-1])
    scaled = batch["data"] * np.repeat(1e4 / totals, np.diff(batch["indptr"]))
    np.testing.assert_allclose(logged["data"], np.log1p(scaled), rtol=1e-6)


def test_layers_and_stored_dtypes(tmp_path: Path) -> None:
    counts = np.random.default_rng(0).integers(0, 70_000, (25, 9)) * (np.arange(9) % 2)
    adata = anndata.AnnData(sp.csr_matrix(counts.astype(np.int32)))
    adata.layers["half"] = sp.csr_matrix(counts.astype(np.float64) / 2)
    path = tmp_path / "a.scx"
    scx_core.from_anndata(adata, path)
    plan: tuple[Any, ...] = ([0] * 25, np.arange(25)[::-1], [0] * 25, [0, 25])
    batch = SparseCellSetDataset([path]).gather(*plan)
    np.testing.assert_array_equal(dense_of(batch, 9), counts[::-1])
    batch = SparseCellSetDataset([path], source="layers/half").gather(*plan)
    np.testing.assert_array_equal(dense_of(batch, 9), counts[::-1] / 2)
    with pytest.raises(KeyError, match="no layer 'double'"):
        SparseCellSetDataset([path], source="layers/double")


def test_a_gathered_batch_can_be_collated(make_collection: MakeCollection) -> None:
    from scx_train import collate_cellset_gathered

    files = make_collection(SHAPES)
    batch = SparseCellSetDataset(files.paths).gather(*files.plan(2, 20, n_sets=2))
    result = collate_cellset_gathered(
        **batch,
        k_dec=3,
        query_gene_ids=[[0, 1, 2], [3, 4, 5]],
        enc_mask_positions=None,
        hide_readout=None,
        n_measured=None,
        k_enc=4,
        mode="log1p_raw",
        n_genes_total=12,
    )
    assert result["n_rows"] == 20
