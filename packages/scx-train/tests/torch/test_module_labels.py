"""Numbers as labels of a data module, some of them missing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from scx_train.lightning import ScxDataModule


@pytest.mark.parametrize("dtype", ["Int8", "float64"])
def test_whole_numbers_with_gaps_are_labels(make_file: Callable[..., Path], dtype: str) -> None:
    given = pd.Series([7, None, 3, 7], dtype=dtype)
    path = make_file(4, obs=pd.DataFrame({"number": given}))
    dm = ScxDataModule(path, labels_key="number")
    assert dm.labels.tolist() == ["3", "7", "Unknown"]
    (batch,) = dm.inference_dataloader()
    assert batch["labels"][:, 0].tolist() == [1, 2, 0, 1]
    dm = ScxDataModule(path, batch_key="number", rows=[0, 2, 3])
    assert dm.batch_labels.tolist() == [3, 7]
    with pytest.raises(ValueError, match="'number' has no value for 1 cells"):
        ScxDataModule(path, batch_key="number")
