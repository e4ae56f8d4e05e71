"""Whole rank jobs: all cells of a file into Parquet, from a .scx and from an .h5ad.

Beside it, on one core, what a tokeniser in numpy does cell by cell with rows from a backed AnnData:
normalise, divide by the medians, argsort, look up the tokens; the lists then go to Parquet. The
first tokens are compared with it. Files are in the page cache, results are synced to disk.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bench.harness import Limit, Result, Sample, alternate, repeat
from bench.setup import Setup

CELLS_PER_SECOND = Limit("at least", 20_000)
L_MAX = 2_048
N_PLAIN, N_PLAIN_QUICK = 2_000, 100
KNOWN_SHARE = 0.7


def run(setup: Setup) -> Result:
    """Jobs with one thread and with two, each beside the numpy version."""
    import scx_core

    result = Result("tokenjobs")
    h5ad = setup.counts()
    scx, out = setup.folder / "tokenjobs.scx", setup.folder / "tokenjobs"
    scx_core.from_h5ad(h5ad, scx, overwrite=True, progress=False)
    tokens, medians = _tables(scx)
    job = partial(_job, out=out, tokens=tokens, medians=medians)
    plain = partial(_plain, h5ad, out, tokens, medians, N_PLAIN_QUICK if setup.quick else N_PLAIN)
    try:
        job(scx, threads=1)
        result.checks.append(_compared(out, plain))
        n_cells = scx_core.open(scx).n_obs
        n_pairs = 2 if setup.quick else 3
        for threads in (1, 2):
            title = f"rank job from .scx, {threads} thread{'s' if threads > 1 else ''}"
            cpu: list[float] = []
            ours = partial(_timed, n_cells, partial(job, scx, threads=threads), cpu)
            comparison = alternate(ours, partial(_timed_plain, plain), n_pairs)
            wanted = None if setup.quick or threads == 1 else CELLS_PER_SECOND
            result.add(title, [s.rate for s in comparison.ours], "cells/s", wanted)
            result.add(f"{title}, CPU", [one / n_cells * 1e6 for one in cpu[1:]], "us/cell")
            if threads == 1:
                result.add("numpy, cell by cell", [s.rate for s in comparison.theirs], "cells/s")
            result.add(f"{title} / numpy", comparison.ratios, "x")
        from_h5ad = repeat(partial(_timed, n_cells, partial(job, h5ad, threads=2), []), n_pairs)
        result.add("rank job from .h5ad, 2 threads", [s.rate for s in from_h5ad], "cells/s")
        result.facts.update(n_cells=n_cells, l_max=L_MAX)
    finally:
        scx.unlink(missing_ok=True)
        shutil.rmtree(out, ignore_errors=True)
    return result


def _tables(scx: Path) -> tuple[dict[str, int], dict[str, float]]:
    import scx_core

    with scx_core.open(scx) as experiment:
        names = [str(name) for name in experiment.var_names]
    random = np.random.default_rng(0)
    known = [name for name in names if random.random() < KNOWN_SHARE]
    numbers = random.permutation(len(known)) + 2
    medians = random.lognormal(0, 1, len(known))
    tokens = {"<pad>": 0, "<mask>": 1, **dict(zip(known, numbers.tolist(), strict=True))}
    return tokens, dict(zip(known, medians.tolist(), strict=True))


def _job(
    path: Path, *, out: Path, tokens: dict[str, int], medians: dict[str, float], threads: int
) -> None:
    import scx_tokenize

    shutil.rmtree(out, ignore_errors=True)
    scx_tokenize.run(
        "rank",
        path,
        out,
        preset="geneformer-v1",
        token_dictionary=tokens,
        gene_medians=medians,
        threads=threads,
        progress=False,
    )


def _timed(n_cells: int, work: Callable[[], Any], cpu: list[float]) -> Sample:
    start, cpu_start = time.perf_counter(), time.process_time()
    work()
    cpu.append(time.process_time() - cpu_start)
    return Sample(n_cells, time.perf_counter() - start)


def _timed_plain(plain: Callable[[], list[Any]]) -> Sample:
    start = time.perf_counter()
    n_cells = len(plain())
    return Sample(n_cells, time.perf_counter() - start)


def _plain(
    h5ad: Path, out: Path, tokens: dict[str, int], medians: dict[str, float], n_cells: int
) -> list[Any]:
    """The tokens of the first cells, which are also written to Parquet."""
    import anndata
    import pyarrow as pa
    import pyarrow.parquet as pq

    backed = anndata.read_h5ad(h5ad, backed="r")
    try:
        known = np.array([name in medians for name in backed.var_names])
        numbers = np.array([tokens.get(name, 0) for name in backed.var_names])
        norm = np.array([medians.get(name, 1.0) for name in backed.var_names])
        lists = []
        for start in range(0, n_cells, 512):
            rows = backed.X[start : min(n_cells, start + 512)]
            totals = np.asarray(rows.sum(axis=1)).ravel()
            for cell in range(rows.shape[0]):
                stored = slice(rows.indptr[cell], rows.indptr[cell + 1])
                genes, counts = rows.indices[stored], rows.data[stored]
                genes, counts = genes[known[genes]], counts[known[genes]]
                scaled = counts / totals[cell] * 10_000 / norm[genes]
                lists.append(numbers[genes[np.argsort(-scaled)]][:L_MAX].astype(np.int32))
    finally:
        backed.file.close()
    out.mkdir(exist_ok=True)
    table = pa.table({"input_ids": lists, "length": [len(ids) for ids in lists]})
    pq.write_table(table, out / "plain.parquet")
    (out / "plain.parquet").unlink()
    return lists


def _compared(out: Path, plain: Callable[[], list[Any]]) -> str:
    import pyarrow.parquet as pq

    expected = plain()
    first = sorted((out / "data").iterdir())[0]
    found = pq.read_table(first, columns=["input_ids"])["input_ids"].to_pylist()[: len(expected)]
    equal = sum(
        int(np.sum(np.array(one) == other)) for one, other in zip(found, expected, strict=True)
    )
    total = sum(map(len, expected))
    assert [len(one) for one in found] == [len(one) for one in expected]
    assert equal >= 0.999 * total, (equal, total)
    return f"{equal} of {total} tokens stand where numpy has them (it leaves ties in any order)"
