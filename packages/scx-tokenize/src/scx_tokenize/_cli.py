"""The command `scx-tokenize`: tokens of all cells of files, and medians of their genes.

Exit codes are those of `scx`: 0 for success, 1 when something failed, 2 for a wrong command line,
130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from scx_core._command_line import run_program

from ._commands import medians, tokens
from ._version import __version__

# What each command adds: a function that takes the parser's sub-commands. These modules load
# nothing large before their command runs, so that `scx-tokenize --help` is quick.
COMMANDS = (tokens.add_rank, tokens.add_bin, tokens.add_sample, medians.add_medians)
# arguments of Python functions that are options of the command line
ARGUMENTS = tuple({*tokens.ARGUMENTS, *medians.ARGUMENTS})


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `scx-tokenize` with the given arguments (or the process's own); give its exit code."""
    return run_program(_parser(), arguments, names=ARGUMENTS)


class _Parser(argparse.ArgumentParser):
    """Says of words that are too many how they may have come about."""

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        options, left = self.parse_known_args(args, namespace)
        if not left:
            return options
        message = f"unrecognized arguments: {' '.join(left)}"
        if not left[0].startswith("-"):
            message += (
                " (files stand together, before or behind all options, and lists have commas, as "
                "in --obs-columns age,sex)"
            )
        options.parser.error(message)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="scx-tokenize", description="Turn the cells of .scx and .h5ad files into tokens."
    )
    parser.add_argument("--version", action="version", version=f"scx-tokenize {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for add in COMMANDS:
        add(commands)
    return parser
