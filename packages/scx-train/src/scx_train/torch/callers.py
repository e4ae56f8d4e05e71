"""Who asks for batches: loaders and trainers that treat them in a way that must be known.

torch hands a data set to a loader without a word of what becomes of its batches, and trainers wrap
loaders in their turn. What they do stands in the calls under way, which are looked through once an
epoch. A worker that is forked has those of its parent below its own.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.utils.data

from scx_train._warn import warn

NOT_DISPATCHED = (
    "have each process read its own: Accelerator(dataloader_config="
    "DataLoaderConfiguration(dispatch_batches=False)), or TrainingArguments("
    'accelerator_config={"dispatch_batches": False})'
)


@dataclass(frozen=True)
class Dispatch:
    """Batches that one process reads for all: they are put together and cut by cells.

    Attributes
    ----------
    n_processes
        How many processes get a part.
    n_together
        How many batches are put together before they are cut.
    reads
        Whether this is the process that reads.
    """

    n_processes: int
    n_together: int
    reads: bool


def find_dispatch() -> Dispatch | None:
    """How accelerate dispatches the batches that are asked for; None where it does not."""
    kind = _kind("accelerate.data_loader", "DataLoaderDispatcher")
    loader = next(_callers(kind), None)
    if loader is None or loader.state.num_processes == 1:
        return None
    n_processes = int(loader.state.num_processes)
    return Dispatch(
        n_processes,
        n_together=1 if loader.split_batches else n_processes,
        reads=loader.state.process_index == 0,
    )


def pass_through_shards() -> None:
    """Let accelerate give each process all batches that it reads, which are its own already.

    It would take every `num_processes`-th of them. It asks for the length and chooses the epoch
    before it looks at these numbers.
    """
    for shard in _callers(_kind("accelerate.data_loader", "IterableDatasetShard")):
        shard.batch_size, shard.num_processes, shard.process_index = 1, 1, 0
        shard.split_batches = False


def check_collation(dataset: Any, name: str) -> None:
    """Refuse a DataLoader that would put whole batches together as if each were a sample.

    Raises
    ------
    ValueError
        The DataLoader around `dataset` has a batch size and a function that stacks.
    """
    fetcher = torch.utils.data._utils.fetch._BaseDatasetFetcher
    for loader in _callers(fetcher):
        inner = loader.dataset
        if inner is not dataset and getattr(inner, "dataset", None) is not dataset:
            return
        # The HF Trainer wraps the function that the user gave.
        collate = getattr(loader.collate_fn, "data_collator", loader.collate_fn)
        module = str(getattr(collate, "__module__", ""))
        stacks = module.startswith("transformers.") or collate is torch.utils.data.default_collate
        if loader.auto_collation and stacks:
            raise ValueError(
                f"a DataLoader would stack the batches of {name}, each of which is whole: pass "
                f"DataLoader(..., batch_size=None) and the number of cells to {name} itself; to "
                "the HF Trainer per_device_train_batch_size=1 and "
                "data_collator=scx_train.torch.whole_batch"
            )
        return


def warn_of_epoch(epoch: int) -> None:
    """Warn where Lightning trains in a later epoch than the one that is begun.

    It does not tell data sets their epoch, so one that goes on begins with the order of epoch 0.
    """
    for package in ("lightning.pytorch", "pytorch_lightning"):
        kinds: tuple[Any, Any] = (
            _kind(f"{package}.loops.fit_loop", "_FitLoop"),
            _kind(f"{package}.loops.evaluation_loop", "_EvaluationLoop"),
        )
        loop: Any = next(_callers(*kinds), None)
        if loop is None or not issubclass(type(loop), kinds[:1]):  # it validates
            continue
        now = int(loop.epoch_progress.current.processed)
        if epoch < now:
            warn(
                f"the trainer is in epoch {now}, but the batches come in the order of epoch "
                f"{epoch} again: train from scx_train.lightning.ScxDataModule, or call "
                "set_epoch of the iterable when a checkpoint was loaded",
            )
        return


def _kind(module: str, name: str) -> type | None:
    """A class of a package that may be there; None where nobody has imported it."""
    kind: type | None = getattr(sys.modules.get(module), name, None)
    return kind


def _callers(*kinds: type | None) -> Iterator[Any]:
    """The objects of these classes whose methods are under way, the innermost first."""
    known = tuple(kind for kind in kinds if kind is not None)
    frame = sys._getframe(1) if known else None
    while frame is not None:
        if frame.f_code.co_varnames[:1] == ("self",):
            owner = frame.f_locals.get("self")
            if issubclass(type(owner), known):
                yield owner
        frame = frame.f_back
