"""A matrix of a file as a dask array: rows are decoded when a computation asks for them."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from scx_core.experiment._matrix_view import MatrixView
from scx_core.experiment._memory import as_form
from scx_core.sources.base import MatrixForm

LAZY_CHUNK_BYTES = 64 * 2**20


@dataclass(frozen=True)
class ReadRows:
    """Reads rows in a task; pickles as the file's path, so that other processes can run it."""

    view: MatrixView

    def __call__(self, start: int, stop: int) -> Any:
        """Rows `start` to `stop` in the matrix's form, but with rows compressed, never columns."""
        form = cast(MatrixForm, self.view.form.replace("csc", "csr"))
        return as_form(self.view.gather(np.arange(start, stop, dtype=np.int64)), form, None)


def lazy_matrix(view: MatrixView) -> Any:
    """`view` as a dask array with chunks of whole rows.

    Raises ImportError when dask is not installed.
    """
    try:
        da: Any = importlib.import_module("dask.array")
        delayed: Any = importlib.import_module("dask").delayed
    except ImportError as error:
        raise ImportError(
            "to_anndata(backed=True) gives X and layers as dask arrays, and dask is not installed: "
            "`pip install 'dask[array]'`, or load the matrices with backed=False"
        ) from error
    read_rows = ReadRows(view)
    no_rows = read_rows(0, 0)
    read = delayed(read_rows, pure=False, traverse=False)
    chunks = [
        da.from_delayed(
            read(start, stop),
            shape=(stop - start, view.shape[1]),
            dtype=no_rows.dtype,
            meta=no_rows,
        )
        for start, stop in view.row_ranges(LAZY_CHUNK_BYTES)
    ]
    if not chunks:
        return da.from_array(no_rows, chunks=no_rows.shape, asarray=False)
    return da.concatenate(chunks, axis=0)
