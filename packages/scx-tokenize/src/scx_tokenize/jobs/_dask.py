"""Shards by the workers of a Dask cluster, which may be on many machines.

A task of the job is a task of the cluster. Workers write the shards themselves, so they need the
inputs and the folder of the job at the same paths. A shard gets its name once it is whole, whoever
makes it: a worker that dies leaves a partial file under another name, which is removed when
everybody has come to rest, and Dask gives its task to another one.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import pickle
import time
import uuid
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, Union

from ._description import Job, Task
from ._files import Stopped, clear_temporary
from ._opened import forget_inputs
from ._running import OnCells, Records, Runner
from ._shards import ShardRecord, make_shard

if TYPE_CHECKING:
    from distributed import Client

DaskCluster: TypeAlias = Union[str, "Client"]
"""The address of a scheduler, or a client that is connected to one."""

# How long a cluster may take until its first worker is there.
WORKERS_SECONDS = 60
# How often a task asks whether it is still wanted: each time is a message to the scheduler.
ASKING_SECONDS = 0.2
# How long tasks that are no longer wanted may take to notice.
SETTLING_SECONDS = 120

Shared = TypeVar("Shared")
Item = TypeVar("Item")
Result = TypeVar("Result")


@contextlib.contextmanager
def dask_client(cluster: DaskCluster) -> Iterator[Any]:
    """A client of the cluster; the one that is made for an address is closed at the end.

    Raises
    ------
    ImportError
        The package distributed is not installed.
    OSError
        No scheduler answers at the address.
    RuntimeError
        The cluster has no worker, and none comes.
    TypeError
        It is neither an address nor a client.
    """
    distributed = _distributed()
    if isinstance(cluster, distributed.Client):
        _wait_for_workers(cluster)
        yield cluster
        return
    if not isinstance(cluster, str):
        raise TypeError(
            f"dask={cluster!r} must be the address of a scheduler or a distributed.Client"
        )
    try:
        client = distributed.Client(cluster, set_as_default=False)
    except (OSError, ValueError) as error:
        raise OSError(f"no Dask scheduler answers at {cluster!r}: {error}") from error
    with client:
        _wait_for_workers(client)
        yield client


def on_dask(client: Any, *, threads: int = 1) -> Runner:
    """A runner for `run_job` whose shards are made by the workers of a cluster.

    Parameters
    ----------
    client
        Connected to the cluster. Workers run as many tasks at once as they have threads.
    threads
        Threads that each task decodes and tokenises with, default 1.
    """

    def runner(job: Job, tasks: Sequence[Task], on_cells: OnCells) -> Records:
        make = partial(_make, threads=threads)
        try:
            with closing(each_result(client, make, _at_full_paths(job), tasks)) as records:
                for record in records:
                    _check_there(job, record)
                    on_cells(record.n_cells)
                    yield record
        finally:
            _tidy(client, job)

    return runner


def _make(job: Job, task: Task, stop: Any, *, threads: int) -> ShardRecord:
    return make_shard(job, task, threads=threads, stop=stop)


def each_result(
    client: Any,
    function: Callable[[Shared, Item, Any], Result],
    shared: Shared,
    items: Sequence[Item],
) -> Generator[Result, None, None]:
    """`function(shared, item, stop)` of each item by the cluster, in the order they are done.

    `stop.is_set()` becomes true when nobody waits for the results any more: after an error, Ctrl-C,
    or when the iterator is closed. The function then raises `Stopped`, and this waits until all
    tasks have noticed.
    """
    distributed = _distributed()

    if not items:
        return
    name = f"scx-tokenize-{uuid.uuid4().hex}"
    event = distributed.Event(name, client=client)
    # Pickled here, with arrays inside: those that Dask sends beside a pickle may lie unaligned. A
    # task of its own, so that it is sent once and made anew if the worker that holds it dies.
    packed = pickle.dumps(shared, protocol=4)
    held = client.submit(_same, packed, key=f"{name}-shared", pure=False)
    futures = [
        client.submit(_run_task, function, held, item, name, key=f"{name}-{number}", pure=False)
        for number, item in enumerate(items)
    ]
    finished = False
    try:
        with client.as_current():
            completed = distributed.as_completed(futures)
        for future in completed:
            yield future.result()
        finished = True
    finally:
        if not finished:
            _settle(client, event, futures)
        for future in [*futures, held]:
            future.release()


def _distributed() -> Any:
    """The package, which is loaded for jobs on a cluster alone."""
    try:
        return importlib.import_module("distributed")
    except ImportError:
        raise ImportError(
            "a Dask cluster needs the package distributed: pip install 'scx-tokenize[dask]'"
        ) from None


def _same(value: bytes) -> bytes:
    return value


def _run_task(
    function: Callable[[Shared, Item, Any], Result], packed: bytes, item: Item, name: str
) -> Result | None:
    """What a worker runs."""
    distributed = _distributed()

    try:
        return function(pickle.loads(packed), item, _StopSign(name))
    except Stopped:
        return None  # nobody waits for it, and an error would fill the worker's log
    except FileNotFoundError as error:
        worker = distributed.get_worker().address
        raise RuntimeError(
            f"the worker {worker} has no {error.filename or error}: inputs and results of a job "
            "have to be at the same paths on all machines of the cluster"
        ) from error


class _StopSign:
    """Tells a task whether its result is still wanted; with the one method of an Event."""

    def __init__(self, name: str) -> None:
        self._event = _distributed().Event(name)
        self._set = False
        self._ask_at = 0.0

    def is_set(self) -> bool:
        now = time.monotonic()
        if not self._set and now >= self._ask_at:
            self._set = bool(self._event.is_set())
            self._ask_at = time.monotonic() + ASKING_SECONDS
        return self._set


def _settle(client: Any, event: Any, futures: Sequence[Any]) -> None:
    """Tell the tasks that they are not wanted, and wait until none runs; then forget them."""
    distributed = _distributed()

    try:
        event.set()
        with client.as_current():
            # those that have not begun end as soon as they do
            distributed.wait(futures, timeout=SETTLING_SECONDS)
        event.clear()  # nothing of it is left in the scheduler
    except (TimeoutError, OSError):
        pass  # the cluster is not well, which the error that led here says
    finally:
        client.cancel(futures)


def _wait_for_workers(client: Any) -> None:
    try:
        client.wait_for_workers(1, timeout=WORKERS_SECONDS)
    except TimeoutError:
        raise RuntimeError(
            f"the Dask cluster at {client.scheduler.address} has no worker, and none came within "
            f"{WORKERS_SECONDS} seconds"
        ) from None


def _versions() -> dict[str, str]:
    import pyarrow

    from .._version import __version__

    return {"scx-tokenize": __version__, "pyarrow": pyarrow.__version__}


def check_versions(client: Any) -> None:
    """Bytes are the same where the versions are."""
    here = _versions()
    for worker, there in client.run(_versions).items():
        for package, version in there.items():
            if version != here[package]:
                raise RuntimeError(
                    f"the worker {worker} has {package} {version}, and this process has "
                    f"{here[package]}: install the same versions on all machines of the cluster"
                )


def _at_full_paths(job: Job) -> Job:
    """The job for processes whose current folder is another."""
    files = tuple(replace(file, path=os.path.abspath(file.path)) for file in job.files)
    return replace(job, files=files)


def _tidy(client: Any, job: Job) -> None:
    """Remove what workers that died have left, and let the others close their input files."""
    clear_temporary(job.data_folder)
    with contextlib.suppress(OSError):  # a worker that has just gone has closed them too
        client.run(forget_inputs)


def _check_there(job: Job, record: ShardRecord) -> None:
    if not (job.data_folder / record.file_name).is_file():
        raise RuntimeError(
            f"a worker wrote {record.file_name}, but it is not in {job.data_folder}: this folder "
            "has to be the same one on all machines of the cluster"
        )
