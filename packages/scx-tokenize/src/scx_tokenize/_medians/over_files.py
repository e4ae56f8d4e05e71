"""`medians`: arguments are checked, files opened, and the result written."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from scx_core._byte_sizes import parse_bytes
from scx_core._output_paths import refuse_inputs
from scx_core._paths import StrPath
from scx_core._temporary import working_folder
from scx_core.writing import Progress
from scx_tokenize import _arguments as arguments
from scx_tokenize._genes import MIN_KNOWN_GENES
from scx_tokenize._medians.corpus import Corpus
from scx_tokenize._medians.dask import counting_on_dask
from scx_tokenize._medians.inputs import Selection, in_rows, look_at, tell_of_fractions
from scx_tokenize._medians.result import GeneMedians, result_of
from scx_tokenize._medians.run import count_all, counting_here, plan_of
from scx_tokenize._medians.table import check_target, write_table
from scx_tokenize.jobs._dask import DaskCluster, check_versions, dask_client
from scx_tokenize.jobs._inputs import job_inputs

WHO = "medians"
MEMORY_BUDGET = "1GiB"
WORKING_PREFIX = ".scx-medians-"


def medians(
    inputs: StrPath | Sequence[StrPath],
    out: str | os.PathLike[str] | None = None,
    *,
    source: str = "X",
    modality: str | None = None,
    obs_filter: str | None = None,
    gene_key: str | None = None,
    min_known_genes: float = MIN_KNOWN_GENES,
    target_sum: float = 1e4,
    memory_budget: int | str = MEMORY_BUDGET,
    threads: int | None = None,
    dask: DaskCluster | None = None,
    overwrite: bool = False,
    progress: Progress = None,
) -> GeneMedians:
    """Each gene's median over the cells that express it, of expression normalised by library size.

    The statistic that rank-based models divide by (`gene_stats` of `rank_tokens`). Every value
    becomes `float32(count * (target_sum / library size of the cell))`; of those of a gene that are
    not zero, in all cells of all files, the one in the middle is taken, or the mean of the two in
    the middle. Nothing is estimated, and memory does not grow with the number of cells: the files
    are read several times instead, three times with the default budget and up to 65,000 genes. The
    result does not depend on the number of threads.

    Parameters
    ----------
    inputs
        .scx and .h5ad files, folders of them, and patterns such as "part-*.scx". Cells that are
        marked as deleted are left out.
    out
        The Parquet file to write; None (default) for none.
    source
        The matrix with the counts: "X" (default), "raw", or "layers/NAME".
    modality
        Which one, in .scx files with several.
    obs_filter
        Cells to take: an expression over the columns of obs, as `DataFrame.query` has it, such as
        "n_counts >= 500"; None (default) for all.
    gene_key
        The column of var with the ids by which genes are the same over files; None (default) for
        the index. Versions of Ensembl ids do not count, and values of genes of a cell that have one
        id are added before they are normalised. Genes without an id (a missing or blank entry, or
        one of the texts "nan", "NaN", "None", "<NA>" and "NA") count for the library size alone.
    min_known_genes
        The least share of a file's genes that some other file has to have, 0 to 1, default 0.5: it
        tells of files whose ids are of another kind or species. For one file it is the share of its
        genes that have an id.
    target_sum
        What the values of a cell add up to once they are normalised, default 10,000.
    memory_budget
        Bytes, or a text such as "512MiB": what the counts may take, default 1 GiB. Less means more
        passes over the files. Blocks of rows take up to 300 MB beside it, where no value is 0.
    threads
        How many threads decode and count; None for as many as the process may use. With 1 nothing
        is read ahead either.
    dask
        The address of a Dask scheduler, or a client: its workers count, and the result is the same
        to the last bit. They need the files at the same paths, and each of their threads takes as
        much memory as the counts; `threads` is how many each task decodes with, 1 by default. Needs
        `scx-tokenize[dask]`.
    overwrite
        Replace `out` if it exists, default False.
    progress
        None: a bar on a terminal or in a notebook. True or False: a bar, or none. A callable: it is
        called with the cells done and the cells in all, counted over every pass.

    Returns
    -------
    `GeneMedians`. Genes that no cell expresses are not in it, but in its `unseen`.

    Raises
    ------
    FileNotFoundError
        A file is not there.
    ValueError
        A file is no .scx or .h5ad file or damaged, a value is infinite, too few genes are known, no
        cell is left, an argument is out of range, or `out` is one of the inputs.
    KeyError
        A file lacks the layer or the column; the message names file and key and what there is.
    FileExistsError
        `out` exists and `overwrite` is False.
    RuntimeError
        A file was changed meanwhile, or the cluster has no worker, or other versions of packages.

    Examples
    --------
    >>> import anndata, numpy, scx_tokenize
    >>> counts = numpy.array([[1, 3, 0], [2, 2, 0], [0, 4, 0]], dtype="float32")
    >>> anndata.AnnData(counts).write_h5ad("three.h5ad")
    >>> found = scx_tokenize.medians("three.h5ad", target_sum=100)
    >>> found.gene_ids.tolist(), found.medians.tolist(), found.unseen.tolist()
    (['0', '1'], [37.5, 75.0], ['2'])
    """
    target = None if out is None else check_target(out, overwrite=overwrite)
    target_sum = arguments.positive(target_sum, "target_sum", who=WHO)
    if not 0 <= min_known_genes <= 1:
        raise ValueError(f"{WHO}: min_known_genes={min_known_genes} must be from 0 to 1")
    arguments.threads(threads, who=WHO)
    memory_bytes = parse_bytes(memory_budget, "memory_budget")
    paths = job_inputs(inputs)
    if target is not None:
        refuse_inputs(target, *paths)
    selection = Selection(source, modality, obs_filter, gene_key)
    files, genes = look_at(paths, selection, min_known_genes=min_known_genes)
    if not any(each.n_cells for each in files):
        reason = "" if obs_filter is None else f" that fulfils obs_filter={obs_filter!r}"
        raise ValueError(f"{WHO}: {', '.join(paths[:3])}: there is no cell{reason}")
    plan = plan_of(Corpus(tuple(files), len(genes.names), target_sum), memory_bytes)
    with ExitStack() as stack:
        counter = counting_here(threads)
        if dask is not None:
            client = stack.enter_context(dask_client(dask))
            check_versions(client)
            counter = counting_on_dask(client, threads or 1)
        if target is not None:
            folder = stack.enter_context(working_folder(target))
        else:
            # other machines do not see this one's temporary files
            parent = None if dask is None else Path.cwd()
            made = tempfile.TemporaryDirectory(prefix=WORKING_PREFIX, dir=parent)
            folder = Path(stack.enter_context(made))
        corpus = Corpus(tuple(in_rows(files, folder)), len(genes.names), target_sum)
        counted = count_all(corpus, plan, counter, progress=progress)
    late = [files[number] for number in sorted(counted.odd_inputs)]
    tell_of_fractions([each for each in late if not each.has_fractions])
    if target is not None and not np.any(counted.n_values):
        raise ValueError(f"{WHO}: {', '.join(paths[:3])}: no gene has a value above 0 in any cell")
    result = result_of(counted, genes, files, target_sum=target_sum)
    if target is not None:
        write_table(result.to_arrow(), target, overwrite=overwrite)
    return result
