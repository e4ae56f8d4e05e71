"""Training batches: cells a second, beside the loaders that people use today.

Batches of 1,024 shuffled cells with their ``cell_type``; a random panel of 2,000 genes, normalised
over all genes, log1p, dense float32. The page cache is warm. An epoch counts from the request for
its first batch, so opening the file counts; reading a whole matrix into memory does not.

Not measured: a cold disk, several processes, and the training step itself. Loaders that do not
normalise themselves get numpy and scipy for it, in their own process, as their users write it.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from bench.harness import Limit, Result, Sample, alternate, repeat
from bench.peers.client import Worker
from bench.peers.environments import PEERS, Peer, PeerUnavailable, python_of
from bench.setup import BATCH_SIZE, PANEL_GENES, Setup

OURS = "scx"
SAMPLE_BATCHES = 2
RELATIVE_ERROR_MAX = 2e-6
WANTED_RATIOS = {"annbatch": 10.0, "annbatch_fixed": 10.0, "memory": 5.0}
FIRST_BATCH_MS_MAX = 50.0


def run(setup: Setup) -> Result:
    """Check that all loaders deliver the same numbers, then compare their speed in pairs."""
    result = Result("train")
    h5ad = setup.counts()
    panel = panel_of(h5ad)
    result.facts.update(h5ad=h5ad.name, genes=int(panel.size), batch_size=BATCH_SIZE)
    with ExitStack() as stack:
        workers = _start_workers(stack, setup, h5ad, panel, result)
        ours = workers.pop(OURS, None)
        if ours is not None:
            check(ours, h5ad, panel, setup, result)
        for peer in PEERS:
            worker = workers.get(peer.name)
            if worker is None:
                continue
            try:
                if peer.name != "nothing":
                    check(worker, h5ad, panel, setup, result)
                _measure(ours, worker, peer, setup, result)
            except (PeerUnavailable, TimeoutError) as error:
                result.skipped[peer.name] = str(error)
    check_digests_agree(result)
    return result


def _start_workers(
    stack: ExitStack, setup: Setup, h5ad: Path, panel: npt.NDArray[np.int64], result: Result
) -> dict[str, Worker]:
    workers: dict[str, Worker] = {}
    log = setup.folder / "workers.log"
    for peer in (Peer(OURS, "scx"), *PEERS):
        if peer.name not in (OURS, "nothing", *setup.peers):
            continue
        try:
            python = python_of(peer, setup.environments)
            worker = stack.enter_context(Worker(peer.name, python, log))
            answer = worker.ask(
                "open", h5ad=str(h5ad), cache=str(setup.folder), panel=panel.tolist()
            )
        except (PeerUnavailable, TimeoutError) as error:
            result.skipped[peer.name] = str(error)
            continue
        workers[peer.name] = worker
        result.facts[peer.name] = answer
    return workers


def _measure(ours: Worker | None, worker: Worker, peer: Peer, setup: Setup, result: Result) -> None:
    answers: dict[str, list[dict[str, Any]]] = {OURS: [], peer.name: []}
    n_pairs = setup.n_pairs
    if ours is None:
        samples = repeat(lambda: epochs(worker, setup, answers[peer.name]), n_pairs)
    else:
        comparison = alternate(
            lambda: epochs(ours, setup, answers[OURS]),
            lambda: epochs(worker, setup, answers[peer.name]),
            n_pairs,
        )
        samples = comparison.theirs
        mine = [sample.rate for sample in comparison.ours]
        if peer.name == "nothing":
            result.add("scx", mine, "cells/s")
            result.add("scx, after the first batch", _steady(answers[OURS][-n_pairs:]), "cells/s")
            limit = None if setup.quick else Limit("at most", FIRST_BATCH_MS_MAX)
            result.add("scx, first batch", _first_batch_ms(answers[OURS]), "ms", limit)
    result.add(peer.title, [sample.rate for sample in samples], "cells/s")
    if peer.name == "nothing":
        return
    steady = _steady(answers[peer.name][-n_pairs:])
    result.add(f"{peer.title}, after the first batch", steady, "cells/s")
    result.add(f"{peer.title}, first batch", _first_batch_ms(answers[peer.name]), "ms")
    if ours is not None:
        wanted = None if setup.quick else WANTED_RATIOS.get(peer.name)
        limit_ratio = None if wanted is None else Limit("at least", wanted)
        result.add(f"scx / {peer.title}", comparison.ratios, "x", limit_ratio)


def epochs(worker: Worker, setup: Setup, answers: list[dict[str, Any]]) -> Sample:
    """Time whole epochs of a loader, and keep what it answered."""
    answer = worker.ask(
        "run",
        task="panel",
        batch_size=BATCH_SIZE,
        epoch=len(answers),
        seconds_min=setup.seconds_min,
    )
    answers.append(answer)
    return Sample(answer["cells"], answer["seconds"])


def _steady(answers: list[dict[str, Any]]) -> list[float]:
    return [answer["steady_cells"] / answer["steady_seconds"] for answer in answers]


def _first_batch_ms(answers: list[dict[str, Any]]) -> list[float]:
    # The first run warms up: its first epoch loads code and is not counted.
    return [1e3 * seconds for answer in answers[1:] for seconds in answer["first_batch_seconds"]]


def check(
    worker: Worker, h5ad: Path, panel: npt.NDArray[np.int64], setup: Setup, result: Result
) -> None:
    """Compare batches with the truth, and take an epoch's digest of the raw counts."""
    out = setup.folder / f"sample-{worker.name}.npz"
    worker.ask("sample", task="panel", batch_size=BATCH_SIZE, batches=SAMPLE_BATCHES, out=str(out))
    with np.load(out) as sample:
        rows, values = sample["rows"], sample["X"]
    out.unlink()
    error = _relative_error(values, _truth(h5ad, rows, panel))
    if error > RELATIVE_ERROR_MAX:
        raise AssertionError(f"{worker.name} yields wrong numbers: relative error {error:.2g}")
    answer = worker.ask("digest", batch_size=BATCH_SIZE)
    result.facts[worker.name].update(digest=answer["digest"], cells=answer["cells"])
    result.checks.append(
        f"{worker.name}: {rows.size:,} cells within {error:.1g} of numpy's float64; "
        f"counts of {answer['cells']:,} cells hash to {answer['digest']}"
    )


