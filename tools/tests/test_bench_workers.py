"""The loaders' processes: the protocol, and that wrong numbers are noticed."""

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import realistic_counts
from bench import bench_train, data
from bench.harness import Result
from bench.peers.client import Worker
from bench.peers.environments import Peer, PeerUnavailable, python_of
from bench.setup import Setup

PANEL = np.array([0, 3, 10, 99])


@pytest.fixture(scope="module")
def h5ad(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "counts.h5ad"
    realistic_counts.write_counts(path, 1500, 100, 400, 1)
    return path


def start(name: str, h5ad: Path, panel: np.ndarray = PANEL) -> Worker:
    worker = Worker(name, Path(sys.executable), h5ad.parent / "workers.log", answer_seconds_max=60)
    worker.ask("open", h5ad=str(h5ad), cache=str(h5ad.parent), panel=panel.tolist())
    return worker


@pytest.fixture
def memory(h5ad: Path) -> Iterator[Worker]:
    with start("memory", h5ad) as worker:
        yield worker


def test_run_counts_every_cell(memory: Worker) -> None:
    answer = memory.ask("run", task="panel", batch_size=1024, epoch=0, seconds_min=1e-9)
    assert answer["cells"] == 1500
    assert answer["epochs"] == len(answer["first_batch_seconds"]) == 1
    assert answer["steady_cells"] == 476
    assert 0 < answer["steady_seconds"] < answer["seconds"]


@pytest.mark.parametrize("name", ["memory", "backed"])
def test_loaders_tell_the_truth(name: str, h5ad: Path, tmp_path: Path) -> None:
    setup = Setup(root=tmp_path, folder=tmp_path, quick=True, peers=())
    result = Result("train", facts={name: {}})
    with start(name, h5ad) as worker:
        bench_train.check(worker, h5ad, PANEL, setup, result)
    assert result.facts[name]["cells"] == 1500
    assert result.facts[name]["digest"] == expected_digest(h5ad, PANEL)


def test_wrong_numbers_are_noticed(h5ad: Path, tmp_path: Path) -> None:
    setup = Setup(root=tmp_path, folder=tmp_path, quick=True, peers=())
    with start("nothing", h5ad) as worker, pytest.raises(AssertionError, match="wrong numbers"):
        bench_train.check(worker, h5ad, PANEL, setup, Result("train", facts={"nothing": {}}))


def test_differing_digests_are_noticed() -> None:
    facts = {"a": {"cells": 5, "digest": "1"}, "b": {"cells": 5, "digest": "2"}}
    with pytest.raises(AssertionError, match="disagree"):
        bench_train.check_digests_agree(Result("train", facts=facts))


def test_failures_arrive_as_peer_unavailable(memory: Worker, h5ad: Path) -> None:
    log = h5ad.parent / "workers.log"
    failed = "memory failed at 'run': AttributeError"
    with (
        Worker("memory", Path(sys.executable), log) as unopened,
        pytest.raises(PeerUnavailable, match=failed),
    ):
        unopened.ask("run", task="panel", batch_size=8, epoch=0, seconds_min=0.1)
    with (
        Worker("no_such_loader", Path(sys.executable), log) as dead,
        pytest.raises(PeerUnavailable, match="died"),
    ):
        dead.ask("run")
    assert memory.ask("digest", batch_size=100)["cells"] == 1500


def test_missing_python_is_a_reason_not_a_crash(tmp_path: Path) -> None:
    with pytest.raises(PeerUnavailable, match=r"no Python 2\.9 or 2\.10 found"):
        python_of(Peer("old", "old", ("something",), ("2.9", "2.10")), tmp_path)


def test_data_is_made_once_and_again_when_the_arguments_change(tmp_path: Path) -> None:
    size = data.CountsSize(20, 50, 300.0)
    path = data.counts_h5ad(size, tmp_path)
    made = path.stat().st_mtime_ns
    assert data.counts_h5ad(size, tmp_path).stat().st_mtime_ns == made
    other = data.counts_h5ad(data.CountsSize(20, 50, 300.0, seed=1), tmp_path)
    assert other != path
    assert not path.exists()


def expected_digest(h5ad: Path, panel: np.ndarray) -> str:
    """The digest, worked out with Python's own integers."""
    import anndata as ad

    mask = 2**64 - 1

    def scramble(x: int) -> int:
        z = (x + 0x9E3779B97F4A7C15) & mask
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        return z ^ (z >> 31)

    counts = ad.read_h5ad(h5ad).X[:, panel].toarray().astype(int).tolist()
    total = 0
    for row, values in enumerate(counts):
        weighted = sum(v * scramble(i + 1) for i, v in enumerate(values))
        total += scramble((weighted + scramble(row)) & mask)
    return f"{total & mask:016x}"
