"""annbatch without a shuffle of its own: the collection's order, shuffled once when it was made.

Every epoch has the same batches. It is annbatch's fastest way, so it is the one to be measured by.
"""

from __future__ import annotations

from bench.peers.loader_annbatch import AnnBatch


class AnnBatchFixed(AnnBatch):
    """The same collection, read from front to back."""

    shuffle = False


loader = AnnBatchFixed
