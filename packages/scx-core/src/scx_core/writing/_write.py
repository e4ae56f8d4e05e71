"""One .scx file from an `ExperimentContent`."""

from __future__ import annotations

import os
from collections.abc import Sequence

from scx_core._codecs import Codec
from scx_core._paths import local_path
from scx_core._value_types import stored_dtype, value_type
from scx_core._version import __version__
from scx_core.native.container import FileWriter
from scx_core.sources.base import ExperimentContent
from scx_core.writing._checks import check_content, check_options, is_multimodal
from scx_core.writing._matrices import (
    ShardSettings,
    fitting_shard_size,
    plan_matrices,
    write_matrix,
)
from scx_core.writing._metadata import component_sections, table_sections
from scx_core.writing._progress import Progress, row_progress
from scx_core.writing._report import Report
from scx_core.writing._skipping import skipped_names, without_skipped

SHARD_SIZE = 16_384
# larger blocks leave the caches of the processor and are no faster
BLOCK_BYTES = 16 * 2**20
# "auto" is rowpack for X, layers and raw alike
CODEC_NUMBERS = {"none": 0, "rowpack": 64, "auto": 64}
MODALITY_TYPES = {
    "rna": 0,
    "gex": 0,
    "protein": 1,
    "prot": 1,
    "adt": 1,
    "atac": 2,
    "spatial": 3,
    "methylation": 4,
    "meth": 4,
}
CUSTOM_MODALITY = 255
FLOAT32 = 3  # noted for a modality without X


def write_experiment(
    path: str | os.PathLike[str],
    content: ExperimentContent,
    *,
    codec: Codec = "auto",
    shard_size: int = SHARD_SIZE,
    overwrite: bool = False,
    strict_uns: bool = False,
    skip: str | Sequence[str] = (),
    progress: Progress = None,
    threads: int = 0,
    block_bytes: int = BLOCK_BYTES,
) -> None:
    """Write `content` to the .scx file `path`; whatever fails leaves no file there, or the old one.

    Lengths, dtypes, keys, frames and uns are checked before anything is written; what is then
    written goes to a hidden file in the same folder, which takes the name `path` at the end.

    Parameters
    ----------
    path
        The file to write.
    content
        What goes into it; its matrices are read once, in row blocks.
    codec
        "rowpack" packs each row on its own, for any dtype and exactly. "none" stores indices and
        values as they are. "auto" is rowpack for every matrix: rows of counts, of logged values
        and of anything else all stay readable on their own, and the packing of a row is chosen by
        its values.
    shard_size
        Rows in a shard. Dense matrices whose shards would exceed what 32 bits count make it
        smaller for the whole file.
    overwrite
        Whether an existing file may be replaced.
    strict_uns
        Raise for entries of uns that cannot be stored; by default a warning names them.
    skip
        Parts to leave out, such as "obsm/airr"; see `from_anndata`.
    progress
        None shows a bar on a terminal or in a notebook, True always, False never. A callable
        is called with the rows done and the rows in all, counted over every matrix.
    threads
        How many threads encode; 0 for as many as the machine has.
    block_bytes
        About how much of a matrix is read at a time; two blocks are in memory at once.

    Raises
    ------
    ValueError, TypeError
        Something in the content does not fit or cannot be held; the message names it.
    FileExistsError
        `path` exists and `overwrite` is False.
    OSError
        The folder cannot be written to.

    Warns
    -----
    ScxWarning
        Once for NaN or infinite values, which are kept; once for repeated entries that were added
        up and stored zeros that were dropped. Rows that were out of order are logged (at INFO).
    """
    check_options(codec=codec, shard_size=shard_size, threads=threads, block_bytes=block_bytes)
    if names := skipped_names(skip):
        without_skipped(content, names)
    check_content(content)
    if os.path.exists(local_path(path, writing=True)) and not overwrite:
        raise FileExistsError(f"{os.fspath(path)} exists: pass overwrite=True to replace it")
    tables = table_sections(content, strict_uns=strict_uns, version=__version__)
    plans = plan_matrices(content)
    settings = ShardSettings(
        n_obs=len(content.obs),
        shard_size=fitting_shard_size(plans, int(shard_size)),
        codec=CODEC_NUMBERS[codec],
        threads=int(threads),
        block_bytes=int(block_bytes),
    )
    report = Report(content.obs.index)
    with (
        FileWriter(
            path,
            n_obs=settings.n_obs,
            n_vars=max(len(modality.var) for modality in content.modalities.values()),
            shard_target_rows=settings.shard_size,
            codec=settings.codec,
            overwrite=overwrite,
        ) as file,
        row_progress(progress, settings.n_obs * len(plans)) as on_rows,
    ):
        if is_multimodal(content):
            _declare_modalities(file, content, settings.codec)
        for section in tables:
            file.add_section(
                section.name,
                section.data,
                section_type=section.section_type,
                modality_id=section.modality_id,
            )
        for section in component_sections(content):
            file.add_section(
                section.name,
                section.data,
                section_type=section.section_type,
                modality_id=section.modality_id,
            )
        for plan in plans:
            write_matrix(file, plan, settings, report, on_rows)
    report.warn()


def _declare_modalities(file: FileWriter, content: ExperimentContent, codec: int) -> None:
    for name, modality in content.modalities.items():
        dtype = None if modality.X is None else stored_dtype(modality.X.dtype)
        file.add_modality(
            name,
            modality_type=MODALITY_TYPES.get(name.lower(), CUSTOM_MODALITY),
            n_vars=len(modality.var),
            codec=codec,
            value_type=FLOAT32 if dtype is None else value_type(dtype),
        )
