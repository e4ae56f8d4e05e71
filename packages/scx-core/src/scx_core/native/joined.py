"""CSR batches of the rows of several matrices, each with its own way into the columns.

A thin class over `scx_pipeline_open_joined` of scx.h.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scx_core._errors import CorruptFileError
from scx_core.native import binding
from scx_core.native.binding import CData, native
from scx_core.native.matrix import Matrix
from scx_core.native.pipeline import CsrBatch, CsrPipeline

_FILE = re.compile(r"file (\d+): ")


@dataclass(frozen=True)
class RowSource:
    """A matrix that rows are read from.

    Attributes
    ----------
    matrix
        The matrix.
    path
        Its file, for messages.
    remap
        int32; the new column of each of its columns, negative for none; None for no change.
    file_identity
        What stands for the file where counts are drawn.
    """

    matrix: Matrix
    path: str
    remap: npt.NDArray[np.int32] | None = None
    file_identity: int = 0


def row_sources(sources: Sequence[RowSource]) -> tuple[CData, list[CData]]:
    """The `scx_row_source` array of them, and what has to be kept as long as it."""
    structs = native().ffi.new("scx_row_source[]", len(sources))
    kept = [structs]
    for struct, source in zip(structs, sources, strict=True):
        struct.matrix = source.matrix.handle
        struct.file_identity = source.file_identity
        if source.remap is not None:
            pointer = binding.input_array(source.remap, np.int32, "remap")
            kept.append(pointer)
            struct.remap = pointer
    return structs, kept


class JoinedCsr(CsrPipeline):
    """Batches of such rows, whose numbers count on over all matrices; see `MatrixPipeline`.

    Parameters
    ----------
    sources
        At least one.
    changes
        The `scx_joined_options` that say what happens to each row.
    n_columns
        Columns of a batch.
    batches, threads
        As for `MatrixPipeline`.
    """

    def __init__(
        self,
        sources: Sequence[RowSource],
        changes: CData,
        *,
        n_columns: int,
        batches: int,
        threads: int,
    ) -> None:
        structs, kept = row_sources(sources)
        self._dtype = "float32"
        self._paths = [source.path for source in sources]
        self._start(
            ("scx_pipeline_open_joined", structs, len(sources), changes),
            reads=(*sources, *kept),
            n_columns=n_columns,
            batches=batches,
            threads=threads,
            path=None,
        )

    def wait(self) -> CsrBatch:
        """The oldest batch, as soon as it is ready; errors name the file."""
        try:
            return super().wait()
        except CorruptFileError as error:
            message, path = self._placed(error)
            raise CorruptFileError(
                message, path=path, section=error.section, shard=error.shard, row=error.row
            ) from None
        except ValueError as error:
            message, path = self._placed(error)
            raise ValueError(message if path is None else f"{path}: {message}") from None

    def _placed(self, error: Exception) -> tuple[str, str | None]:
        """The message of an error without the number of the file, and its path instead."""
        message = str(error.args[0])
        match = _FILE.match(message)
        if match is None:
            return message, None
        return message[match.end() :], self._paths[int(match[1])]
