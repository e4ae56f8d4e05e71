"""What a stream of cells needs to know of an open file."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from scx_train.inputs.obs import ObsValues


class Cells(Protocol):
    """Where the cells come from: an open file, or a part of it."""

    @property
    def path(self) -> str:
        """The file."""
        ...

    @property
    def file_bytes(self) -> int:
        """Size of the file."""
        ...

    @property
    def deleted_rows(self) -> npt.NDArray[np.int64]:
        """Its rows that are marked as deleted, ascending."""
        ...

    @property
    def n_obs(self) -> int:
        """Rows of the file, those of deleted cells included."""
        ...

    @property
    def shard_starts(self) -> npt.NDArray[np.int64]:
        """First row of each shard and, as the last entry, the number of rows."""
        ...

    @property
    def rows(self) -> npt.NDArray[np.int64] | None:
        """The rows that may be streamed, ascending; None for all."""
        ...

    @property
    def fingerprint(self) -> object:
        """Equal for files of equal content."""
        ...

    def obs_columns(self, names: tuple[str, ...]) -> dict[str, ObsValues]:
        """The columns, each with an entry for each row of the file."""
        ...

    def embeddings(self, names: tuple[str, ...]) -> dict[str, npt.NDArray[Any]]:
        """The entries of obsm, each with a row for each row of the file."""
        ...


def in_both(
    one: npt.NDArray[np.int64] | None, other: npt.NDArray[np.int64] | None
) -> npt.NDArray[np.int64] | None:
    """Rows that are in both, which are distinct; None stands for all."""
    if one is None or other is None:
        return one if other is None else other
    return np.intersect1d(one, other, assume_unique=True)
