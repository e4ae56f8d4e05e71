"""Collation against plain loops, and what it refuses."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import scipy.sparse as sp
from collate_reference import collated
from hypothesis import given, settings
from hypothesis import strategies as st

import scx_train
from scx_train import COLLATE_CELLSET_CONTRACT_VERSION, collate_cellset_gathered

MODES = ("pass_through", "log1p_raw", "normalize_log1p", "pflog_raw")
N_GENES = 40


def batch(seed: int, n_rows: int, *, n_genes: int = N_GENES, density: float = 0.4) -> sp.csr_matrix:
    """Counts with ties, negatives, NaN, stored zeros and an empty row."""
    rng = np.random.default_rng(seed)
    matrix = sp.random(n_rows, n_genes, density=density, format="csr", random_state=rng)
    matrix.sort_indices()
    matrix.data = rng.choice([0, 1, 1, 2, 3, 0.5, 250.25, -4, np.nan], size=matrix.nnz)
    return matrix


def arguments_of(
    matrix: sp.csr_matrix, set_offsets: npt.ArrayLike, *, seed: int, ragged: bool, k_dec: int
) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    n_rows = matrix.shape[0]
    n_sets = len(np.asarray(set_offsets)) - 1
    arguments: dict[str, Any] = {
        "indptr": matrix.indptr,
        "indices": matrix.indices,
        "data": matrix.data,
        "set_offsets": np.asarray(set_offsets),
        "cell_indices": rng.integers(0, 1000, n_rows),
        "file_ids": rng.integers(0, 3, n_rows),
        "role_tags": rng.integers(0, 2, n_rows).astype(np.uint8),
        "k_dec": k_dec,
        "hide_readout": rng.random(n_rows) < 0.2,
    }
    if ragged:
        lengths = rng.integers(0, k_dec + 1, n_rows)
        query = rng.integers(-1, N_GENES + 2, lengths.sum())
        arguments["query_offsets"] = np.concatenate([[0], np.cumsum(lengths)])
        arguments["n_measured"] = rng.integers(1, 99, n_rows)
    else:
        query = rng.integers(-1, N_GENES + 2, (n_sets, k_dec))
        arguments["n_measured"] = rng.integers(1, 99, n_sets)
    arguments["query_gene_ids"] = query
    arguments["enc_mask_positions"] = rng.random(query.shape) < 0.5
    return arguments


def expected_of(arguments: dict[str, Any], **options: Any) -> dict[str, npt.NDArray[Any]]:
    n_rows = len(arguments["indptr"]) - 1
    query = np.ravel(arguments["query_gene_ids"]).tolist()
    marks = np.ravel(arguments["enc_mask_positions"]).tolist()
    offsets = np.asarray(arguments["set_offsets"])
    k_dec = arguments["k_dec"]
    queries, measured = [], []
    for row in range(n_rows):
        if "query_offsets" in arguments:
            start, end = arguments["query_offsets"][row : row + 2]
            place = row
        else:
            place = int(np.searchsorted(offsets, row, side="right")) - 1
            start, end = place * k_dec, (place + 1) * k_dec
        queries.append((query[start:end], marks[start:end]))
        measured.append(int(arguments["n_measured"][place]))
    return collated(
        arguments["indptr"],
        arguments["indices"],
        arguments["data"],
        offsets,
        queries,
        arguments["hide_readout"],
        measured,
        k_dec=k_dec,
        **options,
    )


def check(arguments: dict[str, Any], *, k_enc: int, mode: str, redef: bool = False) -> None:
    result = collate_cellset_gathered(
        **arguments,
        k_enc=k_enc,
        mode=mode,  # type: ignore[arg-type]
        n_genes_total=N_GENES,
        target_sum=100.0,
        lib_size_redef=redef,
        pflog_alpha=0.3,
    )
    expected = expected_of(
        arguments,
        k_enc=k_enc,
        mode=mode,
        n_genes=N_GENES,
        target_sum=100.0,
        redef=redef,
        alpha=0.3,
    )
    n_rows = len(arguments["indptr"]) - 1
    assert (result["n_rows"], result["k_enc"], result["k_dec"]) == (
        n_rows,
        k_enc,
        arguments["k_dec"],
    )
    for name, values in expected.items():
        if result[name].dtype.kind == "f":
            np.testing.assert_allclose(result[name], values, rtol=1e-6, atol=2e-6, err_msg=name)
        else:
            np.testing.assert_array_equal(result[name], values, err_msg=name)
    for name in ("cell_indices", "file_ids", "role_tags", "set_offsets"):
        np.testing.assert_array_equal(result[name], arguments[name])


def test_order_of_arguments_and_version() -> None:
    assert list(inspect.signature(collate_cellset_gathered).parameters) == [
        "indptr",
        "indices",
        "data",
        "set_offsets",
        "cell_indices",
        "file_ids",
        "role_tags",
        "k_dec",
        "query_gene_ids",
        "enc_mask_positions",
        "hide_readout",
        "n_measured",
        "k_enc",
        "mode",
        "n_genes_total",
        "target_sum",
        "lib_size_redef",
        "pflog_alpha",
        "query_offsets",
        "shape",  # not published: so that a batch goes in as it is
    ]
    assert COLLATE_CELLSET_CONTRACT_VERSION == 3
    assert scx_train.COLLATE_CELLSET_CONTRACT_VERSION == 3


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("redef", [False, True])
def test_modes_and_queries(mode: str, ragged: bool, redef: bool) -> None:
    matrix = batch(1, 12)
    arguments = arguments_of(matrix, [0, 3, 3, 12], seed=2, ragged=ragged, k_dec=9)
    for k_enc in (1, 4, 30):
        check(arguments, k_enc=k_enc, mode=mode, redef=redef)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n_rows=st.integers(0, 90),
    density=st.sampled_from([0.0, 0.05, 0.9]),
    ragged=st.booleans(),
    k_enc=st.integers(1, 50),
    k_dec=st.integers(1, 20),
    mode=st.sampled_from(MODES),
)
def test_any_batch(
    seed: int, n_rows: int, density: float, *, ragged: bool, k_enc: int, k_dec: int, mode: str
) -> None:
    rng = np.random.default_rng(seed)
    cuts = np.sort(rng.integers(0, n_rows + 1, rng.integers(0, 4)))
    matrix = batch(seed, n_rows, density=density)
    arguments = arguments_of(matrix, [0, *cuts, n_rows], seed=seed, ragged=ragged, k_dec=k_dec)
    check(arguments, k_enc=k_enc, mode=mode)


def test_crop_comes_before_drop() -> None:
    result = collate_cellset_gathered(
        [0, 3], [1, 2, 3], [9, 5, 1], [0, 1], [7], [0], [1],
        2, [[1, 30]], [[True, False]], [False], None, 2, "pass_through", 50,
    )  # fmt: skip
    # genes 1 and 2 are cropped, 1 is dropped: gene 3 does not come in for it
    assert result["encoder_gene_ids"].tolist() == [2, 51]
    assert result["encoder_counts"].tolist() == [5, 0]
    assert result["encoder_mask"].tolist() == [0, 0]
    assert result["encoder_pad_mask"].tolist() == [0, 1]
    assert result["target_counts"].tolist() == [9, 0]
    assert result["target_pad_mask"].tolist() == [0, 0]
    assert result["library_size"].tolist() == [15]
    assert result["library_size"].dtype == np.float64


def test_a_gene_listed_twice_is_dropped_when_either_is_marked() -> None:
    result = collate_cellset_gathered(
        [0, 2], [1, 2], [9, 5], [0, 1], [7], [0], [1],
        3, [1, 2, 1], [0, 0, 1], None, None, 2, "pass_through", 50,
    )  # fmt: skip
    assert result["encoder_gene_ids"].tolist() == [2, 51]
    assert result["target_counts"].tolist() == [9, 5, 9]


def test_empty_flags_hide_nothing() -> None:
    matrix = batch(3, 5)
    arguments = arguments_of(matrix, [0, 2, 5], seed=1, ragged=False, k_dec=4)
    options: dict[str, Any] = {"k_enc": 6, "mode": "pass_through", "n_genes_total": N_GENES}
    names = ("enc_mask_positions", "hide_readout", "n_measured")
    none = collate_cellset_gathered(**{**arguments, **dict.fromkeys(names), **options})
    empty = {name: np.array([], dtype=np.uint8) for name in names}
    assert_same(collate_cellset_gathered(**{**arguments, **empty, **options}), none)
    every = {
        name: np.zeros(size, bool) for name, size in (("enc_mask_positions", 8), (names[1], 5))
    }
    assert_same(collate_cellset_gathered(**{**arguments, **every, **options}), none)


def assert_same(found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert list(found) == list(expected)
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values, err_msg=name)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("flat", [False, True])
def test_cells_of_a_set_may_hide_different_genes(mode: str, *, flat: bool) -> None:
    """As the same query given to each cell on its own."""
    matrix = batch(5, 14, density=0.9)
    k_dec, offsets = 6, np.array([0, 3, 3, 14])
    arguments = arguments_of(matrix, offsets, seed=4, ragged=False, k_dec=k_dec)
    marks = np.random.default_rng(8).random((14, k_dec)) < 0.5
    arguments["enc_mask_positions"] = marks.ravel() if flat else marks
    options: dict[str, Any] = {
        "k_enc": 20, "mode": mode, "n_genes_total": N_GENES, "pflog_alpha": 0.3,
    }  # fmt: skip
    found = collate_cellset_gathered(**arguments, **options)
    set_of_row = np.repeat(np.arange(3), np.diff(offsets))
    alone = {
        **arguments,
        "query_gene_ids": arguments["query_gene_ids"][set_of_row].ravel(),
        "query_offsets": np.arange(15) * k_dec,
        "n_measured": arguments["n_measured"][set_of_row],
    }
    alone["enc_mask_positions"] = marks.ravel()
    assert_same(found, collate_cellset_gathered(**alone, **options))
    assert found["encoder_pad_mask"].any()
    row = 4  # by hand
    genes = matrix[row].indices[matrix[row].data > 0]
    hidden = arguments["query_gene_ids"][2][marks[row]]
    if not arguments["hide_readout"][row]:
        tokens = found["encoder_gene_ids"].reshape(14, 20)[row]
        assert set(tokens[tokens < N_GENES]) <= set(genes) - set(hidden)


def test_wide_rows_and_threads_agree() -> None:
    rng = np.random.default_rng(5)
    matrix = sp.random(200, 3000, density=0.6, format="csr", random_state=rng)
    matrix.sort_indices()
    matrix.data = np.floor(rng.gamma(0.3, 900, matrix.nnz))
    query = rng.permutation(3000)[:1024][None]
    common = (np.zeros(200), np.zeros(200), np.zeros(200), 1024, query, rng.random((1, 1024)) < 0.4)

    def whole(part: sp.csr_matrix) -> dict[str, Any]:
        n = part.shape[0]
        passed = [array[:n] for array in common[:3]]
        return collate_cellset_gathered(
            part.indptr, part.indices, part.data, [0, n], *passed, *common[3:],
            None, None, 512, "normalize_log1p", 3000,
        )  # fmt: skip

    together = whole(matrix)
    for row in (0, 77, 199):  # few rows run on one thread
        alone = whole(matrix[row])
        for name in ("encoder_gene_ids", "encoder_counts", "target_counts", "library_size"):
            width = len(alone[name])
            np.testing.assert_array_equal(
                together[name][row * width : (row + 1) * width], alone[name]
            )
        dense = matrix[row].toarray()[0]
        order = np.lexsort((np.arange(3000), -dense))[:512]
        kept = order[~np.isin(order, query[0][common[5][0]])]
        assert alone["encoder_gene_ids"][: len(kept)].tolist() == kept.tolist()


@pytest.mark.parametrize("dtype", ["int16", "uint32", "int64", "float16", "float64", "bool"])
@pytest.mark.parametrize("index_dtype", ["uint8", "int32", "uint64", "int64"])
def test_dtypes(dtype: str, index_dtype: str) -> None:
    matrix = sp.random(9, N_GENES, density=0.5, format="csr", random_state=1)
    matrix.sort_indices()
    matrix.data = np.round(matrix.data * 7)
    arguments = arguments_of(matrix, [0, 9], seed=1, ragged=False, k_dec=4)
    arguments["data"] = matrix.data.astype(dtype)
    for name in ("indptr", "indices", "cell_indices"):
        arguments[name] = arguments[name].astype(index_dtype if name != "cell_indices" else "int64")
    check(arguments, k_enc=8, mode="log1p_raw")


def test_hide_readout_by_set() -> None:
    matrix = batch(3, 5)
    arguments = arguments_of(matrix, [0, 2, 5], seed=1, ragged=False, k_dec=4)
    arguments["hide_readout"] = [False, True]
    by_set = collate_cellset_gathered(
        **arguments, k_enc=3, mode="pass_through", n_genes_total=N_GENES
    )
    arguments["hide_readout"] = [False, False, True, True, True]
    by_row = collate_cellset_gathered(
        **arguments, k_enc=3, mode="pass_through", n_genes_total=N_GENES
    )
    np.testing.assert_array_equal(by_set["encoder_gene_ids"], by_row["encoder_gene_ids"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"k_enc": 0}, "k_enc must be >= 1"),
        ({"k_dec": -1}, "k_dec must be >= 1"),
        ({"n_genes_total": 0}, "n_genes_total must be >= 1"),
        ({"indices": [3, 1, 2]}, "row 0 are not strictly ascending: 1 follows 3"),
        ({"indices": [1, 1, 2]}, "row 0 are not strictly ascending: 1 follows 1"),
        ({"indices": [1, 3, -2]}, "row 1 holds gene id -2"),
        ({"indices": [1, 3, 40]}, "row 1 holds gene id 40, which is outside the vocabulary"),
        ({"indices": np.array([1, 3, 2**40])}, "row 1 holds gene id 1099511627776"),
        ({"indptr": [0, 2, 4]}, "indptr ends with 4, but there are 3 indices"),
        ({"indptr": [0, 2, 1]}, "indptr must not descend"),
        ({"data": [1.0, 2.0]}, "indices has 3 entries and data has 2"),
        ({"set_offsets": [0, 1]}, "set_offsets must span the 2 rows"),
        ({"set_offsets": [1, 2]}, "set_offsets must span the 2 rows"),
        (
            {"set_offsets": [0, 2, 1, 2], "query_gene_ids": [1] * 6, "enc_mask_positions": None},
            "must not descend",
        ),
        ({"set_offsets": []}, "set_offsets is empty"),
        (
            {"query_gene_ids": [1, 2, 3], "enc_mask_positions": None},
            "query_gene_ids has 3 entries, but 1 sets of k_dec = 2",
        ),
        ({"query_offsets": [0, 1]}, "query_offsets has 2 entries, but 3 are needed"),
        ({"query_offsets": [0, 1, 3]}, "query_offsets must span the 2 query_gene_ids"),
        ({"query_offsets": [0, 2, 2], "k_dec": 1}, "narrower than the widest per-row query"),
        ({"enc_mask_positions": [True]}, "enc_mask_positions has 1 entries, but 2 are needed"),
        (
            {"enc_mask_positions": [True] * 3},
            r"enc_mask_positions has 3 entries, but 2 are needed .*, or 4 \(k_dec for each row\)",
        ),
        (
            {"enc_mask_positions": [True] * 4, "query_offsets": [0, 1, 2]},
            "enc_mask_positions has 4 entries, but 2 are needed",
        ),
        (
            {"query_gene_ids": [[1], [2]], "enc_mask_positions": None},
            r"query_gene_ids has shape \(2, 1\), but a table has k_dec=2 columns",
        ),
        (
            {"enc_mask_positions": [[True] * 4]},
            r"enc_mask_positions has shape \(1, 4\), but a table has k_dec=2 columns",
        ),
        ({"shape": (3, 40)}, r"shape=\(3, 40\) does not fit 2 rows"),
        ({"shape": (2, 41)}, r"shape=\(2, 41\) does not fit"),
        ({"hide_readout": [True] * 3}, "hide_readout has 3 entries, but 2 are needed"),
        ({"cell_indices": [1]}, "cell_indices has 1 entries, but 2 are needed"),
        ({"file_ids": [1]}, "file_ids has 1 entries, but 2 are needed"),
        ({"role_tags": [1]}, "role_tags has 1 entries, but 2 are needed"),
        ({"n_measured": [1, 2]}, "n_measured has 2 entries, but 1 are needed"),
        ({"mode": "log"}, "mode='log' must be one of 'pass_through'"),
        ({"mode": ["log1p_raw"]}, "must be one of 'pass_through'"),
        ({"mode": "pflog_raw", "n_measured": [0], "pflog_alpha": 1.0}, r"n_measured\[0\] = 0"),
        ({"mode": "pflog_raw", "pflog_alpha": 1.0}, "needs n_measured"),
        ({"mode": "pflog_raw", "n_measured": [5]}, "needs a pflog_alpha"),
        ({"mode": "normalize_log1p", "target_sum": 0.0}, "finite and strictly positive"),
    ],
)
def test_refusals(change: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {
        "indptr": [0, 2, 3],
        "indices": [1, 3, 2],
        "data": [1.0, 2.0, 3.0],
        "set_offsets": [0, 2],
        "cell_indices": [4, 5],
        "file_ids": [0, 0],
        "role_tags": [0, 1],
        "k_dec": 2,
        "query_gene_ids": [1, 2],
        "enc_mask_positions": [True, False],
        "hide_readout": None,
        "n_measured": None,
        "k_enc": 2,
        "mode": "pass_through",
        "n_genes_total": 40,
    }
    collate_cellset_gathered(**arguments)
    with pytest.raises(ValueError, match="^collate_gathered: .*" + message):
        collate_cellset_gathered(**{**arguments, **change})


def test_arguments_are_checked_on_an_empty_batch_too() -> None:
    names = ("indices", "data", "cell_indices", "file_ids", "role_tags", "query_gene_ids")
    empty: dict[str, Any] = {name: [] for name in names}
    arguments: dict[str, Any] = {
        **empty,
        **dict.fromkeys(["enc_mask_positions", "hide_readout", "n_measured"]),
        "indptr": [0],
        "set_offsets": [0],
        "k_dec": 2,
        "k_enc": 2,
        "mode": "pass_through",
        "n_genes_total": 9,
    }
    result = collate_cellset_gathered(**arguments)
    assert result["n_rows"] == 0
    assert result["encoder_gene_ids"].shape == (0,)
    with pytest.raises(ValueError, match="k_enc must be >= 1"):
        collate_cellset_gathered(**{**arguments, "k_enc": 0})
