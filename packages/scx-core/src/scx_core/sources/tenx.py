"""Count matrices of Cell Ranger in HDF5 as content for the writer.

The file keeps genes x cells by columns, which read as rows is cells x genes, so the rows stream
straight from it. Since Cell Ranger 3 there is one group `matrix` with a group of features; before,
each genome had a group of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from scx_core._user_warnings import warn_user
from scx_core.metadata._text import default_text_dtype
from scx_core.sources.base import ExperimentContent, MatrixSource, ModalityContent
from scx_core.sources.derived import CastValues, SelectedColumns
from scx_core.sources.detect import advice, legacy_genomes, source_kind
from scx_core.sources.h5_compressed import compressed_arrays
from scx_core.sources.h5_matrices import CsrOnDisk
from scx_core.sources.hdf5 import (
    Dataset,
    Group,
    check_readable,
    dataset_in,
    is_dataset,
    native,
    open_hdf5,
    text_column,
    where,
)

if TYPE_CHECKING:
    import pandas as pd

# whole numbers up to here are exact in float32
FLOAT32_EXACT = 2**24
VALUES_PER_SCAN = 1 << 22
# features/* that get other names, or hold no column
NAMED_APART = {"name", "id", "gene_id", "feature_type", "_all_tag_keys"}


@contextmanager
def tenx_content(
    path: Path, *, genome: str | None = None, feature_types: str | Sequence[str] | None = None
) -> Iterator[ExperimentContent]:
    """Describe the 10x file at `path`; the content can be read inside the `with` block only.

    Raises
    ------
    ValueError
        The file is something else or damaged, needs a `genome` to be chosen, or has none of the
        features that were asked for.
    """
    with open_hdf5(path, "from_10x", "a 10x Genomics count matrix in HDF5") as file:
        if source_kind(path) != "10x_h5":
            raise ValueError(
                f"{path} is not a 10x Genomics count matrix in HDF5: {advice(path, 'from_10x')}"
            )
        check_readable(file)
        if "matrix" in file:
            group = file["matrix"]
            obs, var = _obs(group), _var(group)
        else:
            if feature_types is not None:
                raise ValueError(f"{path} was written before feature types, all are genes")
            group = _legacy_group(file, genome)
            obs, var, genome = _obs(group), _legacy_var(group), None
        source = _counts(group, len(obs), len(var))
        kept = selected_features(var, path, genome=genome, feature_types=feature_types)
        if kept is not None:
            var, source = var[kept], SelectedColumns(source, kept)
        yield ExperimentContent(
            obs=obs,
            modalities={"": ModalityContent(var=var, X=source)},
            provenance={"source": "10x_h5", "file": path.name},
        )


def selected_features(
    var: pd.DataFrame,
    path: Path,
    *,
    genome: str | None = None,
    feature_types: str | Sequence[str] | None = None,
) -> npt.NDArray[np.bool_] | None:
    """Which features were asked for; None for all.

    Raises
    ------
    ValueError
        There is no feature of such a genome or type; the message lists those there are.
    """
    types = [feature_types] if isinstance(feature_types, str) else feature_types
    kept: npt.NDArray[np.bool_] | None = None
    for argument, column, wanted in (
        ("genome", "genome", None if genome is None else [genome]),
        ("feature_types", "feature_types", types),
    ):
        if wanted is None:
            continue
        if column not in var.columns:
            raise ValueError(f"{argument}={wanted}: {path} does not say it of its features")
        there = var[column].unique().tolist()
        missing = [name for name in wanted if name not in there]
        if missing:
            raise ValueError(f"{argument}: {path} has no {missing}; there are {there}")
        chosen = var[column].isin(list(wanted)).to_numpy()
        kept = chosen if kept is None else kept & chosen
    return kept


def float32_if_exact(dtype: np.dtype[Any], largest: float) -> np.dtype[Any]:
    """The type for whole counts: float32, as everyone else reads them, unless that would round."""
    return np.dtype(np.float32) if largest <= FLOAT32_EXACT else dtype


def _legacy_group(file: Group, genome: str | None) -> Group:
    genomes = legacy_genomes(file)
    if genome is None and len(genomes) > 1:
        raise ValueError(
            f"{file.filename} holds several genomes, of which one file takes one: "
            f"choose with genome=; there are {genomes}"
        )
    chosen = genomes[0] if genome is None else genome
    if chosen not in genomes:
        raise ValueError(f"{file.filename} has no genome {chosen!r}; there are {genomes}")
    return file[chosen]


def _counts(group: Group, n_obs: int, n_vars: int) -> MatrixSource:
    shape = [int(n) for n in dataset_in(group, "shape", 1)[()]]
    if shape != [n_vars, n_obs]:
        raise ValueError(
            f"{where(group)}: shape says {shape}, but there are {n_vars} features and {n_obs} "
            "barcodes"
        )
    # the file's wide indices are Cell Ranger's habit; scipy makes them as narrow as they can be
    source = CsrOnDisk(compressed_arrays(group, n_obs, n_vars), index_dtypes=None)
    if source.dtype != np.int32:
        return source
    return _as_float32_if_exact(source)


def _as_float32_if_exact(source: CsrOnDisk) -> MatrixSource:
    data = source.arrays.data
    for start in range(0, len(data), VALUES_PER_SCAN):
        values = native(data[start : start + VALUES_PER_SCAN])
        if max(int(values.max()), -int(values.min())) > FLOAT32_EXACT:
            return source
    return CastValues(source, np.dtype(np.float32))


def _obs(group: Group) -> pd.DataFrame:
    import pandas as pd

    barcodes = text_column(dataset_in(group, "barcodes", 1))
    columns: dict[str, Any] = {}
    if "filtered_barcodes" in group:
        marks = dataset_in(group, "filtered_barcodes", 1)
        _check_length(marks, len(barcodes), "barcodes")
        columns["filtered_barcodes"] = marks[()].astype(bool)
    return pd.DataFrame(columns, index=pd.Index(barcodes, dtype=default_text_dtype()))


def _legacy_var(group: Group) -> pd.DataFrame:
    import pandas as pd

    identifiers = text_column(dataset_in(group, "genes", 1))
    symbols = identifiers
    if "gene_names" in group:
        stored_symbols = dataset_in(group, "gene_names", 1)
        _check_length(stored_symbols, len(identifiers), "genes")
        symbols = text_column(stored_symbols)
    return pd.DataFrame(
        {"gene_ids": identifiers}, index=pd.Index(symbols, dtype=default_text_dtype())
    )


def _var(group: Group) -> pd.DataFrame:
    """The features: named by symbol (probes by their own name), every dataset a column."""
    import pandas as pd

    features = group.get("features")
    if features is None or is_dataset(features):
        raise ValueError(f"{where(group)} has no group of features, so its rows have no names")
    identifiers = text_column(dataset_in(features, "id", 1))
    n_features = len(identifiers)

    def column(name: str) -> list[str]:
        dataset = dataset_in(features, name, 1)
        _check_length(dataset, n_features, "features")
        return text_column(dataset)

    columns: dict[str, Any] = {}
    if "gene_id" in features:
        columns["gene_ids"] = column("gene_id")
        columns["probe_ids"] = identifiers
    else:
        columns["gene_ids"] = identifiers
    if "feature_type" in features:
        columns["feature_types"] = column("feature_type")
    left = []
    for name, item in features.items():
        if name in NAMED_APART:
            continue
        if not is_dataset(item) or item.shape != (n_features,):
            left.append(name)
            continue
        dataset = cast("Dataset", item)
        is_mark = dataset.dtype.kind == "b"
        columns[name] = dataset[()].astype(bool) if is_mark else column(name)
    if left:
        warn_user(
            f"{where(features)} holds {', '.join(map(repr, left))}, which is no column of the "
            "features; not converted"
        )
    return pd.DataFrame(columns, index=pd.Index(column("name"), dtype=default_text_dtype()))


def _check_length(dataset: Dataset, expected: int, what: str) -> None:
    if len(dataset) != expected:
        raise ValueError(f"{where(dataset)} has {len(dataset)} entries for {expected} {what}")
