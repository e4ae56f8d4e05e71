"""Token kernels for single-cell foundation models.

Each kernel takes a batch of cells in CSR (three arrays, a scipy matrix, an AnnData or the dict that
a data set gives) and returns flat numpy arrays. The work runs in native code on several threads,
without the GIL, and its results do not depend on how many.

`run` makes the tokens of all cells of files, into Parquet; `medians` the statistic of genes that
rank tokens divide by.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from scx_core._version import require_version

from ._version import __version__

require_version("scx-tokenize", __version__)

from ._bins import bin_values  # noqa: E402
from ._contract import CONTRACT_VERSION  # noqa: E402
from ._rank import rank_tokens  # noqa: E402
from ._sample import sample_genes  # noqa: E402
from ._top_k import top_k  # noqa: E402
from ._values import (  # noqa: E402
    gene_mask_id,
    library_size,
    measured_mask,
    pad_id,
    transform_values,
)

if TYPE_CHECKING:
    from ._medians import GeneMedians, medians
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

# Modules that are loaded when one of their names is first used: kernels alone need none of them.
_MODULES = {"GeneMedians": "_medians", "medians": "_medians", "run": "jobs"}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"scx_tokenize {__version__} has no {name!r}", name=name)
    value = getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
