"""What the iterables for DataLoaders share: workers, ranks, epochs and places in them."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.utils.data

from scx_train import _arguments as arguments
from scx_train._warn import warn
from scx_train.streams.progress import Progress, progress_of
from scx_train.torch import callers
from scx_train.torch.dispatched import dispatched
from scx_train.torch.epochs import EPOCH_MAX, WORKERS_MAX, SharedEpochs


@dataclass(frozen=True)
class Place:
    """Who iterates: a process, and which worker of which set of workers of which rank it is."""

    process_id: int
    rank: int
    world_size: int
    worker: int | None = None
    num_workers: int = 1
    seed: int = 0


class EpochIterable(torch.utils.data.IterableDataset):  # type: ignore[misc]
    """Epochs that all workers and ranks share, and places in them."""

    def __init__(self, rank: int | None, world_size: int | None) -> None:
        arguments.rank_and_world_size(rank, world_size)
        self._given_rank = (rank, world_size)
        self._dispatch: callers.Dispatch | None = None  # of the process that sent this here
        self._current: Progress | None = None
        self._resumed: tuple[int, Progress] | None = None
        self._epochs = SharedEpochs()

    @abstractmethod
    def _batches(self, place: Place, progress: Progress) -> Iterator[Any]:
        """The batches from a place on, as tensors."""

    @abstractmethod
    def _settings(self, place: Place) -> tuple[dict[str, Any], int]:
        """What the batches follow from, for the state, and how many a worker has at most."""

    @abstractmethod
    def __len__(self) -> int: ...

    @property
    def _full_batch(self) -> int | None:
        """How many cells each batch has but for the last, if that is known."""
        return None

    def __iter__(self) -> Iterator[Any]:
        callers.check_collation(self, type(self).__name__)
        place = self._place()
        if self._resumed is not None:
            progress = self._go_on(place)
        else:
            progress = Progress(self._begin(place))
            if not place.worker:
                callers.warn_of_epoch(progress.epoch)
        dispatch = self._found_dispatch
        if dispatch is None:
            return _Counted(self._batches(place, progress), self._begun(progress))
        if not dispatch.reads:
            return iter(())
        return dispatched(
            _Counted(self._batches(place, progress), self._begun(progress)),
            dispatch,
            full_batch=self._full_batch,
            is_last=self._is_last(place),
            owner=type(self).__name__,
        )

    @property
    def epoch(self) -> int:
        """The number of the epoch that comes next, or goes on after `load_state_dict`."""
        return self._epochs.next if self._resumed is None else self._resumed[1].epoch

    def set_epoch(self, epoch: int) -> None:
        """Let the next epoch be this one, 0 to 2**30, for workers that are kept as well.

        Where `load_state_dict` has chosen a place in the same epoch, that place stays.
        """
        number = arguments.whole_number(epoch, "epoch", lowest=0, highest=EPOCH_MAX)
        callers.pass_through_shards()
        if self._resumed is None or self._resumed[1].epoch != number:
            self._resumed = None
            self._epochs.choose(number)

    def state_dict(self) -> dict[str, Any]:
        """Where this process or worker stands, for `load_state_dict`: numbers and strings.

        torchdata's StatefulDataLoader asks each worker for it. In the process that owns the
        workers of a plain DataLoader, which does not see their batches, it is the beginning of the
        next epoch, and a UserWarning says so.
        """
        place = self._place()
        settings, _ = self._settings(place)
        by_workers = place.worker is None and self._epochs.workers_have_begun
        if self._resumed is not None:
            progress = self._resumed[1]
        elif self._current is not None and not (
            by_workers and self._epochs.next > self._current.epoch + 1
        ):
            progress = self._current
        else:
            progress = Progress(self._epochs.next)
            if by_workers:
                warn(
                    f"batches that workers of a DataLoader made are not counted: the state is the "
                    f"beginning of epoch {progress.epoch}. torchdata's StatefulDataLoader knows "
                    "the place within an epoch, and so does num_workers=0",
                )
        # Also at the end of an epoch, where others may not be done, it is that epoch's.
        return Progress(progress.epoch, progress.batch).state(settings)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Let the next epoch be the one of `state`, and give the batches that would have followed.

        Raises
        ------
        TypeError, ValueError
            It is no state, or one of other batches; the message names what differs.
        """
        place = self._place()
        settings, batches_max = self._settings(place)
        progress = progress_of(state, settings, batches_max=batches_max)
        self._current = self._resumed = None
        if place.worker is None and progress.batch == 0:
            self._epochs.choose(progress.epoch)  # for workers too
        else:
            self._resumed = (place.process_id, progress)

    def __getstate__(self) -> dict[str, Any]:
        # What is known of the process goes along: workers that are not forked do not know it.
        state = {**self.__dict__, "_current": None, "_dispatch": self._found_dispatch}
        distributed = torch.distributed
        if distributed.is_available() and distributed.is_initialized():
            state["_given_rank"] = self._rank()
        return state

    @property
    def _found_dispatch(self) -> callers.Dispatch | None:
        return self._dispatch or callers.find_dispatch()

    def _rank(self) -> tuple[int, int]:
        if self._found_dispatch is None:
            return arguments.rank_and_world_size(*self._given_rank)
        if self._given_rank[1] not in (None, 1):
            raise ValueError(
                f"world_size={self._given_rank[1]}, but accelerate has one process read for all: "
                f"leave rank and world_size out, or {callers.NOT_DISPATCHED}"
            )
        return 0, 1

    def _place(self) -> Place:
        rank, world_size = self._rank()
        info = torch.utils.data.get_worker_info()
        if info is None:
            return Place(os.getpid(), rank, world_size)
        if info.num_workers > WORKERS_MAX:
            raise ValueError(f"num_workers={info.num_workers} must be at most {WORKERS_MAX}")
        seed = info.seed - info.id  # each worker's own is that of the set plus its number
        return Place(os.getpid(), rank, world_size, info.id, info.num_workers, seed)

    def _begin(self, place: Place) -> int:
        if place.worker is None:
            return self._epochs.begin()
        return self._epochs.begin_in_worker(
            place.worker, seed=place.seed, num_workers=place.num_workers
        )

    def _go_on(self, place: Place) -> Progress:
        assert self._resumed is not None
        process_id, progress = self._resumed
        if process_id != place.process_id:
            raise RuntimeError(
                "load_state_dict was called in the process that owns this worker, which has a "
                "place of its own: use torchdata's StatefulDataLoader, or num_workers=0"
            )
        self._resumed = None
        self._epochs.go_on_at(
            progress.epoch, worker=place.worker, seed=place.seed, num_workers=place.num_workers
        )
        return Progress(progress.epoch, progress.batch)

    def _begun(self, progress: Progress) -> Progress:
        self._current = Progress(progress.epoch, progress.batch)
        return self._current

    def _is_last(self, place: Place) -> Any:
        """Tells whether a worker's last batch, of this number, is the last of all workers."""
        if place.num_workers == 1:
            return lambda number: True
        try:
            last = len(self) - 1
        except TypeError:  # plans of a function
            return lambda number: False
        return lambda number: number * place.num_workers + (place.worker or 0) == last


class _Counted(Iterator[Any]):
    """Batches, of which `progress` knows how many were received."""

    def __init__(self, batches: Iterator[Any], progress: Progress) -> None:
        self._batches = batches
        self._progress = progress

    def __next__(self) -> Any:
        batch = next(self._batches)
        self._progress.batch += 1
        return batch
