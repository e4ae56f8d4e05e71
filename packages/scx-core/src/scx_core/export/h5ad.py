"""An open .scx file as an .h5ad file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from scx_core._byte_sizes import parse_bytes
from scx_core._output_paths import HDF5_SUFFIXES, check_output
from scx_core.export.elements import (
    Group,
    check_names,
    check_nested_names,
    mark,
    write_element,
    write_members,
)
from scx_core.export.hdf5_file import new_hdf5
from scx_core.export.matrices import Exporting, write_matrix
from scx_core.export.placing import placed_file
from scx_core.sources.h5_matrices import ReadingMeans
from scx_core.writing._progress import Progress, row_progress

if TYPE_CHECKING:
    from scx_core.experiment import Experiment
    from scx_core.experiment._modality import Modality

Compression = Literal["gzip", "lzf"] | None

BLOCK_BYTES_AT_MOST = 32 * 2**20
COMPONENTS = ("obsm", "varm", "obsp", "varp")


def export_h5ad(
    experiment: Experiment,
    path: str | os.PathLike[str],
    *,
    modality: str | None = None,
    compression: Compression = None,
    compression_opts: int | None = None,
    overwrite: bool = False,
    memory_budget: int | str = "2GiB",
    progress: Progress = None,
) -> None:
    """Write an experiment, or one modality of it, to an .h5ad file; see `Experiment.to_h5ad`."""
    check_output(path, experiment, suffix=".h5ad", also=HDF5_SUFFIXES)
    part = chosen_modality(experiment, modality)
    with (
        placed_file(Path(path), overwrite=overwrite) as hidden,
        exporting_to(
            Path(path),
            compression=compression,
            compression_opts=compression_opts,
            memory_budget=memory_budget,
            progress=progress,
            total_rows=matrix_rows(part),
        ) as exporting,
        new_hdf5(hidden, Path(path)) as file,
    ):
        write_modality(file, experiment, part, exporting)


def chosen_modality(experiment: Experiment, modality: str | None) -> Modality:
    """The modality to write; ValueError when a choice is needed or cannot be made."""
    if not experiment.is_multimodal:
        if modality is not None:
            raise ValueError(
                f"modality={modality!r}: {experiment.path} has a single modality without a name"
            )
        return experiment.parts()[0]
    if modality is None:
        raise ValueError(
            f"{experiment.path} is multimodal: name one of {experiment.modality_names} with "
            "modality=, or write all of them to an .h5mu file"
        )
    return experiment.modality(modality)


@contextmanager
def exporting_to(
    path: Path,
    *,
    compression: Compression,
    compression_opts: int | None,
    memory_budget: int | str,
    progress: Progress,
    total_rows: int,
) -> Iterator[Exporting]:
    """What the matrices of an export share; checks the arguments."""
    budget = parse_bytes(memory_budget, "memory_budget")
    if compression not in (None, "gzip", "lzf"):
        raise ValueError(f'compression={compression!r} must be None, "gzip" or "lzf"')
    if compression_opts is not None and compression != "gzip":
        raise ValueError("compression_opts is the level of gzip, which was not chosen")
    if compression_opts is not None and not 0 <= compression_opts <= 9:
        raise ValueError(f"compression_opts={compression_opts} must lie in 0 to 9")
    options: dict[str, Any] = {}
    if compression is not None:
        options["compression"] = compression
    if compression_opts is not None:
        options["compression_opts"] = compression_opts
    with row_progress(progress, total_rows) as on_rows:
        yield Exporting(
            options=options,
            means=ReadingMeans(max(1, budget // 2), path.parent),
            block_bytes=max(1, min(BLOCK_BYTES_AT_MOST, budget // 8)),
            on_rows=on_rows,
        )


def matrix_rows(part: Modality) -> int:
    """Rows that are written for one modality, counted over its matrices."""
    n_matrices = (part.X is not None) + len(part.layers) + (part.raw is not None)
    return part.n_obs * n_matrices


def write_modality(
    group: Group, experiment: Experiment, part: Modality, exporting: Exporting
) -> None:
    """Write one modality as an AnnData into `group`."""
    write_annotations(group, experiment, part, exporting)
    write_matrices(group, part, exporting)


def write_annotations(
    group: Group, experiment: Experiment, part: Modality, exporting: Exporting
) -> None:
    """Write what is no matrix of cells and genes; this is where anndata may refuse something."""
    options, rows = exporting.options, part.rows
    uns = part.load_uns()
    _check_all_names(part, uns)
    mark(group, "anndata", "0.1.0")
    obs = part.load_obs()
    if obs is None:
        obs = experiment.shared.load_obs()
        if rows is not None:
            obs = obs.iloc[rows]
    write_element(group, "obs", obs, options)
    del obs
    write_element(group, "var", part.load_var(), options)
    for kind in COMPONENTS:
        write_members(group, kind, part.loaders(kind), options)
    write_element(group, "uns", uns, options)
    if part.raw is not None:
        raw = group.create_group("raw")
        mark(raw, "raw", "0.1.0")
        write_element(raw, "var", part.raw.load_var(), options)
        write_members(raw, "varm", part.raw.varm_loaders(), options)


def write_matrices(group: Group, part: Modality, exporting: Exporting) -> None:
    """Write X, the layers and raw.X beside the annotations."""
    if part.X is not None:
        write_matrix(group, "X", part.X, part.rows, exporting)
    layers = group.create_group("layers")
    mark(layers, "dict", "0.1.0")
    for name, view in part.layers.items():
        write_matrix(layers, name, view, part.rows, exporting)
    if part.raw is not None:
        write_matrix(group["raw"], "X", part.raw.X, part.rows, exporting)


def _check_all_names(part: Modality, uns: dict[str, Any]) -> None:
    """Refuse what cannot be written before any matrix is."""
    for kind in COMPONENTS:
        check_names(kind, part.loaders(kind))
    check_names("layers", part.layers)
    check_nested_names("uns", uns)
    if part.raw is not None:
        check_names("raw.varm", part.raw.varm_loaders())
