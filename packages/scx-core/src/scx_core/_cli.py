"""The command `scx`: convert, look into and check .scx files.

Exit codes: 0 for success, 1 when something failed or a file is damaged, 2 for a wrong command line,
130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from ._command_line import at_least, listed, memory, run_program
from ._version import __version__


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `scx` with the given arguments (or the process's own) and give its exit code."""
    return run_program(_parser(), arguments)


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
        usage="scx convert IN [IN ...] OUT [options]",
        help="make a .scx file of another format, or the other way round",
        description="Make OUT of IN. IN may be an .h5ad, an .h5mu, a 10x Genomics .h5, a Matrix "
        "Market folder (or the .mtx file in it), and OUT a .scx file; or IN a .scx file and OUT "
        "an .h5ad or .h5mu, or a .scx file that lacks the cells marked as deleted. IN is judged by "
        "its content, OUT by its suffix. Several files, folders and patterns go into a folder OUT, "
        "each under its own name; those that fail are listed at the end.",
    )
    parser.add_argument("sources", metavar="IN", nargs="+")
    parser.add_argument("target", metavar="OUT")
    parser.add_argument("--overwrite", action="store_true", help="replace OUT if it exists")
    parser.add_argument(
        "--memory-budget",
        default="2GiB",
        type=memory,
        metavar="SIZE",
        help='what matrices may take in memory on their way, for example "512MiB" (default: 2GiB)',
    )
    parser.add_argument(
        "--to",
        choices=("scx", "h5ad", "h5mu"),
        help="what is written into a folder OUT; default: scx",
    )
    parser.add_argument(
        "--workers",
        type=at_least(1),
        metavar="N",
        help="how many files are converted at a time, in processes that share the memory budget; "
        "default: 1",
    )
    parser.add_argument(
        "--quiet", action="store_true", help="no progress bar and no summary at the end"
    )
    writing = parser.add_argument_group("when OUT is a .scx file")
    writing.add_argument("--codec", choices=("auto", "rowpack", "none"), help="default: auto")
    writing.add_argument("--shard-size", type=at_least(1), metavar="ROWS", help="default: 16384")
    writing.add_argument(
        "--threads", type=at_least(0), metavar="N", help="that encode; default: all there are"
    )
    writing.add_argument(
        "--temporary-folder", metavar="DIR", help="for matrices that must be sorted; default: OUT's"
    )
    writing.add_argument(
        "--strict-uns", action="store_true", help="fail for entries of uns that cannot be stored"
    )
    writing.add_argument(
        "--skip",
        type=listed,
        action="extend",
        metavar="PART,...",
        help="leave these parts out, such as obsm/airr, obs/column or mod/rna/uns/key; "
        '"unstorable" stands for all columns and entries that a .scx file cannot hold',
    )
    layers = writing.add_mutually_exclusive_group()
    layers.add_argument(
        "--layers",
        type=listed,
        action="extend",
        metavar="NAME,...",
        help="take these layers alone; may be given several times",
    )
    layers.add_argument(
        "--no-layers", dest="layers", action="store_const", const=[], help="take no layer"
    )
    writing.add_argument("--genome", metavar="NAME", help="take this genome of a 10x file")
    writing.add_argument(
        "--feature-types",
        type=listed,
        action="extend",
        metavar="TYPE,...",
        help='take these types of 10x features alone, for example "Gene Expression"; may be given '
        "several times",
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
