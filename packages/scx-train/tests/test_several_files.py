"""Several files as one data set, against anndata.concat and numpy."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anndata
import numpy as np
import pandas as pd
import pytest
import scanpy
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import scx_core
from scx_core._genes import join_genes, without_version
from scx_train import TrainingDataset


def counts(n_obs: int, n_vars: int, seed: int) -> sp.csr_matrix:
    rng = np.random.default_rng(seed)
    values = rng.geometric(0.4, (n_obs, n_vars)) * (rng.random((n_obs, n_vars)) < 0.4)
    return sp.csr_matrix(values.astype(np.float32))


def cells(n_obs: int, genes: list[str], seed: int, **obs: Any) -> anndata.AnnData:
    names = [f"file{seed}-cell{row}" for row in range(n_obs)]
    frame = pd.DataFrame(obs, index=names)
    adata = anndata.AnnData(
        counts(n_obs, len(genes), seed), obs=frame, var=pd.DataFrame(index=genes)
    )
    adata.obsm["X_pca"] = np.random.default_rng(seed).normal(size=(n_obs, 3)).astype(np.float32)
    return adata


Save = Callable[..., list[Path]]


@pytest.fixture
def save(tmp_path: Path) -> Save:
    def write(*adatas: anndata.AnnData, shard_size: int = 8) -> list[Path]:
        paths = [tmp_path / f"{number}.scx" for number in range(len(adatas))]
        for path, adata in zip(paths, adatas, strict=True):
            scx_core.from_anndata(adata, path, shard_size=shard_size, overwrite=True)
        return paths

    return write


def all_cells(dataset: TrainingDataset) -> dict[str, Any]:
    """One epoch, in the order of the rows."""
    batches = list(dataset)
    rows = np.concatenate([batch["cell_indices"] for batch in batches])
    order = np.argsort(rows, kind="stable")
    parts = [batch["X"] for batch in batches]
    whole = sp.vstack(parts).toarray() if sp.issparse(parts[0]) else np.concatenate(parts)
    return {
        "X": whole[order],
        "rows": rows[order],
        "file_ids": np.concatenate([batch["file_ids"] for batch in batches])[order],
        "batches": batches,
        "order": order,
    }


GENES = [f"g{number}" for number in range(12)]


def test_the_same_genes_stream_as_one(save: Save) -> None:
    adatas = [cells(n_obs, GENES, seed) for seed, n_obs in enumerate((31, 1, 20))]
    paths = save(*adatas)
    whole = anndata.concat(adatas)
    scanpy.pp.normalize_total(whole, target_sum=1e4)
    scanpy.pp.log1p(whole)
    with TrainingDataset(paths, 7, obsm=["X_pca"]) as dataset:
        assert dataset.n_obs == 52
        assert dataset.paths == tuple(map(str, paths))
        assert dataset.row_offsets.tolist() == [0, 31, 32, 52]
        assert dataset.var_names.tolist() == GENES
        assert dataset.gene_matches[1].share_known == 1
        first, second = all_cells(dataset), all_cells(dataset)
    assert first["rows"].tolist() == list(range(52))
    assert first["order"].tolist() != second["order"].tolist()
    np.testing.assert_allclose(first["X"], whole.X.toarray(), rtol=1e-5)
    assert first["file_ids"].tolist() == [0] * 31 + [1] + [2] * 20
    pca = np.concatenate([batch["obsm"]["X_pca"] for batch in first["batches"]])[first["order"]]
    np.testing.assert_array_equal(pca, whole.obsm["X_pca"])
    assert all(batch["measured"].all() for batch in first["batches"])
    assert first["batches"][0]["file_ids"].dtype == np.int32


def test_rows_of_the_files_themselves(save: Save) -> None:
    paths = save(cells(10, GENES, 0), cells(15, GENES, 1))
    with TrainingDataset(paths, 4) as dataset:
        for batch in dataset:
            own = batch["cell_indices"] - dataset.row_offsets[batch["file_ids"]]
            assert np.all(own >= 0)
            assert np.all(own < np.array([10, 15])[batch["file_ids"]])


def test_a_list_of_one_file_has_the_batches_of_the_file(save: Save) -> None:
    (path,) = save(cells(40, GENES, 0))
    with TrainingDataset(path, 8) as alone, TrainingDataset([path], 8) as listed:
        for one, other in zip(alone, listed, strict=True):
            np.testing.assert_array_equal(one["X"], other["X"])
            np.testing.assert_array_equal(one["cell_indices"], other["cell_indices"])
        assert alone.row_offsets.tolist() == listed.row_offsets.tolist() == [0, 40]
        assert alone.measured.tolist() == listed.measured.tolist() == [[True] * 12]
        assert "file_ids" not in next(iter(alone))


def test_files_with_few_values_a_row(save: Save) -> None:
    matrices = [np.zeros((6, 12), dtype=np.float32) for _ in range(3)]
    matrices[0][:, 4] = 2
    matrices[1][:, 3:8] = [1, 2, 3, 4, 5]
    adatas = [anndata.AnnData(sp.csr_matrix(m), var=pd.DataFrame(index=GENES)) for m in matrices]
    paths = save(*adatas)
    for order in ([0, 1, 2], [2, 0, 1]):
        chosen = [paths[number] for number in order]
        options = {"normalize": False, "log1p": False, "layout": "csr", "shuffle": False}
        with TrainingDataset(chosen, 18, **options) as dataset:
            (batch,) = list(dataset)
        expected = np.concatenate([matrices[number] for number in order])
        np.testing.assert_array_equal(batch["X"].toarray(), expected)
        per_row = [[1, 5, 0][number] for number in order for _ in range(6)]
        assert np.diff(batch["X"].indptr).tolist() == per_row
        assert batch["file_ids"].tolist() == [0] * 6 + [1] * 6 + [2] * 6


@pytest.mark.parametrize("layout", ["dense", "csr"])
@pytest.mark.parametrize("join", ["inner", "outer"])
def test_genes_by_name_as_anndata_concat_has_them(save: Save, join: Any, layout: Any) -> None:
    lists = [GENES, GENES[:9][::-1], [*GENES[3:], "only here"]]
    adatas = [cells(20, genes, seed) for seed, genes in enumerate(lists)]
    whole = anndata.concat(adatas, join=join)
    genes: Any = "intersection" if join == "inner" else "union"
    options: dict[str, Any] = {"normalize": False, "log1p": False, "layout": layout}
    with TrainingDataset(save(*adatas), 9, genes=genes, **options) as dataset:
        found = all_cells(dataset)
        names = dataset.var_names.tolist()
        measured = dataset.measured
        matches = dataset.gene_matches
    assert sorted(names) == sorted(whole.var_names)
    np.testing.assert_array_equal(found["X"], whole[:, names].X.toarray())
    for row, own in enumerate(lists):
        assert measured[row].tolist() == [name in own for name in names]
    assert [match.n_genes for match in matches] == [12, 9, 10]
    assert [match.n_known for match in matches] == [12, 9, 9]
    assert matches[2].share_known == pytest.approx(9 / 10)


def test_totals_are_over_all_genes_of_the_file(save: Save) -> None:
    adatas = [cells(12, GENES, 0), cells(12, [*GENES[5:], "h0", "h1"], 1)]
    with TrainingDataset(save(*adatas), 24, genes=["g7", "g6", "h1"], shuffle=False) as dataset:
        (batch,) = list(dataset)
        assert dataset.var_names.tolist() == ["g7", "g6", "h1"]
        assert batch["measured"].tolist() == [[True, True, False], [True, True, True]]
    for file, adata in enumerate(adatas):
        scanpy.pp.normalize_total(adata, target_sum=1e4)
        scanpy.pp.log1p(adata)
        frame = adata.to_df().reindex(columns=["g7", "g6", "h1"], fill_value=0)
        np.testing.assert_allclose(
            batch["X"][batch["file_ids"] == file], frame.to_numpy(), rtol=1e-5
        )


def test_a_panel_of_common_genes(save: Save) -> None:
    adatas = [cells(12, GENES, 0), cells(12, GENES[::-1], 1)]
    options: dict[str, Any] = {"normalize": False, "log1p": False, "shuffle": False}
    panel = [1, 4, 9]
    with TrainingDataset(
        save(*adatas), 24, genes="intersection", hvg_indices=panel, **options
    ) as dataset:
        (batch,) = list(dataset)
        assert dataset.var_names.tolist() == ["g1", "g4", "g9"]
        assert batch["measured"].shape == (2, 3)
    expected = np.concatenate([adata.to_df()[["g1", "g4", "g9"]] for adata in adatas])
    np.testing.assert_array_equal(batch["X"], expected)


def test_versions_of_ids_and_genes_that_meet(save: Save) -> None:
    first = ["ENSG00000000003.15", "ENSG00000000005.6", "ENSG00000000419", "AC012345.1"]
    second = ["ENSG00000000419.9", "ENSG00000000003", "ENSG00000000003.2", "AC012345.2"]
    adatas = [cells(9, first, 0), cells(9, second, 1)]
    options: dict[str, Any] = {"normalize": False, "log1p": False, "shuffle": False}
    with TrainingDataset(save(*adatas), 18, genes="intersection", **options) as dataset:
        (batch,) = list(dataset)
        assert dataset.var_names.tolist() == ["ENSG00000000003", "ENSG00000000419"]
        assert [match.n_merged for match in dataset.gene_matches] == [0, 1]
    one, two = (adata.X.toarray() for adata in adatas)
    expected = np.concatenate(
        [one[:, [0, 2]], np.stack([two[:, 1] + two[:, 2], two[:, 0]], axis=1)]
    )
    np.testing.assert_array_equal(batch["X"], expected)
    assert without_version("ENSMUSG00000000001.4") == "ENSMUSG00000000001"
    assert without_version("ENSG00000182378.14_PAR_Y") == "ENSG00000182378.14_PAR_Y"


def test_matching_by_a_column_of_var(save: Save) -> None:
    adatas = [cells(8, ["a", "b", "c"], 0), cells(8, ["x", "y", "z"], 1)]
    adatas[0].var["gene_ids"] = ["id1", "id2", "id3"]
    adatas[1].var["gene_ids"] = ["id3", "id2", "id9"]
    paths = save(*adatas)
    with TrainingDataset(paths, 16, genes="intersection", gene_key="gene_ids") as dataset:
        assert dataset.var_names.tolist() == ["id2", "id3"]
    with pytest.raises(KeyError, match=r"0\.scx has no var column 'symbols'; it has gene_ids"):
        TrainingDataset(paths, 16, genes="union", gene_key="symbols")


def test_labels_have_one_code_over_all_files(save: Save) -> None:
    first = pd.Categorical(["T", None, "B", "T"], categories=["T", "B", "unused"])
    second = pd.Categorical(["NK", "B", "B"], categories=["B", "NK"])
    adatas = [
        cells(4, GENES, 0, kind=first, donor=["d2", "d1", "d1", "d2"], age=[1, 2, 3, 4]),
        cells(3, GENES, 1, kind=second, donor=["d3", "d1", "d3"], age=[0.5, np.nan, 7]),
    ]
    columns = ["kind", "donor", "age"]
    with TrainingDataset(save(*adatas), 7, obs_columns=columns, shuffle=False) as dataset:
        (batch,) = list(dataset)
    assert batch["obs"]["kind"]["categories"] == ["T", "B", "unused", "NK"]
    assert batch["obs"]["kind"]["codes"].tolist() == [0, -1, 1, 0, 3, 1, 1]
    donors = batch["obs"]["donor"]
    labels = [donors["categories"][code] for code in donors["codes"]]
    assert labels == ["d2", "d1", "d1", "d2", "d3", "d1", "d3"]
    np.testing.assert_array_equal(batch["obs"]["age"], [1, 2, 3, 4, 0.5, np.nan, 7])
    assert batch["obs"]["age"].dtype == np.float64


@pytest.mark.parametrize("sampling", ["balance_by", "batch_by", "weights", "rows"])
def test_what_chooses_cells_reaches_over_all_files(save: Save, sampling: str) -> None:
    kinds = [["T"] * 20 + ["B"] * 10, ["B"] * 25 + ["NK"] * 5]
    paths = save(*(cells(30, GENES, n, kind=pd.Categorical(k)) for n, k in enumerate(kinds)))
    weights = np.zeros(60)
    weights[25:35] = 1
    chosen: Any = {
        "balance_by": "kind",
        "batch_by": "kind",
        "weights": weights,
        "rows": [3, 29, 30, 59],
    }[sampling]
    options: dict[str, Any] = {sampling: chosen, "obs_columns": ["kind"]}
    with TrainingDataset(paths, 10, **options) as dataset:
        batches = list(dataset)
    rows = np.concatenate([batch["cell_indices"] for batch in batches])
    if sampling == "weights":
        assert set(rows) <= set(range(25, 35))
    elif sampling == "rows":
        assert sorted(rows) == [3, 29, 30, 59]
    elif sampling == "batch_by":
        assert all(len(set(batch["obs"]["kind"]["codes"])) == 1 for batch in batches)
        assert sorted(rows) == list(range(60))
    else:
        assert len(rows) == 60


def test_ranks_workers_and_resuming(save: Save) -> None:
    paths = save(cells(33, GENES, 0), cells(40, GENES, 1))
    seen: list[int] = []
    for rank in range(2):
        for shard in range(2):
            options = {"rank": rank, "world_size": 2, "shard": shard, "num_shards": 2}
            with TrainingDataset(paths, 8, **options) as dataset:
                seen += [row for batch in dataset for row in batch["cell_indices"].tolist()]
    # four full batches for each rank, and a tail of nine cells that they divide
    assert sorted(seen) == list(range(73))
    with TrainingDataset(paths, 8) as dataset:
        iterator = iter(dataset)
        next(iterator)
        state = pickle.loads(pickle.dumps(dataset.state_dict()))
        rest = [batch["cell_indices"].tolist() for batch in iterator]
    with TrainingDataset(paths, 8) as again:
        again.load_state_dict(state)
        assert [batch["cell_indices"].tolist() for batch in again] == rest
    with TrainingDataset(paths[::-1], 8) as other, pytest.raises(ValueError, match="other files"):
        other.load_state_dict(state)


def test_pflog_over_files(save: Save) -> None:
    adatas = [cells(60, GENES, 0), cells(60, GENES[::-1], 1)]
    with TrainingDataset(save(*adatas), 120, pflog=True, genes="union", shuffle=False) as dataset:
        (batch,) = list(dataset)
        alpha = dataset.pflog_alpha
    whole = np.concatenate([adata.to_df()[GENES].to_numpy() for adata in adatas]).astype(float)
    mean, variance = whole.mean(axis=0), whole.var(axis=0, ddof=1)
    assert alpha == pytest.approx(np.sum(mean**2 * (variance - mean)) / np.sum(mean**4))
    logs = np.log1p(4 * alpha * whole)
    expected = logs - logs.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(batch["X"], expected, rtol=1e-4, atol=1e-5)


def test_closing_opens_the_files_again(save: Save) -> None:
    dataset = TrainingDataset(save(cells(9, GENES, 0), cells(9, GENES, 1)), 4)
    first = [batch["cell_indices"].tolist() for batch in dataset]
    dataset.close()
    assert dataset.closed
    assert len(list(dataset)) == len(first)
    assert "and 1 more" in repr(dataset)
    dataset.close()


def test_memory_budget_counts_all_maps(save: Save) -> None:
    paths = save(cells(9, GENES, 0), cells(90, GENES, 1))
    with TrainingDataset(paths, 4) as dataset:
        size = sum(path.stat().st_size for path in paths)
        assert dataset.memory_budget()["mmap_mb"] == pytest.approx(size / 2**20)


def test_a_file_without_cells_takes_no_part(save: Save) -> None:
    empty = anndata.AnnData(sp.csr_matrix((0, 12), dtype=np.float32), var=pd.DataFrame(index=GENES))
    first, second = cells(5, GENES, 0), cells(6, GENES, 1)
    del first.obsm["X_pca"], second.obsm["X_pca"]
    with TrainingDataset(save(first, empty, second), 4, shuffle=False) as dataset:
        ids = np.concatenate([batch["file_ids"] for batch in dataset])
    assert ids.tolist() == [0] * 5 + [2] * 6


def test_refusals_name_the_file_and_what_to_do(save: Save, tmp_path: Path) -> None:
    other = [*GENES[:-1], "other"]
    paths = save(cells(8, GENES, 0, kind=["a"] * 8), cells(8, other, 1), cells(8, GENES[::-1], 2))
    with pytest.raises(ValueError, match=r"1 of 12 genes of .*0\.scx .*'g11'.*genes=\"inter"):
        TrainingDataset(paths[:2])
    with pytest.raises(ValueError, match=r"2\.scx has those of .* another order .*gene 0 is 'g0'"):
        TrainingDataset([paths[0], paths[2]])
    with pytest.raises(KeyError, match=r"1\.scx.*kind"):
        TrainingDataset(paths[:2], genes="union", obs_columns=["kind"])
    with pytest.raises(ValueError, match="an empty list"):
        TrainingDataset([])
    with pytest.raises(ValueError, match="'intersection', 'union'"):
        TrainingDataset(paths, genes="inner")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="names 'g1' more than once"):
        TrainingDataset(paths, genes=["g1", "g2", "g1"])
    with pytest.raises(ValueError, match="give path as a list"):
        TrainingDataset(paths[0], genes="union")
    with pytest.raises(TypeError, match="a path or a list of paths, not int"):
        TrainingDataset(7)  # type: ignore[arg-type]
    with pytest.raises(FileNotFoundError):
        TrainingDataset([paths[0], tmp_path / "none.scx"])
    with pytest.raises(ValueError, match="from 0 to 1"):
        TrainingDataset(paths, genes="union", min_known_genes=2)


@pytest.mark.parametrize(("known", "passes"), [(0, False), (4, False), (5, True), (10, True)])
def test_a_file_that_knows_too_few_genes_is_refused(save: Save, known: int, passes: bool) -> None:
    symbols = [f"SYMBOL{number}" for number in range(10 - known)]
    paths = save(cells(8, GENES[:10], 0), cells(8, [*GENES[:known], *symbols], 1))
    if passes:
        with TrainingDataset(paths, genes="union") as dataset:
            assert dataset.gene_matches[1].share_known == known / 10
        return
    with pytest.raises(
        ValueError, match=rf"{known} of its 10 genes are in any other file, {known * 10}%"
    ):
        TrainingDataset(paths, genes="union")
    with TrainingDataset(paths, genes="union", min_known_genes=known / 10) as dataset:
        assert dataset.n_output_genes == 20 - known


@pytest.mark.parametrize("missing", [None, "", "nan"])
def test_genes_without_an_id_are_known_to_nobody(save: Save, missing: str | None) -> None:
    adatas = [cells(8, [f"{seed}-{place}" for place in range(40)], seed) for seed in range(2)]
    ids = [*["known", "too"], *[missing] * 38]
    for adata in adatas:
        adata.var["id"] = ids
    paths = save(*adatas)
    for genes in ("union", "intersection", ["known", "too", *GENES, *map(str, range(40))]):
        with pytest.raises(ValueError, match=r"0\.scx: 2 of its 40 genes (.|\n)*1\.scx: 2 of its"):
            TrainingDataset(paths, genes=genes, gene_key="id")  # type: ignore[arg-type]
    options: dict[str, Any] = {"gene_key": "id", "min_known_genes": 0, "normalize": False}
    with TrainingDataset(paths, genes="union", log1p=False, **options) as dataset:
        assert dataset.var_names.tolist() == ["known", "too"]
        assert [match.share_known for match in dataset.gene_matches] == [0.05, 0.05]
        whole = np.concatenate([adata.X.toarray()[:, :2] for adata in adatas])
        np.testing.assert_array_equal(all_cells(dataset)["X"], whole)
    with pytest.raises(ValueError, match=r"'id' of .*0\.scx has no id for 38 of its 40 genes"):
        TrainingDataset(paths, gene_key="id")


@settings(max_examples=150, deadline=None)
@given(
    lists=st.lists(st.lists(st.sampled_from("abcdefgh"), max_size=9), min_size=1, max_size=5),
    genes=st.one_of(
        st.sampled_from(["intersection", "union"]),
        st.lists(st.sampled_from("abcdxyz"), min_size=1, unique=True),
    ),
)
def test_maps_lead_each_gene_to_its_name(lists: list[list[str]], genes: Any) -> None:
    paths = [str(number) for number in range(len(lists))]
    arrays = [np.array(names, dtype=object) for names in lists]
    if genes == "union":
        wanted = list(dict.fromkeys(name for names in lists for name in names))
    elif genes == "intersection":
        common = set.intersection(*map(set, lists))
        wanted = [name for name in dict.fromkeys(lists[0]) if name in common]
    else:
        wanted = genes
    if not wanted:
        with pytest.raises(ValueError, match="leaves no gene"):
            join_genes(paths, arrays, genes=genes, min_known_genes=0)
        return
    joined = join_genes(paths, arrays, genes=genes, min_known_genes=0)
    assert joined.names.tolist() == wanted
    for row, (names, columns) in enumerate(zip(lists, joined.columns, strict=True)):
        found = list(range(len(names))) if columns is None else columns.tolist()
        expected = [wanted.index(name) if name in wanted else -1 for name in names]
        assert found == expected
        assert joined.measured[row].tolist() == [name in names for name in wanted]
        match = joined.matches[row]
        assert match.n_measured == len(set(names) & set(wanted))
        assert match.n_merged == sum(name in wanted for name in names) - match.n_measured
        others = set().union(*(lists[i] for i in range(len(lists)) if i != row))
        if isinstance(genes, str) and len(lists) > 1:
            assert match.n_known == sum(name in others for name in names)
            shares = [match.n_known / max(1, len(names))]
            shares.append(len(set(names) & others) / max(1, len(others)))
            assert match.share_known == pytest.approx(max(shares))
