"""An open file, whatever is read of it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from scx_core.experiment import Experiment

Fingerprint = tuple[tuple[str, bytes], ...]


@dataclass(frozen=True)
class OpenFile:
    """A file that is open with all of its rows. It is closed when nothing refers to it any more.

    Attributes
    ----------
    experiment
        The file.
    """

    experiment: Experiment

    @property
    def path(self) -> str:
        """Where the file lies."""
        return self.experiment.path

    @property
    def n_obs(self) -> int:
        """Rows of the file."""
        return self.experiment.n_obs

    @property
    def file_bytes(self) -> int:
        """Size of the file."""
        return os.path.getsize(self.path)

    @property
    def deleted_rows(self) -> npt.NDArray[np.int64]:
        """Its rows that are marked as deleted, ascending."""
        return self.experiment.deleted_rows

    @cached_property
    def fingerprint(self) -> Fingerprint:
        """Names and hashes of all sections: equal for files of equal content."""
        return tuple((part.name, part.blake3) for part in self.experiment.file.sections)
