"""Random pairs of cells: cells a second, beside reading random rows and beside training.

Plans of 1,024 random pairs over the whole file, without any locality, each cell once an epoch; both
cells of each pair normalised over all genes, log1p, dense float32 in a random panel of 2,000 genes.
A pair counts as two cells. `TrainingDataset` yields the same cells in batches of 1,024; the other
loaders read 1,024 random rows at once, which is one side of a plan, and get numpy and scipy for the
arithmetic, in their own process. The page cache is warm.

Not measured: a cold disk, and a plan generator that takes its time.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from bench.bench_train import OURS, check, check_digests_agree, epochs, panel_of
from bench.harness import Limit, Result, alternate
from bench.peers.client import Worker
from bench.peers.environments import PEERS, Peer, PeerUnavailable, python_of
from bench.setup import BATCH_SIZE, Setup

PAIRS = Peer("scx_pairs", "random pairs")
TRAINING = Peer(OURS, "TrainingDataset")
OTHERS = tuple(peer for peer in PEERS if peer.name in ("memory", "backed"))
WANTED_RATIOS = {OURS: 0.6, "memory": 3.0, "backed": 20.0}


def run(setup: Setup) -> Result:
    """Check that all loaders deliver the same numbers, then compare their speed in pairs."""
    result = Result("pairs")
    h5ad = setup.counts()
    panel = panel_of(h5ad)
    result.facts.update(h5ad=h5ad.name, genes=int(panel.size), pairs_in_a_plan=BATCH_SIZE)
    log = setup.folder / "workers.log"

    def started(stack: ExitStack, peer: Peer) -> Worker:
        worker = stack.enter_context(Worker(peer.name, python_of(peer, setup.environments), log))
        result.facts[peer.name] = worker.ask(
            "open", h5ad=str(h5ad), cache=str(setup.folder), panel=panel.tolist()
        )
        check(worker, h5ad, panel, setup, result)
        return worker

    with ExitStack() as stack:
        ours = started(stack, PAIRS)
        for peer in (TRAINING, *OTHERS):
            if peer.name not in (OURS, *setup.peers):
                continue
            try:
                # One peer at a time: each may hold the whole matrix.
                with ExitStack() as own:
                    _compare(ours, started(own, peer), peer, setup, result)
            except (PeerUnavailable, TimeoutError) as error:
                result.skipped[peer.name] = str(error)
    check_digests_agree(result)
    return result


def _compare(ours: Worker, theirs: Worker, peer: Peer, setup: Setup, result: Result) -> None:
    answers: tuple[list[Any], list[Any]] = ([], [])
    comparison = alternate(
        lambda: epochs(ours, setup, answers[0]),
        lambda: epochs(theirs, setup, answers[1]),
        setup.n_pairs,
    )
    if peer.name == OURS:
        result.add("random pairs", [sample.rate for sample in comparison.ours], "cells/s")
    result.add(peer.title, [sample.rate for sample in comparison.theirs], "cells/s")
    limit = None if setup.quick else Limit("at least", WANTED_RATIOS[peer.name])
    result.add(f"random pairs / {peer.title}", comparison.ratios, "x", limit)
