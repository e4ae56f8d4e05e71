"""Running a job: its folder, its shards by threads of this process, its manifest."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from scx_core._locks import Lock, held_lock

from ._description import Job, Task
from ._files import Stopped
from ._finished import NOTES, Notes, check_sizes, noted_records, unchanged
from ._fractions import warn_of_fractions
from ._inputs import TURNED_FOLDER
from ._manifest import MANIFEST, manifest_of, prepare_folder, write_json, write_vocabulary
from ._opened import forget_inputs
from ._plan import turn_matrices
from ._shards import ShardRecord, make_shard

if TYPE_CHECKING:
    from scx_core.writing import Progress

WAIT_SECONDS = 0.1

OnCells: TypeAlias = Callable[[int], object]
Records: TypeAlias = Generator[ShardRecord, None, None]
Runner: TypeAlias = Callable[[Job, Sequence[Task], OnCells], Records]
"""Makes the shards of tasks and gives the record of each when it is whole; calls the function with
numbers of cells as they are done. It has come to rest when it ends or is closed."""


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
        noted = noted_records(job, prepare_folder(job, overwrite=overwrite))
        with row_progress(progress, job.n_cells) as on_cells:
            finished = unchanged(job, noted, on_cells)
            records = [*finished, *_made(job, arguments, finished, runner, on_cells)]
        records.sort(key=lambda record: record.number)
        check_sizes(job, records)
        if hf:
            write_hf(job, folder / "hf", quiet=progress is False)
        manifest = manifest_of(job, arguments, records)
        write_json(folder / MANIFEST, manifest)
        write_vocabulary(job)
        (folder / NOTES).unlink(missing_ok=True)
        shutil.rmtree(folder / TURNED_FOLDER, ignore_errors=True)
    _warn_of_late_fractions(job, records)
    return manifest


def _made(
    job: Job,
    arguments: Mapping[str, Any],
    finished: Sequence[ShardRecord],
    runner: Runner,
    on_cells: OnCells,
) -> list[ShardRecord]:
    """Make the shards that are not finished, and note each that is."""
    done = {record.number for record in finished}
    missing = [task for task in job.tasks if task.number not in done]
    if not missing:
        return []
    made = []
    notes = Notes(job, finished)
    write_json(Path(job.folder) / MANIFEST, manifest_of(job, arguments, None))
    job.data_folder.mkdir(exist_ok=True)
    write_vocabulary(job)
    turn_matrices(job)
    on_cells(0)
    try:
        with closing(runner(job, missing, on_cells)) as records:
            for record in records:
                notes.add(record)
                made.append(record)
    finally:
        forget_inputs()
    return made


def _warn_of_late_fractions(job: Job, records: Sequence[ShardRecord]) -> None:
    """Tell of files whose first cells, which were looked at before, are counts and others not."""
    if job.takes_counts is None:
        return
    odd = sorted({record.file_id for record in records if not record.whole_numbers})
    paths = [job.files[number].path for number in odd if not job.files[number].has_fractions]
    warn_of_fractions(paths, job.source, f"{job.takes_counts} takes")


def in_threads(job: Job, tasks: Sequence[Task], on_cells: OnCells, *, threads: int) -> Records:
    """Make shards with threads of this process; the first error ends the others."""
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
            failed = [one for one in done if one.exception() is not None]
            whole = [one.result() for one in done if one.exception() is None]
            yield from sorted(whole, key=lambda record: record.number)
            for one in failed:
                if not isinstance(one.exception(), Stopped):
                    one.result()
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
    made = _made_folders(folder)
    try:
        with held_lock(folder / ".lock") as held:
            if held is Lock.TAKEN_BY_ANOTHER:
                raise RuntimeError(f"another process makes tokens in {folder}")
            yield
    finally:
        with suppress(OSError):  # those with something in them stay
            for one in made:
                one.rmdir()


def _made_folders(folder: Path) -> list[Path]:
    """Make a folder and those above it; give those that were not there, the innermost first."""
    missing = []
    for one in (folder, *folder.parents):
        if one.exists():
            break
        missing.append(one)
    folder.mkdir(parents=True, exist_ok=True)
    return missing
