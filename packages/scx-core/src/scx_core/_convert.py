"""AnnData and MuData in memory to .scx files and back."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from scx_core._codecs import Codec
from scx_core._output_paths import check_output
from scx_core.writing import BLOCK_BYTES, SHARD_SIZE, Progress, write_experiment

if TYPE_CHECKING:
    import anndata
    import mudata


def from_anndata(
    adata: anndata.AnnData,
    path: str | os.PathLike[str],
    *,
    codec: Codec = "auto",
    shard_size: int = SHARD_SIZE,
    layers: Sequence[str] | None = None,
    overwrite: bool = False,
    strict_uns: bool = False,
    skip: str | Sequence[str] = (),
    progress: Progress = None,
    threads: int = 0,
    block_bytes: int = BLOCK_BYTES,
) -> None:
    """Write an AnnData to a .scx file, from which `to_anndata` makes an equal one.

    Everything is kept, with dtypes, orders and the kind of each matrix: X (dense, CSR or CSC of
    any numeric dtype), layers, raw, obs, var, obsm, varm, obsp, varp and uns. Rows of sparse
    matrices are made canonical on the way: sorted, repeated entries added up, stored zeros
    dropped. The object itself stays as it is. Views and backed objects are read piece by piece,
    but a view of a backed object is loaded. What a file cannot hold is refused, or for entries of
    uns named in a warning. A failure leaves no file, and an old one untouched.

    Parameters
    ----------
    adata
        The object; a view or a backed one too.
    path
        The file to write.
    codec
        "rowpack" (what "auto" takes) packs each row on its own, exactly; "none" packs nothing.
    shard_size
        Rows in a shard.
    layers
        Names of the layers to write; None writes all.
    overwrite
        Whether an existing file may be replaced.
    strict_uns
        Raise for entries of uns that cannot be stored, instead of a warning.
    skip
        Parts to leave out, by their paths: "obsm/airr", "obs/column", "layers/counts", "uns/key",
        "raw", of a modality "mod/rna/obsm/airr". "unstorable" leaves out, with a warning each,
        all columns and entries that a file cannot hold.
    progress
        None shows a bar on a terminal or in a notebook, True always, False never; a callable
        gets the rows done and the rows in all, counted over every matrix.
    threads
        How many threads encode; 0 for as many as the machine has.
    block_bytes
        About how many bytes of a matrix are encoded at a time.

    Raises
    ------
    ValueError, TypeError
        A part cannot be held or does not fit; the message names it and what to do. Or `path` is a
        file that the object reads from, or has the suffix of another kind of file.
    KeyError
        `layers` or `skip` names one that is not there.
    FileExistsError
        `path` exists and `overwrite` is False.
    OSError
        The folder cannot be written to.

    Warns
    -----
    ScxWarning
        NaN or infinite values were kept; repeated entries were added up or stored zeros dropped.
    UserWarning
        An entry of uns cannot be stored and is left out.

    Examples
    --------
    >>> import anndata, numpy, scx_core
    >>> adata = anndata.AnnData(numpy.eye(3, dtype="float32"))
    >>> scx_core.from_anndata(adata, "eye.scx", overwrite=True)
    >>> scx_core.read("eye.scx").shape
    (3, 3)
    """
    from scx_core.sources.anndata_memory import closed_as_before, content_from_anndata

    _require_type(adata, "anndata", "AnnData", "from_anndata")
    check_output(path, adata, suffix=".scx")
    with closed_as_before(adata):
        write_experiment(
            path,
            content_from_anndata(adata, layers=_names(layers)),
            codec=codec,
            shard_size=shard_size,
            overwrite=overwrite,
            strict_uns=strict_uns,
            skip=skip,
            progress=progress,
            threads=threads,
            block_bytes=block_bytes,
        )


def from_mudata(
    mdata: mudata.MuData,
    path: str | os.PathLike[str],
    *,
    codec: Codec = "auto",
    shard_size: int = SHARD_SIZE,
    layers: Sequence[str] | None = None,
    overwrite: bool = False,
    strict_uns: bool = False,
    skip: str | Sequence[str] = (),
    progress: Progress = None,
    threads: int = 0,
    block_bytes: int = BLOCK_BYTES,
) -> None:
    """Write a MuData to a multimodal .scx file, from which `to_mudata` makes an equal one.

    Kept are the modalities with all that their AnnData hold, their order and `axis`, which cells
    and genes each has and in which order, and MuData's own obs, var, obsm, varm, obsp, varp and
    uns. Modalities that are MuData themselves are refused, and so are objects whose modalities
    were changed without `update()`.

    Parameters, errors and warnings are those of `from_anndata`; `layers` must be in some modality.
    """
    from scx_core.sources.anndata_memory import closed_as_before
    from scx_core.sources.mudata_memory import content_from_mudata

    _require_type(mdata, "mudata", "MuData", "from_mudata")
    check_output(path, mdata, suffix=".scx")
    with closed_as_before(mdata):
        write_experiment(
            path,
            content_from_mudata(mdata, layers=_names(layers)),
            codec=codec,
            shard_size=shard_size,
            overwrite=overwrite,
            strict_uns=strict_uns,
            skip=skip,
            progress=progress,
            threads=threads,
            block_bytes=block_bytes,
        )


def write(
    data: anndata.AnnData | mudata.MuData, path: str | os.PathLike[str], **options: Any
) -> None:
    """Write an AnnData or a MuData to a .scx file; `options` are those of `from_anndata`."""
    if _is_a(data, "mudata", "MuData"):
        from_mudata(cast("mudata.MuData", data), path, **options)
    else:
        _require_type(data, "anndata", "AnnData", "write", also=" or a mudata.MuData")
        from_anndata(cast("anndata.AnnData", data), path, **options)


def read(path: str | os.PathLike[str], *, backed: bool = False) -> anndata.AnnData | mudata.MuData:
    """Load a .scx file as an AnnData, or as a MuData when it is multimodal.

    `backed=True` leaves the matrices in the file, see `Experiment.to_anndata`.
    """
    from scx_core.experiment import Experiment

    experiment = Experiment(path)
    try:
        if experiment.is_multimodal:
            return experiment.to_mudata(backed=backed)
        return experiment.to_anndata(backed=backed)
    finally:
        if not backed:  # its matrices read from the file from now on
            experiment.close()


def _names(layers: Sequence[str] | None) -> list[str] | None:
    if layers is None:
        return None
    return [layers] if isinstance(layers, str) else list(layers)


def _is_a(value: object, module: str, name: str) -> bool:
    # by name first, so that nothing is imported for a value of another package
    return any(
        base.__name__ == name and base.__module__.partition(".")[0] == module
        for base in type(value).__mro__
    )


def _require_type(value: object, module: str, name: str, function: str, *, also: str = "") -> None:
    if not _is_a(value, module, name):
        article = "an" if module == "anndata" else "a"
        raise TypeError(
            f"{function} takes {article} {module}.{name}{also}, not {type(value).__name__}: "
            "paths go to from_h5ad, from_h5mu, from_10x or from_mtx"
        )
