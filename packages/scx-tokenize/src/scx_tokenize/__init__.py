"""Token kernels for single-cell foundation models.

Each kernel takes a batch of cells in CSR (three arrays, a scipy matrix, an AnnData or the dict that
a data set gives) and returns flat numpy arrays. The work runs in native code on several threads,
without the GIL, and its results do not depend on how many.
"""

from typing import Final

from scx_core._version import require_version

from ._version import __version__

require_version("scx-tokenize", __version__)

from ._bins import bin_values  # noqa: E402
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

CONTRACT_VERSION: Final = 1
"""The version of what the kernels compute, of the parameters that they need, and of how draws
follow from seeds: assert it where a model is set up."""

__all__ = [
    "CONTRACT_VERSION",
    "__version__",
    "bin_values",
    "gene_mask_id",
    "library_size",
    "measured_mask",
    "pad_id",
    "rank_tokens",
    "sample_genes",
    "top_k",
    "transform_values",
]
