"""`scx-tokenize rank`, `bin` and `sample`: options, and the call of `run`."""

from __future__ import annotations

import argparse
from typing import Any

from scx_core._command_line import at_least, listed

# of `run`, which are options here
ARGUMENTS = (
    "allow_pickle",
    "cls",
    "dask",
    "edges",
    "eos",
    "gene_filter",
    "gene_key",
    "gene_medians",
    "gene_synonyms",
    "genes",
    "hf",
    "include_zero_genes",
    "l_max",
    "min_known_genes",
    "modality",
    "n",
    "n_bins",
    "obs_columns",
    "obs_filter",
    "overwrite",
    "pad",
    "preset",
    "seed",
    "shard_rows",
    "source",
    "target_sum",
    "threads",
    "tie",
    "token_dictionary",
    "transform",
    "weight",
)


def add_rank(commands: Any) -> None:
    """Add `rank`."""
    parser = _parser(
        commands,
        "rank",
        "genes by normalised value over their median, largest first (Geneformer)",
        presets=("geneformer-v1", "geneformer-v2"),
    )
    group = parser.add_argument_group("ranks")
    group.add_argument(
        "--gene-medians", metavar="FILE", help="medians of genes: .json, .parquet, .pkl"
    )
    _add_longest(group, "2048, or 4096 with geneformer-v2")
    group.add_argument("--target-sum", type=float, metavar="X", help="default: 10000")


def add_bin(commands: Any) -> None:
    """Add `bin`."""
    parser = _parser(
        commands, "bin", "expression bins beside the genes (scGPT)", presets=("scgpt",)
    )
    group = parser.add_argument_group("bins")
    group.add_argument("--n-bins", type=at_least(3), metavar="N", help="default: 51")
    group.add_argument(
        "--tie",
        choices=("left", "right", "seeded"),
        help="what becomes of values on an edge; default: left, or seeded with scgpt",
    )
    group.add_argument(
        "--edges",
        type=_numbers,
        action="extend",
        metavar="X,...",
        help="n-bins less 1 numbers with commas between them; default: quantiles of each cell",
    )
    group.add_argument(
        "--transform",
        choices=("pass_through", "log1p_raw", "normalize_log1p"),
        help="what is done to values before; default: pass_through",
    )
    group.add_argument("--target-sum", type=float, metavar="X", help="default: 10000")
    group.add_argument(
        "--include-zero-genes",
        action="store_true",
        default=None,
        help="take genes that a cell has nothing of too, in bin 0",
    )
    _add_longest(group, "2048, or 1200 with scgpt")
    _add_seed(group)


def add_sample(commands: Any) -> None:
    """Add `sample`."""
    parser = _parser(
        commands, "sample", "genes drawn by expression, with replacement (UCE)", presets=("uce",)
    )
    group = parser.add_argument_group("draws")
    group.add_argument("-n", "--n", type=at_least(1), metavar="N", help="default: 1024")
    group.add_argument("--weight", choices=("log1p", "linear", "count"), help="default: log1p")
    _add_seed(group)


def _parser(
    commands: Any, kernel: str, what: str, *, presets: tuple[str, ...]
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        kernel,
        usage=f"scx-tokenize {kernel} IN... OUT [options]",
        help=what,
        description=f"Make tokens of all cells of the files IN: {what}. IN are .scx and .h5ad "
        'files, folders of them, or patterns such as "part-*.scx". OUT is a folder: Parquet files '
        "in OUT/data, and OUT/manifest.json, which says how they were made. A run that was "
        "interrupted goes on when it is started again.",
    )
    parser.add_argument("inputs", metavar="IN", nargs="+")
    parser.add_argument("out", metavar="OUT")
    parser.add_argument("--preset", choices=presets, help="the conventions of a model")
    _add_genes(parser)
    _add_cells(parser)
    tokens = parser.add_argument_group("special tokens")
    tokens.add_argument("--cls", metavar="NAME", help="in front of each cell, such as <cls>")
    tokens.add_argument("--eos", metavar="NAME", help="behind each cell, such as <eos>")
    tokens.add_argument(
        "--pad",
        action="store_true",
        default=None,
        help="fill cells up to the longest length with <pad>",
    )
    _add_output(parser)
    parser.set_defaults(run=_run, parser=parser, kernel=kernel)
    return parser


