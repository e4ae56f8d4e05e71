"""Files of other formats to .scx files, in bounded memory."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from scx_core._byte_sizes import parse_bytes
from scx_core._codecs import Codec
from scx_core._output_paths import check_output
from scx_core._paths import local_path
from scx_core.writing import SHARD_SIZE, Progress, write_experiment

if TYPE_CHECKING:
    from scx_core.sources.base import ExperimentContent
    from scx_core.sources.h5_matrices import ReadingMeans

MEMORY_BUDGET = "2GiB"
# Blocks of this size are read and encoded fastest: larger ones leave the processor's caches.
BLOCK_BYTES_AT_MOST = 16 * 2**20
# Two blocks are in memory while rows are encoded, and some more of the kind while they are read.
BUDGET_PER_BLOCK = 8
# What is left for putting a matrix into another order: blocks and packed shards need the rest.
BUDGET_PER_SORTING = 2


def from_h5ad(
    path: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    memory_budget: int | str = MEMORY_BUDGET,
    codec: Codec = "auto",
    shard_size: int = SHARD_SIZE,
    layers: Sequence[str] | None = None,
    overwrite: bool = False,
    strict_uns: bool = False,
    skip: str | Sequence[str] = (),
    progress: Progress = None,
    threads: int = 0,
    temporary_folder: str | os.PathLike[str] | None = None,
) -> None:
    """Write an .h5ad file to a .scx file, its matrices streamed from disk.

    Files of every anndata version since 0.6 are read. X, the layers and raw.X may be CSR, CSC or
    dense, uncompressed or compressed; they are read in pieces, so that `memory_budget` bounds what
    is in memory however large they are. CSC matrices that do not fit are turned by way of temporary
    files. obs, var and uns are loaded, and the members of obsm, varm, obsp and varp one after
    another. The result is what `from_anndata(anndata.read_h5ad(path), out)` writes.

    Parameters
    ----------
    path
        The file to read.
    out
        The .scx file to write.
    memory_budget
        Bytes, or a text such as "512MiB": what matrices may take in memory on their way. The
        interpreter, its libraries and the loaded elements come on top.
    codec, shard_size, overwrite, strict_uns, skip, progress, threads
        See `from_anndata`.
    layers
        Names of the layers to take; None takes all.
    temporary_folder
        Where temporary files of about the size of a CSC matrix may lie; None for the folder of
        `out`. They have no names, so that even a killed process leaves none behind.

    Raises
    ------
    FileNotFoundError
        There is no such file.
    ValueError
        It is something else than an .h5ad (the message says what and which function reads it),
        damaged, or uses a compression that is not available; file and path are named. Or `out` is
        the file that is read, or has the suffix of another kind of file.
    KeyError
        `layers` names one that is not there.
    FileExistsError
        `out` exists and `overwrite` is False.

    Warns
    -----
    ScxWarning
        NaN or infinite values were kept, rows were made canonical, or the file has elements that
        AnnData does not know.

    Examples
    --------
    >>> import anndata, numpy, scx_core
    >>> anndata.AnnData(numpy.eye(3, dtype="float32")).write_h5ad("eye.h5ad")
    >>> scx_core.from_h5ad("eye.h5ad", "eye.scx", overwrite=True)
    >>> scx_core.read("eye.scx").shape
    (3, 3)
    """
    from scx_core.sources.h5ad import h5ad_content

    plan = _plan(path, out, memory_budget, temporary_folder, overwrite=overwrite)
    with h5ad_content(plan.source, plan.means, layers=layers) as content:
        plan.write(
            content,
            codec=codec,
            shard_size=shard_size,
            strict_uns=strict_uns,
            skip=skip,
            progress=progress,
            threads=threads,
        )


def from_h5mu(
    path: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    memory_budget: int | str = MEMORY_BUDGET,
    codec: Codec = "auto",
    shard_size: int = SHARD_SIZE,
    layers: Sequence[str] | None = None,
    overwrite: bool = False,
    strict_uns: bool = False,
    skip: str | Sequence[str] = (),
    progress: Progress = None,
    threads: int = 0,
    temporary_folder: str | os.PathLike[str] | None = None,
) -> None:
    """Write an .h5mu file to a multimodal .scx file, the matrices streamed from disk.

    The result is what `from_mudata(mudata.read_h5mu(path), out)` writes. Modalities whose cells
    come in another order than the file's are sorted by way of temporary files where they do not
    fit in memory. Needs the package mudata.

    Parameters, errors and warnings are those of `from_h5ad`; `layers` must be in some modality.
    """
    from scx_core.sources.h5mu import h5mu_content

    plan = _plan(path, out, memory_budget, temporary_folder, overwrite=overwrite)
    with h5mu_content(plan.source, plan.means, layers=layers) as content:
        plan.write(
            content,
            codec=codec,
            shard_size=shard_size,
            strict_uns=strict_uns,
            skip=skip,
            progress=progress,
            threads=threads,
        )


def from_10x(
    path: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    genome: str | None = None,
    feature_types: str | Sequence[str] | None = None,
    memory_budget: int | str = MEMORY_BUDGET,
    codec: Codec = "auto",
    shard_size: int = SHARD_SIZE,
    overwrite: bool = False,
    progress: Progress = None,
    threads: int = 0,
    temporary_folder: str | os.PathLike[str] | None = None,
) -> None:
    """Write a count matrix of Cell Ranger (HDF5 or a folder) to a .scx file.

    The result is what `scanpy.read_10x_h5(path, gex_only=False)` reads: cells named by their
    barcodes, features by their symbols (probes by their names), `gene_ids`, `feature_types` and
    every other column of the features in var. All types of features stay in one matrix; choose
    with `feature_types`. Counts of int32 become float32, as everywhere else, unless one is above
    2^24 and would be rounded: then they stay integers. Other types stay as they are.

    Parameters
    ----------
    path
        A .h5 file of any Cell Ranger version, or a folder, for which `from_mtx` is called.
    out
        The .scx file to write.
    genome
        Take the features of this genome alone. Needed for files from before Cell Ranger 3 that
        hold several, each with cells of its own.
    feature_types
        Take the features of this type or these types alone, such as "Gene Expression".
    memory_budget, codec, shard_size, overwrite, progress, threads, temporary_folder
        See `from_h5ad`.

    Raises
    ------
    FileNotFoundError
        There is nothing at `path`.
    ValueError
        It is something else, a molecule file for example, or damaged; a genome must be chosen, or
        there is none of that name (the message lists those there are).
    FileExistsError
        `out` exists and `overwrite` is False.
    """
    from scx_core.sources.tenx import tenx_content

    if Path(local_path(path)).is_dir():
        if genome is not None:
            raise ValueError(f"genome={genome!r}: a folder such as {path} does not say genomes")
        from_mtx(
            path,
            out,
            feature_types=feature_types,
            memory_budget=memory_budget,
            codec=codec,
            shard_size=shard_size,
            overwrite=overwrite,
            progress=progress,
            threads=threads,
            temporary_folder=temporary_folder,
        )
        return
    plan = _plan(path, out, memory_budget, temporary_folder, overwrite=overwrite)
    with tenx_content(plan.source, genome=genome, feature_types=feature_types) as content:
        plan.write(content, codec=codec, shard_size=shard_size, progress=progress, threads=threads)


def from_mtx(
    path: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    prefix: str | None = None,
    var_names: Literal["gene_symbols", "gene_ids"] = "gene_symbols",
    make_unique: bool = True,
    feature_types: str | Sequence[str] | None = None,
    memory_budget: int | str = MEMORY_BUDGET,
    codec: Codec = "auto",
    shard_size: int = SHARD_SIZE,
    overwrite: bool = False,
    progress: Progress = None,
    threads: int = 0,
    temporary_folder: str | os.PathLike[str] | None = None,
) -> None:
    """Write a Matrix Market folder (matrix.mtx, features.tsv or genes.tsv, barcodes.tsv).

    The result is what `scanpy.read_10x_mtx(path, gex_only=False)` reads, with CSR for X; the files
    may be gzipped or not under any of the names, the table of genes may have one column (names),
    two (ids, symbols), three (and types) or six (and places), and every entry of it is text. The
    matrix must be genes x cells, its entries may come in any order. Whole numbers become float32
    unless one is above 2^24 and would be rounded: then int64 (float64 in a file of reals).

    The text is read before anything is written; what does not fit in `memory_budget` waits in
    temporary files.

    Parameters
    ----------
    path
        The folder, or a .mtx file of any name with its tables beside it, such as STARsolo's
        spliced.mtx and UniqueAndMult-EM.mtx.
    out
        The .scx file to write.
    prefix
        What precedes `matrix.mtx` and the other names in a folder with several matrices; of a
        .mtx file, what precedes the names of its tables, by default as much of its own name as
        they have.
    var_names
        Whether genes are named by symbol or by id; the other becomes a column.
    make_unique
        Number repeated symbols by anndata's rule ("A", "A-1"); False leaves them as they are.
    feature_types
        Take the features of this type or these types alone.
    memory_budget, codec, shard_size, overwrite, progress, threads, temporary_folder
        See `from_h5ad`.

    Raises
    ------
    FileNotFoundError
        The folder or one of the three files is missing; the message lists prefixes there are.
    ValueError
        Sizes of matrix and tables differ (both are named), a file is cut off or damaged, or a line
        is no entry.
    FileExistsError
        `out` exists and `overwrite` is False.
    """
    from scx_core.sources.mtx import find_files, mtx_content

    # their folder may hold the output as well
    files = find_files(Path(local_path(path)), prefix)
    read = (files.matrix, files.features, files.barcodes)
    plan = _plan(path, out, memory_budget, temporary_folder, overwrite=overwrite, read=read)
    with mtx_content(
        plan.source,
        plan.means,
        prefix=prefix,
        var_names=var_names,
        make_unique=make_unique,
        feature_types=feature_types,
    ) as content:
        plan.write(content, codec=codec, shard_size=shard_size, progress=progress, threads=threads)


@dataclass(frozen=True)
class _Plan:
    """Where a conversion reads and writes, and with what."""

    source: Path
    out: Path
    means: ReadingMeans
    block_bytes: int
    overwrite: bool

    def write(
        self,
        content: ExperimentContent,
        *,
        codec: Codec,
        shard_size: int,
        progress: Progress,
        threads: int,
        strict_uns: bool = False,
        skip: str | Sequence[str] = (),
    ) -> None:
        write_experiment(
            self.out,
            content,
            codec=codec,
            shard_size=shard_size,
            overwrite=self.overwrite,
            strict_uns=strict_uns,
            skip=skip,
            progress=progress,
            threads=threads,
            block_bytes=self.block_bytes,
        )


def _plan(
    path: str | os.PathLike[str],
    out: str | os.PathLike[str],
    memory_budget: int | str,
    temporary_folder: str | os.PathLike[str] | None,
    *,
    overwrite: bool,
    read: Sequence[Path] = (),
) -> _Plan:
    """Check what can be checked before the source is looked at, and share out the budget.

    `read` are the files that are read, where `path` is not the only one.
    """
    from scx_core.sources.h5_matrices import ReadingMeans

    source = Path(local_path(path))
    target = Path(local_path(out, "out", writing=True))
    budget = parse_bytes(memory_budget, "memory_budget")
    check_output(out, *(read or [source]), suffix=".scx")
    if target.exists() and not overwrite:
        raise FileExistsError(f"{target} exists: pass overwrite=True to replace it")
    folder = target.parent
    if temporary_folder is not None:
        folder = Path(local_path(temporary_folder, "temporary_folder", writing=True))
    if not folder.is_dir():
        what = "write to" if temporary_folder is None else "hold temporary files"
        raise FileNotFoundError(f"there is no folder {folder} to {what}")
    return _Plan(
        source=source,
        out=target,
        means=ReadingMeans(max(1, budget // BUDGET_PER_SORTING), folder),
        block_bytes=max(1, min(BLOCK_BYTES_AT_MOST, budget // BUDGET_PER_BLOCK)),
        overwrite=overwrite,
    )
