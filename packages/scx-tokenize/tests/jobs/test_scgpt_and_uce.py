"""Jobs in the manner of scGPT and UCE, against numpy versions of what is published."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anndata
import numpy as np
import pytest
import scipy.sparse as sp
from job_samples import IDS, as_json, cells, ids_of, read_tokens, shard_bytes, tree, written

import scx_tokenize

SYMBOLS = [f"SYM{number}" for number in range(60)]
GENES = {name: number for number, name in enumerate(SYMBOLS[:50][::-1])}
VOCABULARY = GENES | {"<pad>": 100, "<cls>": 101, "<eoc>": 102}


def run(kernel: Any, inputs: Any, out: Path, **options: Any) -> dict[str, Any]:
    given = {"token_dictionary": VOCABULARY, "gene_key": "symbol"} | options
    return scx_tokenize.run(kernel, inputs, out, **given)


def in_token_order(adata: anndata.AnnData, *, only: list[str] | None = None) -> Any:
    """Counts of the genes that the vocabulary has, dense, and their tokens."""
    names = [name for name in GENES if only is None or name in only]
    columns = [SYMBOLS.index(name) for name in names]
    order = np.argsort([GENES[name] for name in names])
    return adata.X.toarray()[:, columns][:, order], np.sort([GENES[name] for name in names])


def binning(row: np.ndarray, n_bins: int) -> np.ndarray:
    """As published, with the lower bound of ties ("one side")."""
    result = np.zeros(len(row), dtype=int)
    positive = row[row > 0].astype(np.float64)
    if len(positive):
        edges = np.quantile(positive, np.linspace(0, 1, n_bins - 1))
        result[row > 0] = np.digitize(positive, edges)
    return result


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("suffix", [".scx", ".h5ad"])
def test_bins_and_genes_are_those_of_scgpt(tmp_path: Path, zeros: bool, suffix: str) -> None:
    adata = cells()
    path = written(adata, tmp_path / f"a{suffix}")
    options = {"tie": "left", "include_zero_genes": zeros}
    manifest = run("bin", path, tmp_path / "out", preset="scgpt", **options)
    dense, numbers = in_token_order(adata)
    frame = read_tokens(tmp_path / "out")
    for row, ids, values in zip(dense, frame["input_ids"], frame["values"], strict=True):
        binned = binning(row, 51)
        taken = np.arange(50) if zeros else np.flatnonzero(row)
        assert ids.tolist() == [101, *numbers[taken]]
        assert values.tolist() == [0, *binned[taken]]
    assert manifest["options"]["n_bins"] == 51
    assert manifest["special_token_ids"] == {"<pad>": 100, "<cls>": 101, "<eoc>": 102}
    assert manifest["counts"]["empty_cells"] == (0 if zeros else 4)


def test_ties_are_drawn_by_seed_file_and_row(tmp_path: Path, oracle: SimpleNamespace) -> None:
    adata = cells(density=0.9)
    adata.X.data = np.minimum(adata.X.data, 3)  # many ties
    path = written(adata, tmp_path / "a.scx")
    manifest = run("bin", path, tmp_path / "out", preset="scgpt", seed=5, shard_rows=7)
    dense, numbers = in_token_order(adata)
    matrix = sp.csr_matrix(dense)
    batch = (matrix.indptr, matrix.indices, matrix.data)
    identity = manifest["inputs"][0]["draw_identity"]
    expected = oracle.bins(batch, 51, tie="seeded", seed=5, file_identity=identity)
    frame = read_tokens(tmp_path / "out")
    found = np.concatenate([values[1:] for values in frame["values"]])
    assert found.tolist() == expected
    assert np.concatenate([ids[1:] for ids in frame["input_ids"]]).tolist() == (
        numbers[matrix.indices].tolist()
    )
    run("bin", path, tmp_path / "other", preset="scgpt", seed=6)
    other = np.concatenate([values[1:] for values in read_tokens(tmp_path / "other")["values"]])
    assert other.tolist() != expected


def test_genes_are_chosen_by_a_flag_or_a_list(tmp_path: Path) -> None:
    adata = cells()
    adata.var["highly_variable"] = np.arange(60) % 3 == 0
    path = written(adata, tmp_path / "a.scx")
    chosen = [name for number, name in enumerate(SYMBOLS) if number % 3 == 0]
    (tmp_path / "genes.txt").write_text("\n".join(chosen) + "\n", "utf-8")
    as_json(chosen, tmp_path / "genes.json")
    ways: dict[str, dict[str, Any]] = {
        "flag": {"gene_filter": "highly_variable"},
        "text": {"genes": tmp_path / "genes.txt"},
        "json": {"genes": tmp_path / "genes.json"},
        "list": {"genes": chosen},
    }
    dense, numbers = in_token_order(adata, only=chosen)
    for name, options in ways.items():
        run("bin", path, tmp_path / name, preset="scgpt", tie="left", **options)
        frame = read_tokens(tmp_path / name)
        for row, ids, values in zip(dense, frame["input_ids"], frame["values"], strict=True):
            stored = np.flatnonzero(row)
            assert ids.tolist() == [101, *numbers[stored]]
            assert values.tolist() == [0, *binning(row, 51)[stored]]
    before = tree(tmp_path)
    with pytest.raises(KeyError, match=r"a\.scx has no var column 'hvg'; it has symbol, highly"):
        run("bin", path, tmp_path / "out", gene_filter="hvg")
    with pytest.raises(ValueError, match=r"'symbol' of .* not true or false"):
        run("bin", path, tmp_path / "out", gene_filter="symbol")
    with pytest.raises(ValueError, match=r"genes names 2 genes, such as 'TP53', but the vocab"):
        run("bin", path, tmp_path / "out", genes=["TP53", "X"])
    assert tree(tmp_path) == before


def test_cells_with_too_many_genes_keep_a_drawn_subset(tmp_path: Path) -> None:
    adata = cells(200, density=0.8)
    path = written(adata, tmp_path / "a.scx")
    run("bin", path, tmp_path / "whole", preset="scgpt", tie="left")
    run("bin", path, tmp_path / "cut", preset="scgpt", tie="left", l_max=21)
    run("bin", path, tmp_path / "small", preset="scgpt", tie="left", l_max=21, shard_rows=33)
    whole, cut = read_tokens(tmp_path / "whole"), read_tokens(tmp_path / "cut")
    drawn = np.zeros(200)
    for row in range(200):
        bins = dict(zip(whole["input_ids"][row], whole["values"][row], strict=True))
        ids, values = cut["input_ids"][row].tolist(), cut["values"][row].tolist()
        assert len(ids) == min(21, len(bins))
        assert ids[0] == 101
        assert ids[1:] == sorted(set(ids[1:]))  # each once, in the order they had
        assert values == [bins[gene] for gene in ids]
        drawn[ids[1:]] += 1
    assert ids_of(tmp_path / "cut") == ids_of(tmp_path / "small")
    share = drawn[:50] / 200
    assert share.min() > 0.3 and share.max() < 0.7  # about 20 of 40, without favourites


def test_padding_fills_every_cell(tmp_path: Path) -> None:
    adata = cells()
    path = written(adata, tmp_path / "a.scx")
    run("bin", path, tmp_path / "plain", preset="scgpt", tie="left", l_max=60)
    run("bin", path, tmp_path / "padded", preset="scgpt", tie="left", l_max=60, pad=True)
    plain, padded = read_tokens(tmp_path / "plain"), read_tokens(tmp_path / "padded")
    assert plain["length"].tolist() == padded["length"].tolist()
    for row in range(50):
        n_own = plain["length"][row]
        for name, fill in (("input_ids", 100), ("values", -2)):
            assert padded[name][row].tolist() == [*plain[name][row], *[fill] * (60 - n_own)]


def test_special_tokens_that_scgpts_vocabulary_lacks_get_the_next_numbers(tmp_path: Path) -> None:
    path = written(cells(), tmp_path / "a.scx")
    manifest = run("bin", path, tmp_path / "out", preset="scgpt", token_dictionary=GENES)
    assert manifest["special_token_ids"] == {"<pad>": 50, "<cls>": 51}
    assert {ids[0] for ids in ids_of(tmp_path / "out")} == {51}


def test_values_are_normalised_by_all_genes_before_given_edges_cut_them(tmp_path: Path) -> None:
    adata = cells()
    path = written(adata, tmp_path / "a.scx")
    edges = [0.0, 5.0, 5.5, 6.0]
    run(
        "bin", path, tmp_path / "out", n_bins=5, edges=edges, transform="normalize_log1p",
        target_sum=1e4,
    )  # fmt: skip
    totals = adata.X.toarray().sum(axis=1)
    dense, numbers = in_token_order(adata)
    frame = read_tokens(tmp_path / "out")
    for row, total, ids, values in zip(
        dense, totals, frame["input_ids"], frame["values"], strict=True
    ):
        stored = np.flatnonzero(row)
        assert ids.tolist() == numbers[stored].tolist()
        scaled = np.log1p(row[stored] * 1e4 / max(total, 1))
        assert values.tolist() == np.digitize(scaled, edges).tolist()


def test_draws_are_those_of_uce_weights(tmp_path: Path, oracle: SimpleNamespace) -> None:
    adata = cells(30)
    path = written(adata, tmp_path / "a.scx")
    manifest = run("sample", path, tmp_path / "out", preset="uce", seed=3, shard_rows=8)
    dense, numbers = in_token_order(adata)
    matrix = sp.csr_matrix(dense)
    identity = manifest["inputs"][0]["draw_identity"]
    batch = (matrix.indptr, matrix.indices, matrix.data)
    expected = oracle.sample(batch, 1024, 3, identity)
    found = ids_of(tmp_path / "out")
    assert found == [numbers[np.array(row, dtype=int)].tolist() for row in expected]
    assert [len(row) for row in found].count(1024) == 26
    # many draws come in proportion to log1p(count)
    run("sample", path, tmp_path / "many", preset="uce", n=100_000)
    weights = np.log1p(dense[5])
    counted = np.bincount(ids_of(tmp_path / "many")[5], minlength=50)
    np.testing.assert_allclose(counted / 100_000, weights / weights.sum(), atol=5e-3)


def test_draws_follow_the_content_not_the_place(tmp_path: Path) -> None:
    adata = cells(30)
    (tmp_path / "elsewhere").mkdir()
    one = written(adata, tmp_path / "a.scx")
    two = written(adata, tmp_path / "elsewhere" / "b.scx")
    run("sample", one, tmp_path / "one", n=50)
    run("sample", two, tmp_path / "two", n=50)
    run("sample", two, tmp_path / "three", n=50, obs_filter="n_counts > 30")
    assert shard_bytes(tmp_path / "one") == shard_bytes(tmp_path / "two")
    whole, some = read_tokens(tmp_path / "one"), read_tokens(tmp_path / "three")
    for row, ids in zip(some["row_id"], some["input_ids"], strict=True):
        assert ids.tolist() == whole["input_ids"][row].tolist()


def test_without_a_dictionary_the_first_files_genes_are_numbered(tmp_path: Path) -> None:
    one = cells(20)
    two = cells(20, genes=IDS[::-1], seed=3)
    paths = [written(one, tmp_path / "a.scx"), written(two, tmp_path / "b.scx")]
    scx_tokenize.run("bin", paths, tmp_path / "out")
    dense = np.concatenate([one.X.toarray(), two.X.toarray()[:, ::-1]])
    assert ids_of(tmp_path / "out") == [np.flatnonzero(row).tolist() for row in dense]
