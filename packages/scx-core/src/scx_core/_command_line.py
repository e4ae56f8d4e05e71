"""What the programs of the packages have in common: exit codes, messages, warnings, signals.

Exit codes: 0 for success, 1 when something failed or a file is damaged, 2 for a wrong command line,
130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import csv
import io
import math
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

from ._byte_sizes import parse_bytes
from ._commands import UsageError
from ._commands.words import ARGUMENTS, in_words, with_options
from ._interrupts import repeated_interrupts
from ._program import INTERRUPTED, Leave

FAILED = 1
# how long unfinished files may take to be removed, whoever presses Ctrl-C meanwhile
CLEARING_SECONDS = 5.0
TERMINATED = 143


def run_program(
    parser: argparse.ArgumentParser,
    arguments: Sequence[str] | None,
    *,
    names: Sequence[str] = ARGUMENTS,
    words: Callable[[Exception], str] | None = None,
) -> int:
    """Run the command that the arguments choose (None: the process's own); give its exit code.

    Each command's parser has set `run`, what is called with the options and gives the exit code,
    and `parser`, itself. `names` are the arguments of Python functions that are options here:
    messages call them by their options. `words`, where given, makes the messages of errors instead.
    """
    program = parser.prog
    _escape_what_cannot_be_encoded()
    options = parser.parse_args(arguments)
    interrupts: list[int] = []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = _warning_shower(program, names)
            with _raising_signals(interrupts) as forget, repeated_interrupts(forget):
                code: int = options.run(options)
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except UsageError as error:
        command: argparse.ArgumentParser = options.parser
        command.error(str(error))
    except KeyboardInterrupt:
        return _interrupted(program)
    except BrokenPipeError:
        # who read the output has seen enough; what is still buffered has no reader either
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except Exception as error:
        if interrupts:
            # while a library was loaded for instance, which made an error of its own of it
            return _interrupted(program)
        said = in_words(error, names) if words is None else words(error)
        _say(program, f"error: {said}")
        return FAILED


def memory(text: str) -> int:
    """An amount of memory, for argparse."""
    try:
        return parse_bytes(text, "SIZE")
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def at_least(smallest: int) -> Callable[[str], int]:
    """A whole number that is not less than `smallest`, for argparse."""

    def number(text: str) -> int:
        value = int(text)
        if value < smallest:
            raise argparse.ArgumentTypeError(f"{value} is less than {smallest}")
        return value

    number.__name__ = "whole number"
    return number


def listed(text: str) -> list[str]:
    """Names with commas between them, for argparse; one that has a comma stands in quotes.

    An option that takes them this way cannot take in the arguments behind it.
    """
    try:
        (names,) = csv.reader([text], skipinitialspace=True, strict=True)
    except (csv.Error, ValueError):
        names = []
    if not names or not all(names):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no list of names with commas between them, such as age,sex"
        )
    return names


def _escape_what_cannot_be_encoded() -> None:
    """Names beyond the encoding of the output are no reason to fail."""
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")


def _say(program: str, message: str) -> None:
    print(f"{program}: {message}", file=sys.stderr)


def _interrupted(program: str) -> int:
    if isinstance(signal.getsignal(signal.SIGINT), Leave):
        # a process that ends is not to be ended by the next one, which Python lets it be at last
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    _say(program, "interrupted")
    return INTERRUPTED


def _warning_shower(program: str, names: Sequence[str]) -> Callable[..., None]:
    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: Any = None,
        line: str | None = None,
    ) -> None:
        if issubclass(category, UserWarning):
            _say(program, f"warning: {with_options(str(message), names)}")

    return show


@contextmanager
def _raising_signals(interrupts: list[int]) -> Iterator[Callable[[], None]]:
    """Let SIGTERM and Ctrl-C unwind like exceptions, so that unfinished files are removed.

    Those that come within a few seconds of one are ignored: they would hinder it. Each Ctrl-C is
    noted in `interrupts`. A handler of Ctrl-C that somebody else has set stays. Gives a function
    for what was raised and came to nothing.
    """
    raised_at = [-math.inf]

    def forget() -> None:
        raised_at[0] = -math.inf

    def is_first() -> bool:
        before, raised_at[0] = raised_at[0], time.monotonic()
        return raised_at[0] - before > CLEARING_SECONDS

    def interrupt(number: int, _frame: FrameType | None) -> None:
        interrupts.append(number)
        if is_first():
            raise KeyboardInterrupt

    def end(_number: int, _frame: FrameType | None) -> None:
        if is_first():
            raise SystemExit(TERMINATED)

    if threading.current_thread() is not threading.main_thread():
        yield forget  # signals belong to the main thread
        return
    before = signal.getsignal(signal.SIGINT)
    is_ours = before is signal.default_int_handler or isinstance(before, Leave)
    terminating = signal.signal(signal.SIGTERM, end)
    try:
        if is_ours:
            signal.signal(signal.SIGINT, interrupt)
        yield forget
    finally:
        if is_ours:
            signal.signal(signal.SIGINT, before)
        if terminating is not None:  # one that was set outside Python cannot be set again
            signal.signal(signal.SIGTERM, terminating)
