"""Which shards of a job are whole, and what their bytes are: what a later run may keep.

While a job runs, each shard that is done gets a line in `finished.jsonl`; the manifest of a whole
job has the same entries. A shard is kept if its file has still the size and SHA-256 of its entry:
one that was damaged, cut off or exchanged meanwhile is made anew.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from scx_core._user_warnings import warn_user

from ._description import Job, Task
from ._files import each_in_threads, naming, sha256_of, write_text
from ._shards import ShardRecord

NOTES = "finished.jsonl"
NAMES_SHOWN = 3


def shard_entry(record: ShardRecord) -> dict[str, Any]:
    """What manifest and notes say of a shard, as JSON values."""
    return {
        "file": f"data/{record.file_name}",
        "file_id": record.file_id,
        "cells": record.n_cells,
        "tokens": record.n_tokens,
        "empty_cells": record.n_empty_cells,
        "whole_numbers": record.whole_numbers,
        "bytes": record.n_bytes,
        "sha256": record.sha256,
    }


def noted_records(job: Job, manifest: Mapping[str, Any] | None) -> list[ShardRecord]:
    """The shards that an earlier run of this job has finished, whatever became of them since."""
    if manifest is None or manifest["job_identity"] != job.identity:
        return []
    entries = manifest.get("shards")
    if not isinstance(entries, list):
        entries = list(_lines(Path(job.folder) / NOTES))
    by_file = {entry.get("file"): entry for entry in entries if isinstance(entry, dict)}
    records = [_record(task, by_file.get(f"data/{task.file_name}")) for task in job.tasks]
    return [record for record in records if record is not None]


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    if not path.is_file():
        return
    for line in path.read_bytes().splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            continue  # the last one of a run that was killed
        if isinstance(entry, dict):
            yield entry


def _record(task: Task, entry: Mapping[str, Any] | None) -> ShardRecord | None:
    """None for entries that are not this task's, or not what this version writes."""
    try:
        if entry is None or (entry["file_id"], entry["cells"]) != (task.file_id, task.n_cells):
            return None
        return ShardRecord(
            number=task.number,
            file_id=task.file_id,
            file_name=task.file_name,
            n_cells=task.n_cells,
            n_tokens=int(entry["tokens"]),
            n_empty_cells=int(entry["empty_cells"]),
            whole_numbers=bool(entry["whole_numbers"]),
            n_bytes=int(entry["bytes"]),
            sha256=str(entry["sha256"]),
        )
    except (KeyError, TypeError, ValueError):
        return None


def unchanged(
    job: Job, records: Sequence[ShardRecord], on_cells: Callable[[int], object]
) -> list[ShardRecord]:
    """Those of `records` whose files have the bytes that they had; a warning tells of others.

    All bytes are read, by as many threads as there are CPUs.
    """
    kept: list[ShardRecord] = []
    with closing(each_in_threads(partial(_is_same, job), records)) as answers:
        for record, same in zip(records, answers, strict=True):
            if same:
                kept.append(record)
                on_cells(record.n_cells)
    left = {record.number for record in kept}
    _tell_of_changes(job, [one.file_name for one in records if one.number not in left])
    return kept


def _is_same(job: Job, record: ShardRecord, stop: threading.Event) -> bool:
    path = job.data_folder / record.file_name
    try:
        if os.path.getsize(path) != record.n_bytes:
            return False
        return sha256_of(path, stop) == record.sha256
    except OSError:  # not there, or it cannot be read
        return False


def _tell_of_changes(job: Job, names: Sequence[str]) -> None:
    if not names:
        return
    more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    warn_user(
        f"{job.data_folder}: {', '.join(names[:NAMES_SHOWN])}{more} changed or went missing since "
        "an earlier run wrote them, and are made anew"
    )


def check_sizes(job: Job, records: Sequence[ShardRecord]) -> None:
    """RuntimeError where a file is not there any more, or has another size."""
    for record in records:
        path = job.data_folder / record.file_name
        if not path.is_file() or os.path.getsize(path) != record.n_bytes:
            raise RuntimeError(
                f"{path} was changed or removed while the job was running: start it again, which "
                "makes this file anew"
            )


class Notes:
    """Writes down which shards are done; those that are kept are noted already."""

    def __init__(self, job: Job, kept: Sequence[ShardRecord]) -> None:
        self._path = Path(job.folder) / NOTES
        if kept:
            write_text(self._path, "".join(map(_line, kept)))
        else:
            self._path.unlink(missing_ok=True)

    def add(self, record: ShardRecord) -> None:
        """Note a shard that is whole."""
        try:
            with self._path.open("a", encoding="utf-8") as file:
                # no fsync: a line that gets lost costs a shard that is made again
                file.write(_line(record))
        except OSError as error:
            raise naming(self._path, error) from None


def _line(record: ShardRecord) -> str:
    return json.dumps(shard_entry(record), ensure_ascii=False) + "\n"
