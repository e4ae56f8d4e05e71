"""PlanIterable: the batches of a plan-driven data set as torch tensors, for a DataLoader."""

from __future__ import annotations

import functools
import inspect
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Sized
from typing import Any

import numpy as np
import torch
import torch.utils.data

from scx_core.native.pipeline import BATCHES_MAX
from scx_train import _arguments as arguments
from scx_train._given import absolute, kept
from scx_train._process import usable_cpus
from scx_train._warn import told_before
from scx_train.cell_sets.dataset import SparseCellSetDataset
from scx_train.pairs.index_plan_dataset import IndexPlanDataset
from scx_train.torch.batch import to_tensors
from scx_train.torch.epochs import EPOCH_MAX, WORKERS_MAX, SharedEpochs

OWN_CLASSES = (IndexPlanDataset, SparseCellSetDataset)


class PlanIterable(torch.utils.data.IterableDataset):  # type: ignore[misc]
    """The batches of a plan-driven data set as tensors, for `DataLoader(..., batch_size=None)`.

    It holds arguments only, so it can be sent to workers of any start method; each builds a data
    set of its own. The workers (and ranks) divide the plans among them, so that each plan comes
    once an epoch. Every worker runs through all plans and decodes its own, so plans have to follow
    from the epoch alone: draw from a generator that is seeded with it.

    A batch is the dict of the data set with tensors in place of arrays, which share their memory;
    the `pairs` of an `IndexPlanDataset` are an int64 tensor of shape (pairs, 2).

    With several ranks all of them have the same number of plans: up to `world_size - 1` at the end
    are left out.

    Parameters
    ----------
    dataset
        The class, such as `IndexPlanDataset`, or another function that returns a data set. It has
        to be one that pickle can send to workers that are not forked.
    *args
        Its positional arguments, such as the path.
    plans
        The plans: an iterable that can be iterated over again, such as a list or `paired_plans`,
        or a function that is given the number of the epoch and returns one. An iterable with a
        method `set_epoch` is told the epoch first.
    lookahead
        How many plans may be under way in each worker; None (default) for that of the data set.
    rank, world_size
        Which of how many processes; None (default) takes them from torch.distributed where it is
        initialised when an epoch begins, else one process.
    **options
        The data set's keyword arguments. Where it has `threads` and they are not given, the workers
        divide the CPUs among them.

    Raises
    ------
    TypeError
        `dataset` cannot be called, is a class whose batches do not follow plans, or does not take
        these arguments; or `plans` is neither such an iterable nor a function.

    Examples
    --------
    >>> plans = paired_plans("screen.scx", "perturbation", "non-targeting")  # doctest: +SKIP
    >>> pairs = PlanIterable(IndexPlanDataset, "screen.scx", plans=plans)  # doctest: +SKIP
    >>> for batch in DataLoader(pairs, batch_size=None, num_workers=2):  # doctest: +SKIP
    ...     loss = step(batch["X"], batch["X_paired"])
    """

    def __init__(
        self,
        dataset: Callable[..., Any],
        *args: Any,
        plans: Iterable[Any] | Callable[[int], Iterable[Any]],
        lookahead: int | None = None,
        rank: int | None = None,
        world_size: int | None = None,
        **options: Any,
    ) -> None:
        if not callable(dataset):
            raise TypeError(
                f"dataset={dataset!r} must be a class, such as IndexPlanDataset, or a function: a "
                "data set works in the process that built it, so each worker builds its own"
            )
        if isinstance(plans, Iterator) or not (isinstance(plans, Iterable) or callable(plans)):
            raise TypeError(
                f"plans is {type(plans).__name__}, which cannot be iterated over in each worker "
                "and epoch: pass a list, or a function of the epoch that returns the plans"
            )
        arguments.rank_and_world_size(rank, world_size)
        if lookahead is not None:
            lookahead = arguments.whole_number(
                lookahead, "lookahead", lowest=0, highest=BATCHES_MAX
            )
        _check_made(dataset, args, options)
        self._dataset_class = dataset
        paths = [os.fspath(a) if isinstance(a, os.PathLike) else a for a in args]
        if dataset in OWN_CLASSES:  # what others take is not known
            paths[:1] = [_absolute(a) for a in paths[:1]]
            options = {
                name: _absolute(value) if name in ("path", "paths") else value
                for name, value in options.items()
            }
        self._args = tuple(kept({str(place): a for place, a in enumerate(paths)}).values())
        self._plans = plans
        self._lookahead = lookahead
        self._ranks = (rank, world_size)
        self._options = kept(options)
        self._local: tuple[tuple[int, int | None, int], Any] | None = None
        self._epochs = SharedEpochs()
        # The workers of all epochs have in common whether one has warned, and a number for the
        # content of the files that the first one found.
        self._told = torch.zeros(1, dtype=torch.int64).share_memory_()
        self._content = torch.zeros(1, dtype=torch.int64).share_memory_()

    def __iter__(self) -> Iterator[Any]:
        rank, world_size = arguments.rank_and_world_size(*self._ranks)
        info = torch.utils.data.get_worker_info()
        if info is None:
            epoch, worker, num_workers = self._epochs.begin(), None, 1
        elif info.num_workers > WORKERS_MAX:
            raise ValueError(f"num_workers={info.num_workers} must be at most {WORKERS_MAX}")
        else:
            worker, num_workers = info.id, info.num_workers
            epoch = self._epochs.begin_in_worker(
                worker, seed=info.seed - info.id, num_workers=num_workers
            )
        own = itertools.islice(
            _of_rank(self._plans_of(epoch), rank, world_size), worker or 0, None, num_workers
        )
        dataset = self._dataset(worker, num_workers)
        return _tensors(dataset.iter_with_plans(own, lookahead=self._lookahead))

    def __len__(self) -> int:
        """How many plans an epoch has, of all workers of this rank; TypeError for a function."""
        if not isinstance(self._plans, Sized):
            raise TypeError(f"plans of type {type(self._plans).__name__} have no len()")
        _, world_size = arguments.rank_and_world_size(*self._ranks)
        return len(self._plans) // world_size

    @property
    def epoch(self) -> int:
        """The number of the epoch that comes next."""
        return self._epochs.next

    def set_epoch(self, epoch: int) -> None:
        """Let the next epoch be this one, 0 to 2**30, for workers that are kept as well."""
        number = arguments.whole_number(epoch, "epoch", lowest=0, highest=EPOCH_MAX)
        self._epochs.choose(number)

    def __getstate__(self) -> dict[str, Any]:
        # The rank goes along: workers that are not forked know nothing of torch.distributed.
        state = {**self.__dict__, "_local": None}
        distributed = torch.distributed
        if distributed.is_available() and distributed.is_initialized():
            state["_ranks"] = arguments.rank_and_world_size(*self._ranks)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        for word in (self._told, self._content):
            if not word.is_shared():  # a copy, which may get workers of its own
                word.share_memory_()

    def _plans_of(self, epoch: int) -> Iterable[Any]:
        plans = self._plans
        if not isinstance(plans, Iterable):
            return plans(epoch)
        set_epoch = getattr(plans, "set_epoch", None)
        if set_epoch is not None:
            set_epoch(epoch)
        return plans

    def _dataset(self, worker: int | None, num_workers: int) -> Any:
        place = (os.getpid(), worker, num_workers)
        if self._local is None or self._local[0] != place:
            # One of another process was inherited by a fork; dropping it touches nothing there.
            self._local = None
            options = dict(self._options)
            if num_workers > 1 and options.get("threads") is None and self._takes_threads:
                options["threads"] = max(1, usable_cpus() // num_workers)
            made = self._made(options, warns=not worker)
            if not _has_plans(made):
                raise TypeError(f"dataset gave {type(made).__name__}, {_WHAT_IS_NEEDED}")
            if self._dataset_class in OWN_CLASSES:  # others may give each worker files of its own
                self._check_content(made)
            self._local = (place, made)
        return self._local[1]

    def _made(self, options: dict[str, Any], *, warns: bool) -> Any:
        """A data set; what there is to warn about is told once, by the first worker of the first
        epoch.
        """
        if not warns or self._told[0]:
            with told_before():
                return self._dataset_class(*self._args, **options)
        made = self._dataset_class(*self._args, **options)
        self._told[0] = 1
        return made

    def _check_content(self, made: Any) -> None:
        """Plans speak of the rows of files as they were."""
        number = 1 + int.from_bytes(made._content[:7], "little")
        if self._content[0] == 0:
            self._content[0] = number
        elif self._content[0] != number:
            made.close()
            raise RuntimeError(
                f"the files of {self._dataset_class.__name__} were replaced by others of other "
                "content since the first epoch: build a new PlanIterable"
            )

    @property
    def _takes_threads(self) -> bool:
        try:
            return "threads" in inspect.signature(self._dataset_class).parameters
        except (TypeError, ValueError):
            return False


def _absolute(value: Any) -> Any:
    """A path, or a list of them, from the root on; anything else as it is."""
    if isinstance(value, list | tuple):
        return [_absolute(entry) for entry in value]
    return absolute(os.fspath(value)) if isinstance(value, str | os.PathLike) else value


_WHAT_IS_NEEDED = (
    "whose batches do not follow plans: pass IndexPlanDataset or SparseCellSetDataset (for a "
    "TrainingDataset there is TrainingIterable)"
)


def _has_plans(dataset: Any) -> bool:
    return callable(getattr(dataset, "iter_with_plans", None))


def _check_made(dataset: Callable[..., Any], args: tuple[Any, ...], options: Any) -> None:
    """Refuse at once what would fail in each worker only; what functions give is seen there."""
    made = dataset
    while isinstance(made, functools.partial):
        made = made.func
    if isinstance(made, type) and not _has_plans(made):
        raise TypeError(f"dataset={made.__name__} is a class {_WHAT_IS_NEEDED}")
    try:
        signature = inspect.signature(dataset)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*args, **options)
    except TypeError as error:
        name = getattr(made, "__name__", "dataset")
        raise TypeError(f"{name} cannot be built with these arguments: {error}") from None


def _of_rank(plans: Iterable[Any], rank: int, world_size: int) -> Iterator[Any]:
    """Every `world_size`-th plan; all ranks have equally many."""
    if world_size == 1:
        yield from plans
        return
    rest = iter(plans)
    while len(round_of_plans := list(itertools.islice(rest, world_size))) == world_size:
        yield round_of_plans[rank]


def _tensors(batches: Any) -> Iterator[Any]:
    with batches:
        for batch in batches:
            if "pairs" in batch:
                # torch's DataLoader would take a list of tuples apart, one number at a time.
                pairs = np.array(batch["pairs"], dtype=np.int64)
                batch = {**batch, "pairs": pairs}
            yield to_tensors(batch)
