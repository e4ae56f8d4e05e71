"""The batches of a data set of shuffled cells as torch tensors, for a DataLoader."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import torch

from scx_core._errors import CorruptFileError
from scx_train._given import kept, one_path_or_list
from scx_train._process import usable_cpus
from scx_train._warn import told_before
from scx_train.streams.multimodal_dataset import MultimodalTrainingDataset
from scx_train.streams.places import FilePlaces, replaced
from scx_train.streams.progress import Progress
from scx_train.streams.training_dataset import TrainingDataset
from scx_train.torch import callers
from scx_train.torch.batch import to_tensors
from scx_train.torch.epoch_iterable import EpochIterable, Place

Dataset = TrainingDataset | MultimodalTrainingDataset


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


class DatasetIterable(FilePlaces, EpochIterable):
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
        self._local: tuple[Place, Dataset] | None = None
        super().__init__(options.get("rank"), options.get("world_size"))
        rank, world_size = self._rank()
        with self._build(rank, world_size) as dataset:
            self._share_places(dataset)
            self._gene_matches: Any = dataset.gene_matches
            self._n_obs = dataset.n_obs
            self._n_vars: Any = dataset.n_vars
            self._n_output_genes: Any = dataset.n_output_genes
            self._effective_batch_size = dataset.effective_batch_size
            self._content, self._shown_path = dataset._content, dataset._path
            self._contents = dataset._contents
            self._lengths[rank, world_size] = len(dataset)
            if options.get("pflog"):  # the workers need not estimate it again
                self._options["pflog_alpha"] = dataset.pflog_alpha

    def __len__(self) -> int:
        """How many batches an epoch has, of all workers of this rank together."""
        callers.pass_through_shards()
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

    def __repr__(self) -> str:
        n_batches = len(self)
        batches = "1 batch" if n_batches == 1 else f"{n_batches} batches"
        name, size = type(self).__name__, self._effective_batch_size
        return f"{name}({self._contents}, {batches} of {size})"

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_local": None}

    @property
    def _full_batch(self) -> int | None:
        return None if self._options.get("batch_by") else self._effective_batch_size

    def _batches(self, place: Place, progress: Progress) -> Iterator[Any]:
        dataset = self._dataset(place)
        dataset.load_state_dict(progress.state(dataset._settings))
        bfloat16 = self._bfloat16(dataset)
        tensors = (to_tensors(batch) for batch in iter(dataset))
        return (_with_bfloat16(batch, bfloat16) for batch in tensors) if bfloat16 else tensors

    def _settings(self, place: Place) -> tuple[dict[str, Any], int]:
        dataset = self._dataset(place)
        return dataset._settings, len(dataset)

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

    def _dataset(self, place: Place) -> Dataset:
        if self._local is None or self._local[0] != place:
            # One of another process was inherited by a fork; dropping it touches nothing there.
            self._local = None
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
