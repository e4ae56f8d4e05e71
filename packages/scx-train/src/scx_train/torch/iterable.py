"""What the iterables for DataLoaders share: workers, ranks, epochs and places in them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.utils.data

from scx_core._errors import CorruptFileError
from scx_train import _arguments as arguments
from scx_train._given import kept, one_path_or_list
from scx_train._process import usable_cpus
from scx_train._warn import told_before
from scx_train.streams.multimodal_dataset import MultimodalTrainingDataset
from scx_train.streams.places import FilePlaces, replaced
from scx_train.streams.training_dataset import TrainingDataset
from scx_train.torch.batch import to_tensors
from scx_train.torch.epochs import EPOCH_MAX, WORKERS_MAX, SharedEpochs

Dataset = TrainingDataset | MultimodalTrainingDataset


@dataclass(frozen=True)
class _Place:
    """Who iterates: a process, and which worker of which set of workers of which rank it is."""

    process_id: int
    rank: int
    world_size: int
    worker: int | None = None
    num_workers: int = 1
    seed: int = 0


class _Batches(Iterator[Any]):
    """The batches of an epoch as tensors; knows how many were received."""

    def __init__(
        self, batches: Iterator[Any], *, epoch: int, received: int, bfloat16: Sequence[Any]
    ) -> None:
        self._batches = batches
        self._bfloat16 = bfloat16
        self.epoch = epoch
        self.received = received

    def __next__(self) -> Any:
        batch = to_tensors(next(self._batches))
        if self._bfloat16:
            batch = _with_bfloat16(batch, self._bfloat16)
        self.received += 1
        return batch


def _with_bfloat16(batch: Any, places: Sequence[Any]) -> Any:
    """The same batch, where `X` (or those of its matrices) had the bits, which numpy can hold."""
    if isinstance(batch, tuple):
        return tuple(
            part.view(torch.bfloat16) if place in places else part
            for place, part in enumerate(batch)
        )
    holder = batch["X"] if isinstance(batch["X"], dict) else batch
    for place in places:
        holder[place] = holder[place].view(torch.bfloat16)
    return batch


class DatasetIterable(FilePlaces, torch.utils.data.IterableDataset):  # type: ignore[misc]
    """The batches of a data set as tensors.

    It holds arguments only, and builds a data set of the class `_DATASET` in each process.
    """

    _DATASET: ClassVar[type[Dataset]]

    def __init__(
        self,
        path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        options: Mapping[str, Any],
    ) -> None:
        for name in ("shard", "num_shards"):
            if name in options:
                raise TypeError(f"{name} is not an option here: the DataLoader's workers decide it")
        self._path: Any = one_path_or_list(path)
        self._options = kept(options)
        options = self._options  # an iterator is used up by now
        self._lengths: dict[tuple[int, int], int] = {}
        self._local: tuple[_Place, Dataset] | None = None
        self._current: _Batches | None = None
        self._resumed: tuple[int, int] | None = None
        rank, world_size = self._rank()
        with self._build(rank, world_size) as dataset:
            self._share_places(dataset)
            self._gene_matches: Any = dataset.gene_matches
            self._n_obs = dataset.n_obs
            self._n_vars: Any = dataset.n_vars
            self._n_output_genes: Any = dataset.n_output_genes
            self._effective_batch_size = dataset.effective_batch_size
            self._content, self._shown_path = dataset._content, dataset._path
            self._lengths[rank, world_size] = len(dataset)
            if options.get("pflog"):  # the workers need not estimate it again
                self._options["pflog_alpha"] = dataset.pflog_alpha
        self._epochs = SharedEpochs()

    def __iter__(self) -> Iterator[Any]:
        place = self._place()
        dataset = self._dataset(place)
        if self._resumed is not None:
            epoch = self._go_on(place)
        elif place.worker is None:
            epoch = self._epochs.begin()
        else:
            epoch = self._epochs.begin_in_worker(
                place.worker, seed=place.seed, num_workers=place.num_workers
            )
        dataset.set_epoch(epoch)
        received = dataset._next.batch  # not 0 where a state was loaded
        self._current = _Batches(
            iter(dataset), epoch=epoch, received=received, bfloat16=self._bfloat16(dataset)
        )
        return self._current

    def __len__(self) -> int:
        """How many batches an epoch has, of all workers of this rank together."""
        rank = self._rank()
        if rank not in self._lengths:
            with self._rebuild(*rank) as dataset:
                self._lengths[rank] = len(dataset)
        return self._lengths[rank]

    @property
    def n_obs(self) -> int:
        """How many cells an epoch has over all ranks."""
        return self._n_obs

    @property
    def effective_batch_size(self) -> int:
        """How many cells a full batch has."""
        return self._effective_batch_size

    @property
    def epoch(self) -> int:
        """The number of the epoch that comes next, or goes on after `load_state_dict`."""
        return self._epochs.next if self._resumed is None else self._resumed[1]

    def set_epoch(self, epoch: int) -> None:
        """Let the next epoch be this one, 0 to 2**30, for workers that are kept as well.

        Where `load_state_dict` has chosen a place in the same epoch, that place stays.
        """
        number = arguments.whole_number(epoch, "epoch", lowest=0, highest=EPOCH_MAX)
        if self._resumed is not None and self._resumed[1] == number:
            return
        if self._resumed is not None and self._local is not None:
            self._local[1].set_epoch(number)
        self._resumed = None
        self._epochs.choose(number)

    def state_dict(self) -> dict[str, Any]:
        """Where this process or worker stands, for `load_state_dict`: numbers and strings.

        torchdata's StatefulDataLoader asks each worker for it. In the process that owns the
        workers of a plain DataLoader it is the beginning of the next epoch.
        """
        dataset = self._dataset(self._place())
        state = dataset.state_dict()
        current = self._current
        if self._resumed is not None:
            return state
        if current is None:
            return {**state, "epoch": self._epochs.next, "batch": 0}
        # Not the data set's own numbers: at the end of an epoch they are those of the next one,
        # but a worker may be done while others are not.
        return {**state, "epoch": current.epoch, "batch": current.received}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Let the next epoch be the one of `state`, and give the batches that would have followed.

        Raises
        ------
        TypeError, ValueError
            It is no state, or one of other batches; the message names what differs.
        """
        place = self._place()
        self._dataset(place).load_state_dict(state)
        self._current = self._resumed = None
        if place.worker is None and int(state["batch"]) == 0:
            self._epochs.choose(int(state["epoch"]))  # for workers too
        else:
            self._resumed = (place.process_id, int(state["epoch"]))

    def __getstate__(self) -> dict[str, Any]:
        # The rank goes along: workers that are not forked know nothing of torch.distributed.
        options = dict(self._options)
        distributed = torch.distributed
        if distributed.is_available() and distributed.is_initialized():
            options["rank"], options["world_size"] = self._rank()
        return {**self.__dict__, "_options": options, "_local": None, "_current": None}

    def _var_names(self) -> Any:
        with self._rebuild(*self._rank()) as dataset:
            return dataset.var_names

    def _bfloat16(self, dataset: Dataset) -> list[Any]:
        """Where a batch has matrices of bfloat16: their names, or their places in a tuple."""
        dtype = self._options.get("dtype", "float32")
        if isinstance(dataset, TrainingDataset):
            return ["X"] if dtype == "bfloat16" else []
        of_names = dtype if isinstance(dtype, Mapping) else dict.fromkeys(dataset.modalities, dtype)
        as_dict = self._options.get("return_dict", True)
        return [
            name if as_dict else place
            for place, name in enumerate(dataset.modalities)
            if of_names.get(name) == "bfloat16"
        ]

    def _rank(self) -> tuple[int, int]:
        return arguments.rank_and_world_size(
            self._options.get("rank"), self._options.get("world_size")
        )

    def _place(self) -> _Place:
        rank, world_size = self._rank()
        info = torch.utils.data.get_worker_info()
        if info is None:
            return _Place(os.getpid(), rank, world_size)
        if info.num_workers > WORKERS_MAX:
            raise ValueError(f"num_workers={info.num_workers} must be at most {WORKERS_MAX}")
        seed = info.seed - info.id  # each worker's own is that of the set plus its number
        return _Place(os.getpid(), rank, world_size, info.id, info.num_workers, seed)

    def _go_on(self, place: _Place) -> int:
        assert self._resumed is not None
        process_id, epoch = self._resumed
        if process_id != place.process_id:
            raise RuntimeError(
                "load_state_dict was called in the process that owns this worker, which has a "
                "place of its own: use torchdata's StatefulDataLoader, or num_workers=0"
            )
        self._resumed = None
        self._epochs.go_on_at(
            epoch, worker=place.worker, seed=place.seed, num_workers=place.num_workers
        )
        return epoch

    def _dataset(self, place: _Place) -> Dataset:
        if self._local is None or self._local[0] != place:
            # One of another process was inherited by a fork; dropping it touches nothing there.
            self._local, self._current = None, None
            dataset = self._rebuild(
                place.rank, place.world_size, shard=place.worker or 0, num_shards=place.num_workers
            )
            self._local = (place, dataset)
        return self._local[1]

    def _build(self, rank: int, world_size: int, **shards: int) -> Dataset:
        options: dict[str, Any] = {
            **self._options,
            **shards,
            "rank": rank,
            "world_size": world_size,
        }
        if options.get("threads") is None and shards.get("num_shards", 1) > 1:
            options["threads"] = max(1, usable_cpus() // shards["num_shards"])
        return self._DATASET(self._path, **options)

    def _rebuild(self, rank: int, world_size: int, **shards: int) -> Dataset:
        """Built from arguments that the user has been warned about already.

        Workers that read another file than the others would give some cells twice, others never.
        """
        try:
            with told_before():
                dataset = self._build(rank, world_size, **shards)
        except CorruptFileError:
            raise
        except (ValueError, KeyError) as error:  # they were fine for the file that was there
            raise RuntimeError(replaced(self._shown_path, type(self).__name__)) from error
        if dataset._content != self._content:
            dataset.close()
            raise RuntimeError(self._replaced(dataset._file_contents, type(self).__name__))
        return dataset
