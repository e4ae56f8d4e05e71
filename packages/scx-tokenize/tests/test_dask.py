"""Jobs on a Dask cluster of two worker processes, beside the same jobs in this process."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anndata
import cloudpickle
import distributed
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import scx_core
from scx_tokenize import _version, medians, run
from scx_tokenize._cli import main
from scx_tokenize._medians import corpus
from scx_tokenize.jobs import _dask

pytestmark = pytest.mark.filterwarnings("ignore:Sending large graph")

IDS = [f"ENSG{number:011d}" for number in range(40)]
MEDIANS = {name: 1.0 + number % 7 for number, name in enumerate(IDS)}

# workers do not have this file: what they are to run is sent along
cloudpickle.register_pickle_by_value(sys.modules[__name__])


def cells(n_cells: int, *, seed: int, form: Any = sp.csr_matrix) -> anndata.AnnData:
    rng = np.random.default_rng(seed)
    counts = rng.poisson(0.8, (n_cells, len(IDS))).astype(np.float32)
    return anndata.AnnData(
        form(counts),
        obs=pd.DataFrame({"n": np.arange(n_cells)}, index=[f"c{n}" for n in range(n_cells)]),
        var=pd.DataFrame(index=IDS),
    )


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("inputs")
    paths = [str(folder / name) for name in ("a.scx", "b.h5ad", "c.h5ad")]
    scx_core.from_anndata(cells(60, seed=1), paths[0])
    cells(45, seed=2).write_h5ad(paths[1])
    cells(30, seed=3, form=sp.csc_matrix).write_h5ad(paths[2])
    return paths


@pytest.fixture(scope="module")
def cluster() -> Iterator[distributed.LocalCluster]:
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
    ) as started:
        yield started


@pytest.fixture
def client(cluster: distributed.LocalCluster) -> Iterator[distributed.Client]:
    with distributed.Client(cluster, set_as_default=False) as connected:
        connected.wait_for_workers(2)
        yield connected


def files_of(folder: Path) -> dict[str, bytes]:
    """Everything that lies in a folder, hidden files too."""
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def ranks(inputs: list[str], out: Path, **options: Any) -> dict[str, Any]:
    return run("rank", inputs, out, gene_medians=MEDIANS, l_max=12, shard_rows=8, **options)


def test_files_are_those_of_a_run_without_a_cluster(
    inputs: list[str],
    cluster: distributed.LocalCluster,
    client: distributed.Client,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = tmp_path / "here"
    monkeypatch.chdir(Path(inputs[0]).parent)
    names = [os.path.basename(path) for path in inputs]
    # the workers' current folder is another one
    options = {"obs_filter": "n % 5 != 2", "obs_columns": ["n"]}
    ranks(names, here, **options)
    calls: list[tuple[int, int]] = []
    ranks(
        names,
        tmp_path / "client",
        dask=client,
        progress=lambda done, total: calls.append((done, total)),
        **options,
    )
    assert files_of(tmp_path / "client") == files_of(here)
    assert len(files_of(here)) > 15 and calls[-1] == (108, 108)
    ranks(names, tmp_path / "address", dask=cluster.scheduler_address, threads=2, **options)
    assert files_of(tmp_path / "address") == files_of(here)
    run("sample", names, here / "s", n=9, seed=4, shard_rows=20)
    run("sample", names, tmp_path / "s", n=9, seed=4, shard_rows=20, dask=client)
    assert files_of(tmp_path / "s") == files_of(here / "s")
    # a finished job needs nothing of the cluster
    before = {path: path.stat().st_mtime_ns for path in here.rglob("*.parquet")}
    ranks(names, here, dask=client, **options)
    assert before == {path: path.stat().st_mtime_ns for path in before}


def test_the_command_takes_an_address(
    inputs: list[str], cluster: distributed.LocalCluster, tmp_path: Path
) -> None:
    for number, more in enumerate(([], ["--dask", cluster.scheduler_address])):
        out = tmp_path / str(number)
        assert main(["sample", *inputs, str(out), "-n", "5", "--quiet", *more]) == 0
        assert main(["medians", *inputs, "-o", f"{out}.parquet", "--quiet", *more]) == 0
    assert files_of(tmp_path / "0") == files_of(tmp_path / "1")
    assert (tmp_path / "0.parquet").read_bytes() == (tmp_path / "1.parquet").read_bytes()


@pytest.mark.filterwarnings("ignore:.*no whole numbers")
def test_medians_are_the_same_to_the_last_bit(
    inputs: list[str], client: distributed.Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corpus, "PART_CELLS", 7)
    adata = cells(80, seed=9)
    adata.X = adata.X * np.float32(0.1)  # sums of these depend on their order
    adata.write_h5ad(tmp_path / "fractions.h5ad")
    paths = [*inputs, str(tmp_path / "fractions.h5ad")]
    medians(paths, tmp_path / "here.parquet", obs_filter="n > 3")
    calls: list[tuple[int, int]] = []
    medians(
        paths,
        tmp_path / "there.parquet",
        obs_filter="n > 3",
        dask=client,
        progress=lambda done, total: calls.append((done, total)),
    )
    assert (tmp_path / "here.parquet").read_bytes() == (tmp_path / "there.parquet").read_bytes()
    assert calls[-1] == (3 * 199, 3 * 199)
    assert sorted(os.listdir(tmp_path)) == ["fractions.h5ad", "here.parquet", "there.parquet"]


def slowly(seconds: float) -> None:
    """Make a worker pause before it writes."""
    from scx_tokenize.jobs import _shards

    table = _shards._table

    def slow_table(*arguments: Any) -> Any:
        time.sleep(seconds)
        return table(*arguments)

    _shards._table = slow_table


@pytest.fixture
def slow_client() -> Iterator[distributed.Client]:
    """Of a cluster of its own, as its workers are changed or killed."""
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as started,
        distributed.Client(started, set_as_default=False) as connected,
    ):
        connected.wait_for_workers(2)
        connected.run(slowly, 0.2)
        yield connected


def partial_files(folder: Path) -> list[str]:
    return [name for name in files_of(folder) if name.endswith(".tmp")]


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def one_at_a_time(out: Path, act: Callable[[], None]) -> Callable[[int, int], None]:
    """A progress function that acts once, when some shards are done and others begun."""
    acted = False

    def progress(done: int, total: int) -> None:
        nonlocal acted
        if not acted and done:
            acted = True
            wait_until(lambda: bool(partial_files(out)))
            act()

    return progress


def test_workers_that_die_lose_nothing_and_leave_nothing(
    inputs: list[str], slow_client: distributed.Client, tmp_path: Path
) -> None:
    out, here = tmp_path / "out", tmp_path / "here"
    victim = next(iter(slow_client.run(os.getpid).values()))
    kill = one_at_a_time(out, lambda: os.kill(victim, signal.SIGKILL))
    ranks(inputs, out, dask=slow_client, progress=kill)
    ranks(inputs, here)
    assert files_of(out) == files_of(here)


def test_an_interrupt_ends_the_tasks_and_the_job_goes_on_later(
    inputs: list[str], slow_client: distributed.Client, tmp_path: Path
) -> None:
    out, here = tmp_path / "out", tmp_path / "here"

    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ranks(inputs, out, dask=slow_client, progress=one_at_a_time(out, interrupt))
    left = files_of(out)
    assert not partial_files(out)
    assert not any(slow_client.processing().values())
    ranks(inputs, here)
    whole = files_of(here)
    shards = {name for name in left if name.startswith("data/")}
    assert 0 < len(shards) < sum(name.startswith("data/") for name in whole)
    assert all(left[name] == whole[name] for name in shards)
    time.sleep(0.3)  # nobody writes behind our back
    assert files_of(out) == left
    ranks(inputs, out)
    assert files_of(out) == whole


def test_an_error_of_a_worker_is_that_of_the_call(
    client: distributed.Client, tmp_path: Path
) -> None:
    path, out = tmp_path / "a.scx", tmp_path / "out"
    scx_core.from_anndata(cells(60, seed=1), path)
    with scx_core.open(path) as opened:
        shard = next(one for one in opened.sections() if one["type"] == "csr_shard")
    whole = path.read_bytes()
    middle = shard["offset"] + shard["length"] // 2
    path.write_bytes(whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :])
    with pytest.raises(scx_core.CorruptFileError, match="row"):
        ranks([str(path)], out, dask=client)
    assert not partial_files(out)
    path.write_bytes(whole)
    ranks([str(path)], out, dask=client)
    ranks([str(path)], tmp_path / "here")
    assert files_of(out) == files_of(tmp_path / "here")


def test_a_cluster_that_cannot_work_is_refused_before_anything_is_written(
    inputs: list[str],
    client: distributed.Client,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out = tmp_path / "out"
    with pytest.raises(TypeError, match="dask=7 must be the address"):
        ranks(inputs, out, dask=7)
    with pytest.raises(OSError, match="no Dask scheduler answers at 'nonsense://x'"):
        ranks(inputs, out, dask="nonsense://x")
    with monkeypatch.context() as patched:
        patched.setattr(_version, "__version__", "0.0.1")
        with pytest.raises(RuntimeError, match=r"the worker .* and this process has 0\.0\.1"):
            ranks(inputs, out, dask=client)
        with pytest.raises(RuntimeError, match="the same versions"):
            medians(inputs, f"{out}.parquet", dask=client)
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ImportError, match=r"scx-tokenize\[dask\]"):
        ranks(inputs, out, dask=client)
    assert not list(tmp_path.iterdir())


def test_a_cluster_without_workers_is_told(
    inputs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_dask, "WORKERS_SECONDS", 0.1)
    with (
        distributed.LocalCluster(n_workers=0, dashboard_address=":0") as empty,
        pytest.raises(RuntimeError, match="has no worker"),
    ):
        medians(inputs, dask=empty.scheduler_address)
