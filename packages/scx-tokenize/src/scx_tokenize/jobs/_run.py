"""`run`: what users call."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from scx_core._output_paths import refuse_inputs
from scx_core._paths import StrPath
from scx_core.native.threads import usable_cpus

from .. import _arguments as numbers
from ._dask import DaskCluster, check_versions, dask_client, on_dask
from ._description import Job, KernelName, Task, Transform
from ._gene_files import GeneList, GeneTable
from ._manifest import GENE_MEDIANS, TOKEN_DICTIONARY
from ._plan import plan_job
from ._presets import PresetName
from ._running import OnCells, Records, Runner, in_threads, run_job
from ._shards import check_memory

if TYPE_CHECKING:
    from scx_core.writing import Progress

    from .._bins import Tie
    from .._sample import SampleWeight

SHARD_ROWS = 8192
# files where they are texts
_PATHS = ("token_dictionary", "gene_medians", "gene_synonyms", "genes")
# neither decides about the tokens, or they are known only to this machine
_NOT_RECORDED = ("out", "threads", "dask", "overwrite", "progress")


def run(
    kernel: KernelName,
    inputs: StrPath | Sequence[StrPath],
    out: StrPath,
    *,
    preset: PresetName | None = None,
    token_dictionary: GeneTable | None = None,
    gene_medians: GeneTable | None = None,
    gene_synonyms: GeneTable | None = None,
    genes: GeneList | None = None,
    gene_filter: str | None = None,
    gene_key: str | None = None,
    min_known_genes: float = 0.5,
    source: str = "X",
    modality: str | None = None,
    obs_columns: Sequence[str] = (),
    obs_filter: str | None = None,
    l_max: int | None = None,
    target_sum: float | None = None,
    n_bins: int | None = None,
    tie: Tie | None = None,
    edges: Sequence[float] | None = None,
    transform: Transform | None = None,
    include_zero_genes: bool | None = None,
    n: int | None = None,
    weight: SampleWeight | None = None,
    seed: int | None = None,
    cls: str | None = None,
    eos: str | None = None,
    pad: bool | None = None,
    shard_rows: int = SHARD_ROWS,
    threads: int | None = None,
    dask: DaskCluster | None = None,
    overwrite: bool = False,
    allow_pickle: bool = False,
    hf: bool = False,
    progress: Progress = None,
) -> dict[str, Any]:
    """Tokenise all cells of files, into Parquet files that data loaders open.

    `out/data/tokens-*.parquet` has a row for each cell: `input_ids` (a list of int32), `length`,
    for "bin" `values` (the bins, beside `input_ids`), `row_id` (the cell's row in its file),
    `file_id` (which input) and the columns of obs that were asked for. `out/manifest.json` says
    how they were made, and `token_dictionary.json` and `gene_medians.json` with what.

    A run that was interrupted goes on when it is called again: finished shards stay. A folder with
    the tokens of other parameters or inputs is refused. The files do not depend on `threads`.

    Parameters
    ----------
    kernel
        "rank" (`rank_tokens`), "bin" (`bin_values`) or "sample" (`sample_genes`).
    inputs
        .scx and .h5ad files, folders of them, or patterns such as "part-*.scx".
    out
        A folder.
    preset
        The conventions of a model: "geneformer-v1", "geneformer-v2" (both "rank"), "scgpt" ("bin")
        or "uce" ("sample"). Options that are given come before the preset's.
    token_dictionary
        The number of each gene and special token: a mapping, a JSON or Parquet file, or a pickle
        with `allow_pickle`. None numbers the genes of `gene_medians`, or else those of the first
        file, from 0.
    gene_medians
        For "rank": what each gene's normalised value is divided by, in the same forms. Genes that
        are not in both are unknown.
    gene_synonyms
        The id to take in place of another, in the same forms.
    genes
        Only these genes become tokens: names, or a JSON or text file of them.
    gene_filter
        Only those genes of each file become tokens for which this column of var is true, such as
        "highly_variable".
    gene_key
        The column of var that has the genes' ids; None for the index. Versions of Ensembl ids do
        not count, and genes that come to one id are added. A gene without an id is unknown: its
        entry is missing or blank, or one of the texts "nan", "NaN", "None", "<NA>" and "NA".
    min_known_genes
        The least share of a file's genes that must be known, or of the known ones that it must
        have if that is more. 0 to 1.
    source
        "X", "raw" or "layers/NAME".
    modality
        Which one, in multimodal files.
    obs_columns
        Columns of obs to keep; "cell_name" stands for its index.
    obs_filter
        Take only cells for which this expression is true, in the language of
        `pandas.DataFrame.query`, such as "n_counts >= 500 and tissue == 'lung'".
    l_max
        For "rank" and "bin": most tokens of a cell, special ones included (2048). With `pad`, and
        for n, each thread has some 16 bytes for each slot of 1,024 cells.
    target_sum
        For "rank", and "bin" with `transform="normalize_log1p"`: what totals become (10,000).
    n_bins, tie, edges
        For "bin": as of `bin_values` (51, "left", None). Genes in bin 0 are left out, which with
        "right" are the smallest values of a cell too.
    transform
        For "bin": what is done to the values before, as of `transform_values` ("pass_through").
    include_zero_genes
        For "bin": also take the genes of the file that a cell has nothing of, in bin 0 (False).
    n, weight
        For "sample": as of `sample_genes` (1024, "log1p").
    seed
        For "bin" and "sample" (0).
    cls, eos
        Special tokens before and behind each cell, by their names in the dictionary.
    pad
        Fill every cell up to the longest length with "<pad>" (False).
    shard_rows
        Most cells of a file of tokens.
    threads
        None for all CPUs that the process may use; on a cluster, those of each task, 1 by default.
    dask
        The address of a Dask scheduler, or a `distributed.Client`: the cluster's workers make the
        files, which are the same to the last byte. They need the inputs and `out` at the same paths
        and the same versions of scx-tokenize and pyarrow. Needs `scx-tokenize[dask]`.
    overwrite
        Replace the tokens of another job.
    allow_pickle
        Read pickled dicts: by an unpickler that takes nothing but dicts, texts and numbers.
    hf
        Also write `out/hf`, a folder for `datasets.load_from_disk`; needs the package datasets.
    progress
        None: a bar on a terminal or in a notebook. True or False: a bar, or none. A function is
        called with the cells done and the cells in all.

    Returns
    -------
    dict
        What the manifest holds.

    Raises
    ------
    FileNotFoundError
        A file is not there.
    KeyError
        A file has no such column, layer or modality; the message names both, and what there is.
    ValueError
        An argument is wrong, a file knows too few genes, no file or no cell is left, tokens are
        more than memory holds, or `out` holds the tokens of another job, or one of the inputs.
    FileExistsError
        `out` holds something else.
    RuntimeError
        An input was changed meanwhile, another process works in `out`, or the cluster has no worker
        or other versions of packages.
    """
    arguments = {name: value for name, value in locals().items() if name not in _NOT_RECORDED}
    listed = [inputs] if isinstance(inputs, str | os.PathLike) else list(inputs)
    arguments["inputs"] = [_full(one) for one in listed]
    job = plan_job(
        kernel,
        inputs,
        out,
        preset=preset,
        options={
            "l_max": l_max,
            "target_sum": target_sum,
            "n_bins": n_bins,
            "tie": tie,
            "edges": edges,
            "transform": transform,
            "include_zero_genes": include_zero_genes,
            "n": n,
            "weight": weight,
            "seed": seed,
            "cls": cls,
            "eos": eos,
            "pad": pad,
        },
        token_dictionary=token_dictionary,
        gene_medians=gene_medians,
        gene_synonyms=gene_synonyms,
        genes=genes,
        gene_filter=gene_filter,
        gene_key=gene_key,
        min_known_genes=min_known_genes,
        source=source,
        modality=modality,
        obs_columns=obs_columns,
        obs_filter=obs_filter,
        shard_rows=shard_rows,
        allow_pickle=allow_pickle,
    )
    if overwrite:  # a run that goes on writes the tables of its folder as they were
        tables = (arguments[name] for name in _PATHS)
        refuse_inputs(out, *(one for one in tables if isinstance(one, str | os.PathLike)))
    n_threads = numbers.threads(threads, who="run")
    if dask is None:  # the workers of a cluster have memory of their own
        check_memory(job, n_threads or usable_cpus())
    with _runner(n_threads, dask) as runner:
        return run_job(
            job, _recorded(arguments), runner, overwrite=overwrite, hf=hf, progress=progress
        )


@contextmanager
def _runner(threads: int, cluster: DaskCluster | None) -> Iterator[Runner]:
    """What makes the shards: threads of this process (0: all it may use), or a cluster."""
    if cluster is not None:
        with dask_client(cluster) as client:
            check_versions(client)
            yield on_dask(client, threads=threads or 1)
        return

    def by_threads(job: Job, tasks: Sequence[Task], on_cells: OnCells) -> Records:
        return in_threads(job, tasks, on_cells, threads=threads or usable_cpus())

    yield by_threads


def _recorded(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments as JSON values; a mapping as the file beside the manifest that it is kept in.

    Paths are full ones, so that the run can be repeated from anywhere.
    """
    kept = {"token_dictionary": TOKEN_DICTIONARY, "gene_medians": GENE_MEDIANS}
    full = {name: _full(value) for name, value in arguments.items() if name in _PATHS}
    return {
        name: _json_value(value, kept.get(name)) for name, value in {**arguments, **full}.items()
    }


def _full(value: Any) -> Any:
    return os.path.abspath(value) if isinstance(value, str | os.PathLike) else value


def _json_value(value: Any, kept_as: str | None) -> Any:
    if isinstance(value, Mapping):
        return kept_as if kept_as is not None else dict(value)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, str) or value is None:
        return value
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, Sequence):
        return [_json_value(entry, None) for entry in value]
    return value
