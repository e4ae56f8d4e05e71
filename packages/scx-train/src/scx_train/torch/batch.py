"""Batches of numpy arrays as batches of torch tensors."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch


def to_tensors(value: Any) -> Any:
    """The same dicts and tuples with tensors in place of arrays, which share their memory.

    A scipy CSR matrix becomes a sparse CSR tensor. What is neither (labels, names) stays.
    """
    if isinstance(value, dict):
        return {key: to_tensors(entry) for key, entry in value.items()}
    if isinstance(value, tuple):
        return tuple(to_tensors(entry) for entry in value)
    if isinstance(value, np.ndarray):
        # torch has no tensors that cannot be written to; a shared one would be a way around.
        return torch.from_numpy(value if value.flags.writeable else value.copy())
    if getattr(value, "format", None) == "csr":
        return _sparse_tensor(value)
    return value


def _sparse_tensor(matrix: Any) -> torch.Tensor:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta", UserWarning)
        return torch.sparse_csr_tensor(
            torch.from_numpy(matrix.indptr),
            torch.from_numpy(matrix.indices),
            torch.from_numpy(matrix.data),
            size=matrix.shape,
            check_invariants=False,  # the decoder made it, and looking costs a pass
        )
