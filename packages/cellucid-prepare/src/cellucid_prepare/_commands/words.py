"""What the package's errors say to someone who types commands."""

from __future__ import annotations

import re
from dataclasses import replace

from cellucid_prepare._faults import Fault, PrepareError

# arguments of `prepare` whose options are called otherwise than by their own name
RENAMED = {
    "out_path": "OUT",
    "data": "IN",
    "dataset_id": "--id",
    "dataset_name": "--name",
    "dataset_description": "--description",
}
ARGUMENTS = (
    *RENAMED,
    "citation_text",
    "citation_url",
    "source_name",
    "source_url",
    "embedding_defaults",
    "latent_key",
    "obs_keys",
    "var_gene_id_column",
    "vector_field_default",
    "normalize_embeddings",
    "centroid_min_points",
    "gene_identifiers",
    "gene_expression",
    "vector_fields",
    "zarr_format",
    "format",
    "overwrite",
    "force",
    "threads",
    "modalities",
    "modality",
    "embeddings",
    "obs",
    "var",
    "connectivities",
)
_NAMES = "|".join(ARGUMENTS)
_GIVEN = re.compile(rf"(?<![\w.])({_NAMES})=(True\b)?|(?<=\bpass )({_NAMES})\b")


def in_words(error: Exception) -> str:
    """The message of an error, with its type where the message is not meant for people."""
    if isinstance(error, PrepareError):
        return str(type(error)([_with_option(fault) for fault in error.faults]))
    if isinstance(error, MemoryError):
        return "not enough memory"
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}"
    # a KeyError puts its message into quotes
    text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    if not text or not isinstance(error, OSError | ValueError | TypeError | KeyError | ImportError):
        text = f"{type(error).__name__}: {text}"
    return with_options(text.strip())


def _with_option(fault: Fault) -> Fault:
    where = _option(fault.where) if fault.where in ARGUMENTS else fault.where
    return replace(
        fault, where=where, problem=with_options(fault.problem), mend=with_options(fault.mend)
    )


def with_options(text: str) -> str:
    """`text` with `dataset_id='x'` as --id 'x', `overwrite=True` as --overwrite, and so on."""

    def option(match: re.Match[str]) -> str:
        return _option(match[1] or match[3]) + ("" if match[2] or match[3] else " ")

    # an array is given by its file there
    return _GIVEN.sub(option, text.replace("{'X_umap': array}", "X_umap=FILE.npy"))


def _option(argument: str) -> str:
    return RENAMED.get(argument) or "--" + argument.replace("_", "-")
