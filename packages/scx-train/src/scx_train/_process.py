"""A data set works in the process that built it."""

from __future__ import annotations

import os

from scx_core.native.threads import usable_cpus as usable_cpus

REMEDY = (
    "use DataLoader(..., num_workers=0), since the data set decodes with threads of its own, or "
    "build the data set inside the worker, after the fork"
)


class HomeProcess:
    """Remembers the process that made it."""

    # Here, since iterators ask for it also when Python ends and the names of modules are gone.
    _getpid = staticmethod(os.getpid)

    def __init__(self) -> None:
        self.process_id = os.getpid()

    @property
    def is_here(self) -> bool:
        """Whether this is that process."""
        return self.process_id == self._getpid()

    def check(self, what: str) -> None:
        """Raise a RuntimeError, with the remedy, in any other process."""
        if not self.is_here:
            raise RuntimeError(
                f"this {what} was built in process {self.process_id} and cannot be used in process "
                f"{os.getpid()}, which was forked from it without its threads: {REMEDY}"
            )
