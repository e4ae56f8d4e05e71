"""Batches by plan: what the plan-driven data sets have in common.

A plan says which rows make a batch; what it looks like, a `PlanDecoder` alone knows. For one run
over an iterable of plans there are:

- a `PlanPuller`, whose thread pulls plans and has the decoder prepare them;
- the decoder, which is given prepared plans and gives their batches back in the same order;
- `PlanBatches`, the iterator that the user has. It hands plans on and batches out, in the
  user's thread.

The iterator takes the plans that the generator has produced so far, and waits for one only when it
has no other to decode. A generator that makes a plan out of the batch before it so never waits for
a consumer that waits for it.

At most `lookahead` plans are pulled and not yet handed out as batches. How many of them are being
decoded at a time is limited by the bytes of their batches as well. With a `lookahead` of 0 a plan
is pulled when its batch is asked for, not before.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, Generic, NoReturn, Protocol, Self, TypeVar

from scx_core._closing import Closing
from scx_train._process import REMEDY, HomeProcess
from scx_train.plans.puller import (
    STOP_SECONDS,
    STOP_UNASKED_SECONDS,
    WAIT_SECONDS,
    Ended,
    PlanPuller,
    Pulled,
)

PreparedT = TypeVar("PreparedT")
BatchT = TypeVar("BatchT")
BatchT_co = TypeVar("BatchT_co", covariant=True)


class PlanDecoder(Protocol[PreparedT, BatchT_co]):
    """Makes batches out of plans, for one iterator.

    `prepare` runs in the thread that pulls plans, all else in the thread that iterates. A decoder
    must not refer to the iterator, which otherwise would never be garbage.
    """

    def prepare(self, plan: Any) -> PreparedT | None:
        """Check a plan and copy what is needed of it, since it may change later.

        None for a plan without rows, which is skipped. What it raises (IndexError for a row that
        is out of range, TypeError or ValueError for what is no plan, RuntimeError for a plan that
        is too wide) reaches the user after the batches of the plans before it.
        """
        ...

    def batch_bytes(self, prepared: PreparedT) -> int:
        """Memory that the plan's batch takes, about: what limits how many are decoded ahead."""
        ...

    def submit(self, prepared: PreparedT) -> None:
        """Begin to decode. It should not wait; where nothing decodes ahead, it just remembers."""
        ...

    def receive(self) -> BatchT_co:
        """The batch of the oldest plan that was submitted and not received.

        Waits for it, in steps of at most 100 ms between which Ctrl-C is heard.
        """
        ...

    def close(self) -> None:
        """Give up what was submitted, and end threads.

        Called once, maybe by a destructor or by another thread while one waits in `receive`, which
        then raises. A `prepare` may still be running.
        """
        ...


class PlanBatches(Closing, Iterator[BatchT], Generic[PreparedT, BatchT]):
    """The batches of an iterable of plans, in its order.

    It ends with the plans, with `close`, or with the first error; dropping it half-way is fine,
    and so is closing its data set before it. Several threads may iterate: each batch goes to one.

    Parameters
    ----------
    plans
        The plans; TypeError when they cannot be iterated over.
    decoder
        What makes batches of them. The iterator closes it at its end.
    lookahead
        How many plans may be under way, 0 or more.
    room_bytes
        How much memory the batches that are decoded at a time may take; a single one may always.
    owner
        What messages call the data set.
    """

    def __init__(
        self,
        plans: Iterable[Any],
        decoder: PlanDecoder[PreparedT, BatchT],
        *,
        lookahead: int,
        room_bytes: int,
        owner: str,
    ) -> None:
        self._ended = True  # until all is there: the destructor may run after an error
        # Of the thread that takes a batch. `close` goes without, as it ends such a wait.
        self._taking = threading.Lock()
        self._home = HomeProcess()
        self._owner = owner
        self._lookahead = lookahead
        self._room_bytes = room_bytes
        self._puller = PlanPuller(plans, decoder.prepare, allowed=lookahead)
        self._decoder = decoder
        # Bytes of each batch that is being decoded, oldest first.
        self._under_way: deque[int] = deque()
        self._waiting: Pulled[PreparedT] | Ended | None = None
        self._n_decoded_ahead = 0
        self._ended = False

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> BatchT:
        if self._ended:
            raise StopIteration
        self._home.check(self._owner)  # first: in a fork nobody would open the lock again
        with self._taking:
            return self._take()

    def _take(self) -> BatchT:
        if self._ended:
            raise StopIteration  # another thread came to the end meanwhile
        try:
            if self._lookahead == 0:
                self._puller.allow_one()
            self._submit_all()
            if not self._under_way:
                raise self._end()
            batch = self._decoder.receive()
        except BaseException as error:
            # Also Ctrl-C: it may have come between two of these steps.
            closed_meanwhile = self._ended
            interrupted = isinstance(error, KeyboardInterrupt)
            self._close(WAIT_SECONDS if interrupted else STOP_UNASKED_SECONDS)
            if closed_meanwhile and not interrupted:
                raise StopIteration from None
            raise
        self._under_way.popleft()
        if self._lookahead > 0:
            self._puller.allow_one()
        return batch

    @property
    def closed(self) -> bool:
        """Whether it has ended. Never raises."""
        return self._ended

    def close(self) -> None:
        """End here. Closing again does nothing.

        Waits up to 5 seconds for a generator that is at work on the next plan, and leaves it to
        its own end when it takes longer.
        """
        self._close(STOP_SECONDS)

    def __del__(self) -> None:
        if not getattr(self, "_ended", True):
            self._close(STOP_UNASKED_SECONDS)

    def __reduce__(self) -> NoReturn:
        raise RuntimeError(f"batches of {self._owner} cannot be sent or copied: {REMEDY}")

    def _submit_all(self) -> None:
        """Hand on what was pulled, as far as there is room; wait only for the very first."""
        while True:
            if self._waiting is None:
                self._waiting = self._puller.take(wait=not self._under_way)
            item = self._waiting
            if item is None or isinstance(item, Ended):
                return
            size = self._decoder.batch_bytes(item.plan)
            if self._under_way and sum(self._under_way) + size > self._room_bytes:
                return
            self._decoder.submit(item.plan)
            self._waiting = None
            self._n_decoded_ahead += bool(self._under_way)
            self._under_way.append(size)

    def _end(self) -> BaseException:
        """What to raise when no batch is left."""
        ended, self._waiting = self._waiting, None
        error = ended.error if isinstance(ended, Ended) else None
        return StopIteration() if error is None else error

    def _close(self, seconds_max: float) -> None:
        ended, self._ended = self._ended, True
        if ended or not self._home.is_here:
            return  # in another process neither threads nor locks are there
        try:
            self._decoder.close()
        finally:
            self._puller.stop(seconds_max)
