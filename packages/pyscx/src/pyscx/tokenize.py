"""The token kernels of scx_tokenize under their published name, `pyscx.tokenize`."""

from __future__ import annotations

try:
    from scx_tokenize import (
        CONTRACT_VERSION,
        bin_values,
        gene_mask_id,
        library_size,
        measured_mask,
        pad_id,
        rank_tokens,
        sample_genes,
        top_k,
        transform_values,
    )
except ModuleNotFoundError as error:
    if error.name != "scx_tokenize":
        raise  # the package is there, but something that it needs is not
    raise ModuleNotFoundError(
        "pyscx.tokenize comes with scx-tokenize, which is not installed: "
        "python -m pip install scx-tokenize",
        name="scx_tokenize",
    ) from None

__all__ = [
    "CONTRACT_VERSION",
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
