"""Slots of a ranking: those for genes that a vocabulary lacks, and more than memory has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from job_samples import IDS, cells, geneformer, ids_of, medians_of, tokens_of, written

import scx_tokenize
from scx_tokenize.jobs import _tokens as job_tokens

KNOWN = IDS[::2]
MEDIANS = medians_of(KNOWN)


def job(path: Path, out: Path, **options: Any) -> list[list[int]]:
    tables = {"token_dictionary": tokens_of(), "gene_medians": MEDIANS}
    scx_tokenize.run("rank", path, out, **(tables | options))
    return ids_of(out)


@pytest.mark.parametrize("suffix", [".scx", ".h5ad"])
def test_jobs_rank_what_the_vocabulary_does_not_know(tmp_path: Path, suffix: str) -> None:
    adata = cells(400)
    path = written(adata, tmp_path / f"a{suffix}")
    expected = geneformer(adata, tokens_of(), MEDIANS, size=2048, special=False)
    assert job(path, tmp_path / "out") == expected


@pytest.mark.parametrize("times", [2.0**-60, 2.0**-3, 1, 2.0**6, 2.0**24, 2.0**90])
def test_tokens_do_not_depend_on_where_the_stand_in_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: float
) -> None:
    adata = cells(60)
    dense = adata.X.toarray()
    dense[5] = np.where(np.arange(len(IDS)) % 2, 60_000, 1)  # far more of what is unknown
    dense[6] = np.where(np.arange(len(IDS)) % 2, 2**26, 1)
    adata.X = sp.csr_matrix(dense)
    path = written(adata, tmp_path / "a.scx")
    monkeypatch.setattr(job_tokens, "STAND_IN_TIMES", np.float32(times))
    for size in (2048, len(KNOWN), len(KNOWN) - 1, 7, 1):
        expected = geneformer(adata, tokens_of(), MEDIANS, size=size, special=False)
        assert job(path, tmp_path / f"{size}", l_max=size) == expected


def test_any_medians_have_a_stand_in(tmp_path: Path) -> None:
    adata = cells(60)
    path = written(adata, tmp_path / "a.scx")
    for number, scale in enumerate((1e-37, 1e-20, 1e20, 1e28)):
        medians = {name: scale * median for name, median in MEDIANS.items()}
        expected = geneformer(adata, tokens_of(), medians, size=20, special=False)
        # keys may be beyond float32, but they have to be told apart here
        options = {"gene_medians": medians, "target_sum": 1e4 * min(scale, 1), "l_max": 20}
        assert job(path, tmp_path / f"{number}", **options) == expected


@pytest.mark.parametrize(
    ("kernel", "options", "message"),
    [
        ("rank", {"l_max": 2**20, "pad": True}, "l_max=1048576 .* 2 threads takes 34.4 GB"),
        ("bin", {"l_max": 2**20, "pad": True}, "l_max=1048576 for 1024 cells"),
        ("sample", {"n": 2**20}, "n=1048576 .* takes 34.4 GB, .* 10.0 GB .*: take a smaller n"),
        ("rank", {"l_max": 2**20 + 1}, "l_max must be <= 1048576"),
    ],
)
def test_slots_beyond_memory_are_refused_before_anything_is_written(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kernel: Any,
    options: dict[str, Any],
    message: str,
) -> None:
    monkeypatch.setattr("scx_core._memory.memory_bytes", lambda: 10**10)
    path = written(cells(60), tmp_path / "a.scx")
    tables: dict[str, Any] = {"token_dictionary": tokens_of()}
    if kernel == "rank":
        tables["gene_medians"] = MEDIANS
    with pytest.raises(ValueError, match=message):
        scx_tokenize.run(kernel, path, tmp_path / "out", threads=2, **tables, **options)
    assert not (tmp_path / "out").exists()


def test_no_more_slots_than_genes_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slots = []

    def spied(*args: Any, **kwargs: Any) -> Any:
        slots.append(args[4])
        return scx_tokenize.rank_tokens(*args, **kwargs)

    monkeypatch.setattr(job_tokens, "rank_tokens", spied)
    adata = cells(60)
    path = written(adata, tmp_path / "a.scx")
    expected = geneformer(adata, tokens_of(), MEDIANS, size=2048, special=False)
    assert job(path, tmp_path / "out", l_max=2**20) == expected
    assert slots == [len(KNOWN) + 1]
