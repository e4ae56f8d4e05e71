"""A .scx file without the rows that are marked as deleted."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from scx_core._codecs import Codec
from scx_core._output_paths import check_output
from scx_core.experiment import Experiment, MatrixView
from scx_core.experiment._lazy_mapping import LazyMapping
from scx_core.experiment._modality import Modality
from scx_core.sources.base import ExperimentContent, ModalityContent
from scx_core.writing import SHARD_SIZE, Progress, write_experiment


def compact(
    path: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    codec: Codec = "auto",
    shard_size: int = SHARD_SIZE,
    overwrite: bool = False,
    progress: Progress = None,
    threads: int = 0,
) -> None:
    """Write a .scx file anew, without the rows that are marked as deleted.

    The other cells keep their order and are numbered anew; everything else stays. Matrices pass
    through memory piece by piece.

    Parameters
    ----------
    path
        The file to read.
    out
        The file to write, another one than `path`. A failure leaves no file, and an old one
        untouched.
    codec, shard_size, progress, threads
        As `from_anndata` takes them.
    overwrite
        Whether an existing file may be replaced.

    Raises
    ------
    CorruptFileError
        `path` is damaged.
    ValueError
        `out` is `path` itself, or has the suffix of another kind of file.
    FileExistsError
        `out` exists and `overwrite` is False.
    OSError
        `path` cannot be opened or the folder of `out` not be written to.

    Examples
    --------
    >>> import anndata, numpy, scx_core
    >>> scx_core.from_anndata(anndata.AnnData(numpy.eye(3)), "eye.scx", overwrite=True)
    >>> scx_core.mark_deleted("eye.scx", [0, 1])
    2
    >>> scx_core.compact("eye.scx", "smaller.scx", overwrite=True)
    >>> scx_core.open("smaller.scx").n_obs_physical
    1
    """
    check_output(out, path, suffix=".scx")
    with Experiment(path) as experiment:
        write_experiment(
            out,
            content_of(experiment),
            codec=codec,
            shard_size=shard_size,
            overwrite=overwrite,
            progress=progress,
            threads=threads,
        )


def content_of(experiment: Experiment) -> ExperimentContent:
    """What an experiment shows, for the writer; the experiment must stay open."""
    shared = experiment.shared
    if not experiment.is_multimodal:
        return ExperimentContent(
            obs=shared.load_obs(),
            modalities={"": _modality(experiment.parts()[0], n_shared=None)},
            provenance={"source": "scx"},
        )
    var = shared.load_var() if shared.has_var else None
    n_shared = None if var is None else len(var)
    return ExperimentContent(
        obs=shared.load_obs(),
        var=var,
        modalities={part.name: _modality(part, n_shared=n_shared) for part in experiment.parts()},
        uns=shared.load_uns(),
        axis=shared.axis,
        obsm=_lazily(shared.loaders("obsm"), "obsm"),
        obsp=_lazily(shared.loaders("obsp"), "obsp"),
        varm=_lazily(shared.loaders("varm"), "varm"),
        varp=_lazily(shared.loaders("varp"), "varp"),
        provenance={"source": "scx"},
    )


def _modality(part: Modality, *, n_shared: int | None) -> ModalityContent:
    content = ModalityContent(
        var=part.load_var(),
        X=None if part.X is None else _of_cells(part.X, part),
        layers={name: _of_cells(view, part) for name, view in part.layers.items()},
        uns=part.load_uns(),
        obs=part.load_obs(),
        rows=part.rows,
        columns=None if n_shared is None else part.columns(n_shared),
        obsm=_lazily(part.loaders("obsm"), "obsm"),
        obsp=_lazily(part.loaders("obsp"), "obsp"),
        varm=_lazily(part.loaders("varm"), "varm"),
        varp=_lazily(part.loaders("varp"), "varp"),
    )
    if part.raw is not None:
        content.raw_X = _of_cells(part.raw.X, part)
        content.raw_var = part.raw.load_var()
        content.raw_varm = _lazily(part.raw.varm_loaders(), "raw.varm")
    return content


def _of_cells(view: MatrixView, part: Modality) -> MatrixView:
    """The rows of the cells that the modality has, ascending."""
    return view if part.rows is None else view.taking(np.sort(part.rows))


def _lazily(loaders: Mapping[str, Any], kind: str) -> dict[str, Any]:
    return cast("dict[str, Any]", LazyMapping(loaders, what=kind))
