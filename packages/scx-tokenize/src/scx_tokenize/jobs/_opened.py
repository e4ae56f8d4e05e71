"""Input files that several tasks of one process share while they are open."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ._cells import Cells, open_cells
from ._description import InputFile, Job
from ._inputs import content_identity, identity_of
from ._obs import kept_positions, obs_arrays

OPENED_AT_MOST = 4


@dataclass(frozen=True)
class OpenedInput:
    """A file with what all its shards need.

    Attributes
    ----------
    cells
        Its cells.
    positions
        int64, places in `cells.rows` of those that are taken.
    obs
        The columns that are kept, as arrays of pyarrow, an entry for each of `positions`.
    facts
        Of the file when it was opened.
    """

    cells: Cells
    positions: npt.NDArray[np.int64]
    obs: dict[str, Any]
    facts: os.stat_result

    def check_unchanged(self) -> None:
        """RuntimeError where the file was written to since it was opened.

        One that was replaced is still open as it was.
        """
        try:
            now = os.stat(self.cells.path)
        except FileNotFoundError:
            return
        before = self.facts
        if (now.st_dev, now.st_ino) == (before.st_dev, before.st_ino) and _stamp(now) != _stamp(
            before
        ):
            raise _changed(self.cells.path)


_LOCK = threading.Lock()
_OPENED: dict[tuple[int, str, int], OpenedInput] = {}


def opened_input(job: Job, file_id: int) -> OpenedInput:
    """A file of a job, which stays open for further shards.

    Raises
    ------
    RuntimeError
        It has been changed since the job was planned.
    """
    # a handle belongs to the process that opened it
    key = (os.getpid(), job.identity, file_id)
    with _LOCK:
        if key not in _OPENED:
            while len(_OPENED) >= OPENED_AT_MOST:
                # not closed: another thread may be reading, and the last one to do so lets it go
                _OPENED.pop(next(iter(_OPENED)))
            _OPENED[key] = _open(job, file_id)
        return _OPENED[key]


def forget_inputs() -> None:
    """Let go of the input files that this process has kept open for further shards."""
    with _LOCK:
        _OPENED.clear()


def _open(job: Job, file_id: int) -> OpenedInput:
    file = job.files[file_id]
    facts = os.stat(file.path)
    if facts.st_size != file.size:
        raise _changed(file.path)
    if file.kind == "h5ad" and facts.st_mtime_ns != file.time and not _is_as_planned(file):
        raise _changed(file.path)
    cells = open_cells(file.path, source=job.source, modality=job.modality, turned=file.turned)
    if file.kind == "scx" and identity_of(cells) != file.identity:
        raise _changed(file.path)
    n_cells, columns = len(cells.rows), list(job.obs_types)
    if job.obs_filter is None and not columns:
        positions: npt.NDArray[np.int64] = np.arange(n_cells, dtype=np.int64)
        return OpenedInput(cells, positions, {}, facts)
    obs = cells.obs()
    positions = kept_positions(obs, job.obs_filter, path=file.path)
    if len(positions) != file.n_cells:
        raise _changed(file.path)
    taken = obs if len(positions) == len(obs) else obs.iloc[positions]
    return OpenedInput(cells, positions, obs_arrays(taken, columns, path=file.path), facts)


def _is_as_planned(file: InputFile) -> bool:
    """Of a file that was written to, or touched: its content decides."""
    return content_identity(file.path) == file.identity


def _stamp(facts: os.stat_result) -> tuple[int, int]:
    return facts.st_size, facts.st_mtime_ns


def _changed(path: str) -> RuntimeError:
    return RuntimeError(f"{path} has been changed since the job was planned: start it anew")
