"""Memory for results, which is used again once nobody has them any more.

A system clears the memory that it gives out: for the genes of `top_k` that takes a quarter of a
call. So the memory of large results is kept for the next ones, `KEPT_BYTES` of it at most.
"""

from __future__ import annotations

import sys
import threading
from typing import Any

import numpy as np
import numpy.typing as npt

KEPT_BYTES = 2**27
# Below, memory is not given back to the system after each call.
LARGE_BYTES = 2**20


class KeptMemory:
    """Hands out arrays, and the memory of those that are gone again.

    Every view of an array, whoever has it, holds the block that the array lies in; a block that
    nothing but this list holds is free.

    Parameters
    ----------
    bytes_max
        The most that is kept, in use or not.
    """

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._lock = threading.Lock()
        self._blocks: list[npt.NDArray[np.uint8]] = []  # the one used last stands last

    def empty(self, n: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """As `numpy.empty` of one dimension."""
        kind = np.dtype(dtype)
        n_bytes = n * kind.itemsize
        if not LARGE_BYTES <= n_bytes <= self._bytes_max:
            return np.empty(n, dtype=kind)
        with self._lock:
            block = self._free(n_bytes)
            if block is None:
                block = np.empty(n_bytes, dtype=np.uint8)
            self._blocks.append(block)
            while sum(one.nbytes for one in self._blocks) > self._bytes_max:
                del self._blocks[0]
            return block[:n_bytes].view(kind)

    @property
    def n_bytes(self) -> int:
        """How much is kept now."""
        with self._lock:
            return sum(one.nbytes for one in self._blocks)

    def _free(self, n_bytes: int) -> npt.NDArray[np.uint8] | None:
        """A block that is free, and not much larger; taken out of the list."""
        sizes = [block.nbytes for block in self._blocks]
        for place, size in enumerate(sizes):
            fits = n_bytes <= size <= n_bytes + n_bytes // 4
            if fits and _holders(self._blocks, place) == _LIST_ALONE:
                return self._blocks.pop(place)
        return None


def _holders(blocks: list[npt.NDArray[np.uint8]], place: int) -> int:
    return sys.getrefcount(blocks[place])


_LIST_ALONE = _holders([np.empty(1, dtype=np.uint8)], 0)

kept = KeptMemory(KEPT_BYTES)
"""That of this process."""
