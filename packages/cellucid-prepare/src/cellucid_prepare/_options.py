"""The options of the command line."""

from __future__ import annotations

import argparse
from typing import Any

from cellucid_prepare._version import __version__
from scx_core._command_line import listed

FORMATS = ("h5ad", "zarr", "zarr.zip", "h5mu")


def check_parser() -> argparse.ArgumentParser:
    """Of `cellucid-prepare check`."""
    parser = argparse.ArgumentParser(
        prog="cellucid-prepare check",
        description="Say whether a browser reads FILE (.h5ad, .h5mu, a Zarr folder or .zarr.zip) "
        "with few small requests and, if not, every reason with its mend. Exit code 1 means that "
        "it does not.",
    )
    parser.add_argument("file", metavar="FILE")
    parser.add_argument("--json", action="store_true", help="as JSON")
    return parser


def prepare_parser() -> argparse.ArgumentParser:
    """Of `cellucid-prepare IN OUT`; its options have the names of the arguments of `prepare`."""
    parser = argparse.ArgumentParser(
        prog="cellucid-prepare",
        usage="cellucid-prepare IN OUT --id ID --name NAME [options]\n"
        "       cellucid-prepare check FILE",
        description="Write OUT, one file (or Zarr folder) that anndata reads and a browser reads "
        "fast, from IN: an .h5ad, .h5mu, .zarr, .zarr.zip or .scx. Matrices are read in pieces. "
        "Everything is checked before OUT is written. OUT has what viewers read: obs, var, X, the "
        "arrays of obsm, obsp['connectivities'] and uns['cellucid']. Left out are layers (but the "
        "one of --layer), raw, other graphs, varm, varp, tables in obsm and the rest of uns, also "
        "the colours of categories (<column>_colors); a note names what IN has of these. "
        "`cellucid-prepare check FILE` says whether a file is ready for browsers. "
        "Options marked with ,... take names with commas between "
        "them (one that has a comma stands in quotes), and may be given several times.",
    )
    parser.add_argument("--version", action="version", version=f"cellucid-prepare {__version__}")
    parser.add_argument("source", metavar="IN")
    parser.add_argument("target", metavar="OUT")
    parser.add_argument(
        "--format", choices=FORMATS, help="of OUT; default: by its suffix, which must agree"
    )
    parser.add_argument(
        "--overwrite",
        "--force",
        dest="overwrite",
        action="store_true",
        help="replace OUT if it exists (--force, the published name, is the same)",
    )
    parser.add_argument(
        "--quiet", action="store_true", help="no progress bar and no summary at the end"
    )
    parser.add_argument(
        "--threads",
        type=int,
        metavar="N",
        help="that decode, check and compress; default: one for each CPU",
    )
    parser.add_argument("--zarr-format", type=int, choices=(2, 3), help="of Zarr; default: 2")
    _add_identity(parser.add_argument_group("what the data set is (default: what IN says)"))
    _add_content(parser.add_argument_group("what is taken (default: all of IN)"))
    _add_shown(parser.add_argument_group("what a viewer shows first (default: its own choice)"))
    return parser


def _add_identity(group: Any) -> None:
    group.add_argument(
        "--id",
        "--dataset-id",
        dest="dataset_id",
        help="lasting id: ASCII letters, digits, '.', '_' and '-'",
    )
    group.add_argument("--name", "--dataset-name", dest="dataset_name", help="that is shown")
    group.add_argument(
        "--description", "--dataset-description", dest="dataset_description", metavar="TEXT"
    )
    group.add_argument("--citation-text", metavar="TEXT")
    group.add_argument("--citation-url", metavar="URL")
    group.add_argument("--source-name", metavar="TEXT")
    group.add_argument("--source-url", metavar="URL")


def _add_content(group: Any) -> None:
    group.add_argument("--layer", metavar="NAME", help="this layer instead of X")
    group.add_argument(
        "--embeddings",
        type=listed,
        action="extend",
        metavar="KEY[=FILE],...",
        help="these of obsm alone; with a FILE (.npy) an array of cells x axes instead",
    )
    group.add_argument(
        "--vector-fields",
        type=listed,
        action="extend",
        metavar="FIELD:KEY[=FILE],...",
        help="these alone, by field and embedding, for instance velocity:X_umap",
    )
    group.add_argument(
        "--gene-identifiers",
        type=listed,
        action="extend",
        metavar="GENE,...",
        help="these genes alone, in this order; @FILE stands for its lines",
    )
    group.add_argument(
        "--modalities",
        type=listed,
        action="extend",
        metavar="NAME,...",
        help="these; a single one becomes an AnnData that has every cell",
    )
    group.add_argument(
        "--obs", metavar="TABLE", help="of the cells, by their names (.csv, .tsv, .parquet)"
    )
    group.add_argument(
        "--var", metavar="TABLE", help="of the genes, by their names (.csv, .tsv, .parquet)"
    )
    group.add_argument("--gene-expression", metavar="FILE", help="cells x genes (.npz, .npy)")
    group.add_argument("--connectivities", metavar="FILE", help="graph over the cells (.npz)")


def _add_shown(group: Any) -> None:
    group.add_argument(
        "--embedding-defaults",
        action="append",
        metavar="DIM=KEY",
        help="for instance 2d=X_umap or 3d=X_pca:0,1,2; given once for each",
    )
    group.add_argument(
        "--latent-key", metavar="KEY", help="embedding in which outliers are measured and stored"
    )
    group.add_argument(
        "--obs-keys",
        type=listed,
        action="extend",
        metavar="COLUMN,...",
        help="listed, in this order",
    )
    group.add_argument("--var-gene-id-column", metavar="COLUMN", help="of var that names the genes")
    group.add_argument("--vector-field-default", metavar="FIELD")
    group.add_argument(
        "--normalize-embeddings",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="whether a viewer scales embeddings",
    )
    group.add_argument(
        "--centroid-min-points",
        type=int,
        metavar="N",
        help="cells that a category needs for outlier quantiles; default: 10",
    )
    group.add_argument("--modality", metavar="NAME", help="that is shown first")
