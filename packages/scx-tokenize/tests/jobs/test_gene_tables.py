"""Tables of genes in files: what is read, and what pickles may not do."""

from __future__ import annotations

import json
import os
import pickle
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from job_samples import as_json, cells, medians_of, tokens_of, written

import scx_tokenize
from scx_tokenize.jobs._gene_files import read_list, read_table

VALUES = ("median",)


def read(given: Any, *, allow_pickle: bool = False) -> dict[str, Any]:
    return dict(read_table(given, "gene_medians", values=VALUES, allow_pickle=allow_pickle))


def pickled(value: Any, path: Path, protocol: int = pickle.HIGHEST_PROTOCOL) -> Path:
    path.write_bytes(pickle.dumps(value, protocol))
    return path


def test_pickles_are_refused_unless_they_are_allowed(tmp_path: Path) -> None:
    path = pickled({"A": 1.5}, tmp_path / "medians.pkl")
    with pytest.raises(ValueError, match=r"medians\.pkl is a pickle.*allow_pickle=True"):
        read(path)
    assert read(path, allow_pickle=True) == {"A": 1.5}


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_dicts_of_texts_and_numbers_are_read(tmp_path: Path, protocol: int) -> None:
    plain = {"A": 1, "B": 2.5, "é": -7, "C": 2**70}
    of_numpy = {"A": np.float64(0.1), "B": np.float32(0.1), "C": np.int64(-5), "D": np.bool_(True)}
    for number, value in enumerate((plain, of_numpy, OrderedDict(plain))):
        path = pickled(value, tmp_path / f"{number}.pkl", protocol)
        assert read(path, allow_pickle=True) == dict(value)


class Shell:
    """A pickle that would run a command."""

    def __reduce__(self) -> Any:
        return os.system, ("touch owned",)


@pytest.mark.parametrize(
    "value",
    [
        {"A": Shell()},
        defaultdict(Shell, {"A": 1}),
        {"A": np.array([1, 2])},
        {"A": np.datetime64("2020-01-01")},
        {"A": Path("x")},
        {"A": eval},
    ],
)
def test_everything_else_in_pickles_is_refused_and_runs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    for protocol in (0, 2, pickle.HIGHEST_PROTOCOL):
        path = pickled(value, tmp_path / "bad.pkl", protocol)
        with pytest.raises(ValueError, match=r"bad\.pkl cannot be read as a pickled dict"):
            read(path, allow_pickle=True)
    assert [one.name for one in tmp_path.iterdir()] == ["bad.pkl"]


def test_pickles_by_hand_reach_no_function(tmp_path: Path) -> None:
    for number, text in enumerate(
        (
            b"cos\nsystem\n(S'true'\ntR.",
            b"cnumpy\nload\n(S'x'\ntR.",
            b"cbuiltins\ngetattr\n(cbuiltins\ndict\nS'get'\ntR.",
            b"c_codecs\nencode\n(S'x'\nS'zip'\ntR.",
            b"",
            b"\x80\x04]\x94.",
        )
    ):
        path = tmp_path / f"{number}.pkl"
        path.write_bytes(text)
        with pytest.raises(ValueError, match=rf"{number}\.pkl"):
            read(path, allow_pickle=True)


def test_parquet_columns_are_found_by_type_or_name(tmp_path: Path) -> None:
    frames = {
        "two": pd.DataFrame({"x": ["A", "B"], "y": [1.0, 2.0]}),
        "named": pd.DataFrame({"n": [7, 7], "median": [1.0, 2.0], "gene_id": ["A", "B"], "s": "z"}),
        "labels": pd.DataFrame({"gene": pd.Categorical(["A", "B"]), "median": [1, 2]}),
        "gaps": pd.DataFrame({"gene": ["A", "C", "B"], "median": [1.0, None, 2.0]}),
    }
    for name, frame in frames.items():
        frame.to_parquet(tmp_path / f"{name}.parquet")
        assert read(tmp_path / f"{name}.parquet") == {"A": 1, "B": 2}, name
    pd.DataFrame({"gene": ["A", "A"], "median": [1.0, 2.0]}).to_parquet(tmp_path / "twice.parquet")
    with pytest.raises(ValueError, match=r"twice\.parquet has the gene 'A' more than once"):
        read(tmp_path / "twice.parquet")


