"""Running a job: its folder, its shards by threads of this process, its manifest."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from .. import _arguments as numbers
from ._description import Job, Task
from ._inputs import TURNED_FOLDER
from ._manifest import MANIFEST, manifest_of, prepare_folder, write_json, write_vocabulary
from ._plan import turn_matrices
from ._shards import ShardRecord, Stopped, forget_inputs, make_shard, shard_record

if TYPE_CHECKING:
    from scx_core.writing import Progress

WAIT_SECONDS = 0.1

OnCells: TypeAlias = Callable[[int], object]
Runner: TypeAlias = Callable[[Job, Sequence[Task], OnCells], Sequence[ShardRecord]]
"""Makes the shards of tasks; calls the function with numbers of cells as they are done."""


def run_job(
    job: Job,
    arguments: Mapping[str, Any],
    runner: Runner,
    *,
    overwrite: bool = False,
    hf: bool = False,
    progress: Progress = None,
) -> dict[str, Any]:
    """Make what is missing of a job's results, with shards from `runner`; give the manifest.

    Parameters
    ----------
    job
        From `plan_job`.
    arguments
        What the manifest keeps of the arguments, as JSON values.
    runner
        Makes the shards.
    overwrite, hf, progress
        As of `run`.
    """
    from scx_core.writing._progress import row_progress

    if hf:
        from ._hf import require_datasets, write_hf

        require_datasets()
    folder = Path(job.folder)
    with _locked(folder):
        prepare_folder(job, overwrite=overwrite)
        finished = [record for task in job.tasks if (record := shard_record(job, task))]
        done = {record.number for record in finished}
        missing = [task for task in job.tasks if task.number not in done]
        if missing:
            write_json(folder / MANIFEST, manifest_of(job, arguments, None))
            job.data_folder.mkdir(exist_ok=True)
            write_vocabulary(job)
            turn_matrices(job)
        try:
            with row_progress(progress, job.n_cells) as on_cells:
                on_cells(sum(record.n_cells for record in finished))
                made = list(runner(job, missing, on_cells))
        finally:
            forget_inputs()
        records = sorted([*finished, *made], key=lambda record: record.number)
        if hf:
            write_hf(job, folder / "hf", quiet=progress is False)
        manifest = manifest_of(job, arguments, records)
        write_json(folder / MANIFEST, manifest)
        write_vocabulary(job)
        shutil.rmtree(folder / TURNED_FOLDER, ignore_errors=True)
    return manifest


def in_threads(
    job: Job, tasks: Sequence[Task], on_cells: OnCells, *, threads: int
) -> list[ShardRecord]:
    """Make shards with threads of this process; the first error ends the others."""
    if not tasks:
        return []
    stop = threading.Event()
    n_workers = min(threads, len(tasks))
    counter = _Counter()

    def made(task: Task) -> ShardRecord:
        try:
            if stop.is_set():
                raise Stopped
            inner = max(1, threads // n_workers)
            return make_shard(job, task, threads=inner, on_cells=counter.add, stop=stop)
        except BaseException:
            stop.set()
            raise

    pool = ThreadPoolExecutor(max_workers=n_workers, thread_name_prefix="scx-tokenize")
    try:
        futures = [pool.submit(made, task) for task in tasks]
        pending: set[Future[ShardRecord]] = set(futures)
        while pending:
            done, pending = wait(pending, timeout=WAIT_SECONDS, return_when=FIRST_EXCEPTION)
            on_cells(counter.take())
            for one in done:
                if not isinstance(one.exception(), Stopped):
                    one.result()
        return [future.result() for future in futures]
    finally:
        stop.set()
        _shut_down(pool)


def _shut_down(pool: ThreadPoolExecutor) -> None:
    """Wait for the threads whatever happens: they remove what they have begun."""
    interrupt: BaseException | None = None
    while True:
        try:
            pool.shutdown(wait=True, cancel_futures=True)
            break
        except (KeyboardInterrupt, SystemExit) as error:
            interrupt = error
    if interrupt is not None:
        raise interrupt


def available_cpus() -> int:
    """CPUs that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return min(numbers.THREADS_MAX, len(os.sched_getaffinity(0)))
    return min(numbers.THREADS_MAX, os.cpu_count() or 1)


class _Counter:
    """Cells that threads have done since somebody asked."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0

    def add(self, n_cells: int) -> None:
        with self._lock:
            self._count += n_cells

    def take(self) -> int:
        with self._lock:
            count, self._count = self._count, 0
        return count


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Keep other runs out of the folder; a killed one keeps nobody out."""
    if folder.exists() and not folder.is_dir():
        raise FileExistsError(f"{folder} is a file; OUT is a folder")
    existed = folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / ".lock"
    with path.open("a") as file:
        _lock(file, folder)
        try:
            yield
        finally:
            path.unlink(missing_ok=True)
            if not existed and not any(folder.iterdir()):
                folder.rmdir()


def _lock(file: Any, folder: Path) -> None:
    try:
        import fcntl
    except ImportError:  # not on Windows
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise RuntimeError(f"another process makes tokens in {folder}") from None
    except OSError:
        return  # a file system without locks is no reason to refuse
