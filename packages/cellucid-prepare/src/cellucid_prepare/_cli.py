"""The command `cellucid-prepare`: write a browser-ready file, or check one.

Exit codes: 0 for success, 1 when something failed or a file is not ready, 2 for a wrong command
line, 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import io
import logging
import os
import signal
import sys
import warnings
from collections.abc import Sequence
from types import FrameType
from typing import Any

from cellucid_prepare._commands import UsageError
from cellucid_prepare._commands.words import in_words, with_options
from cellucid_prepare._options import check_parser, prepare_parser

FAILED = 1
INTERRUPTED = 130
TERMINATED = 143


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `cellucid-prepare` with the given arguments (or the process's own); the exit code."""
    _escape_what_cannot_be_encoded()
    given = list(sys.argv[1:] if arguments is None else arguments)
    parser = check_parser() if given[:1] == ["check"] else prepare_parser()
    options = parser.parse_args(given[1:] if given[:1] == ["check"] else given)
    try:
        with warnings.catch_warnings(), _Told():
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = _show_warning
            previous = _end_cleanly_on_termination()
            try:
                code: int = _run(options)
            finally:
                if previous is not None:
                    signal.signal(signal.SIGTERM, previous)
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except UsageError as error:
        parser.error(str(error))
    except KeyboardInterrupt:
        _say("interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        # who read the output has seen enough; what is still buffered has no reader either
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except Exception as error:
        _say(f"error: {in_words(error)}")
        return FAILED


def _run(options: argparse.Namespace) -> int:
    # each command's module is loaded when it runs, so that --help is quick
    if options.command == "check":
        from cellucid_prepare._commands.check import run_check

        return run_check(options)
    from cellucid_prepare._commands.prepare import run_prepare

    return run_prepare(options)


def _escape_what_cannot_be_encoded() -> None:
    """Names beyond the encoding of the output are no reason to fail."""
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")


def _say(message: str) -> None:
    print(f"cellucid-prepare: {message}", file=sys.stderr)


class _Told(logging.Handler):
    """Shows what the package logs, names made unique for instance, as a note."""

    def __enter__(self) -> _Told:
        logger = logging.getLogger("cellucid_prepare")
        self._propagated = logger.propagate
        logger.propagate = False
        logger.addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        logger = logging.getLogger("cellucid_prepare")
        logger.propagate = self._propagated
        logger.removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        _say(f"note: {record.getMessage()}")


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: Any = None,
    line: str | None = None,
) -> None:
    _say(f"warning: {with_options(str(message))}")


def _end_cleanly_on_termination() -> Any:
    """Let SIGTERM unwind like an exception, so that unfinished files are removed."""

    def end(_signal: int, _frame: FrameType | None) -> None:
        raise SystemExit(TERMINATED)

    try:
        return signal.signal(signal.SIGTERM, end)
    except ValueError:  # signals belong to the main thread
        return None


if __name__ == "__main__":
    sys.exit(main())
