"""The engine of plan-driven data sets, with a decoder that decodes nothing."""

from __future__ import annotations

import gc
import os
import queue
import signal
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from scx_train.plans.engine import PlanBatches

# Long enough for a thread of a busy machine; nothing waits for it when all is well.
PATIENCE = 20.0
DAMAGED = 1313


class Doubler:
    """Batches are twice their plan. Negative ones are refused, one is damaged, 0 is empty."""

    def __init__(self, *, size: int = 1) -> None:
        self.size = size
        self.submitted: deque[int] = deque()
        self.most_submitted = 0
        self.closed = 0

    def prepare(self, plan: int) -> int | None:
        if plan < 0:
            raise IndexError(f"plan {plan} is out of range")
        return plan or None

    def batch_bytes(self, prepared: int) -> int:
        return self.size

    def submit(self, prepared: int) -> None:
        self.submitted.append(prepared)
        self.most_submitted = max(self.most_submitted, len(self.submitted))

    def receive(self) -> int:
        plan = self.submitted.popleft()
        if plan == DAMAGED:
            raise ValueError("a damaged row")
        return 2 * plan

    def close(self) -> None:
        self.closed += 1


def batches_of(
    plans: Iterable[Any], *, lookahead: int = 4, decoder: Doubler | None = None, room: int = 1000
) -> PlanBatches[int, int]:
    return PlanBatches(
        plans, decoder or Doubler(), lookahead=lookahead, room_bytes=room, owner="Doubler"
    )


def plan_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "scx-plans"]


def wait_until(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.001)
    return True


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    yield
    if plan_threads():
        gc.collect()
    assert wait_until(lambda: not plan_threads())


LOOKAHEADS = pytest.mark.parametrize("lookahead", [0, 1, 2, 4, 50])


@LOOKAHEADS
@pytest.mark.parametrize(
    "wrap",
    [list, tuple, iter, lambda plans: (plan for plan in plans), deque],
    ids=["list", "tuple", "iterator", "generator", "deque"],
)
def test_every_plan_once_and_in_order(lookahead: int, wrap: Callable[[Any], Any]) -> None:
    decoder = Doubler()
    plans = [1, 0, 2, 0, 0, 3, *range(20, 60), 0]
    expected = [2 * plan for plan in plans if plan]
    assert list(batches_of(wrap(plans), lookahead=lookahead, decoder=decoder)) == expected
    assert decoder.closed == 1
    assert not plan_threads()


@LOOKAHEADS
def test_lists_need_no_thread_and_are_taken_no_further_than_generators(lookahead: int) -> None:
    class Noting(Doubler):
        def __init__(self) -> None:
            super().__init__()
            self.prepared: list[int] = []

        def prepare(self, plan: int) -> int | None:
            self.prepared.append(plan)
            return super().prepare(plan)

    decoder = Noting()
    batches = batches_of(list(range(1, 100)), lookahead=lookahead, decoder=decoder)
    for number in range(1, 30):
        assert next(batches) == 2 * number
        assert len(decoder.prepared) <= number + max(1, lookahead)
        assert not plan_threads()
    batches.close()


def test_no_plans_and_empty_plans_alone() -> None:
    for plans in ([], [0], [0] * 5000):
        batches = batches_of(plans)
        assert list(batches) == []
        assert list(batches) == [] and batches.closed


@pytest.mark.parametrize("wrong", [5, None, object()])
def test_plans_have_to_be_iterable(wrong: Any) -> None:
    with pytest.raises(TypeError, match="iterable of plans is needed"):
        batches_of(wrong)


def test_nothing_is_pulled_before_the_first_batch_is_asked_for() -> None:
    pulled = []

    def plans() -> Iterator[int]:
        for plan in range(1, 100):
            pulled.append(plan)
            yield plan

    batches = batches_of(plans())
    assert not plan_threads() and pulled == []
    batches.close()
    assert pulled == []


@pytest.mark.parametrize("lookahead", [1, 2, 4, 16])
def test_no_more_plans_are_pulled_than_lookahead(lookahead: int) -> None:
    most_ahead, handed_out, pulled = 0, 0, 0

    def plans() -> Iterator[int]:
        nonlocal most_ahead, pulled
        for plan in range(1, 60):
            pulled += 1
            most_ahead = max(most_ahead, pulled - handed_out)
            yield plan

    for _ in batches_of(plans(), lookahead=lookahead):
        time.sleep(0.001)
        handed_out += 1
    # the one that is handed out may be replaced before the loop has counted it
    assert most_ahead <= lookahead + 1


def test_lookahead_0_pulls_on_demand() -> None:
    pulled: list[int] = []

    def plans() -> Iterator[int]:
        for plan in range(1, 20):
            pulled.append(plan)
            yield plan

    for number, _ in enumerate(batches_of(plans(), lookahead=0), start=1):
        time.sleep(0.002)
        assert len(pulled) == number