def check_digests_agree(result: Result) -> None:
    """Loaders that yield every cell must have the same digest."""
    digests = {
        name: (facts["cells"], facts["digest"])
        for name, facts in result.facts.items()
        if isinstance(facts, dict) and "digest" in facts
    }
    if len(set(digests.values())) > 1:
        raise AssertionError(f"the loaders disagree on the counts of an epoch: {digests}")


def panel_of(h5ad: Path) -> npt.NDArray[np.int64]:
    """The genes that loaders are to yield."""
    with h5py.File(h5ad) as file:
        n_genes = int(file["X"].attrs["shape"][1])
    chosen = np.random.default_rng(0).choice(n_genes, min(PANEL_GENES, n_genes), replace=False)
    return np.sort(chosen).astype(np.int64)


def _truth(
    h5ad: Path, rows: npt.NDArray[np.int64], panel: npt.NDArray[np.int64]
) -> npt.NDArray[np.float64]:
    """The same batch, computed in float64 from the file's bytes."""
    with h5py.File(h5ad) as file:
        matrix = file["X"]
        indptr = matrix["indptr"][:]
        expected = np.zeros((rows.size, panel.size))
        for i, row in enumerate(rows):
            part = slice(indptr[row], indptr[row + 1])
            values = matrix["data"][part].astype(np.float64)
            dense = sp.csr_matrix(
                (values, matrix["indices"][part], [0, values.size]),
                shape=(1, matrix.attrs["shape"][1]),
            )
            expected[i] = np.log1p(dense[:, panel].toarray()[0] * (1e4 / values.sum()))
    return expected


def _relative_error(values: npt.NDArray[Any], expected: npt.NDArray[np.float64]) -> float:
    if values.dtype != np.float32 or values.shape != expected.shape:
        return float("inf")
    if np.any((values == 0) != (expected == 0)):
        return float("inf")
    scale = np.where(expected == 0, 1.0, expected)
    return float(np.max(np.abs(values - expected) / scale))
