"""Batches of the rows of several matrices, put end to end, with columns that they share.

Thin classes over `scx_columns_*` and `scx_pipeline_open_concatenated` of scx.h.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from scx_core._errors import CorruptFileError
from scx_core.native import binding
from scx_core.native.binding import CData, call, native
from scx_core.native.matrix import Matrix
from scx_core.native.pipeline import (
    CsrBatch,
    CsrPipeline,
    DensePipeline,
    MatrixPipeline,
    value_options,
)

NOT_KEPT = -1
"""In a map of columns: one that batches leave out."""

_FILE = re.compile(r"file (\d+): ")


class Columns:
    """Where the columns of a matrix go, and what happens to its values.

    Parameters
    ----------
    n_columns
        Columns of the matrix.
    targets
        int32, the output column of each, or `NOT_KEPT`; None for each column as itself. Raw values
        of columns that share an output column are added, before anything else happens to them.
    n_output
        Columns of a batch; of CSR batches there may be more than the matrix has.
    normalize, log1p, target_sum, pflog_alpha, dtype
        As for `DensePipeline`. Totals, and PFlog's mean, are over all columns of the matrix.

    Raises
    ------
    IndexError
        A column goes to an output column that does not exist.
    ValueError
        Without a map, the numbers of columns differ, or `target_sum` is wrong.
    """

    def __init__(
        self,
        n_columns: int,
        targets: npt.NDArray[np.int32] | None,
        n_output: int,
        *,
        normalize: bool = False,
        log1p: bool = False,
        target_sum: float = 1e4,
        pflog_alpha: float = 0.0,
        dtype: str = "float32",
    ) -> None:
        library = native()
        pointer = library.ffi.NULL
        if targets is not None:
            pointer = binding.input_array(targets, np.int32, "targets", length=n_columns)
        values = value_options(
            normalize=normalize,
            log1p=log1p,
            target_sum=target_sum,
            pflog_alpha=pflog_alpha,
            dtype=dtype,
        )
        out = library.ffi.new("scx_columns **")
        call("scx_columns_open", n_columns, pointer, n_output, values, out)
        self.handle: CData = binding.owned(out[0], library.lib.scx_columns_close)
        self.n_output = n_output
        self.dtype = dtype


@dataclass(frozen=True)
class Member:
    """One of the matrices.

    Attributes
    ----------
    matrix, columns
        The matrix, and where its columns go.
    path
        Its file, for messages.
    file_identity
        What stands for the file where counts are drawn.
    """

    matrix: Matrix
    columns: Columns
    path: str
    file_identity: int = 0


class ConcatenatedDense(DensePipeline):
    """Dense batches of the rows of several matrices; see `MatrixPipeline` for the rest.

    Parameters
    ----------
    members
        At least one; rows are numbered over all of them.
    batches, threads
        As for `MatrixPipeline`.
    """

    def __init__(self, members: Sequence[Member], *, batches: int = 4, threads: int = 0) -> None:
        _open(self, native().lib.SCX_LAYOUT_DENSE, members, batches=batches, threads=threads)
        self._paths = [member.path for member in members]

    def wait(self) -> npt.NDArray[Any]:
        """The oldest batch, as soon as it is ready; errors name the file."""
        try:
            return super().wait()
        except (CorruptFileError, ValueError) as error:
            raise _placed(error, self._paths) from None


class ConcatenatedCsr(CsrPipeline):
    """CSR batches of the rows of several matrices; see `ConcatenatedDense`.

    `changes` is an `scx_row_changes` that says what happens to values before they are transformed.
    """

    def __init__(
        self,
        members: Sequence[Member],
        *,
        changes: CData | None = None,
        batches: int = 4,
        threads: int = 0,
    ) -> None:
        layout = native().lib.SCX_LAYOUT_CSR
        _open(self, layout, members, changes, batches=batches, threads=threads)
        self._paths = [member.path for member in members]

    def wait(self) -> CsrBatch:
        """The oldest batch, as soon as it is ready; errors name the file."""
        try:
            return super().wait()
        except (CorruptFileError, ValueError) as error:
            raise _placed(error, self._paths) from None


def _open(
    pipeline: MatrixPipeline[Any],
    layout: int,
    members: Sequence[Member],
    changes: CData | None = None,
    *,
    batches: int,
    threads: int,
) -> None:
    if not members:
        raise ValueError("there is no matrix to read from")
    handles = native().ffi.new("scx_member[]", len(members))
    for handle, member in zip(handles, members, strict=True):
        handle.matrix, handle.columns = member.matrix.handle, member.columns.handle
        handle.file_identity = member.file_identity
    if changes is None:
        changes = native().ffi.NULL
    pipeline._dtype = members[0].columns.dtype
    pipeline._start(
        ("scx_pipeline_open_concatenated", layout, handles, len(members), changes),
        reads=tuple(members),
        n_columns=members[0].columns.n_output,
        batches=batches,
        threads=threads,
        path=None,
    )


def _placed(error: Exception, paths: list[str]) -> Exception:
    """The same error with the path of its file instead of the number."""
    message = str(error.args[0])
    match = _FILE.match(message)
    if match is None:
        return error
    path, message = paths[int(match[1])], message[match.end() :]
    if not isinstance(error, CorruptFileError):
        return ValueError(f"{path}: {message}")
    return CorruptFileError(
        message, path=path, section=error.section, shard=error.shard, row=error.row
    )
