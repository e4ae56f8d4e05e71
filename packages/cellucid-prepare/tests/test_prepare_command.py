"""The command `cellucid-prepare`: what it writes, prints and answers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from prepare_reading import read, written
from prepare_samples import cell_names, complete, small
from test_inputs import adata, multimodal

import cellucid_prepare
from cellucid_prepare._cli import main
from cellucid_prepare._commands.words import with_options
from cellucid_prepare._options import prepare_parser

COMMAND = [sys.executable, "-m", "cellucid_prepare"]
NAMED = ["--id", "a", "--name", "A"]


def test_formats_by_suffix(capsys: pytest.CaptureFixture[str]) -> None:
    adata().write_h5ad("in.h5ad")
    for target in ("out.h5ad", "out.zarr", "out.zarr.zip"):
        assert main(["in.h5ad", target, *NAMED]) == 0
        assert f"{target}: " in capsys.readouterr().out
    expected = cellucid_prepare.prepare(
        "other.h5ad", format="h5ad", data="in.h5ad", dataset_id="a", dataset_name="A"
    )
    assert Path("out.h5ad").read_bytes() == expected.read_bytes()
    assert main(["in.h5ad", "three.zarr", "--zarr-format", "3", "--quiet", *NAMED]) == 0
    assert capsys.readouterr() == ("", "")
    assert Path("three.zarr/zarr.json").is_file()


def test_every_argument_has_an_option() -> None:
    import inspect

    options = {action.dest for action in prepare_parser()._actions}
    elsewhere = {"out_path": "target", "data": "source", "progress": "quiet", "force": "overwrite"}
    for name in inspect.signature(cellucid_prepare.prepare).parameters:
        assert elsewhere.get(name, name) in options, name


def test_options_become_arguments() -> None:
    given = complete()
    written("h5ad", "expected", **{**given, "gene_identifiers": ["S3", "S1"]})
    given["obs"].drop(columns=["gap", "flag_gap"]).to_csv("obs.csv")
    given["obs"].to_parquet("obs.parquet")
    given["var"].to_parquet("var.parquet")
    sp.save_npz("x.npz", given["gene_expression"])
    sp.save_npz("graph.npz", given["connectivities"])
    for key, array in given["embeddings"].items():
        np.save(f"{key}.npy", array)
    np.save("velocity.npy", given["vector_fields"]["velocity"]["X_umap"])
    Path("genes.txt").write_text("S3\nS1\n")
    adata().write_h5ad("in.h5ad")
    code = main(
        [
            "in.h5ad", "out.h5ad", "--id", "complete", "--name", "All of it",
            "--description", "Every kind of column", "--citation-text", "Somebody (2026)",
            "--citation-url", "https://example.org/paper", "--source-name", "Somewhere",
            "--source-url", "http://example.org", "--obs", "obs.parquet", "--var", "var.parquet",
            "--gene-expression", "x.npz", "--connectivities", "graph.npz",
            "--embeddings", "X_umap=X_umap.npy,X_pca=X_pca.npy",
            "--vector-fields", "velocity:X_umap=velocity.npy", "--latent-key", "X_pca",
            "--centroid-min-points", "3", "--embedding-defaults", "2d=X_pca:2,0",
            "--obs-keys", "label", "--obs-keys", "number", "--var-gene-id-column", "symbol",
            "--vector-field-default", "velocity", "--no-normalize-embeddings",
            "--gene-identifiers", "@genes.txt", "--threads", "1", "--format", "h5ad", "--quiet",
        ]
    )  # fmt: skip
    assert code == 0
    assert Path("out.h5ad").read_bytes() == Path("expected.h5ad").read_bytes()


def test_layers_and_members_of_the_input_are_chosen_by_name() -> None:
    data = adata()
    data.layers["twice"] = data.X * 2
    data.write_h5ad("in.h5ad")
    # a list takes in no file that follows
    code = main([*NAMED, "--layer", "twice", "--embeddings", "X_pca", "in.h5ad", "out.h5ad"])
    assert code == 0
    back = read(Path("out.h5ad"))
    assert list(back.obsm) == ["X_pca"] and (back.X != data.X * 2).nnz == 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        several = multimodal()
        several["rna"].layers["twice"] = several["rna"].X * 2
        several.write("in.h5mu")
    code = main(["in.h5mu", "rna.h5ad", "--modalities", "rna", "--layer", "twice", *NAMED])
    assert code == 0
    expected = several["rna"][several.obs_names].layers["twice"]
    assert (read(Path("rna.h5ad")).X != expected).nnz == 0


def test_tables_keep_what_looks_like_a_missing_name() -> None:
    table = pd.DataFrame({"n": ["NA", "nan", "x", "x", "", "x"]}, index=cell_names())
    table.to_csv("obs.tsv", sep="\t")
    adata()[:6].copy().write_h5ad("in.h5ad")
    assert main(["in.h5ad", "out.h5ad", "--obs", "obs.tsv", *NAMED]) == 0
    back = read(Path("out.h5ad")).obs["n"]
    assert back.tolist()[:4] == ["NA", "nan", "x", "x"] and back.isna().tolist()[4]


def test_labels_that_look_like_numbers_stay_text() -> None:
    data = adata()[:3].copy()
    data.obs_names = ["1", "01", "001"]
    data.write_h5ad("in.h5ad")
    Path("obs.csv").write_text(
        "cell,donor,plate,depth,long\n"
        "001,007,1,30,12345678901234567\n"
        "1,007,,10,\n"
        "01,010,2,20.5,12345678901234568\n"
    )
    assert main(["in.h5ad", "out.h5ad", "--obs", "obs.csv", *NAMED]) == 0
    back = read(Path("out.h5ad")).obs
    assert back.index.tolist() == ["1", "01", "001"]
    assert back["donor"].tolist() == ["007", "010", "007"]
    assert back["depth"].tolist() == [10, 20.5, 30]
    assert back["plate"].isna().tolist() == [True, False, False]
    assert back["plate"].tolist()[1:] == [2, 1]
    assert back["long"].tolist()[1:] == ["12345678901234568", "12345678901234567"]


def test_a_note_names_what_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    data = adata()
    data.layers["counts"] = data.layers["spliced"] = data.X.copy()
    data.raw = data.copy()
    data.varm["PCs"] = np.ones((data.n_vars, 2))
    data.varp["links"] = sp.eye(data.n_vars, format="csr")
    data.obsp["distances"] = sp.eye(data.n_obs, format="csr")
    data.obsm["scores"] = pd.DataFrame({"a": np.ones(data.n_obs)}, index=data.obs_names)
    data.uns.update({"neighbors": {"k": 1}, "label_colors": ["#ff0000"]})
    data.write_h5ad("in.h5ad")
    assert main(["in.h5ad", "out.h5ad", "--layer", "counts", *NAMED]) == 0
    said = " ".join(capsys.readouterr().err.split())
    for part in (
        "layers (spliced)", "raw (X, var)", "obsm (scores)", "obsp (distances)", "varm (PCs)",
        "varp (links)", "uns (neighbors)", "colours in uns (label_colors) are left out",
    ):  # fmt: skip
        assert part in said, part
    assert main(["out.h5ad", "again.h5ad"]) == 0
    assert "left out" not in capsys.readouterr().err


def test_help_says_what_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    said = " ".join(capsys.readouterr().out.split())
    for part in ("Left out are layers", "raw", "other graphs", "varm", "varp", "uns", "_colors"):
        assert part in said


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ([], 2, "required: IN, OUT"),
        (["in.h5ad", "out.txt", *NAMED], 2, "end it in .h5ad"),
        (["in.h5ad", "out.h5ad", "--threads", "x"], 2, "--threads"),
        (["in.h5ad", "out.h5ad", *NAMED, "--embeddings", "=a.npy"], 2, "KEY=FILE"),
        (["in.h5ad", "out.h5ad", *NAMED, "--obs", "t.xlsx"], 2, ".parquet"),
        (["in.h5ad", "out.h5ad", *NAMED, "--obs", "t.csv"], 1, "no file t.csv"),
        (["in.h5ad", "out.h5ad"], 1, "--id: is missing; pass --id '...'"),
        (["in.h5ad", "cut.h5ad", *NAMED], 1, "pass --overwrite"),
        (["in.h5ad", "in.h5ad", *NAMED, "--overwrite"], 1, "OUT: "),
        (["in.h5ad", "in.h5ad", *NAMED, "--force"], 1, "in.h5ad is the file that is read"),
        (["in.h5ad", "out.zarr", "--format", "h5ad", *NAMED], 1, "does not end in .h5ad"),
        (["nothing.h5ad", "out.h5ad", *NAMED], 1, "no file or folder nothing.h5ad"),
        (["text.txt", "out.h5ad", *NAMED], 1, "IN: 'text.txt' looks like"),
        (["in.h5ad", "out.h5ad", *NAMED, "--layer", "counts"], 1, "layers['counts']"),
        (["cut.h5ad", "out.h5ad", *NAMED], 1, "cut.h5ad"),
    ],
)
def test_exit_codes_and_messages(
    arguments: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    adata().write_h5ad("in.h5ad")
    before = Path("in.h5ad").read_bytes()
    Path("text.txt").write_text("x")
    Path("cut.h5ad").write_bytes(before[: len(before) // 2])
    if code == 2:
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert ended.value.code == 2
    else:
        assert main(arguments) == 1
    said = capsys.readouterr().err
    assert message in said and "Traceback" not in said
    assert not list(Path().glob("*out*")) and Path("in.h5ad").read_bytes() == before


def test_an_input_without_embeddings(capsys: pytest.CaptureFixture[str]) -> None:
    data = adata()
    data.obsm.clear()
    data.write_h5ad("in.h5ad")
    assert main(["in.h5ad", "out.h5ad", *NAMED]) == 1
    said = capsys.readouterr().err
    assert "obsm: the data holds no embedding" in said
    assert "or pass --embeddings X_umap=FILE.npy. Nothing was written" in said
    np.save("umap.npy", np.zeros((data.n_obs, 2)))
    assert main(["in.h5ad", "out.h5ad", *NAMED, "--embeddings", "X_umap=umap.npy"]) == 0


def test_several_modalities_into_a_file_for_one(capsys: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        multimodal().write("in.h5mu")
    assert main(["in.h5mu", "out.h5ad", *NAMED]) == 1
    assert "or pass --modalities with the name of one" in capsys.readouterr().err


@pytest.mark.parametrize("has_matrix", [True, False])
def test_progress_counts_to_its_end(has_matrix: bool) -> None:
    told: list[tuple[int, int]] = []
    given = small()
    if not has_matrix:
        del given["gene_expression"]
        given.pop("var", None)
    written("h5ad", **given, progress=lambda done, total: told.append((done, total)))
    total = told[0][1]
    assert total > 0 and {in_all for _, in_all in told} == {total}
    done = [count for count, _ in told]
    assert done == sorted(done) and done[-1] == total


def test_a_bar_says_what_it_counts(capsys: pytest.CaptureFixture[str]) -> None:
    written("zarr2", **small(), progress=True)
    said = capsys.readouterr().err
    assert "100%" in said and "parts" in said and "rows" not in said


def test_as_a_module() -> None:
    for module in ("cellucid_prepare", "scx_core"):
        command = [sys.executable, "-m", module, "--version"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0 and cellucid_prepare.__version__ in done.stdout, done.stderr
    adata().write_h5ad("in.h5ad")
    command = [sys.executable, "-m", "cellucid_prepare"]
    done = subprocess.run([*command, "in.h5ad", "out.h5ad", *NAMED], capture_output=True, text=True)
    assert done.returncode == 0 and "out.h5ad: " in done.stdout, done.stderr
    done = subprocess.run([*command, "check", "in.h5ad"], capture_output=True, text=True)
    assert done.returncode == 1 and "not ready" in done.stdout
    done = subprocess.run([*command, "nothing.h5ad", "o.h5ad", *NAMED], capture_output=True)
    assert done.returncode == 1 and done.stderr.startswith(b"cellucid-prepare: error: ")


@pytest.mark.skipif(os.name == "nt", reason="ends by signal")
@pytest.mark.parametrize(
    ("number", "code", "again"),
    [(signal.SIGINT, 130, None), (signal.SIGTERM, 143, None), (signal.SIGINT, 130, 0.003)],
)
def test_ending_it_leaves_nothing(number: int, code: int, again: float | None) -> None:
    """Also where it is ended again and again while it clears up."""
    big = sp.random(30_000, 300, 0.3, format="csr", random_state=0, dtype=np.float32)
    import anndata

    anndata.AnnData(
        big, obsm={"X_umap": np.zeros((30_000, 2))}, var=pd.DataFrame(index=map(str, range(300)))
    ).write_h5ad("in.h5ad")
    process = subprocess.Popen(
        [*COMMAND, "in.h5ad", "new/out.zarr", *NAMED, "--threads", "2"],
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60
    while not list(Path().glob("new/.out.zarr.*.tmp/X/data/*")):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.001)
    process.send_signal(number)
    while again is not None and process.poll() is None:
        time.sleep(again)
        process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert process.returncode == code, said
    assert said == ("cellucid-prepare: interrupted\n" if code == 130 else "")
    assert sorted(path.name for path in Path().iterdir()) == ["in.h5ad"]


def test_words() -> None:
    assert with_options("pass overwrite=True to replace it") == "pass --overwrite to replace it"
    assert with_options("pass dataset_id='...'") == "pass --id '...'"
    assert with_options("as format='h5ad' does") == "as --format 'h5ad' does"
    assert with_options("obs['force'] is data") == "obs['force'] is data"


def test_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    for option, text in (("--version", cellucid_prepare.__version__), ("--help", "check FILE")):
        with pytest.raises(SystemExit) as ended:
            main([option])
        assert ended.value.code == 0 and text in capsys.readouterr().out
