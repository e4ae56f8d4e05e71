"""The program in the other process: reads requests, runs a loader, answers; a JSON line each.

Usage: worker.py LOADER   (the name of a ``loader_LOADER.py`` beside this file)

It runs under the loader's Python and imports from this project's tools nothing but ``batches`` and
the loader.

Requests, in ``do``:
    open    h5ad, cache, panel                    -> versions, facts
    run     task, batch_size, epoch, seconds_min  -> cells, seconds, epochs, steady_cells,
                                                     steady_seconds, first_batch_seconds
    sample  task, batch_size, batches, out        -> cells; an .npz with rows and X
    digest  batch_size                            -> cells, digest of an epoch of raw counts
    close                                         -> nothing more
An answer with ``error`` carries the traceback. What the libraries print goes to stderr.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys
import time
import traceback
import warnings
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.peers.batches import Loader, Request

EPOCHS_MAX = 50

_WORD = np.uint64(0x9E3779B97F4A7C15)


def open_loader(loader: Loader, request: dict[str, Any]) -> dict[str, Any]:
    """Prepare the loader; say what it consists of."""
    panel = np.array(request["panel"], dtype=np.int64)
    facts = loader.open(request["h5ad"], request["cache"], panel)
    return {"facts": facts, "versions": _versions(loader.packages)}


def run(loader: Loader, request: dict[str, Any]) -> dict[str, Any]:
    """Time whole epochs until `seconds_min` have gone by.

    `seconds` spans everything from the request for the first batch to the end of the last epoch.
    The steady figures leave out each epoch up to its first batch.
    """
    cells = epochs = steady_cells = 0
    seconds = steady_seconds = 0.0
    first_batch_seconds = []
    gc.collect()
    while seconds < request["seconds_min"] and epochs < EPOCHS_MAX:
        start = time.perf_counter()
        first = None
        for batch in loader.batches(_epoch(request, epochs)):
            if first is None:
                first = time.perf_counter()
                first_cells = batch.X.shape[0]
            cells += batch.X.shape[0]
            steady_cells += batch.X.shape[0]
        end = time.perf_counter()
        if first is None:
            raise RuntimeError("the loader yielded no batch")
        epochs += 1
        steady_cells -= first_cells
        seconds += end - start
        steady_seconds += end - first
        first_batch_seconds.append(first - start)
    return {
        "cells": cells,
        "seconds": seconds,
        "epochs": epochs,
        "steady_cells": steady_cells,
        "steady_seconds": steady_seconds,
        "first_batch_seconds": first_batch_seconds,
    }


def sample(loader: Loader, request: dict[str, Any]) -> dict[str, Any]:
    """Keep the first batches, with their rows, for a comparison with the truth."""
    rows, values = [], []
    batches = loader.batches(_epoch(request, identify=True))
    for _, batch in zip(range(request["batches"]), batches, strict=False):
        assert batch.rows is not None
        rows.append(np.array(batch.rows))
        values.append(np.array(batch.X))
    del batches
    np.savez(request["out"], rows=np.concatenate(rows), X=np.concatenate(values))
    return {"cells": int(sum(map(len, rows)))}


def digest(loader: Loader, request: dict[str, Any]) -> dict[str, Any]:
    """A number that all loaders agree on who yield each cell once with the right counts.

    A cell's part is a sum of its counts, weighted by gene, and its row number, scrambled; the parts
    are added up, so the order does not matter. All arithmetic is modulo two to the power of 64.
    """
    total = np.uint64(0)
    cells = 0
    weights = None
    request = {**request, "task": "counts"}
    for batch in loader.batches(_epoch(request, identify=True)):
        counts = np.asarray(batch.X).astype(np.uint64)
        if weights is None:
            weights = _scramble(np.arange(1, counts.shape[1] + 1, dtype=np.uint64))
        rows = np.asarray(batch.rows).astype(np.uint64)
        total += _scramble(counts @ weights + _scramble(rows)).sum(dtype=np.uint64)
        cells += counts.shape[0]
    return {"cells": cells, "digest": f"{int(total):016x}"}


def _scramble(numbers: np.ndarray[Any, np.dtype[np.uint64]]) -> Any:
    """Splitmix64's output step, element by element."""
    z = numbers + _WORD
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def _epoch(request: dict[str, Any], offset: int = 0, *, identify: bool = False) -> Request:
    epoch = int(request.get("epoch", 0)) * EPOCHS_MAX + offset
    return Request(request["task"], int(request["batch_size"]), epoch, identify)


def _versions(packages: tuple[str, ...]) -> dict[str, str]:
    found = {"python": sys.version.split()[0]}
    for name in packages:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed as a distribution"
    return found


_ACTIONS = {"open": open_loader, "run": run, "sample": sample, "digest": digest}


def main() -> None:
    # Answers go to the descriptor that was stdout; whatever a library prints goes to stderr.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    warnings.filterwarnings("ignore")
    np.seterr(over="ignore")
    loader: Loader = importlib.import_module(f"bench.peers.loader_{sys.argv[1]}").loader()
    for line in sys.stdin:
        request = json.loads(line)
        if request["do"] == "close":
            break
        try:
            answer = _ACTIONS[request["do"]](loader, request)
        except Exception:
            answer = {"error": traceback.format_exc()}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
