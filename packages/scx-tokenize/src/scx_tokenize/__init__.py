"""Token kernels for single-cell foundation models.

Each kernel takes a batch of cells in CSR (three arrays, a scipy matrix, an AnnData or the dict that
a data set gives) and returns flat numpy arrays. The work runs in native code on several threads,
without the GIL, and its results do not depend on how many.

`run` makes the tokens of all cells of files, into Parquet; `medians` the statistic of genes that
rank tokens divide by.
"""

from __future__ import annotations

from scx_core._names import lazy_name, public_names
from scx_core._version import require_version

from ._version import __version__

require_version("scx-tokenize", __version__)

TYPE_CHECKING = False  # that of typing would have to be loaded
if TYPE_CHECKING:
    from typing import Any

    from ._bins import bin_values
    from ._contract import CONTRACT_VERSION
    from ._medians import GeneMedians, medians
    from ._rank import rank_tokens
    from ._sample import sample_genes
    from ._top_k import top_k
    from ._values import (
        gene_mask_id,
        library_size,
        measured_mask,
        pad_id,
        transform_values,
    )
    from .jobs import run

__all__ = [
    "CONTRACT_VERSION",
    "GeneMedians",
    "__version__",
    "bin_values",
    "gene_mask_id",
    "library_size",
    "measured_mask",
    "medians",
    "pad_id",
    "rank_tokens",
    "run",
    "sample_genes",
    "top_k",
    "transform_values",
]

# Modules are loaded when one of their names is first used, so that importing the package is quick.
_MODULES = {
    "CONTRACT_VERSION": "_contract",
    "GeneMedians": "_medians",
    "bin_values": "_bins",
    "gene_mask_id": "_values",
    "library_size": "_values",
    "measured_mask": "_values",
    "medians": "_medians",
    "pad_id": "_values",
    "rank_tokens": "_rank",
    "run": "jobs",
    "sample_genes": "_sample",
    "top_k": "_top_k",
    "transform_values": "_values",
}

if not TYPE_CHECKING:  # type checkers know the names from above, and so tell others from them

    def __getattr__(name: str) -> Any:
        return lazy_name(globals(), _MODULES, name)


def __dir__() -> list[str]:
    return public_names(globals())
