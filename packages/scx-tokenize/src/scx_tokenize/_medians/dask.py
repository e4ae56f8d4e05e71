"""Counting by the workers of a Dask cluster."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from scx_tokenize._medians.corpus import Corpus, Part, Sums, count_part
from scx_tokenize._medians.run import PassCounter
from scx_tokenize._medians.search import MedianSearch, TableEntries
from scx_tokenize.jobs._dask import each_result
from scx_tokenize.jobs._files import Stopped

if TYPE_CHECKING:
    from distributed import Client

# Each task sends its counts back, some dozen megabytes in the first pass: a task of more cells
# sends hardly more.
PARTS_PER_TASK = 4


def counting_on_dask(client: Client, threads: int = 1) -> PassCounter:
    """Count by the workers of a cluster, with `threads` in each task.

    Workers read the inputs at the same paths, and each task has counts of its own in memory.
    """

    def counter(corpus: Corpus, search: MedianSearch, done: Callable[[int], object]) -> Sums:
        tasks = _tasks(corpus)
        sums: dict[Part, Sums] = {}
        work = partial(_count, threads=threads)
        shared = (_at_full_paths(corpus), search.emptied())
        with closing(each_result(client, work, shared, tasks)) as results:
            for parts, entries, of_parts in results:
                search.add_entries(entries)
                sums |= dict(zip(parts, of_parts, strict=True))
                done(sum(part.stop - part.start for part in parts))
        result = Sums.nothing(corpus.n_genes)
        for part in corpus.parts():  # the order of a run without a cluster
            result += sums[part]
        return result

    return counter


def _tasks(corpus: Corpus) -> list[list[Part]]:
    """Consecutive parts of one file each."""
    tasks: list[list[Part]] = []
    for part in corpus.parts():
        if tasks and tasks[-1][0].input == part.input and len(tasks[-1]) < PARTS_PER_TASK:
            tasks[-1].append(part)
        else:
            tasks.append([part])
    return tasks


def _at_full_paths(corpus: Corpus) -> Corpus:
    """The corpus for processes whose current folder is another."""
    inputs = tuple(replace(each, path=os.path.abspath(each.path)) for each in corpus.inputs)
    return replace(corpus, inputs=inputs)


def _count(
    shared: tuple[Corpus, MedianSearch], parts: list[Part], stop: Any, *, threads: int
) -> tuple[list[Part], TableEntries, list[Sums]]:
    """What a worker does."""
    corpus, search = shared[0], shared[1].emptied()  # tasks of one process share what they are sent

    def done(_n_cells: int) -> None:
        if stop.is_set():
            raise Stopped

    with corpus.inputs[parts[0].input].open() as cells:
        sums = [
            count_part(corpus, part, cells, search, threads=threads, done=done) for part in parts
        ]
    return parts, search.entries(), sums
