"""A loader of training that is in the epoch where its trainer is, and goes on where it was."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from torch.utils.data import DataLoader, IterableDataset

from scx_train._warn import told_before, warn
from scx_train.torch import TrainingIterable


class _Cells(IterableDataset):  # type: ignore[misc]
    """Batches, and how many cells they have: Lightning compares that with batch sizes."""

    def __init__(self, batches: TrainingIterable) -> None:
        self._batches = batches

    def __iter__(self) -> Iterator[Any]:
        return iter(self._batches)

    def __len__(self) -> int:
        return self._batches.n_obs


class TrainingLoader(DataLoader):  # type: ignore[misc]
    """Batches of training for Lightning.

    Lightning may ask for more iterators than there are epochs, and for one before it knows with
    which epoch it goes on. So each iterator gives the epoch of the trainer, or a later one where
    the cells were streamed before; one of which no batch was taken does not count. Another
    iterator in the same epoch of the trainer, as pairs of loaders of different lengths ask for it,
    gives the next epoch.

    Lightning saves `state_dict` in its checkpoints, and so goes on in the middle of an epoch.

    Parameters
    ----------
    dataset
        The cells.
    trainer_epoch
        Tells how many epochs the trainer has completed; None where there is no trainer.
    before
        The loader that this one takes the place of, if any. An iterator of it that nobody took a
        batch of is gone on with, so that its epoch is not lost.
    repeats
        Whether every epoch is the first one again, default False.
    **options
        Those of a DataLoader.
    """

    _iterator: Any  # of a DataLoader, where workers are kept

    def __init__(
        self,
        dataset: TrainingIterable,
        *,
        trainer_epoch: Callable[[], int | None],
        before: TrainingLoader | None = None,
        repeats: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(_Cells(dataset), **options)
        self._batches = dataset
        self._trainer_epoch = trainer_epoch
        self._repeats = repeats
        self._taken: Any = None
        # The epoch of the trainer and that of the batches, of the iterator made last. That of the
        # trainer is None where the batches' was finished.
        self._begun: tuple[int | None, int] | None = None
        self._before = before

    def __len__(self) -> int:
        """How many batches an epoch has."""
        return len(self._batches)

    def __iter__(self) -> Iterator[Any]:
        now = self._trainer_epoch()
        if self._repeats:
            self._batches.set_epoch(0)
            with told_before():  # that it is not the trainer's epoch
                repeated: Iterator[Any] = super().__iter__()
            return repeated
        if now is not None:
            self._take_over_at(now)
        if now is None or not self._is_waiting_at(now):
            if now is not None:
                self._choose_epoch_at(now)
            self._taken = super().__iter__()
        batches: Iterator[Any] = self._taken
        return batches

    def state_dict(self) -> dict[str, Any]:
        """Where the epoch under way stands: numbers and strings."""
        with told_before():  # what workers gave is counted here
            state = self._batches.state_dict()
        trainer_epoch, epoch = (None, state["epoch"]) if self._begun is None else self._begun
        if self.num_workers > 0 and self._begun is not None:
            state = {**state, "epoch": epoch, "batch": self._n_taken}
        return {"trainer_epoch": trainer_epoch, "cells": state}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Let the next iterator give the batches that would have followed.

        Where that cannot be, a UserWarning says so, and it begins the epoch again: several workers
        go on at the beginning of an epoch only, and other batches have no place of these.
        """
        cells, trainer_epoch = state["cells"], state["trainer_epoch"]
        epoch, batch = int(cells["epoch"]), int(cells["batch"])
        self._taken = None
        if batch >= len(self):
            self._begun = None, epoch
            self._batches.set_epoch(epoch + 1)
            return
        self._begun = trainer_epoch, epoch
        try:
            if batch > 0 and self.num_workers > 0:
                raise ValueError("several workers cannot begin within an epoch: pass num_workers=0")
            self._batches.load_state_dict(cells)
        except ValueError as error:
            self._batches.set_epoch(epoch)
            warn(
                f"the checkpoint was saved after {batch} batches of epoch {epoch}, which is begun "
                f"again: {error}",
            )

    def _take_over_at(self, now: int) -> None:
        """Go on with the iterator of the loader before, where it is waiting."""
        before, self._before = self._before, None
        if before is not None and self._begun is None and before._is_waiting_at(now):
            self._taken, self._begun = before._taken, before._begun
            self._iterator, before._iterator = before._iterator, None  # with its workers
            before._taken = None

    def _is_waiting_at(self, now: int) -> bool:
        """Whether there is an iterator of this epoch already that nobody took a batch of."""
        if self._taken is None or self._begun is None or self._begun[0] != now or self._n_taken > 0:
            return False
        # Lightning ends workers that are kept, and forgets their iterator.
        return self.num_workers == 0 or self._taken is self._iterator

    def _choose_epoch_at(self, now: int) -> None:
        epoch = self._epoch_at(now)
        if epoch != self._batches.epoch:
            self._batches.set_epoch(epoch)
        self._begun = now, epoch

    def _epoch_at(self, now: int) -> int:
        following = int(self._batches.epoch)
        if self._begun is None:
            return max(following, now)
        before, epoch = self._begun
        if now != before:
            return max(epoch + 1, now, following)
        return epoch if self._taken is None else following  # where a state was loaded

    @property
    def _n_taken(self) -> int:
        """How many batches the iterator made last has given."""
        return 0 if self._taken is None else int(self._taken._num_yielded)