def _add_genes(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("genes")
    group.add_argument(
        "--token-dictionary",
        metavar="FILE",
        help="the number of each gene and special token: .json, .parquet, .pkl",
    )
    group.add_argument(
        "--gene-key", metavar="NAME", help="the column of var with the genes' ids; default: index"
    )
    group.add_argument(
        "--gene-synonyms", metavar="FILE", help="the id to take in place of another: .json, ..."
    )
    group.add_argument(
        "--genes", metavar="FILE", help="take these genes alone: .json, or text, one on each line"
    )
    group.add_argument(
        "--gene-filter",
        metavar="NAME",
        help='take genes alone for which this column of var is true, such as "highly_variable"',
    )
    group.add_argument(
        "--min-known-genes",
        type=float,
        default=0.5,
        metavar="SHARE",
        help="the least share of each file's genes that must be known; default: 0.5",
    )
    group.add_argument(
        "--allow-pickle",
        action="store_true",
        help="read dicts in .pkl files; everything but texts and numbers in them is refused",
    )


def _add_cells(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("cells")
    group.add_argument(
        "--source", default="X", metavar="NAME", help='"X" (default), "raw" or "layers/NAME"'
    )
    group.add_argument("--modality", metavar="NAME", help="of a multimodal .scx file")
    group.add_argument(
        "--obs-filter",
        metavar="QUERY",
        help="take cells alone for which this is true, in the language of pandas' "
        "DataFrame.query, such as \"n_counts >= 500 and tissue == 'lung'\"",
    )
    group.add_argument(
        "--obs-columns",
        type=listed,
        action="extend",
        metavar="NAME,...",
        help='columns of obs to keep beside the tokens, such as "age,sex"; "cell_name" stands for '
        "its index; may be given several times",
    )


def _add_output(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("output")
    group.add_argument("--shard-rows", type=at_least(1), metavar="CELLS", help="default: 8192")
    group.add_argument(
        "--hf", action="store_true", help="also write OUT/hf for datasets.load_from_disk"
    )
    group.add_argument("--overwrite", action="store_true", help="replace tokens of another job")
    group.add_argument(
        "--threads", type=at_least(1), metavar="N", help="default: all CPUs there are"
    )
    group.add_argument(
        "--dask",
        metavar="ADDRESS",
        help="make the files on the Dask cluster whose scheduler is there",
    )
    group.add_argument(
        "--quiet", action="store_true", help="no progress bar and no summary at the end"
    )


def _add_longest(group: Any, default: str) -> None:
    group.add_argument(
        "--l-max",
        type=at_least(1),
        metavar="N",
        help=f"most tokens of a cell, special ones included; default: {default}",
    )


def _add_seed(group: Any) -> None:
    group.add_argument("--seed", type=at_least(0), metavar="N", help="default: 0")


def _numbers(text: str) -> list[float]:
    """Numbers with commas between them, for argparse."""
    try:
        return [float(number) for number in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no list of numbers with commas between them, such as 1,2.5,7"
        ) from None


def _run(options: argparse.Namespace) -> int:
    from scx_tokenize.jobs import run

    given = {
        name: value for name in ARGUMENTS if (value := getattr(options, name, None)) is not None
    }
    progress = False if options.quiet else None
    manifest = run(options.kernel, options.inputs, options.out, progress=progress, **given)
    if not options.quiet:
        print("\n".join(_summary(options.out, manifest)))
    return 0


def _summary(out: str, manifest: dict[str, Any]) -> list[str]:
    from scx_core._commands.words import printable

    counts = manifest["counts"]
    lines = [
        f"{out}: {counts['cells']} cells, {counts['tokens']} tokens, "
        f"{len(manifest['shards'])} file{'s' if len(manifest['shards']) != 1 else ''}"
    ]
    if counts["empty_cells"]:
        lines.append(f"{counts['empty_cells']} cells have no token of a gene")
    for one in manifest["inputs"]:
        merged = f", {one['merged_genes']} added to others" if one["merged_genes"] else ""
        lines.append(
            f"{printable(one['path'])}: {one['cells']} cells, {one['known_genes']} of "
            f"{one['genes']} genes known ({one['share_known']:.0%} of what could be){merged}"
        )
    return lines
