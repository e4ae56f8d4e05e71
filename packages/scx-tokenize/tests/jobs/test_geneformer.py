"""Rank jobs against Geneformer's tokenisation as published, in numpy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from job_samples import (
    IDS,
    as_json,
    cells,
    geneformer,
    ids_of,
    medians_of,
    read_tokens,
    tokens_of,
    written,
)

import scx_tokenize

PRESETS = [("geneformer-v1", False), ("geneformer-v2", True)]


def run(inputs: Any, out: Path, **options: Any) -> dict[str, Any]:
    given = {"token_dictionary": tokens_of(), "gene_medians": medians_of()} | options
    return scx_tokenize.run("rank", inputs, out, **given)


@pytest.mark.parametrize(("preset", "special"), PRESETS)
@pytest.mark.parametrize("suffix", [".scx", ".h5ad"])
def test_tokens_are_those_of_the_published_steps(
    tmp_path: Path, preset: str, special: bool, suffix: str
) -> None:
    adata = cells()
    path = written(adata, tmp_path / f"a{suffix}")
    manifest = run(path, tmp_path / "out", preset=preset)
    size = 4096 if special else 2048
    expected = geneformer(adata, tokens_of(), medians_of(), size=size, special=special)
    assert ids_of(tmp_path / "out") == expected
    assert manifest["options"] == {"l_max": size, "target_sum": 10_000.0}
    assert manifest["counts"]["empty_cells"] == 3
    frame = read_tokens(tmp_path / "out")
    assert frame["length"].tolist() == [len(ids) for ids in expected]
    assert frame["row_id"].tolist() == list(range(50))


@pytest.mark.parametrize(("preset", "special"), PRESETS)
@pytest.mark.parametrize("l_max", [5, 30, 62])
def test_cells_are_cut_before_special_tokens_come(
    tmp_path: Path, preset: str, special: bool, l_max: int
) -> None:
    adata = cells(density=0.9)
    path = written(adata, tmp_path / "a.scx")
    run(path, tmp_path / "out", preset=preset, l_max=l_max)
    expected = geneformer(adata, tokens_of(), medians_of(), size=l_max, special=special)
    assert ids_of(tmp_path / "out") == expected
    assert max(map(len, expected)) == min(l_max, 60 + 2 * special)


@pytest.mark.parametrize("suffix", [".scx", ".h5ad"])
def test_versions_collapse_and_unknown_genes_count_for_the_total(
    tmp_path: Path, suffix: str
) -> None:
    genes = [f"{IDS[0]}.3", *IDS[1:40], f"{IDS[0]}.7", f"{IDS[5]}.1", *[f"X{n}" for n in range(18)]]
    adata = cells(genes=genes, density=0.7)
    path = written(adata, tmp_path / f"a{suffix}")
    manifest = run(path, tmp_path / "out", preset="geneformer-v1")
    expected = geneformer(adata, tokens_of(), medians_of(), size=2048, special=False)
    assert ids_of(tmp_path / "out") == expected
    (entry,) = manifest["inputs"]
    assert (entry["genes"], entry["known_genes"], entry["merged_genes"]) == (60, 42, 2)


def test_order_of_the_files_genes_does_not_matter_also_for_ties(tmp_path: Path) -> None:
    adata = cells()
    ones = dict.fromkeys(IDS, 1.0)
    shuffled = adata[:, np.random.default_rng(5).permutation(60)].copy()
    for name, one in {"a": adata, "b": shuffled}.items():
        path = written(one, tmp_path / f"{name}.scx")
        run(path, tmp_path / name, preset="geneformer-v1", gene_medians=ones)
    expected = geneformer(adata, tokens_of(), ones, size=2048, special=False)
    assert ids_of(tmp_path / "a") == ids_of(tmp_path / "b") == expected


def test_ids_come_from_the_column_and_synonyms_are_taken(tmp_path: Path) -> None:
    adata = cells()
    adata.var["ensembl_id"] = [*IDS[:58], "OLD1", "OLD2"]
    adata.var_names = [f"gene{number}" for number in range(60)]
    path = written(adata, tmp_path / "a.h5ad")
    synonyms = as_json({"OLD1": IDS[58], "OLD2": IDS[0]}, tmp_path / "synonyms.json")
    options = {"gene_key": "ensembl_id", "gene_synonyms": synonyms}
    run(path, tmp_path / "out", preset="geneformer-v1", **options)
    ids = [*IDS[:59], IDS[0]]
    expected = geneformer(adata, tokens_of(), medians_of(), size=2048, special=False, ids=ids)
    assert ids_of(tmp_path / "out") == expected


def test_tables_are_read_from_json_and_parquet(tmp_path: Path) -> None:
    path = written(cells(), tmp_path / "a.scx")
    tokens, medians = tokens_of(), medians_of()
    as_json(tokens, tmp_path / "tokens.json")
    table = pd.DataFrame({"gene": list(medians), "median": list(medians.values()), "n": 3})
    table.to_parquet(tmp_path / "medians.parquet")
    run(path, tmp_path / "one", preset="geneformer-v1")
    run(
        path,
        tmp_path / "two",
        preset="geneformer-v1",
        token_dictionary=tmp_path / "tokens.json",
        gene_medians=tmp_path / "medians.parquet",
    )
    assert ids_of(tmp_path / "one") == ids_of(tmp_path / "two")
    one, two = (json.loads((tmp_path / o / "manifest.json").read_text()) for o in ("one", "two"))
    assert one["job_identity"] == two["job_identity"]
    pq.write_table(
        pa.table({"a": ["x"], "b": ["y"], "c": [1.0], "d": [2]}), tmp_path / "odd.parquet"
    )
    with pytest.raises(ValueError, match=r"odd\.parquet has the columns a \(string\), b"):
        run(path, tmp_path / "three", gene_medians=tmp_path / "odd.parquet")


def test_a_gene_that_is_next_to_nothing_beside_unknown_ones(tmp_path: Path) -> None:
    adata = cells(4, genes=[IDS[0], IDS[1], "UNKNOWN"])
    adata.X = sp.csr_matrix(np.array([[1e-3, 3, 1e7], [0, 0, 5], [2, 0, 0], [0, 0, 0]], "f4"))
    path = written(adata, tmp_path / "a.scx")
    medians = {IDS[0]: 1e30, IDS[1]: 1.0}
    tokens = {IDS[0]: 5, IDS[1]: 9}
    with pytest.warns(UserWarning, match="no whole numbers"):
        scx_tokenize.run(
            "rank",
            path,
            tmp_path / "out",
            preset="geneformer-v1",
            token_dictionary={**tokens, "<pad>": 0},
            gene_medians=medians,
        )
    assert ids_of(tmp_path / "out") == [[9, 5], [], [5], []]


def test_missing_tables_special_tokens_and_wrong_entries_are_named(tmp_path: Path) -> None:
    path = written(cells(), tmp_path / "a.scx")
    out = tmp_path / "out"
    without_eos = {name: number for name, number in tokens_of().items() if name != "<eos>"}
    cases: list[tuple[str, dict[str, Any]]] = [
        (r"gene_medians: it is needed for 'rank'", {"gene_medians": None}),
        (r"no special token '<eos>'.*'<pad>', '<mask>', '<cls>'", {
            "preset": "geneformer-v2", "token_dictionary": without_eos}),
        (r"'ENSG00000000003' has 0\.0; medians are numbers above 0", {
            "gene_medians": {**medians_of(), IDS[3]: 0.0}}),
        (r"gives 4 to both 'A' and 'B'", {
            "token_dictionary": {"A": 4, "B": 4}, "gene_medians": {"A": 1, "B": 1}}),
        (r"'ENSG00000000003' has 1\.5; tokens are whole numbers", {
            "token_dictionary": {**tokens_of(), IDS[3]: 1.5}}),
        (r"no gene is both in token_dictionary", {"gene_medians": {"TP53": 1.0}}),
        (r"both 'ENSG00000000003' and 'ENSG00000000003\.2'", {
            "gene_medians": {**medians_of(), f"{IDS[3]}.2": 1.0}}),
        (r"n_bins=51 does not apply to 'rank'", {"n_bins": 51}),
        (r"preset 'scgpt' is of 'bin', not of 'rank'", {"preset": "scgpt"}),
        (r"preset='geneformer' must be one of 'geneformer-v1'", {"preset": "geneformer"}),
        (r"l_max must be >= 3", {"preset": "geneformer-v2", "l_max": 2}),
    ]  # fmt: skip
    for message, options in cases:
        with pytest.raises(ValueError, match=message):
            run(path, out, **options)
        assert not out.exists()
