"""One epoch under way: keeps the pipeline busy and puts batches together."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, NoReturn, Self, TypeVar

from scx_train._process import REMEDY, HomeProcess
from scx_train.streams.cutting import Cutting
from scx_train.streams.order import EpochOrder, Rows, RowStream, ShardGroups
from scx_train.streams.pipelines import Pipeline, PipelineShelf
from scx_train.streams.progress import Progress
from scx_train.streams.sampling import CuttingByLabel

BatchT = TypeVar("BatchT")
# The first batch waits for all bytes of its group, unless the group has more rows than this.
HELD_ROWS_MAX = 1 << 18

CLOSED = "the data set was closed while this epoch was running: iterate over it again for the next"


class EpochIterator(Iterator[BatchT]):
    """The batches of one epoch, in order, from the one on where `progress` stands.

    It ends with the epoch, with `close`, or with the first error; its pipeline then serves the
    next epoch. Dropping it half-way is fine. Several threads may iterate: each batch goes to one.
    """

    def __init__(
        self,
        shelf: PipelineShelf,
        order: EpochOrder,
        cutting: Cutting | CuttingByLabel,
        *,
        progress: Progress,
        prefetch_batches: int,
        reads_ahead: bool,
        scattered: bool,
        make_batch: Callable[[Any, Rows], BatchT],
        owner: str,
    ) -> None:
        self._home = HomeProcess()
        # Of the thread that takes a batch. `close` goes without, as it ends such a wait.
        self._taking = threading.Lock()
        self._shelf = shelf
        self._make_batch = make_batch
        self._owner = owner
        self._under_way: deque[Rows] = deque()
        self._pipeline: Pipeline | None = shelf.take()
        self._progress = progress
        self._rows = _batches(
            order,
            cutting,
            progress.batch,
            self._pipeline,
            reads_ahead=reads_ahead,
        )
        try:
            self._pipeline.expect_scattered(scattered=scattered)
            for _ in range(prefetch_batches):
                self._submit_next(self._pipeline)
        except BaseException:
            self._abort()
            raise

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> BatchT:
        if self._pipeline is None:
            raise StopIteration
        self._home.check(self._owner)  # first: in a fork nobody would open the lock again
        with self._taking:
            values, rows = self._take()
        return self._make_batch(values, rows)

    def _take(self) -> tuple[Any, Rows]:
        """What the pipeline made of the next batch, and its rows."""
        pipeline = self._pipeline
        if pipeline is None:
            raise StopIteration  # another thread came to the end meanwhile
        if pipeline.closed:
            self._give_back()
            raise RuntimeError(CLOSED)
        if not self._under_way:
            self._progress.finished = True
            self._give_back()
            raise StopIteration
        try:
            values = pipeline.wait()
            rows = self._under_way.popleft()
            self._submit_next(pipeline)
        except BaseException as error:
            # Also Ctrl-C: it may have come between two of these steps.
            ended, closed = self._pipeline is None, pipeline.closed
            self._abort()
            if isinstance(error, RuntimeError) and ended:
                raise StopIteration from None  # by another thread
            if isinstance(error, RuntimeError) and closed:
                raise RuntimeError(CLOSED) from None
            raise
        self._progress.batch += 1
        return values, rows

    def close(self) -> None:
        """End the epoch here, also where another thread waits. Ending it again does nothing."""
        if not self._home.is_here:
            self._pipeline = None  # neither threads nor locks are those of this process
        elif self._taking.acquire(blocking=False):
            try:
                self._give_back()
            finally:
                self._taking.release()
        else:
            self._abort()  # whoever waits must not get a batch of the epoch that has it next

    def __reduce__(self) -> NoReturn:
        raise RuntimeError(f"batches of a {self._owner} cannot be sent or copied: {REMEDY}")

    def _give_back(self) -> None:
        pipeline, self._pipeline = self._pipeline, None
        if pipeline is not None:
            self._shelf.give_back(pipeline)

    def _abort(self) -> None:
        pipeline, self._pipeline = self._pipeline, None
        if pipeline is not None:
            self._shelf.discard(pipeline)

    def __del__(self) -> None:
        if getattr(self, "_pipeline", None) is not None:
            self.close()

    def _submit_next(self, pipeline: Pipeline) -> None:
        rows = next(self._rows, None)
        if rows is not None:
            pipeline.submit(rows)
            self._under_way.append(rows)


def _batches(
    order: EpochOrder,
    cutting: Cutting | CuttingByLabel,
    first: int,
    pipeline: Pipeline,
    *,
    reads_ahead: bool,
) -> Iterator[Rows]:
    if first >= len(cutting):
        return
    first_row = cutting.spans(first)[0][0]
    groups = _announced(order, first_row, pipeline, reads_ahead=reads_ahead)
    yield from cutting.batches(RowStream(groups), first)


def _announced(
    order: EpochOrder,
    first_row: int,
    pipeline: Pipeline,
    *,
    reads_ahead: bool,
) -> Iterator[Rows]:
    """The groups of an epoch; the bytes of each are asked for while the one before it is read.

    Unless it `reads_ahead`, they are asked for when the group itself is begun. Groups that end
    before place `first_row` of the order are not read, and not asked for.
    """
    n_seen = 0
    begun = False
    for group, rows in enumerate(order):
        n_seen += len(rows)
        if n_seen > first_row:
            if not begun:
                # Shuffled, the first batch takes rows from everywhere in the group: threads that
                # each wait for a page would have the disk read in pieces, not from front to back.
                # A batch that takes rows from everywhere in the file does not wait for all of it.
                mixed = isinstance(order, ShardGroups) and order.shuffled
                _announce(order, group, pipeline, hold=mixed and len(rows) <= HELD_ROWS_MAX)
                begun = True
            elif not reads_ahead:
                _announce(order, group, pipeline)
            if reads_ahead:
                _announce(order, group + 1, pipeline)
        yield rows


def _announce(order: EpochOrder, group: int, pipeline: Pipeline, *, hold: bool = False) -> None:
    """Ask for the bytes of a group; its batches may wait for them."""
    if group >= len(order):
        return
    # In the order of the file, which disks read fastest.
    for part in sorted(order.ranges(group), key=lambda part: part.start):
        pipeline.will_need(part.start, part.stop, hold=hold)
