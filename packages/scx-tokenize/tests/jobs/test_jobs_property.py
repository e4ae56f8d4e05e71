"""Whole jobs over any small files against loops in numpy, through every form and interruption.

Cells are read from the AnnData that was written, and everything is done again from what the page on
tokens says: matching of genes, sums, filter, kernels, cut, special tokens, padding.
"""

from __future__ import annotations

import re
import tempfile
import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from job_samples import read_tokens, shard_bytes

import scx_core
import scx_tokenize
from published_draws import splitmix64
from scx_tokenize.jobs import _running

NAMES = [*(f"ENSG0000000000{number}" for number in range(1, 8)), "AC0.1", "βγ", "a b", "x/y"]
VERSIONED = ["ENSG00000000001.4", "ENSG00000000002.17", "AC0.2", "ENSG00000000003.1_PAR_Y"]
VALUES = [0, 1, 1, 1, 2, 3, 4, 5, 7, 9, 255, 65536, 0.5, 0.25, -3, -0.5, float("nan"), 1e-30, 1e6]
SPECIAL = {"<pad>": 100, "<cls>": 101, "<eos>": 102}
FILTER = "n >= 2 and group != 'b'"
FORMS = ["scx", "h5ad", "csc", "dense"]


@dataclass(frozen=True)
class Case:
    """What a job is asked for."""

    files: tuple[anndata.AnnData, ...]
    forms: tuple[str, ...]
    deleted: tuple[tuple[int, ...], ...]
    kernel: Any
    vocabulary: dict[str, int]
    medians: dict[str, float]
    filtered: bool
    options: dict[str, Any]
    shard_rows: int
    stops_at: int


@st.composite
def any_file(draw: st.DrawFn) -> anndata.AnnData:
    """Sizes are Hypothesis's, contents are random: it would mostly try tiny ones."""
    n_obs, n_vars = draw(st.integers(1, 12)), draw(st.integers(1, 14))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    ids = rng.choice(NAMES + VERSIONED, n_vars)
    ids[0] = draw(st.sampled_from(NAMES))
    dense = rng.choice(VALUES, (n_obs, n_vars)).astype(np.float32)
    dense[rng.random(n_obs) < draw(st.sampled_from([0, 0.3]))] = 0  # empty cells
    dense[:, rng.random(n_vars) < draw(st.sampled_from([0, 0.3]))] = 0  # and genes
    return anndata.AnnData(
        sp.csr_matrix(dense),
        obs=pd.DataFrame(
            {"n": np.arange(n_obs) % 5, "group": rng.choice(list("abc"), n_obs)},
            index=[f"c{n}" for n in range(n_obs)],
        ),
        var=pd.DataFrame({"id": ids}, index=[f"v{n}" for n in range(n_vars)]),
    )


@st.composite
def any_case(draw: st.DrawFn) -> Case:
    files = draw(st.lists(any_file(), min_size=1, max_size=2))
    # mostly all, seldom none that a file has
    few = st.lists(st.sampled_from(NAMES), min_size=1, unique=True)
    genes = draw(st.sampled_from([NAMES, NAMES, NAMES[:8]]) | few)
    kernel = draw(st.sampled_from(["rank", "bin", "sample"]))
    options: dict[str, Any] = {
        "cls": draw(st.sampled_from([None, "<cls>"])),
        "eos": draw(st.sampled_from([None, "<eos>"])),
        "pad": draw(st.booleans()),
    }
    if kernel != "sample":
        options["l_max"] = draw(st.integers(3, 7))
    if kernel != "rank":
        options["seed"] = draw(st.integers(0, 2**64 - 1))
    if kernel == "bin":
        options["n_bins"] = draw(st.integers(3, 9))
        options["tie"] = draw(st.sampled_from(["left", "right", "seeded"]))
        options["include_zero_genes"] = draw(st.booleans())
    elif kernel == "sample":
        options["n"] = draw(st.integers(1, 8))
        options["weight"] = draw(st.sampled_from(["log1p", "linear"]))
    deleted = tuple(
        tuple(draw(st.lists(st.integers(0, one.n_obs - 1), unique=True, max_size=4)))
        for one in files
    )
    return Case(
        files=tuple(files),
        forms=tuple(draw(st.sampled_from(FORMS)) for _ in files),
        deleted=deleted,
        kernel=kernel,
        vocabulary={name: number for number, name in enumerate(draw(st.permutations(genes)))},
        medians={name: draw(st.sampled_from([0.5, 1.0, 1.0, 3.0])) for name in genes},
        filtered=draw(st.booleans()),
        options=options,
        shard_rows=draw(st.integers(1, 5)),
        stops_at=draw(st.integers(0, 4)),
    )


