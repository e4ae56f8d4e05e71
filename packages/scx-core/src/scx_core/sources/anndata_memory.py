"""An AnnData object as content for the writer: whole, a view, backed by a file, or over dask."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from scx_core._errors import NameNotFoundError
from scx_core.sources._memory_matrix import (
    SlicedSource,
    index_width,
    ordered,
    sparse_form,
    sparse_index_dtypes,
)
from scx_core.sources.base import (
    ExperimentContent,
    IndexDtypes,
    MatrixForm,
    MatrixSource,
    ModalityContent,
)
from scx_core.sources.frames_with_bad_codes import lazy_frame_despite_codes

if TYPE_CHECKING:
    import anndata
    import pandas as pd


def content_from_anndata(
    adata: anndata.AnnData, *, layers: Sequence[str] | None = None
) -> ExperimentContent:
    """Describe `adata` for `write_experiment`; nothing is copied but what conversion needs.

    `layers` names the layers to take, None takes all. The object stays as it is.

    Raises TypeError for a matrix that no file can hold (masked arrays, GPU arrays, ...) and
    KeyError for a layer that is not there.
    """
    return ExperimentContent(
        obs=frame_in_memory(adata.obs),
        modalities={"": modality_from_anndata(adata, layers=layers)},
        provenance={"source": "anndata"},
    )


def modality_from_anndata(
    adata: anndata.AnnData,
    *,
    layers: Sequence[str] | None = None,
    order: npt.NDArray[np.int64] | None = None,
    label: str = "",
) -> ModalityContent:
    """Describe all of `adata` but its obs; matrices yield their rows in `order`.

    Messages name its parts by paths that start with `label`.
    """
    content = ModalityContent(
        var=frame_in_memory(adata.var),
        X=_x_source(adata, order, f"{label}X"),
        layers={
            name: _layer_source(adata, name, order, f"{label}layers[{name!r}]")
            for name in _chosen_layers(adata, layers)
        },
        obsm=components_in_memory(adata.obsm),
        varm=components_in_memory(adata.varm),
        obsp=components_in_memory(adata.obsp),
        varp=components_in_memory(adata.varp),
        uns=cast("Mapping[str, Any]", adata.uns),
    )
    raw = adata.raw
    if raw is not None:
        content.raw_X = matrix_source(raw.X, f"{label}raw.X", order=order)
        content.raw_var = frame_in_memory(raw.var)
        content.raw_varm = components_in_memory(raw.varm)
    return content


def matrix_source(
    matrix: Any, label: str, *, order: npt.NDArray[np.int64] | None = None
) -> MatrixSource:
    """A source over `matrix`, its rows in `order`; `label` names it in messages.

    Takes numpy arrays, every scipy sparse form, dask arrays of either, h5py and zarr arrays and
    anndata's sparse matrices on disk.
    """
    import scipy.sparse as sp

    if isinstance(matrix, np.ma.MaskedArray):
        raise TypeError(
            f"{label} is a masked array, and a .scx file has no masked entries: "
            "decide what they stand for, with `.filled(value)`"
        )
    if len(getattr(matrix, "shape", ())) != 2:
        raise TypeError(f"{label} is a {_type_name(matrix)} without two axes: it is no matrix")
    if sp.issparse(matrix) or isinstance(matrix, np.ndarray):
        return ordered(matrix, order)
    if is_dask(matrix):
        return _dask_source(matrix, order)
    if _is_sparse_on_disk(matrix):
        return _on_disk_sparse_source(matrix, order)
    if type(matrix).__module__.partition(".")[0] in ("h5py", "zarr"):
        return _sliced(matrix, order, "dense", None)
    remedy = (
        "call `.get()` for a copy on the host"
        if hasattr(matrix, "get")
        else ("convert it to a numpy array or a scipy sparse matrix")
    )
    raise TypeError(f"{label} is a {_type_name(matrix)}, which cannot be written: {remedy}")


def frame_in_memory(frame: Any) -> pd.DataFrame:
    """`frame` itself, or what a lazily read one holds."""
    if not hasattr(frame, "to_memory"):
        return cast("pd.DataFrame", frame)
    try:
        return cast("pd.DataFrame", frame.to_memory())
    except ValueError:
        despite = lazy_frame_despite_codes(frame)
        if despite is None:
            raise
        return despite


def components_in_memory(mapping: Mapping[str, Any]) -> dict[str, Any]:
    """The entries of obsm and the like, loaded where they are lazy."""
    return {key: _in_memory(mapping[key]) for key in mapping}


def is_dask(value: Any) -> bool:
    """Whether it is an array of dask, also as part of a view of a lazy AnnData."""
    return any(base.__module__.partition(".")[0] == "dask" for base in type(value).__mro__)


@contextmanager
def closed_as_before(data: Any) -> Iterator[None]:
    """Close again what the block opens: anndata opens the file of a backed object when it is read.

    `data` is an AnnData, a MuData, or anything else, for which nothing happens.
    """
    modalities = getattr(data, "mod", None)
    parts = [data, *(modalities.values() if isinstance(modalities, Mapping) else ())]
    files = [part.file for part in parts if getattr(part, "isbacked", False)]
    closed = [file for file in files if not file.is_open]
    try:
        yield
    finally:
        for file in closed:
            file.close()


def _in_memory(value: Any) -> Any:
    if is_dask(value):
        return value.compute()
    return value.to_memory() if hasattr(value, "to_memory") else value


def layer_names(adata: anndata.AnnData) -> list[str]:
    """The names of the layers; since anndata 0.13 X stands among them too, under None."""
    return [name for name in adata.layers if name is not None]


def _chosen_layers(adata: anndata.AnnData, layers: Sequence[str] | None) -> list[str]:
    present = layer_names(adata)
    if layers is None:
        return present
    chosen = [layers] if isinstance(layers, str) else list(layers)
    for name in chosen:
        if name not in present:
            raise NameNotFoundError(f"layers: there is no layer {name!r}; there are {present}")
    return [name for name in present if name in chosen]


def _x_source(
    adata: anndata.AnnData, order: npt.NDArray[np.int64] | None, label: str
) -> MatrixSource | None:
    # a view would copy its whole matrix: ask it for no rows to see what it is; of a view of a
    # backed object anndata makes no further view
    if adata.is_view and not adata.isbacked and order is None:
        rows = cast(Any, adata[:0]).X
        if rows is None:
            return None
        if _cheap_to_slice(rows):
            return _view_source(adata, rows, lambda part: part.X)
    matrix = adata.X
    return None if matrix is None else matrix_source(matrix, label, order=order)


def _layer_source(
    adata: anndata.AnnData, name: str, order: npt.NDArray[np.int64] | None, label: str
) -> MatrixSource:
    if adata.is_view and not adata.isbacked and order is None:
        rows = cast(Any, adata[:0]).layers[name]
        if _cheap_to_slice(rows):
            return _view_source(adata, rows, lambda part: part.layers[name])
    return matrix_source(adata.layers[name], label, order=order)


def _cheap_to_slice(rows: Any) -> bool:
    import scipy.sparse as sp

    if isinstance(rows, np.ma.MaskedArray):
        return False
    if isinstance(rows, np.ndarray):
        return True
    return bool(sp.issparse(rows) and cast(Any, rows).format == "csr")


def _view_source(adata: anndata.AnnData, no_rows: Any, part_matrix: Any) -> MatrixSource:
    import scipy.sparse as sp

    sparse = sp.issparse(no_rows)
    return SlicedSource(
        read=lambda start, stop: part_matrix(adata[start:stop]),
        shape=adata.shape,
        dtype=no_rows.dtype,
        form=sparse_form(no_rows) if sparse else "dense",
        index_dtypes=sparse_index_dtypes(no_rows) if sparse else None,
    )


def _dask_source(matrix: Any, order: npt.NDArray[np.int64] | None) -> MatrixSource:
    import scipy.sparse as sp

    meta = matrix._meta
    form: MatrixForm = sparse_form(meta) if sp.issparse(meta) else "dense"
    if order is not None:
        return ordered(matrix.compute(), order)
    return SlicedSource(
        read=lambda start, stop: matrix[start:stop].compute(),
        shape=matrix.shape,
        dtype=matrix.dtype,
        form=form,
        chunk_rows=tuple(int(n) for n in matrix.chunks[0]),
    )


def _is_sparse_on_disk(matrix: Any) -> bool:
    from anndata.abc import CSCDataset, CSRDataset

    return isinstance(matrix, CSRDataset | CSCDataset)


def _on_disk_sparse_source(matrix: Any, order: npt.NDArray[np.int64] | None) -> MatrixSource:
    if matrix.format == "csc":
        # rows of a matrix stored by columns: every one would read all of it
        return ordered(matrix.to_memory(), order)
    widths: IndexDtypes | None = None
    if hasattr(matrix, "group"):
        group = matrix.group
        widths = index_width(group["indices"].dtype), index_width(group["indptr"].dtype)
    return _sliced(matrix, order, "csr_matrix", widths)


def _sliced(
    matrix: Any,
    order: npt.NDArray[np.int64] | None,
    form: MatrixForm,
    index_dtypes: IndexDtypes | None,
) -> MatrixSource:
    def read(start: int, stop: int) -> Any:
        if order is None:
            return matrix[start:stop]
        # files are read in ascending order; the rows' own order is restored afterwards
        wanted = order[start:stop]
        ascending = np.sort(wanted)
        return matrix[ascending][np.searchsorted(ascending, wanted)]

    return SlicedSource(read, matrix.shape, np.dtype(matrix.dtype), form, index_dtypes)


def _type_name(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"
