"""Batches in half precision are the float32 ones, rounded by numpy and torch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scx_core.native.members import Member
from scx_core.native.pipeline import CsrPipeline
from scx_train import TrainingDataset
from scx_train.inputs.source import open_source

MakeFile = Callable[..., Path]
OPTIONS: list[dict[str, Any]] = [
    {},
    {"normalize": False, "log1p": False},
    {"hvg_indices": [1, 4, 7, 20]},
    {"pflog": True, "pflog_alpha": 0.1},
]


def bits_of_bfloat16(values: np.ndarray) -> np.ndarray:
    """By distance: the nearer of the two neighbours, the even one in the middle."""
    words = values.astype(np.float32).view(np.uint32).astype(np.uint64)
    below, rest = words >> 16, words & 0xFFFF
    up = (rest > 0x8000) | ((rest == 0x8000) & (below % 2 == 1))
    return (below + up).astype(np.uint16)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("several", [False, True])
def test_rounded_as_numpy_rounds(
    make_file: MakeFile, options: dict[str, Any], several: bool
) -> None:
    path: Any = make_file(101, 30)
    path = [path, path] if several else path
    options = {**options, "allow_repeated_files": several}
    with TrainingDataset(path, 16, **options) as dataset:
        exact = np.concatenate([batch["X"] for batch in dataset])
    with TrainingDataset(path, 16, dtype="float16", **options) as dataset:
        half = np.concatenate([batch["X"] for batch in dataset])
    with TrainingDataset(path, 16, dtype="bfloat16", **options) as dataset:
        brain = np.concatenate([batch["X"] for batch in dataset])
    assert half.dtype == np.float16
    assert brain.dtype == np.uint16
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(half, exact.astype(np.float16))
    np.testing.assert_array_equal(brain, bits_of_bfloat16(exact))


def test_the_budget_knows_the_width(make_file: MakeFile) -> None:
    path = make_file(101, 30)
    sizes = []
    for dtype in ("float32", "float16"):
        with TrainingDataset(path, 64, dtype=dtype) as dataset:  # type: ignore[arg-type]
            sizes.append(dataset.memory_budget()["breakdown"]["batch_buffer_bytes"])
    assert sizes[0] == 2 * sizes[1]


def test_refusals(make_file: MakeFile) -> None:
    path = make_file(20, 30)
    with pytest.raises(ValueError, match="'float32', 'float16', 'bfloat16'"):
        TrainingDataset(path, dtype="float64")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="layout='csr' has float32 alone"):
        TrainingDataset(path, dtype="float16", layout="csr")
    source = open_source(path)
    assert source.matrix is not None
    with pytest.raises(ValueError, match="dense batches alone"):
        CsrPipeline([Member.whole(source.matrix, dtype="float16")])