def written(case: Case, folder: Path) -> list[Path]:
    paths = []
    for number, (adata, form) in enumerate(zip(case.files, case.forms, strict=True)):
        path = folder / f"{number}{'.scx' if form == 'scx' else '.h5ad'}"
        copy = adata.copy()
        if form == "csc":
            copy.X = sp.csc_matrix(copy.X)
        elif form == "dense":
            copy.X = copy.X.toarray()
        if form == "scx":
            scx_core.from_anndata(copy, path, progress=False)
            if case.deleted[number]:
                scx_core.mark_deleted(path, np.array(case.deleted[number]))
        else:
            copy.write_h5ad(path)
        paths.append(path)
    return paths


def cells_of(case: Case, number: int) -> list[int]:
    """Rows that are taken of a file."""
    obs = case.files[number].obs
    gone = case.deleted[number] if case.forms[number] == "scx" else ()
    return [
        row
        for row, (n, group) in enumerate(zip(obs["n"], obs["group"], strict=True))
        if row not in gone and not (case.filtered and (n < 2 or group == "b"))
    ]


def plain(name: str) -> str:
    return re.sub(r"^(ENSG\d{11})\.\d+$", r"\1", name)


def at_places(adata: anndata.AnnData, row: int, order: Sequence[str]) -> tuple[Any, float]:
    """Values at the vocabulary's places, and the cell's total."""
    sums: dict[int, float] = {}
    total = 0.0
    values = adata.X.toarray()[row].astype(np.float64)
    for name, value in zip(map(plain, adata.var["id"]), values, strict=True):
        value = value if value > 0 else 0.0
        total += value
        if name in order:
            place = order.index(name)
            sums[place] = sums.get(place, 0.0) + value
    places = sorted(sums)
    return (np.array(places, np.int32), np.array([sums[one] for one in places], "f4")), total


def expected(case: Case, draws: Sequence[int], oracle: SimpleNamespace) -> list[Any]:
    """Of each cell: file, row, tokens, values."""
    order = sorted(case.vocabulary, key=case.vocabulary.__getitem__)
    options = case.options
    around = (options["cls"] is not None) + (options["eos"] is not None)
    result = []
    for number, adata in enumerate(case.files):
        for row in cells_of(case, number):
            (genes, values), total = at_places(adata, row, order)
            batch = (np.array([0, len(genes)]), genes, values)
            bins: list[int] | None = None
            if case.kernel == "rank":
                stats = np.array([case.medians[name] for name in order], dtype=np.float32)
                with np.errstate(all="ignore"):
                    factor = np.float64(1e4) / total if total > 0 else np.nan
                    keys = (values.astype("f8") * factor / stats.astype("f8")[genes]).astype("f4")
                ids = genes[oracle.ordered(genes, keys, options["l_max"] - around)].tolist()
            elif case.kernel == "sample":
                seed, weight = options["seed"], options["weight"]
                (ids,) = oracle.sample(batch, options["n"], seed, draws[number], weight, [row])
            else:
                bins = oracle.bins(
                    batch, options["n_bins"], None, options["tie"], options["seed"],
                    draws[number], [row],
                )  # fmt: skip
                kept = [
                    place
                    for place, one in enumerate(bins)
                    if one > 0 or options["include_zero_genes"]
                ]
                kept = cut(kept, genes, options["l_max"] - around, options["seed"], draws[number],
                           row, oracle)  # fmt: skip
                ids, bins = genes[kept].tolist(), [bins[place] for place in kept]
            tokens = [case.vocabulary[order[place]] for place in ids]
            result.append((number, row, *framed(case, tokens, bins)))
    return result


