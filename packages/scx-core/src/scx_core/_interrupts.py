"""Ctrl-C and SIGTERM that would be lost.

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


@contextmanager
def repeated_interrupts(on_swallowed: Callable[[], object]) -> Iterator[None]:
    """For programs: send a signal once more that was swallowed anywhere in the block.

    Nothing in the block has to ask for it. The end of the block raises it at the latest.
    `on_swallowed` is called before.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    waiting: list[tuple[BaseException, threading.Timer]] = []

    def send_again(ending: BaseException) -> None:
        on_swallowed()
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
