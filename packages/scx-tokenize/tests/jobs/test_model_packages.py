"""Tokens against the code of the models' own packages, where it is there.

    pip install --no-deps --target FOLDER scgpt==0.2.4 uce-model==0.1.4 helical==2.2.0
    SCX_MODEL_PACKAGES=FOLDER python -m pytest packages/scx-tokenize/tests -k model_packages

Geneformer itself is in no package index; helical holds its tokeniser. Of each package one module is
loaded alone, and in place of what it imports beside numpy, scanpy and torch stands an empty module.
Draws are compared by giving the models' code the uniform numbers of our generator.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import pickle
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import anndata
import numpy as np
import pytest
import scipy.sparse as sp
from job_samples import IDS, as_json, cells, medians_of, read_tokens, tokens_of, written

import scx_tokenize
from scx_core.experiment import Experiment
from scx_tokenize.jobs._inputs import content_identity

FOLDER = "SCX_MODEL_PACKAGES"


def module_of(package: str, file: str, monkeypatch: pytest.MonkeyPatch, *stubs: str) -> Any:
    """A module of a package, without what the package imports."""
    folder = os.environ.get(FOLDER)
    path = Path(folder, package, file) if folder else None
    if path is None:
        found = importlib.util.find_spec(package)
        path = Path(next(iter(found.submodule_search_locations or [""])), file) if found else None
    if path is None or not path.is_file():
        pytest.skip(f"{package} is not installed, and {FOLDER} names no folder with it")
    for name in ("torch", "scanpy", "datasets"):
        pytest.importorskip(name)
    for name in stubs:
        stub = ModuleType(name)
        stub.__dict__.update(logger=logging.getLogger(name), Vocab=object, __path__=[])
        monkeypatch.setitem(sys.modules, name, stub)
    # under the package's name, for what the module imports from beside itself
    spec = importlib.util.spec_from_file_location(f"{package}.{file[:-3].replace('/', '.')}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def counted(n_obs: int = 60, *, seed: int = 4) -> anndata.AnnData:
    """Cells without the empty ones, which the models' code divides by zero for."""
    adata = cells(n_obs, seed=seed)
    return adata[np.asarray(adata.X.sum(axis=1)).ravel() > 0].copy()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("preset", ["geneformer-v1", "geneformer-v2"])
