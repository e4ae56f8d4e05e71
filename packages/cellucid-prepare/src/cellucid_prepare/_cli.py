"""The command `cellucid-prepare`: write a browser-ready file, or check one.

Exit codes: 0 for success, 1 when something failed or a file is not ready, 2 for a wrong command
line, 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence

from cellucid_prepare._commands.words import ARGUMENTS, in_words
from cellucid_prepare._options import check_parser, prepare_parser
from scx_core._command_line import run_program


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `cellucid-prepare` with the given arguments (or the process's own); the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] == ["check"]:
        given = given[1:]
        parser = check_parser()
        parser.set_defaults(run=_check, parser=parser)
    else:
        parser = prepare_parser()
        parser.set_defaults(run=_prepare, parser=parser)
    with _Told():
        return run_program(parser, given, names=ARGUMENTS, words=in_words)


# Each command's module is loaded when it runs, so that --help is quick.


def _prepare(options: argparse.Namespace) -> int:
    from cellucid_prepare._commands.prepare import run_prepare

    return run_prepare(options)


def _check(options: argparse.Namespace) -> int:
    from cellucid_prepare._commands.check import run_check

    return run_check(options)


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
        print(f"cellucid-prepare: note: {record.getMessage()}", file=sys.stderr)
