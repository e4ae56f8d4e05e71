"""Half precision as torch has it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from scx_train.torch import MultimodalTrainingIterable, TrainingIterable


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


@pytest.mark.parametrize("return_dict", [True, False])
@pytest.mark.parametrize("dtype", ["bfloat16", {"adt": "bfloat16", "rna": "float16"}])
def test_tensors_of_several_modalities(
    multimodal: tuple[Any, Path], dtype: Any, return_dict: bool
) -> None:
    _, path = multimodal
    options: dict[str, Any] = {"batch_size": 11, "return_dict": return_dict}
    exact = MultimodalTrainingIterable(path, ["adt", "rna"], **options)
    found = MultimodalTrainingIterable(path, ["adt", "rna"], dtype=dtype, **options)
    for one, other in zip(exact, found, strict=True):
        for place, name in enumerate(("adt", "rna")):
            wanted = getattr(torch, dtype if isinstance(dtype, str) else dtype[name])
            x, y = (one["X"][name], other["X"][name]) if return_dict else (one[place], other[place])
            assert y.dtype == wanted
            assert torch.equal(x.to(wanted), y)
