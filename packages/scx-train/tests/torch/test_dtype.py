"""Half precision as torch has it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from scx_train.torch import TrainingIterable


@pytest.mark.parametrize("num_workers", [0, 1])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_tensors_are_rounded_as_torch_rounds(
    make_file: Callable[..., Path], dtype: str, num_workers: int
) -> None:
    path = make_file(60, 30)
    exact = torch.cat([batch["X"] for batch in TrainingIterable(path, 16)])
    loader = torch.utils.data.DataLoader(
        TrainingIterable(path, 16, dtype=dtype), batch_size=None, num_workers=num_workers
    )
    found = torch.cat([batch["X"] for batch in loader])
    assert found.dtype == getattr(torch, dtype)
    assert torch.equal(found, exact.to(found.dtype))
