"""An open multimodal .scx file as an .h5mu file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from scx_core._output_paths import HDF5_SUFFIXES, check_output
from scx_core.experiment._to_mudata import member_map
from scx_core.export.elements import (
    check_names,
    check_nested_names,
    mark,
    write_element,
    write_members,
)
from scx_core.export.h5ad import (
    COMPONENTS,
    Compression,
    exporting_to,
    matrix_rows,
    write_annotations,
    write_matrices,
)
from scx_core.export.hdf5_file import new_hdf5
from scx_core.export.placing import placed_file
from scx_core.writing._progress import Progress

if TYPE_CHECKING:
    import h5py

    from scx_core.experiment import Experiment
    from scx_core.export.matrices import Exporting

# MuData files begin with a line of text, in a block that HDF5 leaves to the user
USER_BLOCK_BYTES = 512
FORMAT_VERSION = "0.1.0"


def export_h5mu(
    experiment: Experiment,
    path: str | os.PathLike[str],
    *,
    compression: Compression = None,
    compression_opts: int | None = None,
    overwrite: bool = False,
    memory_budget: int | str = "2GiB",
    progress: Progress = None,
) -> None:
    """Write a multimodal experiment to an .h5mu file; see `Experiment.to_h5mu`."""
    check_output(path, experiment, suffix=".h5mu", also=HDF5_SUFFIXES)
    if not experiment.is_multimodal:
        raise ValueError(f"{experiment.path} has a single modality: write it to an .h5ad file")
    with (
        placed_file(Path(path), overwrite=overwrite) as hidden,
        exporting_to(
            Path(path),
            compression=compression,
            compression_opts=compression_opts,
            memory_budget=memory_budget,
            progress=progress,
            total_rows=sum(matrix_rows(part) for part in experiment.parts()),
        ) as exporting,
    ):
        with new_hdf5(hidden, Path(path), user_block_bytes=USER_BLOCK_BYTES) as file:
            _write_shared(file, experiment, exporting)
            _write_modalities(file, experiment, exporting)
        _write_user_block(hidden)


def _write_shared(file: h5py.File, experiment: Experiment, exporting: Exporting) -> None:
    shared, options = experiment.shared, exporting.options
    uns = shared.load_uns()
    check_nested_names("uns", uns)
    check_names("mod", experiment.modality_names)
    for kind in COMPONENTS:
        check_names(kind, shared.loaders(kind))
    mark(file, "MuData", FORMAT_VERSION)
    file.attrs["axis"] = shared.axis
    write_element(file, "obs", shared.load_obs(), options)
    var = shared.load_var()
    write_element(file, "var", var, options)
    for kind in COMPONENTS:
        write_members(file, kind, shared.loaders(kind), options)
    write_element(file, "uns", uns, options)
    for key, length in (("obsmap", experiment.n_obs), ("varmap", len(var))):
        maps = file.create_group(key)
        mark(maps, "dict", "0.1.0")
        for part in experiment.parts():
            members = part.rows if key == "obsmap" else part.columns(length)
            if members is None:
                members = np.arange(part.n_obs if key == "obsmap" else part.n_vars)
            write_element(maps, part.name, member_map(members, length), options)


def _write_modalities(file: h5py.File, experiment: Experiment, exporting: Exporting) -> None:
    group = file.create_group("mod")
    # all that may be refused before the first matrix
    for part in experiment.parts():
        write_annotations(group.create_group(part.name), experiment, part, exporting)
    for part in experiment.parts():
        write_matrices(group[part.name], part, exporting)
    group.attrs["mod-order"] = experiment.modality_names


def _write_user_block(path: Path) -> None:
    line = f"MuData (format-version={FORMAT_VERSION};creator=scx-core)".encode()
    with path.open("rb+") as file:
        file.write(line.ljust(USER_BLOCK_BYTES, b"\0"))
