"""Ctrl-C in loops over calls of HDF5."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def kept_interrupts() -> Iterator[Callable[[], None]]:
    """Give a function that raises the Ctrl-C that came since, where it was swallowed.

    Python raises KeyboardInterrupt at the next chance after the signal, which may be inside a
    destructor, and what a destructor raises is only reported. A long call of h5py ends with just
    such destructors: in a loop over them every second Ctrl-C would do nothing. The end of the block
    raises it too.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: None  # interrupts are raised in the main thread alone
        return
    before = sys.unraisablehook
    swallowed = False

    def hook(unraisable: Any) -> None:
        nonlocal swallowed
        if issubclass(unraisable.exc_type, KeyboardInterrupt):
            swallowed = True
        else:
            before(unraisable)

    def check() -> None:
        if swallowed:
            raise KeyboardInterrupt

    sys.unraisablehook = hook
    try:
        yield check
        check()
    finally:
        sys.unraisablehook = before
