"""Batches of numpy arrays as batches of torch tensors."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch


def whole_batch(batches: Sequence[Any]) -> Any:
    """The one batch of a list, for trainers whose DataLoaders give lists of what they load.

    It is what the HF Trainer needs as `data_collator`, with `per_device_train_batch_size=1`: a
    batch is whole already.

    Raises
    ------
    ValueError
        There are several batches.
    """
    if len(batches) != 1:
        raise ValueError(
            f"a DataLoader took {len(batches)} batches at a time, each of which is whole: let its "
            "batch size be 1 (per_device_train_batch_size, per_device_eval_batch_size), and pass "
            "the number of cells to the iterable"
        )
    return batches[0]


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