def test_geneformer(tmp_path: Path, preset: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Genes of one id are left out: helical's version of the code fails for them."""
    theirs = module_of("helical", "models/geneformer/geneformer_tokenizer.py", monkeypatch)
    tokens, medians = tokens_of(), medians_of()
    adata = counted()
    ids = IDS[:-4] + [f"other{n}" for n in range(4)]
    adata.var["ensembl_id"] = ids
    tables = {
        "gene_median_file": medians,
        "token_dictionary_file": tokens,
        "gene_mapping_file": {name: name for name in IDS},
    }
    for name, table in tables.items():
        (tmp_path / name).write_bytes(pickle.dumps(table))
    tokeniser = theirs.TranscriptomeTokenizer(
        model_input_size=16,
        special_token=preset == "geneformer-v2",
        chunk_size=25,
        **{name: tmp_path / name for name in tables},
    )
    given = adata.copy()
    given.obs["n_counts"] = np.asarray(given.X.sum(axis=1)).ravel()
    expected = tokeniser.create_dataset(*tokeniser.tokenize_anndata(given))["input_ids"]
    scx_tokenize.run(
        "rank",
        written(adata, tmp_path / "a.scx"),
        tmp_path / "out",
        preset=preset,
        l_max=16,
        token_dictionary=tokens,
        gene_medians=medians,
        gene_key="ensembl_id",
    )
    found = [row.tolist() for row in read_tokens(tmp_path / "out")["input_ids"]]
    assert found == [list(row) for row in expected]


def uniforms_of(oracle: SimpleNamespace, tag: bytes, path: Path, row: int, n: int) -> Any:
    """What the generator of a row draws."""
    identity = int.from_bytes(bytes.fromhex(content_identity(str(path)))[:8], "little")
    return oracle.uniforms(oracle.row_stream(7, tag, identity, row), n)


@pytest.mark.parametrize("zeros", [False, True])
def test_scgpt(
    tmp_path: Path,
    zeros: bool,
    oracle: SimpleNamespace,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bins = module_of("scgpt", "preprocess.py", monkeypatch, "scgpt")
    stubs = ("scgpt", "scgpt.tokenizer", "torchtext", "torchtext.vocab")
    tokeniser = module_of("scgpt", "tokenizer/gene_tokenizer.py", monkeypatch, *stubs)
    adata = counted()
    path = written(adata, tmp_path / "a.scx")
    names = list(adata.var_names)
    vocabulary = {name: number for number, name in enumerate(names)} | {"<pad>": 60, "<cls>": 61}
    rows = []
    for number, row in enumerate(adata.X.toarray()):
        drawn = uniforms_of(oracle, b"SCXTKBIN", path, number, np.count_nonzero(row))
        monkeypatch.setattr(np.random, "rand", lambda n, drawn=drawn: drawn[:n])
        rows.append(bins.binning(row, 51))
    expected = tokeniser.tokenize_batch(
        np.stack(rows),
        np.array([vocabulary[name] for name in names]),
        return_pt=False,
        append_cls=True,
        include_zero_gene=zeros,
        cls_id=vocabulary["<cls>"],
    )
    scx_tokenize.run(
        "bin",
        path,
        tmp_path / "out",
        preset="scgpt",
        token_dictionary=as_json(vocabulary, tmp_path / "vocab.json"),
        include_zero_genes=zeros,
        seed=7,
    )
    frame = read_tokens(tmp_path / "out")
    for found, values, (genes, theirs, _) in zip(
        frame["input_ids"], frame["values"], expected, strict=True
    ):
        assert found.tolist() == genes.tolist()
        assert values.tolist() == theirs.tolist()


def test_uce(tmp_path: Path, oracle: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = module_of("uce", "eval_data.py", monkeypatch)
    import torch

    adata = counted(20)
    adata.X = sp.csr_matrix(adata.X * 3)
    path = written(adata, tmp_path / "a.scx")
    n_draws, chosen = 200, list[Any]()

    def choice(places: Any, size: int, p: Any, *, replace: bool) -> Any:
        """As numpy's, from other uniform numbers."""
        assert replace and size == n_draws
        cdf = np.cumsum(p.astype(np.float64))
        drawn = uniforms_of(oracle, b"SCXTKSMP", path, len(chosen), size)
        chosen.append(places[np.searchsorted(cdf / cdf[-1], drawn, "right")])
        return chosen[-1]

    monkeypatch.setattr(np.random, "choice", choice)
    n_genes = adata.n_vars
    arguments = SimpleNamespace(
        pad_length=n_draws + 4, sample_size=n_draws, cls_token_idx=0, pad_token_idx=0,
        CHROM_TOKEN_OFFSET=0, chrom_token_right_idx=0, chrom_token_left_idx=0,
    )  # fmt: skip
    for row in adata.X.toarray().astype(np.int64):
        counts = torch.tensor(row).unsqueeze(0)
        weights = torch.log1p(counts)
        theirs.sample_cell_sentences(
            counts, weights / torch.sum(weights), "a", arguments,
            {"a": torch.arange(n_genes)}, {"a": np.zeros(n_genes, int)}, {"a": np.arange(n_genes)},
        )  # fmt: skip
    scx_tokenize.run("sample", path, tmp_path / "out", preset="uce", n=n_draws, seed=7)
    with Experiment(path) as experiment:
        assert experiment.n_obs == len(chosen)
    found = np.stack(read_tokens(tmp_path / "out")["input_ids"].to_list())
    # their weights are float32
    assert np.mean(found == np.stack(chosen)) > 0.999
