"""Ctrl-C and SIGTERM that would be lost, or that come while it is cleared up after an earlier one.

Python raises what a signal's handler raises at the next chance, which may be inside a destructor or
the callback of a weak reference, and what is raised there is only reported: the signal would do
nothing. A long call of h5py ends with just such destructors; in a loop over them every second
Ctrl-C would be lost.
"""

from __future__ import annotations

import _thread
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

# what handlers of signals raise: Ctrl-C, and `sys.exit` as programs do on SIGTERM
ENDINGS = (KeyboardInterrupt, SystemExit)
AGAIN_AFTER_SECONDS = 0.02
# of somebody who presses Ctrl-C again and again while it is cleared up
INTERRUPTS_MAX = 100


@contextmanager
def kept_interrupts() -> Iterator[Callable[[], None]]:
    """Give a function that raises the interrupt that came since, where it was swallowed.

    The end of the block raises it too.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: None  # interrupts are raised in the main thread alone
        return
    swallowed: BaseException | None = None

    def keep(ending: BaseException) -> None:
        nonlocal swallowed
        swallowed = ending

    def check() -> None:
        nonlocal swallowed
        if swallowed is not None:
            ending, swallowed = swallowed, None
            raise ending

    with _swallowed(keep):
        yield check
        check()


@contextmanager
def repeated_interrupts() -> Iterator[None]:
    """For programs: send a signal once more that was swallowed anywhere in the block.

    Nothing in the block has to ask for it. The end of the block raises it at the latest.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    waiting: list[tuple[BaseException, threading.Timer]] = []

    def send_again(ending: BaseException) -> None:
        number = signal.SIGINT if isinstance(ending, KeyboardInterrupt) else signal.SIGTERM
        # later and from another thread: here it would be swallowed again
        timer = threading.Timer(AGAIN_AFTER_SECONDS, _send, (number,))
        timer.daemon = True
        waiting.append((ending, timer))
        timer.start()

    try:
        with _swallowed(send_again):
            yield
    finally:
        for _, timer in waiting:
            timer.cancel()
            timer.join()  # what is sent later would come where nobody waits for it
    if waiting:
        raise waiting[-1][0]


def _send(number: int) -> None:
    if sys.platform == "win32":
        _thread.interrupt_main(number)
    else:
        # also ends a call of the system that waits
        signal.pthread_kill(cast(int, threading.main_thread().ident), number)


@contextmanager
def _swallowed(take: Callable[[BaseException], None]) -> Iterator[None]:
    """Hand over what would only be reported; all other errors are reported as ever."""
    before = sys.unraisablehook

    def hook(unraisable: Any) -> None:
        if issubclass(unraisable.exc_type, ENDINGS):
            # a new one: the old one holds on to what is being destroyed
            given = getattr(unraisable.exc_value, "args", ())
            take(unraisable.exc_type(*given))
        else:
            before(unraisable)

    sys.unraisablehook = hook
    try:
        yield
    finally:
        sys.unraisablehook = before


@contextmanager
def deferred_interrupts() -> Iterator[None]:
    """Let Ctrl-C and SIGTERM that come in the block do what they do at its end alone."""
    if threading.current_thread() is not threading.main_thread():
        yield  # interrupts are raised in the main thread alone
        return
    came: list[int] = []
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    replaced = {number: handler for number, handler in before.items() if callable(handler)}
    try:
        for number in replaced:
            signal.signal(number, lambda number, _frame: came.append(number))
        yield
    finally:
        for number, handler in replaced.items():
            signal.signal(number, handler)
        if came:
            signal.raise_signal(came[-1])


def uninterrupted(clear_up: Callable[[], object]) -> None:
    """Do it to the end, whatever interrupts come meanwhile; the last one is raised then."""
    came: BaseException | None = None
    done = False
    for _ in range(INTERRUPTS_MAX):
        try:
            with deferred_interrupts():
                clear_up()
                done = True
        except ENDINGS as ending:
            came = ending  # just before interrupts were deferred, or at their end
        if done:
            break
    try:
        if came is not None:
            raise came
    finally:
        del came  # it holds on to this frame, and to those above it
