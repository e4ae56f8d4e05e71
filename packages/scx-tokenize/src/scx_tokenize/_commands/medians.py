"""`scx-tokenize medians`: options, and the call of `medians`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from scx_core._command_line import at_least, memory

if TYPE_CHECKING:
    from scx_tokenize._medians import GeneMedians

# of `medians`, which are options here
ARGUMENTS = (
    "dask",
    "gene_key",
    "memory_budget",
    "min_known_genes",
    "modality",
    "obs_filter",
    "overwrite",
    "source",
    "target_sum",
    "threads",
)
UNSEEN_SHOWN = 5


def add_medians(commands: Any) -> None:
    """Add `medians`."""
    parser = commands.add_parser(
        "medians",
        usage="scx-tokenize medians IN... -o OUT [options]",
        help="each gene's median expression over many files, as rank tokens divide by",
        description="Scale the values of each cell of the files IN to a common sum and write, for "
        "each gene, the median of those that are not zero: a Parquet file with the columns "
        "gene_id, median, n_cells (that express it) and total (of its counts). IN are .scx and "
        '.h5ad files, folders of them, or patterns such as "part-*.scx". Medians are exact: the '
        "files are read three times, or more often with little memory.",
    )
    parser.add_argument("inputs", metavar="IN", nargs="+")
    parser.add_argument("-o", "--out", metavar="OUT", required=True, help="the file to write")
    parser.add_argument(
        "--target-sum", type=float, metavar="X", help="what cells are scaled to; default: 10000"
    )
    genes = parser.add_argument_group("genes")
    genes.add_argument(
        "--gene-key", metavar="NAME", help="the column of var with the genes' ids; default: index"
    )
    genes.add_argument(
        "--min-known-genes",
        type=float,
        metavar="SHARE",
        help="the least share of each file's genes that another file must have; default: 0.5",
    )
    cells = parser.add_argument_group("cells")
    cells.add_argument("--source", metavar="NAME", help='"X" (default), "raw" or "layers/NAME"')
    cells.add_argument("--modality", metavar="NAME", help="of a multimodal .scx file")
    cells.add_argument(
        "--obs-filter",
        metavar="QUERY",
        help="take cells alone for which this is true, in the language of pandas' "
        "DataFrame.query, such as \"n_counts >= 500 and tissue == 'lung'\"",
    )
    running = parser.add_argument_group("running")
    running.add_argument(
        "--memory-budget",
        type=memory,
        metavar="SIZE",
        help='what counts may take in memory, for example "512MiB"; default: 1GiB',
    )
    running.add_argument(
        "--threads", type=at_least(1), metavar="N", help="default: all CPUs there are"
    )
    running.add_argument(
        "--dask", metavar="ADDRESS", help="count on the Dask cluster whose scheduler is there"
    )
    running.add_argument("--overwrite", action="store_true", help="replace OUT if it exists")
    running.add_argument(
        "--quiet", action="store_true", help="no progress bar and no summary at the end"
    )
    parser.set_defaults(run=_run, parser=parser)


def _run(options: argparse.Namespace) -> int:
    from scx_tokenize._medians import medians

    given = {name: value for name in ARGUMENTS if (value := getattr(options, name)) is not None}
    progress = False if options.quiet else None
    found = medians(options.inputs, options.out, progress=progress, **given)
    if not options.quiet:
        print("\n".join(_summary(options.out, found)))
    return 0


def _summary(out: str, found: GeneMedians) -> list[str]:
    from scx_core._commands.words import printable

    lines = [
        f"{out}: medians of {len(found.gene_ids)} genes over {found.n_cells} cells, "
        f"{found.n_passes} passes"
    ]
    if len(found.unseen):
        names = ", ".join(map(printable, found.unseen[:UNSEEN_SHOWN]))
        more = " ..." if len(found.unseen) > UNSEEN_SHOWN else ""
        lines.append(f"left out: {len(found.unseen)} genes that no cell expresses ({names}{more})")
    for facts, match in zip(found.inputs, found.matches, strict=True):
        merged = f", {match.n_merged} added to others" if match.n_merged else ""
        known = ""
        if len(found.matches) > 1:
            known = (
                f", {match.n_known} of them in other files too "
                f"({match.share_known:.0%} of what could be)"
            )
        lines.append(
            f"{printable(match.path)}: {facts['n_cells']} cells, {match.n_genes} genes"
            f"{known}{merged}"
        )
    return lines
