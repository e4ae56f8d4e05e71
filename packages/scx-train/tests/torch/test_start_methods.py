"""Workers of every start method: it works, or an error says what to do; it never hangs."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

MakeFile = Callable[..., Path]

# The parent has used the library before any worker starts: the threads that write files, and those
# that read them.
SCRIPT = """
    import multiprocessing
    import sys
    import scx_core
    from torch.utils.data import DataLoader, IterableDataset
    from scx_train import TrainingDataset
    from scx_train.torch import TrainingIterable

    class BuiltInTheWorker(IterableDataset):
        "A data set for each worker, which is told which batches are its own."

        def __init__(self, path):
            self.path = path

        def __iter__(self):
            from torch.utils.data import get_worker_info
            info = get_worker_info()
            shard, num_shards = (info.id, info.num_workers) if info else (0, 1)
            return iter(TrainingDataset(self.path, 8, shard=shard, num_shards=num_shards))

    class BuiltInTheParent(IterableDataset):
        def __init__(self, dataset):
            self.dataset = dataset

        def __iter__(self):
            return iter(self.dataset)

    def rows(batches):
        return [batch["cell_indices"].tolist() for batch in batches]

    def outcome(iterable, num_workers, method):
        context = None if num_workers == 0 else method
        loader = DataLoader(
            iterable, batch_size=None, num_workers=num_workers, multiprocessing_context=context,
            timeout=0 if num_workers == 0 else 60,
        )
        return rows(loader)

    if __name__ == "__main__":
        source, method = sys.argv[1:]
        path = source + ".written"
        scx_core.from_anndata(scx_core.read(source), path, shard_size=10)
        if method == "forkserver":
            multiprocessing.set_forkserver_preload(["torch", "scx_train"])
        dataset = TrainingDataset(path, 8)
        first = rows(dataset)
        iterable = TrainingIterable(path, 8)
        assert rows(iterable) == first  # builds a data set in the parent
        running = iter(iterable)
        next(running)
        second, third, fourth, fifth = (rows(dataset) for _ in range(4))

        assert outcome(iterable, 0, method) == third
        assert outcome(iterable, 1, method) == fourth
        assert outcome(iterable, 2, method) == fifth
        assert len(rows(running)) == len(second) - 1
        if method == "fork":  # others load torch anew for each worker, which takes seconds
            for num_workers in (0, 1, 2):
                assert outcome(BuiltInTheWorker(path), num_workers, method) == first

        own = TrainingDataset(path, 8)
        assert outcome(BuiltInTheParent(own), 0, method) == first
        for num_workers in (1, 2):  # others than forks fail before a worker is started
            try:
                outcome(BuiltInTheParent(own), num_workers, method)
            except RuntimeError as error:
                assert "num_workers=0" in str(error), error
                assert "build the data set inside the worker" in str(error), error
            else:
                raise AssertionError("the parent's data set was used in a worker")
        assert rows(own) == second
        print("done")
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers(make_file: MakeFile, tmp_path: Path, method: str) -> None:
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"no {method} here")
    script = tmp_path / "workers.py"
    script.write_text(textwrap.dedent(SCRIPT), encoding="utf-8")
    result = subprocess.run(
        [sys.executable, "-W", "ignore", str(script), str(make_file(101)), method],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert (result.returncode, result.stdout) == (0, "done\n"), result.stderr


RANKS = """
    import multiprocessing, sys
    from torch.utils.data import DataLoader
    from scx_train.torch import TrainingIterable

    def rank(iterable, number, results):
        loader = DataLoader(iterable, batch_size=None, num_workers=1,
                            multiprocessing_context="fork")
        results.put([[b["cell_indices"].tolist() for b in loader] for _ in range(3)])

    if __name__ == "__main__":
        context = multiprocessing.get_context("fork")
        iterable, results = TrainingIterable(sys.argv[1], 8), context.Queue()
        dataset = [[b["cell_indices"].tolist() for b in iterable] for _ in range(4)]
        iterable.set_epoch(1)
        children = [context.Process(target=rank, args=(iterable, n, results)) for n in range(2)]
        for child in children:
            child.start()
        for _ in children:
            assert results.get(timeout=120) == dataset[1:]
        for child in children:
            child.join(60)
        assert iterable.epoch == 1
        print("done")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_children_that_train_at_the_same_time_count_for_themselves(
    make_file: MakeFile, tmp_path: Path
) -> None:
    script = tmp_path / "ranks.py"
    script.write_text(textwrap.dedent(RANKS), encoding="utf-8")
    result = subprocess.run(
        [sys.executable, "-W", "ignore", str(script), str(make_file(101))],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert (result.returncode, result.stdout) == (0, "done\n"), result.stderr
