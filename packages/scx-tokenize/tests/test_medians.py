"""Medians over many files, against dense arrays in numpy and scanpy's normalisation."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anndata
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import scanpy
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import scx_core
from scx_tokenize import GeneMedians, medians, rank_tokens, run

# fractions are told, and their medians are those of fractions
pytestmark = pytest.mark.filterwarnings("ignore:.*no whole numbers")

IDS = [f"ENSG{number:011d}" for number in range(1, 200)]


def counts_of(n_cells: int, n_genes: int, *, seed: int) -> np.ndarray:
    """Counts with an empty cell and, first, a gene that nothing expresses."""
    rng = np.random.default_rng(seed)
    depth = rng.lognormal(0, 1, (n_cells, 1))
    counts = rng.poisson(rng.gamma(0.4, 2.0, n_genes) * depth).astype(np.float32)
    counts[:, 0] = 0
    counts[n_cells // 2] = 0
    return counts


def annotated(counts: np.ndarray, ids: Sequence[str], form: Any = sp.csr_matrix) -> anndata.AnnData:
    return anndata.AnnData(
        form(counts),
        obs=pd.DataFrame(index=[f"cell{row}" for row in range(len(counts))]),
        var=pd.DataFrame(index=list(ids)),
    )


def written(adata: anndata.AnnData, path: Path) -> str:
    if path.suffix == ".scx":
        scx_core.from_anndata(adata, path, shard_size=7)
    else:
        adata.write_h5ad(path)
    return str(path)


def expected(
    matrices: Sequence[np.ndarray], ids: Sequence[Sequence[str]], target: float = 1e4
) -> dict[str, tuple[float, int, float]]:
    """By gene: median, cells and total, from loops over dense arrays."""
    values: dict[str, list[float]] = {}
    totals: dict[str, float] = {}
    for counts, genes in zip(matrices, ids, strict=True):
        clipped = np.where(counts > 0, counts, 0).astype(np.float64)
        sizes = clipped.sum(axis=1)
        for gene in dict.fromkeys(genes):
            column = clipped[:, [name == gene for name in genes]].sum(axis=1)
            there = column > 0
            scaled = (column[there] * (target / sizes[there])).astype(np.float32)
            values.setdefault(gene, []).extend(scaled.tolist())
            totals[gene] = totals.get(gene, 0) + column.sum()
    return {
        gene: (float(np.median(np.array(found))), len(found), totals[gene])
        for gene, found in values.items()
        if found
    }


def as_dict(found: GeneMedians) -> dict[str, tuple[float, int, float]]:
    numbers = zip(found.medians, found.n_cells_expressing, found.totals, strict=True)
    return dict(zip(found.gene_ids, numbers, strict=True))


def test_medians_of_many_files_are_those_of_dense_columns(tmp_path: Path) -> None:
    sizes = [(41, 30), (1, 25), (64, 12)]
    matrices = [counts_of(*size, seed=number) for number, size in enumerate(sizes)]
    # each file has other genes, in another order
    ids = [IDS[:30], IDS[29:4:-1], IDS[20:32]]
    names = ["a.scx", "b.h5ad", "c.scx"]
    paths = [
        written(annotated(counts, genes), tmp_path / name)
        for counts, genes, name in zip(matrices, ids, names, strict=True)
    ]
    found = medians(paths)
    assert as_dict(found) == expected(matrices, ids)
    assert found.n_cells == 106 and found.n_passes == 3
    assert set(found.unseen) == set(IDS[:32]) - set(found.gene_ids) and IDS[0] in found.unseen
    assert [match.n_genes for match in found.matches] == [30, 25, 12]
    assert as_dict(medians(paths, memory_budget="50kB", threads=1)) == as_dict(found)
    assert medians(paths, memory_budget="50kB").n_passes > 3


def test_normalised_as_scanpy_does(tmp_path: Path) -> None:
    counts = counts_of(90, 60, seed=5)
    path = written(annotated(counts, IDS[:60]), tmp_path / "a.scx")
    adata = annotated(counts, IDS[:60])
    with pytest.warns(UserWarning, match="zero counts"):
        scanpy.pp.normalize_total(adata, target_sum=1e4)
    dense = adata.X.toarray()
    dense[dense == 0] = np.nan
    with np.errstate(all="ignore"):
        columns = dense[:, ~np.isnan(dense).all(axis=0)]
        np.testing.assert_allclose(medians(path).medians, np.nanmedian(columns, axis=0), rtol=1e-6)


@pytest.mark.parametrize("form", [sp.csr_matrix, sp.csc_matrix, np.asarray])
def test_every_form_of_a_matrix_gives_the_same(form: Any, tmp_path: Path) -> None:
    counts = counts_of(40, 20, seed=1)
    path = written(annotated(counts, IDS[:20], form), tmp_path / "a.h5ad")
    assert as_dict(medians(path)) == expected([counts], [IDS[:20]])
    assert os.listdir(tmp_path) == ["a.h5ad"]


def test_versions_do_not_count_and_genes_of_one_id_are_added(tmp_path: Path) -> None:
    first, second = counts_of(30, 6, seed=2), counts_of(20, 4, seed=3)
    plain = [IDS[1], IDS[2], IDS[1], IDS[3], IDS[2], IDS[4]]
    adata = annotated(first, [f"symbol{number}" for number in range(6)])
    adata.var["gene_id"] = [f"{name}.{number}" for number, name in enumerate(plain)]
    other = annotated(second, list("abcd"))
    other.var["gene_id"] = IDS[1:5]
    paths = [written(adata, tmp_path / "a.scx"), written(other, tmp_path / "b.h5ad")]
    found = medians(paths, gene_key="gene_id")
    assert as_dict(found) == expected([first, second], [plain, IDS[1:5]])
    assert found.matches[0].n_merged == 2


def test_genes_without_an_id_count_for_the_library_size_alone(tmp_path: Path) -> None:
    counts = counts_of(30, 5, seed=4)
    adata = annotated(counts, list("abcde"))
    adata.var["gene_id"] = [IDS[0], None, IDS[2], None, IDS[4]]
    found = as_dict(medians(written(adata, tmp_path / "a.h5ad"), gene_key="gene_id"))
    whole = expected([counts], [[IDS[0], "b", IDS[2], "d", IDS[4]]])
    assert found == {gene: numbers for gene, numbers in whole.items() if gene.startswith("ENSG")}
    assert found


def test_deleted_cells_are_left_out(tmp_path: Path) -> None:
    counts = counts_of(40, 20, seed=6)
    path = written(annotated(counts, IDS[:20]), tmp_path / "a.scx")
    scx_core.mark_deleted(path, [0, 3, 8, 9, 39])
    kept = np.delete(counts, [0, 3, 8, 9, 39], axis=0)
    assert as_dict(medians(path)) == expected([kept], [IDS[:20]])


@pytest.mark.parametrize("suffix", [".scx", ".h5ad"])
def test_cells_and_matrix_are_chosen(suffix: str, tmp_path: Path) -> None:
    counts, raw = counts_of(40, 20, seed=7), counts_of(40, 25, seed=8)
    adata = annotated(raw, IDS[:25])
    adata.raw = adata
    adata = adata[:, :20].copy()
    adata.X = sp.csr_matrix(np.log1p(counts))
    adata.layers["counts"] = sp.csr_matrix(counts)
    adata.obs["tissue"] = pd.Categorical(["lung", "skin"] * 20)
    adata.obs["n"] = np.arange(40)
    path = written(adata, tmp_path / f"a{suffix}")
    layer = medians(path, source="layers/counts", obs_filter="tissue == 'lung' and n < 30")
    assert as_dict(layer) == expected([counts[:30:2]], [IDS[:20]])
    assert as_dict(medians(path, source="raw")) == expected([raw], [IDS[:25]])
    with pytest.raises(ValueError, match="there is no cell that fulfils"):
        medians(path, obs_filter="n > 40")
    with pytest.raises(KeyError, match="no layer 'raw_counts'; it has X, layers/counts"):
        medians(path, source="layers/raw_counts")
    with pytest.raises(KeyError, match="has no var column 'ensembl'"):
        medians(path, gene_key="ensembl")


@st.composite
def corpora(draw: st.DrawFn) -> tuple[list[np.ndarray], list[list[str]]]:
    n_files = draw(st.integers(1, 3))
    value = st.sampled_from([0, 0, 0, 1, 1, 2, 3, 0.5, 1e-30, 1e6, -2, np.nan])
    matrices, ids = [], []
    for _ in range(n_files):
        n_cells, n_genes = draw(st.integers(0, 6)), draw(st.integers(1, 4))
        cells = st.lists(value, min_size=n_genes, max_size=n_genes)
        rows = draw(st.lists(cells, min_size=n_cells, max_size=n_cells))
        matrices.append(np.array(rows, np.float32).reshape(n_cells, n_genes))
        ids.append(draw(st.lists(st.sampled_from(IDS[:4]), min_size=n_genes, max_size=n_genes)))
    return matrices, ids


@given(corpora(), st.sampled_from([1.0, 1e4]), st.sampled_from([".scx", ".h5ad"]))
@settings(max_examples=40, deadline=None)
@pytest.mark.filterwarnings("ignore")
def test_any_corpus_gives_what_dense_columns_give(
    tmp_path_factory: pytest.TempPathFactory,
    corpus: tuple[list[np.ndarray], list[list[str]]],
    target: float,
    suffix: str,
) -> None:
    folder = tmp_path_factory.mktemp("corpus")
    matrices, ids = corpus
    paths = [
        written(annotated(counts, genes), folder / f"{number}{suffix}")
        for number, (counts, genes) in enumerate(zip(matrices, ids, strict=True))
    ]
    if not sum(map(len, matrices)):
        with pytest.raises(ValueError, match="there is no cell"):
            medians(paths, min_known_genes=0)
        return
    found = as_dict(medians(paths, min_known_genes=0, target_sum=target))
    wanted = expected(matrices, ids, target)
    assert found.keys() == wanted.keys()
    for gene, numbers in wanted.items():
        assert found[gene][:2] == numbers[:2]
        assert found[gene][2] == pytest.approx(numbers[2])


def test_the_file_is_the_same_with_any_number_of_threads(tmp_path: Path) -> None:
    paths = [
        written(annotated(counts_of(50, 40, seed=9), IDS[:40]), tmp_path / "a.scx"),
        written(annotated(counts_of(30, 40, seed=10) / 3, IDS[10:50]), tmp_path / "b.h5ad"),
    ]
    bytes_of = []
    for threads in (None, 1, 2, 5):
        out = tmp_path / f"{threads}.parquet"
        found = medians(paths, out, threads=threads, memory_budget="100kB")
        bytes_of.append(out.read_bytes())
    assert len(set(bytes_of)) == 1
    table = pq.read_table(out)
    assert table.column_names == ["gene_id", "median", "n_cells", "total"]
    assert table["gene_id"].to_pylist() == found.gene_ids.tolist()
    np.testing.assert_array_equal(table["median"].to_numpy(), found.medians)
    np.testing.assert_array_equal(table["n_cells"].to_numpy(), found.n_cells_expressing)
    np.testing.assert_array_equal(table["total"].to_numpy(), found.totals)
    facts = json.loads(table.schema.metadata[b"scx_tokenize.medians"])
    assert facts["target_sum"] == 1e4 and facts["n_cells"] == 80
    assert facts["n_genes_unseen"] == len(found.unseen) > 0
    assert [each["path"] for each in facts["inputs"]] == paths
    assert [each["n_cells"] for each in facts["inputs"]] == [50, 30]
    assert [each["n_genes_known_to_others"] for each in facts["inputs"]] == [30, 30]
    assert len({each["identity"] for each in facts["inputs"]}) == 2


def test_files_with_other_ids_are_refused_with_their_share(tmp_path: Path) -> None:
    one = written(annotated(counts_of(5, 10, seed=1), IDS[:10]), tmp_path / "a.scx")
    mixed = [*IDS[:4], *[f"SYMBOL{number}" for number in range(6)]]
    two = written(annotated(counts_of(5, 10, seed=2), mixed), tmp_path / "b.h5ad")
    out = tmp_path / "m.parquet"
    with pytest.raises(ValueError, match=r"4 of its 10 genes .* 40% of what"):
        medians([one, two], out)
    assert sorted(os.listdir(tmp_path)) == ["a.scx", "b.h5ad"]
    assert len(medians([one, two], min_known_genes=0.4).matches) == 2


@pytest.mark.parametrize("suffix", [".scx", ".h5ad"])
@pytest.mark.parametrize("gene_key", [None, "id"])
def test_genes_without_an_id_have_no_median(
    tmp_path: Path, suffix: str, gene_key: str | None
) -> None:
    counts = counts_of(20, 7, seed=3)
    ids = ["A", "", "B", "nan", "C", "<NA>", "D"]
    adata = annotated(counts, ids if gene_key is None else [f"g{place}" for place in range(7)])
    adata.var["id"] = ids
    path = written(adata, tmp_path / f"a{suffix}")
    found = medians(path, gene_key=gene_key)
    assert sorted([*found.unseen, *found.gene_ids]) == ["A", "B", "C", "D"]
    assert (found.matches[0].n_known, found.matches[0].share_known) == (4, pytest.approx(4 / 7))
    # they count for the library size
    known = expected([counts], [ids])
    for gene, median in zip(found.gene_ids, found.medians, strict=True):
        assert median == pytest.approx(known[gene][0])


def test_a_refused_or_failed_run_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(annotated(counts_of(5, 10, seed=1), IDS[:10]), tmp_path / "a.scx")
    out = tmp_path / "m.parquet"
    out.write_bytes(b"mine")
    with pytest.raises(FileExistsError, match="overwrite"):
        medians(path, out)
    with pytest.raises(FileNotFoundError, match="no folder"):
        medians(path, tmp_path / "none" / "m.parquet")
    for wrong in (
        {"target_sum": 0},
        {"target_sum": 1e39},
        {"min_known_genes": 2},
        {"memory_budget": "10 B"},
        {"threads": 0},
        {"source": "counts"},
    ):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            medians(path, out, overwrite=True, **wrong)

    def stop(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", stop)
        with pytest.raises(KeyboardInterrupt):
            medians(path, out, overwrite=True)
    with pytest.raises(KeyboardInterrupt):
        medians(path, out, overwrite=True, progress=stop)
    assert out.read_bytes() == b"mine" and len(os.listdir(tmp_path)) == 2
    medians(path, out, overwrite=True)
    assert pq.read_table(out).num_rows and len(os.listdir(tmp_path)) == 2


def test_an_infinite_value_is_refused_with_its_row(tmp_path: Path) -> None:
    counts = counts_of(20, 5, seed=1)
    counts[13, 2] = np.inf
    with pytest.warns(scx_core.ScxWarning):
        path = written(annotated(counts, IDS[:5]), tmp_path / "a.scx")
    scx_core.mark_deleted(path, [0, 1])
    with pytest.raises(ValueError, match=r"a\.scx: row 13 holds an infinite value"):
        medians(path)


def test_a_file_that_is_written_to_meanwhile_is_noticed(tmp_path: Path) -> None:
    path = written(annotated(counts_of(20, 5, seed=1), IDS[:5]), tmp_path / "a.scx")

    def delete(done: int, total: int) -> None:
        if done == total // 3:
            scx_core.mark_deleted(path, [2])

    with pytest.raises(RuntimeError, match="changed meanwhile"):
        medians(path, progress=delete)


def test_progress_counts_the_cells_of_every_pass(tmp_path: Path) -> None:
    path = written(annotated(counts_of(20, 5, seed=1), IDS[:5]), tmp_path / "a.scx")
    calls: list[tuple[int, int]] = []
    medians(path, progress=lambda done, total: calls.append((done, total)))
    assert calls[-1] == (60, 60) and [done for done, _ in calls] == sorted(d for d, _ in calls)


def test_the_file_is_a_table_of_medians_for_rank_jobs(tmp_path: Path) -> None:
    counts = counts_of(30, 20, seed=11)
    path = written(annotated(counts, [f"{name}.2" for name in IDS[:20]]), tmp_path / "a.scx")
    found = medians(path, tmp_path / "m.parquet")
    out = tmp_path / "tokens"
    run("rank", path, out, gene_medians=tmp_path / "m.parquet", l_max=8, progress=False)
    statistics = dict(zip(found.gene_ids, found.medians, strict=True))
    columns = [column for column, name in enumerate(IDS[:20]) if name in statistics]
    stats = [statistics[IDS[column]] for column in columns]
    tokens = pq.read_table(out / "data")["input_ids"].to_pylist()
    # library sizes are the same, as the other genes are 0 everywhere
    expected_ranks = rank_tokens(sp.csr_matrix(counts[:, columns]), stats, 8, "any")
    for row, ids in enumerate(tokens):
        length = expected_ranks["lengths"][row]
        assert ids == expected_ranks["ids"][row * 8 : row * 8 + length].tolist()
