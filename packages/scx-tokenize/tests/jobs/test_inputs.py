"""Which inputs a job takes, and how it refuses them: file, key and what is there are named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from job_samples import IDS, cells, ids_of, medians_of, read_tokens, tokens_of, tree, written

import scx_core
import scx_tokenize


def run(inputs: Any, out: Path, **options: Any) -> dict[str, Any]:
    given = {"token_dictionary": tokens_of(), "gene_medians": medians_of()} | options
    return scx_tokenize.run("rank", inputs, out, **given)


def refused(
    folder: Path, error: type[Exception], message: str, inputs: Any, **options: Any
) -> None:
    before = tree(folder)
    with pytest.raises(error, match=message):
        run(inputs, folder / "out", **options)
    assert tree(folder) == before


def test_several_files_and_formats_follow_each_other(tmp_path: Path) -> None:
    parts = [cells(30, seed=1), cells(20, seed=2), cells(40, seed=3)]
    names = ["b.scx", "a.h5ad", "c.scx"]
    paths = [written(one, tmp_path / name) for one, name in zip(parts, names, strict=True)]
    run(paths, tmp_path / "listed")
    frame = read_tokens(tmp_path / "listed")
    assert frame["file_id"].tolist() == [0] * 30 + [1] * 20 + [2] * 40
    assert frame["row_id"].tolist() == [*range(30), *range(20), *range(40)]
    run(tmp_path / "*.scx", tmp_path / "found")
    expected = frame[frame["file_id"] != 1]["input_ids"]
    assert ids_of(tmp_path / "found") == [ids.tolist() for ids in expected]
    run([tmp_path], tmp_path / "folder")
    assert len(ids_of(tmp_path / "folder")) == 90


@pytest.mark.parametrize("form", ["csc", "dense", "gzip", "unsorted"])
def test_an_h5ad_in_any_form_gives_the_same_tokens(tmp_path: Path, form: str) -> None:
    adata = cells(200, seed=4)
    expected = run(written(adata, tmp_path / "a.scx"), tmp_path / "scx", shard_rows=64)
    path = tmp_path / "b.h5ad"
    if form == "csc":
        adata.X = sp.csc_matrix(adata.X)
    elif form == "dense":
        adata.X = adata.X.toarray()
    elif form == "unsorted":
        adata.X = unsorted(adata.X)
    adata.write_h5ad(path, compression="gzip" if form == "gzip" else None)
    found = run(path, tmp_path / "h5ad", shard_rows=64)
    assert ids_of(tmp_path / "h5ad") == ids_of(tmp_path / "scx")
    assert found["counts"] == expected["counts"]
    assert not (tmp_path / "h5ad" / "turned").exists()


def unsorted(matrix: sp.csr_matrix) -> sp.csr_matrix:
    """The same rows, backwards, with each value in two halves."""
    dense = matrix.toarray()
    indices, data, indptr = [], [], [0]
    for row in dense:
        genes = np.flatnonzero(row)[::-1]
        indices += [*genes, *genes]
        data += [*(row[genes] / 2), *(row[genes] / 2)]
        indptr.append(len(indices))
    result = sp.csr_matrix(dense.shape, dtype=np.float32)
    result.indices, result.indptr = np.array(indices, np.int32), np.array(indptr, np.int32)
    result.data = np.array(data, np.float32)
    return result


def test_deleted_cells_are_left_out_and_rows_keep_their_numbers(tmp_path: Path) -> None:
    path = written(cells(20), tmp_path / "a.scx")
    run(path, tmp_path / "all")
    scx_core.mark_deleted(path, np.array([0, 3, 19]))
    run(path, tmp_path / "live", obs_columns=["cell_name"])
    every, live = read_tokens(tmp_path / "all"), read_tokens(tmp_path / "live")
    kept = [row for row in range(20) if row not in (0, 3, 19)]
    assert live["row_id"].tolist() == kept
    assert live["cell_name"].tolist() == [f"s0c{row}" for row in kept]
    for row, ids in zip(kept, live["input_ids"], strict=True):
        assert ids.tolist() == every["input_ids"][row].tolist()


@pytest.mark.parametrize("suffix", [".scx", ".h5ad"])
def test_layers_and_raw_are_chosen_by_name(tmp_path: Path, suffix: str) -> None:
    adata = cells(20)
    adata.raw = adata
    adata.layers["counts"] = adata.X.copy()
    adata.X = sp.csr_matrix(np.log1p(adata.X.toarray()) * 7)
    path = written(adata, tmp_path / f"a{suffix}")
    with pytest.warns(UserWarning, match="X holds values that are no whole numbers.*'raw' or"):
        run(path, tmp_path / "X", preset="geneformer-v1")
    for source in ("raw", "layers/counts"):
        run(path, tmp_path / source.replace("/", "_"), preset="geneformer-v1", source=source)
    assert ids_of(tmp_path / "raw") == ids_of(tmp_path / "layers_counts") != ids_of(tmp_path / "X")
    refused(tmp_path, KeyError, r"no layer 'x'; it has X, layers/counts", path, source="layers/x")
    refused(tmp_path, ValueError, "source='layer' must be 'X', 'raw' or", path, source="layer")


@pytest.mark.parametrize(("n_known", "allowed"), [(0, False), (24, False), (60, True)])
def test_too_few_known_genes_are_refused_with_the_share(
    tmp_path: Path, n_known: int, allowed: bool
) -> None:
    genes = [*IDS[:n_known], *[f"SYM{number}" for number in range(60 - n_known)]]
    adata = cells(genes=genes)
    adata.var["gene_ids"] = IDS
    path = written(adata, tmp_path / "a.scx")
    if allowed:
        manifest = run(path, tmp_path / "out")
        assert manifest["inputs"][0]["share_known"] == 1.0
        return
    message = rf"a\.scx: {n_known} of its 60 genes.*{n_known * 100 // 60}%.*min_known_genes=0\.5"
    refused(tmp_path, ValueError, message, path)
    refused(tmp_path, ValueError, "'symbol', 'gene_ids'", path)
    run(path, tmp_path / "out", gene_key="gene_ids")
    if n_known:
        manifest = run(path, tmp_path / "out2", min_known_genes=0.3)
        assert manifest["inputs"][0]["share_known"] == pytest.approx(0.4)


def test_a_key_missing_in_one_of_three_files_is_named(tmp_path: Path) -> None:
    parts = [cells(10, seed=seed) for seed in range(3)]
    del parts[1].obs["cell_type"], parts[1].obs["n_counts"]
    parts[1].layers["counts"] = parts[1].X
    parts[2].var["ensembl"] = IDS
    paths = [written(one, tmp_path / f"{number}.scx") for number, one in enumerate(parts)]
    refused(
        tmp_path, KeyError, r"1\.scx has no obs column 'cell_type'; it has score, donor", paths,
        obs_columns=["donor", "cell_type"],
    )  # fmt: skip
    refused(
        tmp_path, ValueError, r"fails for .*1\.scx: .*n_counts.* columns are score, donor", paths,
        obs_filter="n_counts > 3",
    )  # fmt: skip
    refused(
        tmp_path, KeyError, r"0\.scx has no var column 'ensembl'; it has symbol", paths,
        gene_key="ensembl",
    )  # fmt: skip
    refused(
        tmp_path, KeyError, r"0\.scx has no layer 'counts'; it has X", paths,
        source="layers/counts",
    )  # fmt: skip


def test_inputs_that_match_nothing_say_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "notes.txt").write_text("x")
    path = written(cells(5), tmp_path / "data" / "one.scx")
    refused(
        tmp_path, ValueError, r"pattern .*part-\*\.scx has no .*holds notes\.txt, one\.scx",
        tmp_path / "data" / "part-*.scx",
    )  # fmt: skip
    refused(tmp_path, ValueError, r"1 entries, but none is a", str(tmp_path / "data" / "*.txt"))
    refused(tmp_path, FileNotFoundError, r"no file .*two\.scx; .*holds", tmp_path / "data/two.scx")
    refused(tmp_path, ValueError, r"inputs name .*one\.scx twice", [path, str(path)])
    refused(tmp_path, ValueError, "inputs is empty", [])
    # as of a variable of a shell that is not set: not the current folder
    refused(tmp_path, ValueError, "inputs: an empty text names no file", ["", path])
    with pytest.raises(ValueError, match="out: an empty text names no file"):
        scx_tokenize.run("sample", path, "")
    with pytest.raises(ValueError, match="out: an empty text names no file"):
        scx_tokenize.medians(path, "")
    refused(
        tmp_path,
        ValueError,
        r"notes\.txt looks like a file of no kind",
        tmp_path / "data/notes.txt",
    )
    (tmp_path / "empty").mkdir()
    refused(tmp_path, ValueError, "folder .*empty has no .* it is empty", tmp_path / "empty")


def test_genes_that_nothing_knows_are_told_whatever_the_share(tmp_path: Path) -> None:
    path = written(cells(5, genes=["a", "b"]), tmp_path / "a.scx")
    message = r"a\.scx: the vocabulary has none of its genes"
    refused(tmp_path, ValueError, message, path, min_known_genes=0)


def test_a_filter_that_no_cell_meets_is_refused(tmp_path: Path) -> None:
    paths = [written(cells(10, seed=seed), tmp_path / f"{seed}.scx") for seed in range(2)]
    message = r"obs_filter='n_counts > 1e9' keeps no cell of .*0\.scx, .*1\.scx"
    refused(tmp_path, ValueError, message, paths, obs_filter="n_counts > 1e9")


@pytest.mark.parametrize("suffix", [".scx", ".h5ad"])
def test_filters_are_queries_of_pandas(tmp_path: Path, suffix: str) -> None:
    adata = cells(120)
    path = written(adata, tmp_path / f"a{suffix}")
    run(path, tmp_path / "all")
    every = read_tokens(tmp_path / "all")
    for number, query in enumerate(
        ("cell_type == 'B' and n_counts >= 100", "donor in ['d0', 'd2']", "`score` < 0.1")
    ):
        out = tmp_path / f"out{number}"
        run(path, out, obs_filter=query, shard_rows=16, obs_columns=["score"])
        frame = read_tokens(out)
        kept = np.flatnonzero(adata.obs.index.isin(adata.obs.query(query).index))
        assert frame["row_id"].tolist() == kept.tolist()
        assert [ids.tolist() for ids in frame["input_ids"]] == [
            every["input_ids"][row].tolist() for row in kept
        ]
        np.testing.assert_array_equal(frame["score"], adata.obs["score"].to_numpy()[kept])
    refused(tmp_path, ValueError, "gives values of int64", path, obs_filter="n_counts + 1")
    refused(tmp_path, ValueError, "with @", path, obs_filter="n_counts > @x")


def test_columns_of_obs_keep_their_values_and_clash_by_name(tmp_path: Path) -> None:
    adata = cells(30)
    adata.obs["gap"] = np.where(np.arange(30) % 2, 1.5, np.nan)
    adata.obs["flag"] = np.arange(30) > 4
    other = cells(10, seed=1)
    other.obs["gap"] = 7
    other.obs["flag"] = False
    paths = [written(adata, tmp_path / "a.scx"), written(other, tmp_path / "b.h5ad")]
    names = ["cell_type", "n_counts", "gap", "flag", "cell_name"]
    run(paths, tmp_path / "out", obs_columns=names)
    frame = read_tokens(tmp_path / "out")
    assert frame["cell_type"].tolist() == [*adata.obs["cell_type"], *other.obs["cell_type"]]
    assert frame["n_counts"].tolist() == [*adata.obs["n_counts"], *other.obs["n_counts"]]
    assert frame["flag"].tolist() == [*adata.obs["flag"], *[False] * 10]
    np.testing.assert_array_equal(frame["gap"], [*adata.obs["gap"], *[7.0] * 10])
    assert frame["cell_name"].tolist() == [*adata.obs_names, *other.obs_names]
    other.obs["flag"] = "yes"
    paths[1] = written(other, tmp_path / "c.h5ad")
    refused(
        tmp_path, ValueError, r"'flag' is bool in .*a\.scx and string in .*c\.h5ad", paths,
        obs_columns=["flag"],
    )  # fmt: skip
    refused(tmp_path, ValueError, "'length' cannot be kept", paths, obs_columns=["length"])