def cut(
    kept: list[int], genes: Any, width: int, seed: int, file: int, row: int, oracle: SimpleNamespace
) -> list[int]:
    if len(kept) <= width:
        return kept
    key = oracle.row_stream(seed, b"SCXTKCUT", file, row)
    drawn = {place: splitmix64(key ^ int(genes[place])) for place in kept}
    return sorted(sorted(kept, key=drawn.__getitem__)[:width])


def framed(case: Case, tokens: list[int], bins: list[int] | None) -> tuple[Any, Any, int]:
    options = case.options
    before = [SPECIAL["<cls>"]] if options["cls"] else []
    after = [SPECIAL["<eos>"]] if options["eos"] else []
    tokens = [*before, *tokens, *after]
    if bins is not None:
        bins = [*[0] * len(before), *bins, *[0] * len(after)]
    length = len(tokens)
    if options["pad"]:
        longest = options.get("l_max") or options["n"] + len(before) + len(after)
        fill = longest - length
        tokens += [SPECIAL["<pad>"]] * fill
        bins = None if bins is None else bins + [-2] * fill
    return tokens, bins, length


def run(case: Case, paths: list[Path], out: Path, threads: int) -> dict[str, Any]:
    medians = {"gene_medians": case.medians} if case.kernel == "rank" else {}
    return scx_tokenize.run(
        case.kernel,
        paths,
        out,
        token_dictionary=case.vocabulary | SPECIAL,
        gene_key="id",
        min_known_genes=0,
        obs_filter=FILTER if case.filtered else None,
        obs_columns=["group"],
        shard_rows=case.shard_rows,
        threads=threads,
        **medians,
        **case.options,
    )


@pytest.mark.filterwarnings("ignore")
@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(case=any_case())
def test_any_job_gives_what_loops_give(case: Case, oracle: SimpleNamespace) -> None:
    with tempfile.TemporaryDirectory() as name, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        folder = Path(name)
        paths = written(case, folder)
        if not any(cells_of(case, number) for number in range(len(paths))):
            with pytest.raises(ValueError, match=r"keeps no cell|there are no cells"):
                run(case, paths, folder / "none", 1)
            return
        if any(set(map(plain, one.var["id"])).isdisjoint(case.vocabulary) for one in case.files):
            with pytest.raises(ValueError, match="the vocabulary has none of its genes"):
                run(case, paths, folder / "none", 1)
            return
        manifest = run(case, paths, folder / "one", 1)
        draws = [entry["draw_identity"] for entry in manifest["inputs"]]
        frame = read_tokens(folder / "one")
        found = [
            (file, row, ids.tolist(), None if values is None else values.tolist(), length)
            for file, row, ids, values, length in zip(
                frame["file_id"],
                frame["row_id"],
                frame["input_ids"],
                frame["values"] if "values" in frame else [None] * len(frame),
                frame["length"],
                strict=True,
            )
        ]
        assert found == expected(case, draws, oracle)
        groups = [case.files[file].obs["group"].iloc[row] for file, row, *_ in found]
        assert frame["group"].tolist() == groups
        assert manifest["counts"]["cells"] == len(found)
        assert manifest["counts"]["tokens"] == sum(length for *_, length in found)
        interrupted(case, paths, folder / "two")
        assert run(case, paths, folder / "two", 2) == manifest
        assert shard_bytes(folder / "two") == shard_bytes(folder / "one")


def interrupted(case: Case, paths: list[Path], out: Path) -> None:
    """Begin the job and end it before one of its shards."""
    make = _running.make_shard

    def failing(job: Any, task: Any, **options: Any) -> Any:
        if task.number == case.stops_at:
            raise OSError("no more")
        return make(job, task, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_running, "make_shard", failing)
        with suppress(OSError):
            run(case, paths, out, 2)