def test_plans_are_pulled_in_the_background() -> None:
    pulled = []

    def plans() -> Iterator[int]:
        for plan in range(1, 20):
            pulled.append(plan)
            yield plan

    batches = batches_of(plans(), lookahead=3)
    assert next(batches) == 2
    assert wait_until(lambda: pulled == [1, 2, 3, 4])
    assert next(batches) == 4
    assert wait_until(lambda: pulled == [1, 2, 3, 4, 5])
    batches.close()


@pytest.mark.parametrize(("room", "expected"), [(1, 1), (10, 1), (30, 3), (39, 3), (1000, 5)])
def test_room_limits_what_is_decoded_at_a_time(room: int, expected: int) -> None:
    decoder = Doubler(size=10)
    received = []
    for batch in batches_of(range(1, 40), lookahead=5, decoder=decoder, room=room):
        received.append(batch)
        time.sleep(0.002)
    assert received == [2 * plan for plan in range(1, 40)]
    assert decoder.most_submitted <= expected


# ---- generators that wait for the batch before ----


@LOOKAHEADS
def test_a_generator_that_waits_for_each_batch_makes_progress(lookahead: int) -> None:
    seen: queue.Queue[int] = queue.Queue()

    def plans() -> Iterator[int]:
        plan = 1
        while plan < 2000:
            yield plan
            plan = seen.get(timeout=PATIENCE) + 1

    received = []
    for batch in batches_of(plans(), lookahead=lookahead):
        received.append(batch)
        seen.put(batch)
    expected = [2]
    while expected[-1] + 1 < 2000:
        expected.append(2 * (expected[-1] + 1))
    assert received == expected


def test_what_was_produced_is_decoded_while_the_generator_waits() -> None:
    """It yields two plans, and the third only after both batches."""
    gate = threading.Semaphore(0)

    def plans() -> Iterator[int]:
        for plan in range(1, 21):
            yield plan
            if plan % 2 == 0:
                assert gate.acquire(timeout=PATIENCE)

    received = []
    for batch in batches_of(plans(), lookahead=8):
        received.append(batch)
        if len(received) % 2 == 0:
            gate.release()
    assert received == [2 * plan for plan in range(1, 21)]


def test_feedback_without_any_waiting_needs_lookahead_0() -> None:
    state = {"next": 1}

    def plans() -> Iterator[int]:
        while state["next"] < 100:
            yield state["next"]

    received = []
    for batch in batches_of(plans(), lookahead=0):
        received.append(batch)
        state["next"] = batch + 1
    assert received == [2, 6, 14, 30, 62, 126]


# ---- errors ----


@LOOKAHEADS
def test_what_a_generator_raises(lookahead: int) -> None:
    def plans() -> Iterator[int]:
        yield from (1, 2, 3)
        raise KeyError("no such stratum")

    batches = batches_of(plans(), lookahead=lookahead)
    assert [next(batches) for _ in range(3)] == [2, 4, 6]
    with pytest.raises(RuntimeError, match=r"^plan iterator raised: KeyError: .*stratum") as caught:
        next(batches)
    assert isinstance(caught.value.__cause__, KeyError)
    assert list(batches) == []


def test_a_generator_that_raises_at_once_and_one_that_exits() -> None:
    def exits() -> Iterator[int]:
        raise SystemExit(3)
        yield 1

    def loses() -> Iterator[int]:
        yield next(iter(()))

    for plans, name in ((exits(), "SystemExit"), (loses(), "RuntimeError")):
        with pytest.raises(RuntimeError, match=f"plan iterator raised: {name}"):
            next(batches_of(plans))


@LOOKAHEADS
def test_a_plan_that_is_refused(lookahead: int) -> None:
    closed = threading.Event()

    def plans() -> Iterator[int]:
        try:
            yield from (1, 2, -7, 4)
        finally:
            closed.set()

    batches = batches_of(plans(), lookahead=lookahead)
    assert [next(batches), next(batches)] == [2, 4]
    with pytest.raises(IndexError, match="plan -7 is out of range"):
        next(batches)
    assert closed.wait(PATIENCE)
    assert list(batches) == []


@LOOKAHEADS
def test_an_error_while_decoding(lookahead: int) -> None:
    decoder = Doubler()
    batches = batches_of(iter([1, DAMAGED, 2, 3]), lookahead=lookahead, decoder=decoder)
    assert next(batches) == 2
    with pytest.raises(ValueError, match="damaged"):
        next(batches)
    assert decoder.closed == 1 and list(batches) == []


# ---- ends ----


