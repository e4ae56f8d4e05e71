"""Ids of genes, their places in a vocabulary, and rows brought there, against dense arrays."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from scx_tokenize._genes import NO_ID, brought_to, file_genes, match_genes

IDS = [f"ENSG{number:011d}" for number in range(1, 11)]


def table(ids: list[object], **columns: list[object]) -> pd.DataFrame:
    return pd.DataFrame(columns, index=pd.Index(ids))


def test_versions_do_not_count_and_ids_that_collapse_share_a_place() -> None:
    var = table([f"{IDS[3]}.4", IDS[0], f"{IDS[3]}.9", f"{IDS[1]}.1_PAR_Y"])
    joined = match_genes([file_genes("a.h5ad", var, None)], IDS, min_known_genes=0)
    assert joined.columns[0] is not None
    assert joined.columns[0].tolist() == [3, 0, 3, -1]
    match = joined.matches[0]
    assert (match.n_genes, match.n_known, match.n_merged) == (4, 3, 1)
    assert match.share_known == pytest.approx(3 / 4)


def test_ids_come_from_a_column_and_a_gap_matches_nothing() -> None:
    var = table(["A", "B", "C"], gene_id=[IDS[1], None, IDS[0]])
    genes = file_genes("a.h5ad", var, "gene_id")
    assert genes.ids.tolist() == [IDS[1], NO_ID, IDS[0]]
    assert match_genes([genes], IDS).columns[0].tolist() == [1, -1, 0]  # type: ignore[union-attr]
    union = match_genes([genes])
    assert union.names.tolist() == [IDS[1], IDS[0]]
    assert union.matches[0].share_known == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    "missing", [None, float("nan"), pd.NA, "", " ", "nan", "NaN", "<NA>", "NA"]
)
def test_genes_without_an_id_are_counted_one_by_one(missing: object) -> None:
    var = table([f"name {number}" for number in range(200)], gene_id=[*IDS[:4], *[missing] * 196])
    genes = file_genes("a.h5ad", var, "gene_id")
    vocabulary = [f"ENSG{number:011d}" for number in range(1, 1001)]
    for others in (vocabulary, None):
        with pytest.raises(
            ValueError, match=r"a\.h5ad: 4 of its 200 genes .* 2% of what.* 196 of .* have no id"
        ):
            match_genes([genes], others)
        (match,) = match_genes([genes], others, min_known_genes=0).matches
        assert (match.n_genes, match.n_known, match.share_known) == (200, 4, 0.02)
    assert match_genes([genes], min_known_genes=0).names.tolist() == IDS[:4]
    # the same genes in two files: each knows no more of the other's than these four
    twice = match_genes([genes, genes], min_known_genes=0)
    assert [match.share_known for match in twice.matches] == [0.02, 0.02]
    with pytest.raises(ValueError, match=r"'gene_id' of a\.h5ad has no id for 200 of its 200"):
        file_genes("a.h5ad", table(list("ab") * 100, gene_id=[missing] * 200), "gene_id")


def test_synonyms_replace_ids_before_they_are_matched() -> None:
    genes = file_genes(
        "a.h5ad", table([f"{IDS[0]}.7", IDS[1]]), None, synonyms={IDS[0]: IDS[5], "X": "Y"}
    )
    assert match_genes([genes], IDS).columns[0].tolist() == [5, 1]  # type: ignore[union-attr]


@pytest.mark.parametrize(("n_known", "refused"), [(0, True), (4, True), (5, False), (10, False)])
def test_share_of_known_genes_is_reported_and_too_few_are_refused(
    n_known: int, refused: bool
) -> None:
    symbols = [f"SYMBOL{number}" for number in range(10 - n_known)]
    var = table([*IDS[:n_known], *symbols], gene_id=list(IDS), name=["x"] * 10)
    genes = file_genes("folder/a.h5ad", var, None)
    if refused:
        with pytest.raises(ValueError, match=r"folder/a\.h5ad") as caught:
            match_genes([genes], IDS)
        assert f"{n_known} of its 10 genes" in str(caught.value)
        assert "'gene_id', 'name'" in str(caught.value)
        assert f"{n_known * 10}%" in str(caught.value)
    assert match_genes([genes], IDS, min_known_genes=0).matches[0].share_known == n_known / 10


def test_a_key_that_is_missing_names_the_file_and_the_keys_there_are() -> None:
    with pytest.raises(KeyError, match=r"a\.h5ad has no var column 'ensembl'; it has gene_id"):
        file_genes("a.h5ad", table(["A"], gene_id=["x"]), "ensembl")
    with pytest.raises(ValueError, match=r"'number' of a\.h5ad holds 7"):
        file_genes("a.h5ad", table(["A"], number=[7]), "number")


@st.composite
def rows_and_places(draw: st.DrawFn) -> tuple[sp.csr_matrix, np.ndarray, int]:
    n_rows, n_cols, n_places = (draw(st.integers(1, 6)) for _ in range(3))
    counts = draw(st.lists(st.integers(0, 5), min_size=n_rows, max_size=n_rows))
    total = sum(counts)
    columns = st.integers(0, n_cols - 1)
    indices = draw(st.lists(columns, min_size=total, max_size=total))
    data = draw(st.lists(st.integers(0, 255), min_size=total, max_size=total))
    places = draw(st.lists(st.integers(-1, n_places - 1), min_size=n_cols, max_size=n_cols))
    matrix = sp.csr_matrix((n_rows, n_cols), dtype=np.uint8)
    matrix.indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    matrix.indices, matrix.data = np.array(indices, np.int64), np.array(data, np.uint8)
    return matrix, np.array(places, np.int32), n_places


@given(rows_and_places(), st.booleans(), st.integers(0, 9))
@settings(max_examples=300, deadline=None)
def test_rows_are_brought_to_their_places_as_dense_rows_would_be(
    case: tuple[sp.csr_matrix, np.ndarray, int], mapped: bool, start: int
) -> None:
    matrix, places, n_places = case
    if not mapped:
        places, n_places = np.arange(matrix.shape[1], dtype=np.int32), matrix.shape[1]
    indptr, indices, values = brought_to(
        places if mapped else None, n_places, matrix.indptr + start, matrix.indices, matrix.data
    )
    expected = np.zeros((matrix.shape[0], n_places))
    for row in range(matrix.shape[0]):
        for place in range(matrix.indptr[row], matrix.indptr[row + 1]):
            column = places[matrix.indices[place]]
            if column >= 0:
                expected[row, column] += int(matrix.data[place])
    found = np.zeros_like(expected)
    for row in range(matrix.shape[0]):
        genes = indices[indptr[row] : indptr[row + 1]]
        assert (np.diff(genes) > 0).all()
        found[row, genes] = values[indptr[row] : indptr[row + 1]]
    assert indptr[-1] == len(indices) == len(values)
    assert (indptr.dtype, indices.dtype, values.dtype) == (np.int64, np.int32, np.float32)
    np.testing.assert_array_equal(found, expected)
