"""`cellucid-prepare IN OUT`: one file into another that a browser reads."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cellucid_prepare._commands.values import array, arrays, fields, first_shown, names, table
from cellucid_prepare.inputs.components import OfData
from scx_core._commands import UsageError
from scx_core._output_paths import refuse_inputs

# options that go to `prepare` as they are
AS_GIVEN = (
    "dataset_id",
    "dataset_name",
    "dataset_description",
    "citation_text",
    "citation_url",
    "source_name",
    "source_url",
    "latent_key",
    "obs_keys",
    "var_gene_id_column",
    "vector_field_default",
    "normalize_embeddings",
    "centroid_min_points",
    "modalities",
    "modality",
    "zarr_format",
    "overwrite",
    "threads",
)
SUFFIXES = (".zarr.zip", ".h5ad", ".h5mu", ".zarr")


def run_prepare(options: argparse.Namespace) -> int:
    """Write OUT; give the exit code."""
    import cellucid_prepare

    format = options.format or _guessed_format(options.target)
    if options.target:  # an empty one is refused with all other faults
        refuse_inputs(options.target, *_files(options))
    arguments = _arguments(options)
    path = cellucid_prepare.prepare(
        options.target,
        format=format,
        data=options.source,
        progress=False if options.quiet else None,
        **arguments,
    )
    if not options.quiet:
        print(f"{path}: {_size(path)}")
    return 0


def _guessed_format(target: str) -> Any:
    name = os.path.basename(os.path.abspath(target)).lower()
    for suffix in SUFFIXES:
        if name.endswith(suffix):
            return suffix[1:]
    raise UsageError(
        f"OUT is '{target}': end it in .h5ad, .zarr, .zarr.zip or .h5mu, or give --format"
    )


def _arguments(options: argparse.Namespace) -> dict[str, Any]:
    """The arguments of `prepare` that the options stand for, files read where they name some."""
    given = {name: getattr(options, name) for name in AS_GIVEN}
    given["gene_identifiers"] = names(options.gene_identifiers)
    if options.embedding_defaults is not None:
        given["embedding_defaults"] = first_shown(options.embedding_defaults)
    if options.embeddings is not None:
        given["embeddings"] = arrays(options.embeddings, "--embeddings")
    if options.vector_fields is not None:
        given["vector_fields"] = fields(options.vector_fields)
    for name in ("obs", "var"):
        if getattr(options, name) is not None:
            given[name] = table(Path(getattr(options, name)))
    if options.connectivities is not None:
        given["connectivities"] = array(Path(options.connectivities))
    if options.layer is not None and options.gene_expression is not None:
        raise UsageError("--layer and --gene-expression both say which matrix to take: give one")
    if options.layer is not None:
        given["gene_expression"] = OfData(options.layer)
    elif options.gene_expression is not None:
        given["gene_expression"] = array(Path(options.gene_expression))
    return given


def _files(options: argparse.Namespace) -> Iterator[str]:
    """The files that options name, whole or in part."""
    for name in ("obs", "var", "connectivities", "gene_expression"):
        if getattr(options, name):
            yield getattr(options, name)
    for item in (*(options.embeddings or ()), *(options.vector_fields or ())):
        if item.partition("=")[2]:
            yield item.partition("=")[2]
    for item in options.gene_identifiers or ():
        if item.startswith("@"):
            yield item[1:]


def _size(path: Path) -> str:
    from scx_core._byte_sizes import format_bytes

    files = [part for part in path.rglob("*") if part.is_file()] if path.is_dir() else [path]
    total = format_bytes(sum(part.stat().st_size for part in files))
    return f"{total} in {len(files):,} files" if path.is_dir() else total
