"""Batches for torch: what a DataLoader takes, with any number of workers.

`TrainingIterable` gives those of a `TrainingDataset`, `MultimodalTrainingIterable` those of a
`MultimodalTrainingDataset`, `PlanIterable` those of any plan-driven data set. `whole_batch` is the
`data_collator` that the HF Trainer needs for them.
"""

from __future__ import annotations

try:
    import torch  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    raise ModuleNotFoundError(
        'scx_train.torch needs torch: python -m pip install "scx-train[torch]"', name="torch"
    ) from error

from scx_train.torch.batch import whole_batch
from scx_train.torch.plans import PlanIterable
from scx_train.torch.training import MultimodalTrainingIterable, TrainingIterable

__all__ = ["MultimodalTrainingIterable", "PlanIterable", "TrainingIterable", "whole_batch"]