def test_other_files_are_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{")
    (tmp_path / "a.parquet").write_text("{")
    (tmp_path / "a.csv").write_text("A,1")
    (tmp_path / "deep.json").write_text("[" * 100_000)
    as_json([1, 2], tmp_path / "list.json")
    as_json({}, tmp_path / "empty.json")
    for name, message in {
        "a.json": r"a\.json is no JSON",
        "a.parquet": r"a\.parquet cannot be read as Parquet",
        "a.csv": r"a\.csv is of no known kind: expected are \.json, \.parquet",
        "deep.json": r"deep\.json is no table: it is nested too deep",
        "list.json": r"list\.json holds list, not an entry for each gene",
        "empty.json": r"empty\.json is empty",
    }.items():
        with pytest.raises(ValueError, match=message):
            read(tmp_path / name)
    with pytest.raises(FileNotFoundError, match=r"gene_medians: there is no file .*none\.json"):
        read(tmp_path / "none.json")
    with pytest.raises(ValueError, match="has the key 3; names of genes are text"):
        read({3: 1.0})


def test_lists_of_genes(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("A\n\n B \n", "utf-8")
    assert read_list(tmp_path / "a.txt", "genes") == ["A", "B"]
    assert read_list(as_json(["A"], tmp_path / "a.json"), "genes") == ["A"]
    assert read_list(np.array(["A", "B"]), "genes") == ["A", "B"]  # type: ignore[arg-type]
    for wrong in ([1], [], as_json({"A": 1}, tmp_path / "b.json")):
        with pytest.raises(ValueError, match="genes"):
            read_list(wrong, "genes")  # type: ignore[arg-type]


def test_a_mark_in_front_of_a_text_is_no_part_of_its_first_gene(tmp_path: Path) -> None:
    genes, table = tmp_path / "genes.txt", tmp_path / "table.json"
    genes.write_text("A\nB\n", "utf-8-sig")
    table.write_text('{"A": 1.5}', "utf-8-sig")
    assert read_list(genes, "genes") == ["A", "B"]
    genes.write_bytes(b"\xff\x00")
    with pytest.raises(ValueError, match=r"genes: .*genes\.txt is no text in UTF-8"):
        read_list(genes, "genes")
    assert read(table) == {"A": 1.5}


def test_a_gene_that_stands_twice_is_refused_in_json_too(tmp_path: Path) -> None:
    path = tmp_path / "table.json"
    path.write_text('{"B": 1, "A": 1.5, "C": 2, "A": 2}')
    with pytest.raises(ValueError, match=r"table\.json has 'A' more than once"):
        read(path)


def test_tables_in_each_others_place_are_refused(tmp_path: Path) -> None:
    path = written(cells(10), tmp_path / "a.scx")
    given = {"token_dictionary": tokens_of(), "gene_medians": medians_of()}
    for options, message in (
        ({"gene_medians": tokens_of()}, "gene_medians: it has the special token '<pad>'"),
        (
            {"gene_synonyms": medians_of()},
            "gene_synonyms: '.*' has .*ids to take in place are text",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            scx_tokenize.run("rank", path, tmp_path / "out", **given | options)
        assert not (tmp_path / "out").exists()


def test_a_total_that_nothing_is_scaled_to_is_refused(tmp_path: Path) -> None:
    path = written(cells(10), tmp_path / "a.scx")
    with pytest.raises(
        ValueError, match=r"target_sum=5\.0 does not apply to transform='log1p_raw'"
    ):
        scx_tokenize.run("bin", path, tmp_path / "out", target_sum=5.0, transform="log1p_raw")
    scx_tokenize.run("bin", path, tmp_path / "out", target_sum=5.0, transform="normalize_log1p")


def test_genes_without_an_id_get_no_token(tmp_path: Path) -> None:
    adata = cells(20)
    adata.var["id"] = [*[f"gene {place}" for place in range(40)], *[None, "nan", "", "<NA>"] * 5]
    path = written(adata, tmp_path / "a.h5ad")
    scx_tokenize.run("bin", path, tmp_path / "out", gene_key="id")
    dictionary = json.loads((tmp_path / "out" / "token_dictionary.json").read_text())
    assert dictionary == {f"gene {place}": place for place in range(40)}


def test_genes_without_an_id_are_unknown_also_to_the_vocabulary_of_their_own_file(
    tmp_path: Path,
) -> None:
    adata = cells(20)
    names = [f"gene {place}" for place in range(adata.n_vars)]
    adata.var["id"] = names
    full = written(adata, tmp_path / "full.scx")
    adata.var["id"] = [*names[:6], *[""] * 54]
    gaps = written(adata, tmp_path / "gaps.scx")
    for inputs in (gaps, [gaps, full]):
        with pytest.raises(ValueError, match=r"gaps\.scx: 6 of its 60 genes .* 54 of .* no id"):
            scx_tokenize.run("bin", inputs, tmp_path / "out", gene_key="id")
    manifest = scx_tokenize.run(
        "bin", [gaps, full], tmp_path / "out", gene_key="id", min_known_genes=0.1
    )
    assert [entry["share_known"] for entry in manifest["inputs"]] == [0.1, 0.1]


def test_all_faulty_inputs_are_named_at_once(tmp_path: Path) -> None:
    good = written(cells(10), tmp_path / "good.scx")
    (tmp_path / "text.scx").write_text("not a file of counts, but a text")
    (tmp_path / "cut.scx").write_bytes(good.read_bytes()[:5000])
    damaged = [good, tmp_path / "text.scx", tmp_path / "cut.scx"]
    missing = [tmp_path / "gone.scx", good, tmp_path / "none.scx"]
    runs: list[Callable[[list[Path]], object]] = [
        lambda inputs: scx_tokenize.run("bin", inputs, tmp_path / "out"),
        lambda inputs: scx_tokenize.medians(inputs, tmp_path / "medians.parquet"),
    ]
    for run in runs:
        with pytest.raises(ValueError, match=r"text\.scx(?s:.*)\n.*cut\.scx"):
            run(damaged)
        with pytest.raises(FileNotFoundError, match=r"gone\.scx(?s:.*)\n.*none\.scx"):
            run(missing)
    assert not (tmp_path / "out").exists()
