"""The command `scx`: convert, look into and check .scx files.

Exit codes: 0 for success, 1 when something failed or a file is damaged, 2 for a wrong command line,
130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import io
import os
import signal
import sys
import warnings
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

from ._byte_sizes import parse_bytes
from ._commands import UsageError
from ._commands.words import in_words, with_options
from ._version import __version__

FAILED = 1
INTERRUPTED = 130
TERMINATED = 143


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `scx` with the given arguments (or the process's own) and give its exit code."""
    _escape_what_cannot_be_encoded()
    options = _parser().parse_args(arguments)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = _show_warning
            previous = _end_cleanly_on_termination()
            try:
                code: int = options.run(options)
            finally:
                if previous is not None:
                    signal.signal(signal.SIGTERM, previous)
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except UsageError as error:
        parser: argparse.ArgumentParser = options.parser
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


def _escape_what_cannot_be_encoded() -> None:
    """Names beyond the encoding of the output are no reason to fail."""
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")


def _say(message: str) -> None:
    print(f"scx: {message}", file=sys.stderr)


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: Any = None,
    line: str | None = None,
) -> None:
    if issubclass(category, UserWarning):
        _say(f"warning: {with_options(str(message))}")


def _end_cleanly_on_termination() -> Any:
    """Let SIGTERM unwind like an exception, so that unfinished files are removed."""

    def end(_signal: int, _frame: FrameType | None) -> None:
        raise SystemExit(TERMINATED)

    try:
        return signal.signal(signal.SIGTERM, end)
    except ValueError:  # signals belong to the main thread
        return None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="scx", description="Convert, look into and check .scx files of single-cell matrices."
    )
    parser.add_argument("--version", action="version", version=f"scx {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    _add_convert(commands)
    _add_info(commands)
    _add_validate(commands)
    return parser


def _add_convert(commands: Any) -> None:
    parser = commands.add_parser(
        "convert",
        # options that take several values would swallow IN and OUT behind them
        usage="scx convert IN OUT [options]",
        help="make a .scx file of another format, or the other way round",
        description="Make OUT of IN. IN may be an .h5ad, an .h5mu, a 10x Genomics .h5, a Matrix "
        "Market folder (or the .mtx file in it), and OUT a .scx file; or IN a .scx file and OUT "
        "an .h5ad or .h5mu, or a .scx file that lacks the cells marked as deleted. IN is judged by "
        "its content, OUT by its suffix.",
    )
    parser.add_argument("source", metavar="IN")
    parser.add_argument("target", metavar="OUT")
    parser.add_argument("--overwrite", action="store_true", help="replace OUT if it exists")
    parser.add_argument(
        "--memory-budget",
        default="2GiB",
        type=_memory,
        metavar="SIZE",
        help='what matrices may take in memory on their way, for example "512MiB" (default: 2GiB)',
    )
    parser.add_argument(
        "--quiet", action="store_true", help="no progress bar and no summary at the end"
    )
    writing = parser.add_argument_group("when OUT is a .scx file")
    writing.add_argument("--codec", choices=("auto", "rowpack", "none"), help="default: auto")
    writing.add_argument("--shard-size", type=_at_least(1), metavar="ROWS", help="default: 16384")
    writing.add_argument(
        "--threads", type=_at_least(0), metavar="N", help="that encode; default: all there are"
    )
    writing.add_argument(
        "--temporary-folder", metavar="DIR", help="for matrices that must be sorted; default: OUT's"
    )
    writing.add_argument(
        "--strict-uns", action="store_true", help="fail for entries of uns that cannot be stored"
    )
    writing.add_argument(
        "--layers", nargs="*", metavar="NAME", help="take these layers alone (none if none follow)"
    )
    writing.add_argument("--genome", metavar="NAME", help="take this genome of a 10x file")
    writing.add_argument(
        "--feature-types",
        nargs="+",
        metavar="TYPE",
        help='take these types of 10x features alone, for example "Gene Expression"',
    )
    writing.add_argument("--prefix", help="what precedes matrix.mtx in the folder")
    writing.add_argument(
        "--var-names",
        choices=("gene_symbols", "gene_ids"),
        help="how genes of a folder are named; default: gene_symbols",
    )
    reading = parser.add_argument_group("when IN is a .scx file")
    reading.add_argument("--modality", metavar="NAME", help="write this modality to an .h5ad")
    reading.add_argument("--compression", choices=("gzip", "lzf"), help="default: none")
    parser.set_defaults(run=_convert, parser=parser)


def _add_info(commands: Any) -> None:
    parser = commands.add_parser(
        "info",
        help="what a .scx file holds",
        description="Show shape, matrices with codec and bits a value, and sections of a .scx "
        "file. No matrix is read.",
    )
    parser.add_argument("file", metavar="FILE")
    parser.add_argument("--json", action="store_true", help="as JSON, with every section")
    parser.set_defaults(run=_info, parser=parser)


def _add_validate(commands: Any) -> None:
    parser = commands.add_parser(
        "validate",
        help="look for damage in a .scx file",
        description="Compare every section of a .scx file with its hash. Exit code 1 means damage.",
    )
    parser.add_argument("file", metavar="FILE")
    parser.add_argument(
        "--deep", action="store_true", help="decode every row and every table as well"
    )
    parser.set_defaults(run=_validate, parser=parser)


def _memory(text: str) -> int:
    try:
        return parse_bytes(text, "SIZE")
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _at_least(smallest: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        value = int(text)
        if value < smallest:
            raise argparse.ArgumentTypeError(f"{value} is less than {smallest}")
        return value

    number.__name__ = "whole number"
    return number


# Each command's module is loaded when it runs, so that `scx --help` is quick.


def _convert(options: argparse.Namespace) -> int:
    from ._commands.convert import convert

    return convert(options)


def _info(options: argparse.Namespace) -> int:
    from ._commands.info import info

    return info(options)


def _validate(options: argparse.Namespace) -> int:
    from ._commands.validate import validate

    return validate(options)


if __name__ == "__main__":
    sys.exit(main())
