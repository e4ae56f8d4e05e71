"""Plans, pulled out of an iterable by a thread of their own.

The iterable may be a generator that waits for what the consumer makes of the batch before: it then
waits in this thread, while the consumer goes on with the plans that there are. So that it is lazy
all the same, the thread asks for a plan only when it has been allowed one.

A list or a tuple never waits for anything: its plans are taken where they are needed, without a
thread.
"""

from __future__ import annotations

import atexit
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from scx_train._process import HomeProcess

PreparedT = TypeVar("PreparedT")

# How long a wait may last before Python looks for Ctrl-C.
WAIT_SECONDS = 0.1
STOP_SECONDS = 5.0
# Where nobody asked for the end: of an iterator that is let go, or when the interpreter ends.
STOP_UNASKED_SECONDS = 1.0


@dataclass(frozen=True)
class Pulled(Generic[PreparedT]):
    """A plan that was checked and put into the form that is decoded."""

    plan: PreparedT


@dataclass(frozen=True)
class Ended:
    """What follows the last plan: nothing, or the error that ends the batches."""

    error: BaseException | None = None


class PlanPuller(Generic[PreparedT]):
    """Pulls plans from an iterable in a thread, no more than it was allowed.

    One thread at a time may take. That of the plans starts with the first `take`. It is a daemon: a
    generator that never comes back does not keep the interpreter from ending.

    Parameters
    ----------
    plans
        The iterable. A generator is closed at the end, in the thread.
    prepare
        Checks a plan and puts it into the form that is decoded, in the thread; None for an empty
        one, which is skipped. What it raises stands at the place of its plan.
    allowed
        How many plans may be pulled before `allow_one` is called.

    Raises
    ------
    TypeError
        `plans` is no iterable.
    """

    def __init__(
        self, plans: Iterable[Any], prepare: Callable[[Any], PreparedT | None], *, allowed: int
    ) -> None:
        try:
            self._plans: Iterator[Any] = iter(plans)
        except TypeError:
            raise TypeError(
                f"plans is {type(plans).__name__}, but an iterable of plans is needed, such as a "
                "list or a generator"
            ) from None
        self._never_waits = type(plans) in (list, tuple)
        self._prepare = prepare
        self._allowed = allowed
        self._home = HomeProcess()
        # Reentrant: a garbage collection in the thread may end the iterator that it works for.
        self._changed = threading.Condition(threading.RLock())
        self._ready: deque[Pulled[PreparedT] | Ended] = deque()
        self._stopped = False
        self._thread: threading.Thread | None = None

    def allow_one(self) -> None:
        """Let the thread pull one more."""
        with self._changed:
            self._allowed += 1
            self._changed.notify_all()

    def take(self, *, wait: bool) -> Pulled[PreparedT] | Ended | None:
        """The next plan, or the end.

        None when there is none yet, unless it should `wait`, and when it was stopped.
        """
        if self._never_waits:
            return self._take_at_once()
        with self._changed:
            if self._thread is None and not self._stopped:
                self._start()
            while wait and not self._ready and not self._stopped:
                self._changed.wait(WAIT_SECONDS)
            return self._ready.popleft() if self._ready else None

    def _take_at_once(self) -> Pulled[PreparedT] | Ended | None:
        while self._allowed > 0 and not self._stopped:
            item = self._pull()
            if item is not None:
                self._allowed -= 1
                return item
        return None

    def stop(self, seconds_max: float) -> None:
        """End the thread and close the generator.

        A generator that is at work, or waits for something, cannot be interrupted: after
        `seconds_max` the thread is left alone, and ends when the generator comes back.
        """
        if not self._home.is_here:
            return  # the thread, and who holds the lock, stayed in the parent
        with self._changed:
            self._stopped = True
            self._ready.clear()
            self._changed.notify_all()
            thread = self._thread
        if thread is None:
            self._close_plans()
        elif thread is not threading.current_thread():
            deadline = time.monotonic() + seconds_max
            while thread.is_alive() and (left := deadline - time.monotonic()) > 0:
                thread.join(min(left, WAIT_SECONDS))

    def _start(self) -> None:
        thread = threading.Thread(target=self._run, name="scx-plans", daemon=True)
        thread.start()
        self._thread = thread
        _PULLERS.add(self)

    def _run(self) -> None:
        try:
            while self._take_permit():
                item = self._pull()
                if item is None:
                    self.allow_one()
                    continue
                with self._changed:
                    if not self._stopped:
                        self._ready.append(item)
                        self._changed.notify_all()
                if isinstance(item, Ended):
                    break
        finally:
            self._close_plans()

    def _take_permit(self) -> bool:
        with self._changed:
            while self._allowed <= 0 and not self._stopped:
                self._changed.wait()
            self._allowed -= 1
            return not self._stopped

    def _pull(self) -> Pulled[PreparedT] | Ended | None:
        try:
            plan = next(self._plans)
        except StopIteration:
            return Ended()
        except BaseException as error:
            failure = RuntimeError(f"plan iterator raised: {type(error).__name__}: {error}")
            failure.__cause__ = error
            return Ended(failure)
        try:
            prepared = self._prepare(plan)
        except BaseException as error:
            return Ended(error)
        return None if prepared is None else Pulled(prepared)

    def _close_plans(self) -> None:
        plans, self._plans = self._plans, iter(())
        if isinstance(plans, Generator):
            plans.close()


_PULLERS: weakref.WeakSet[PlanPuller[Any]] = weakref.WeakSet()
"""Those that may have a thread."""


@atexit.register
def _stop_all() -> None:
    """Ends all threads while the interpreter is still whole."""
    pullers = list(_PULLERS)
    for puller in pullers:
        puller.stop(0)
    deadline = time.monotonic() + STOP_UNASKED_SECONDS
    for puller in pullers:
        puller.stop(max(0.0, deadline - time.monotonic()))