def closing_plans(closed: threading.Event) -> Iterator[int]:
    try:
        plan = 0
        while True:
            plan += 1
            yield plan
    finally:
        closed.set()


@LOOKAHEADS
@pytest.mark.parametrize("n_before", [0, 1, 5])
@pytest.mark.parametrize("how", ["close", "with", "delete"])
def test_early_exits_close_the_generator(lookahead: int, n_before: int, how: str) -> None:
    decoder, closed = Doubler(), threading.Event()
    plans = closing_plans(closed)
    batches = batches_of(plans, lookahead=lookahead, decoder=decoder)
    for _ in range(n_before):
        next(batches)
    if how == "close":
        batches.close()
        batches.close()
        assert batches.closed and list(batches) == []
    elif how == "with":
        with batches:
            pass
    del batches
    gc.collect()
    assert decoder.closed == 1
    assert not plan_threads()
    assert closed.is_set() == (n_before > 0)  # one that never ran has nothing to clean up
    assert list(plans) == []


def test_a_cycle_of_garbage_leaves_no_thread() -> None:
    class Holder:
        pass

    holder: Any = Holder()
    holder.batches = batches_of(closing_plans(threading.Event()))
    holder.itself = holder
    next(holder.batches)
    gone = weakref.ref(holder)
    assert plan_threads()
    del holder
    gc.collect()
    assert gone() is None and not plan_threads()


def test_a_list_of_plans_stays_as_it_is() -> None:
    plans = [1, 2, 3]
    assert list(batches_of(plans)) == list(batches_of(plans)) == [2, 4, 6]
    assert plans == [1, 2, 3]


def test_a_generator_that_never_comes_back_does_not_stop_anyone() -> None:
    go_on = threading.Event()

    def plans() -> Iterator[int]:
        yield 1
        go_on.wait(PATIENCE)

    batches = batches_of(plans())
    assert next(batches) == 2
    start = time.monotonic()
    del batches
    gc.collect()
    assert time.monotonic() - start < PATIENCE / 2
    assert plan_threads()  # it cannot be interrupted
    go_on.set()


def test_close_from_another_thread_ends_a_wait() -> None:
    go_on = threading.Event()

    def plans() -> Iterator[int]:
        yield 1
        go_on.wait(PATIENCE)

    batches = batches_of(plans())
    assert next(batches) == 2
    closer = threading.Timer(0.05, lambda: (batches.close(), go_on.set()))
    closer.start()
    threading.Timer(0.3, go_on.set).start()
    assert list(batches) == []
    closer.join()


def test_several_iterators_at_once() -> None:
    several = [batches_of(range(20, 60), lookahead=lookahead) for lookahead in range(6)]
    rows = zip(*several, strict=True)
    assert list(rows) == [(2 * plan,) * 6 for plan in range(20, 60)]


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="sends a signal")
@pytest.mark.parametrize("waits", [True, False], ids=["waits", "empty plans"])
def test_ctrl_c_while_waiting_for_a_plan(waits: bool) -> None:
    go_on = threading.Event()

    def plans() -> Iterator[int]:
        while not go_on.is_set():
            if waits:
                go_on.wait(PATIENCE)
            else:
                yield 0

    def interrupt(signum: int, frame: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        batches = batches_of(plans())
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        start = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            next(batches)
        assert time.monotonic() - start < PATIENCE / 2
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        go_on.set()


class Slow(Doubler):
    """Lets other threads in between two steps that belong together."""

    def receive(self) -> int:
        plan = self.submitted[0]
        time.sleep(0.0005)
        return 2 * plan if self.submitted.popleft() == plan else -1

    def submit(self, prepared: int) -> None:
        assert len(self.submitted) < 4, "more than lookahead"
        super().submit(prepared)


@pytest.mark.parametrize("lookahead", [0, 1, 4])
def test_several_threads_share_the_batches(lookahead: int) -> None:
    batches = batches_of(range(1, 201), lookahead=lookahead, decoder=Slow())
    taken: list[int] = []
    errors: list[BaseException] = []

    def take() -> None:
        try:
            for batch in batches:
                taken.append(batch)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert not errors
    assert sorted(taken) == [2 * plan for plan in range(1, 201)]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_in_a_forked_process() -> None:
    batches = batches_of(iter(range(20, 60)))
    assert next(batches) == 40
    child = os.fork()
    if child == 0:
        code = 1
        try:
            batches.__next__()
        except RuntimeError as error:
            code = 0 if "num_workers=0" in str(error) else 2
        batches.close()
        os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert list(batches) == [2 * plan for plan in range(21, 60)]


def test_it_is_not_sent_or_copied() -> None:
    import pickle

    with batches_of([1]) as batches, pytest.raises(RuntimeError, match="num_workers=0"):
        pickle.dumps(batches)
