"""From the arguments of `run` to a job."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from scx_core._faults import each_of
from scx_core._genes import NO_ID, matched_id
from scx_core._output_paths import refuse_inputs
from scx_core._paths import StrPath, local_path

from .. import _arguments as numbers
from ._description import Job
from ._fractions import warn_of_fractions
from ._gene_files import GeneList, GeneTable, read_list, read_table
from ._inputs import (
    TURNED_FOLDER,
    InputOptions,
    Inspected,
    input_files,
    inspect,
    job_inputs,
    turned_file,
)
from ._obs import common_types
from ._presets import method_of
from ._vocabulary import Vocabulary, make_vocabulary

TOKEN_VALUES = ("token", "token_id", "input_id")
MEDIAN_VALUES = ("median", "gene_median", "nonzero_median")
SYNONYM_VALUES = ("synonym", "collapsed", "target")
OWN_COLUMNS = ("input_ids", "length", "values", "row_id", "file_id")
SHARD_ROWS_MAX = 2**24


def plan_job(
    kernel: str,
    inputs: StrPath | Sequence[StrPath],
    out: StrPath,
    *,
    preset: str | None,
    options: Mapping[str, Any],
    token_dictionary: GeneTable | None,
    gene_medians: GeneTable | None,
    gene_synonyms: GeneTable | None,
    genes: GeneList | None,
    gene_filter: str | None,
    gene_key: str | None,
    min_known_genes: float,
    source: str,
    modality: str | None,
    obs_columns: Sequence[str],
    obs_filter: str | None,
    shard_rows: int,
    allow_pickle: bool,
) -> Job:
    """Check everything that can be checked before anything is written; arguments are `run`'s."""
    folder = _out_folder(out)
    tables = {"token_dictionary": token_dictionary, "gene_medians": gene_medians}
    method = method_of(kernel, preset, options, tables)
    rows = numbers.whole_number(
        shard_rows, "shard_rows", who="run", lowest=1, highest=SHARD_ROWS_MAX
    )
    paths = job_inputs(inputs)
    refuse_inputs(folder, *paths)
    chosen = None if genes is None else read_list(genes, "genes")
    tokens = _table(token_dictionary, "token_dictionary", TOKEN_VALUES, allow_pickle=allow_pickle)
    medians = _table(gene_medians, "gene_medians", MEDIAN_VALUES, allow_pickle=allow_pickle)
    synonyms = _table(gene_synonyms, "gene_synonyms", SYNONYM_VALUES, allow_pickle=allow_pickle)
    _check_synonyms(synonyms)
    reading = InputOptions(
        source=source,
        modality=modality,
        gene_key=gene_key,
        gene_synonyms=synonyms,
        gene_filter=gene_filter,
        min_known_genes=_share(min_known_genes),
        obs_columns=_obs_columns(obs_columns),
        obs_filter=obs_filter,
    )
    vocabulary = None
    if tokens is not None or medians is not None:
        vocabulary = _vocabulary(tokens, medians, None, method.special, method.append_special)
    inspected = list(each_of(paths, partial(inspect, options=reading)).values())
    if not any(one.n_cells for one in inspected):
        raise ValueError(_no_cells(inspected, obs_filter))
    n_without_id = 0
    if vocabulary is None:
        ids = inspected[0].genes.ids
        with_id = [name for name in ids if matched_id(name) != NO_ID]
        n_without_id = len(ids) - len(with_id)
        names = list(dict.fromkeys(with_id))
        vocabulary = _vocabulary(None, None, names, method.special, method.append_special)
    files = input_files(inspected, vocabulary, reading, chosen=chosen, n_without_id=n_without_id)
    if method.takes_counts is not None:
        odd = [one.path for one in inspected if one.has_fractions]
        warn_of_fractions(odd, source, f"{method.takes_counts} takes")
    types = common_types({one.path: one.obs_types for one in inspected if one.n_cells})
    turned = [
        file if one.is_in_rows else replace(file, turned=str(_turned_path(folder, file.identity)))
        for file, one in zip(files, inspected, strict=True)
    ]
    return Job(
        kernel=method.kernel,
        options=method.options,
        vocabulary=vocabulary,
        framing=method.framing,
        files=tuple(turned),
        source=source,
        modality=modality,
        obs_filter=obs_filter,
        obs_types=types,
        folder=str(folder),
        shard_rows=rows,
        takes_counts=method.takes_counts,
    )


def turn_matrices(job: Job) -> None:
    """Make the .scx files that stand in for matrices which cannot be read by rows."""
    for file in job.files:
        if file.turned is not None:
            turned_file(file, job.source, Path(job.folder) / TURNED_FOLDER)


def _turned_path(folder: Path, identity: str) -> Path:
    return folder / TURNED_FOLDER / f"{identity}.scx"


def _out_folder(out: StrPath) -> Path:
    return Path(os.path.abspath(local_path(out, "out", writing=True)))


def _table(
    given: GeneTable | None, argument: str, values: Sequence[str], *, allow_pickle: bool
) -> Any:
    if given is None:
        return None
    return read_table(given, argument, values=values, allow_pickle=allow_pickle)


def _check_synonyms(synonyms: Mapping[str, Any] | None) -> None:
    for name, other in (synonyms or {}).items():
        if not isinstance(other, str):
            raise ValueError(
                f"gene_synonyms: {name!r} has {other!r}; ids to take in place are text"
            )


def _vocabulary(
    tokens: Any,
    medians: Any,
    names: Sequence[str] | None,
    special: Sequence[str],
    append: bool,  # noqa: FBT001
) -> Vocabulary:
    # a vocabulary that the job makes up has no special tokens yet
    append = append or tokens is None
    return make_vocabulary(tokens, medians, names, special=special, append_special=append)


def _share(value: Any) -> float:
    try:
        share = float(value)
    except (TypeError, ValueError):
        raise TypeError(f"min_known_genes={value!r} must be a number from 0 to 1") from None
    if not 0 <= share <= 1:
        raise ValueError(f"min_known_genes={value!r} must be a number from 0 to 1")
    return share


def _obs_columns(columns: Sequence[str]) -> tuple[str, ...]:
    names = (columns,) if isinstance(columns, str) else tuple(columns)
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"obs_columns: it holds {name!r}; names of columns are text")
        if name in OWN_COLUMNS:
            raise ValueError(
                f"obs column {name!r} cannot be kept: the tokens have a column of that name"
            )
    if len(set(names)) < len(names):
        raise ValueError(f"obs_columns: a column is named twice: {', '.join(names)}")
    return names


def _no_cells(inspected: Sequence[Inspected], query: str | None) -> str:
    paths = ", ".join(one.path for one in inspected[:3])
    more = f" and {len(inspected) - 3} more files" if len(inspected) > 3 else ""
    if query is None:
        return f"there are no cells in {paths}{more}"
    return f"obs_filter={query!r} keeps no cell of {paths}{more}"
