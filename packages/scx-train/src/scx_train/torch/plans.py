"""PlanIterable: the batches of a plan-driven data set as torch tensors, for a DataLoader."""

from __future__ import annotations

import functools
import inspect
import itertools
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from typing import Any

import numpy as np
import torch

from scx_core.native.pipeline import BATCHES_MAX
from scx_train import _arguments as arguments
from scx_train._given import kept, one_path
from scx_train._process import usable_cpus
from scx_train._warn import told_before
from scx_train.cell_sets.dataset import SparseCellSetDataset
from scx_train.pairs.index_plan_dataset import IndexPlanDataset
from scx_train.pairs.paired_plans import PairedPlans
from scx_train.streams.progress import DIGESTS, Progress, digest
from scx_train.torch import callers
from scx_train.torch.batch import to_tensors
from scx_train.torch.epoch_iterable import EpochIterable, Place

OWN_CLASSES = (IndexPlanDataset, SparseCellSetDataset)


class PlanIterable(EpochIterable):
    """The batches of a plan-driven data set as tensors, for `DataLoader(..., batch_size=None)`.

    It holds arguments only, so it can be sent to workers of any start method; each builds a data
    set of its own. The workers (and ranks) divide the plans among them, so that each plan comes
    once an epoch. Every worker runs through all plans and decodes its own, so plans have to follow
    from the epoch alone: draw from a generator that is seeded with it.

    A batch is the dict of the data set with tensors in place of arrays, which share their memory;
    the `pairs` of an `IndexPlanDataset` are an int64 tensor of shape (pairs, 2).

    With several ranks all of them have the same number of plans: up to `world_size - 1` at the end
    are left out.

    A state (`state_dict`, or torchdata's StatefulDataLoader) goes on with exactly the plans that
    would have followed. The plans before them are run through without being decoded: a function of
    the epoch is called again, and must give the same ones without waiting for batches of theirs. A
    state of other plans, of other options of the data set or of files with other content is an
    error; what a function gives cannot be compared.

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
        super().__init__(rank, world_size)
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
        self._options = kept(options)
        self._local: tuple[Place, Any] | None = None
        # The workers of all epochs have in common whether one has warned, and a number for the
        # content of the files that the first one found.
        self._told = torch.zeros(1, dtype=torch.int64).share_memory_()
        self._content = torch.zeros(1, dtype=torch.int64).share_memory_()

    def __len__(self) -> int:
        """How many plans an epoch has, of all workers of this rank; TypeError for a function."""
        callers.pass_through_shards()
        if not isinstance(self._plans, Sized):
            raise TypeError(f"plans of type {type(self._plans).__name__} have no len()")
        return len(self._plans) // self._rank()[1]

    def __repr__(self) -> str:
        name = getattr(self._dataset_class, "__name__", type(self._dataset_class).__name__)
        plans = f"{len(self)} plans" if isinstance(self._plans, Sized) else "plans of a function"
        paths = [repr(path) for path in self._args[:1]]
        return f"PlanIterable({', '.join([name, *paths, plans])})"

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_local": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        for word in (self._told, self._content):
            if not word.is_shared():  # a copy, which may get workers of its own
                word.share_memory_()

    def _batches(self, place: Place, progress: Progress) -> Iterator[Any]:
        # Without empty ones, of which no batch comes: workers are asked for batches in turn.
        plans = filter(_has_cells, self._plans_of(progress.epoch))
        of_rank = _of_rank(plans, place.rank, place.world_size)
        own = itertools.islice(of_rank, place.worker or 0, None, place.num_workers)
        left = _after(own, progress.batch, epoch=progress.epoch)
        dataset = self._dataset(place)
        return _tensors(dataset.iter_with_plans(left, lookahead=self._lookahead))

    def _settings(self, place: Place) -> tuple[dict[str, Any], int]:
        n_plans = len(self._plans) if isinstance(self._plans, Sized) else None
        batches_max = sys.maxsize
        if n_plans is not None:
            batches_max = -(-(n_plans // place.world_size) // place.num_workers)
        settings = {
            "dataset": getattr(self._dataset_class, "__name__", type(self._dataset_class).__name__),
            "plans": self._plans_digest,
            "n_plans": n_plans,
            "world_size": place.world_size,
            "num_shards": place.num_workers,
            **self._options_of_batches,
        }
        return settings, batches_max

    def state_dict(self) -> dict[str, Any]:
        """Where this process or worker stands, for `load_state_dict`: numbers and strings."""
        state = super().state_dict()
        # 0 as long as nobody has opened the files
        return {**state, "settings": {**state["settings"], "path": int(self._content[0])}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Let the next epoch be the one of `state`, and give the batches that would have followed.

        Raises
        ------
        TypeError, ValueError
            It is no state, or one of other batches; the message names what differs.
        """
        # Other workers may open the files meanwhile: read once.
        known, before = int(self._content[0]), _content_of(state)
        if known and before and known != before:
            raise ValueError(f"state was saved by another data set: {DIGESTS['path']}")
        super().load_state_dict(state)
        if before and not known:  # the first data set that is opened is compared
            self._content[0] = before

    @functools.cached_property
    def _options_of_batches(self) -> dict[str, Any]:
        """What of the data set's arguments batches follow from, as a state holds it."""
        if self._dataset_class not in OWN_CLASSES:
            return {}
        bound = inspect.signature(self._dataset_class).bind(*self._args, **self._options)
        bound.apply_defaults()
        return {
            name: _settled(value)
            for name, value in bound.arguments.items()
            if name not in _WITHOUT_EFFECT
        }

    @functools.cached_property
    def _plans_digest(self) -> str | None:
        """Tells plans apart, as far as that can be seen without making them."""
        if isinstance(self._plans, PairedPlans):
            return self._plans.digest
        if not isinstance(self._plans, list | tuple):
            return None
        return digest(b"".join(map(_plan_bytes, self._plans)))

    def _plans_of(self, epoch: int) -> Iterable[Any]:
        plans = self._plans
        if not isinstance(plans, Iterable):
            return plans(epoch)
        set_epoch = getattr(plans, "set_epoch", None)
        if set_epoch is not None:
            set_epoch(epoch)
        return plans

    def _dataset(self, place: Place) -> Any:
        if self._local is None or self._local[0] != place:
            # One of another process was inherited by a fork; dropping it touches nothing there.
            self._local = None
            options = dict(self._options)
            if place.num_workers > 1 and options.get("threads") is None and self._takes_threads:
                options["threads"] = max(1, usable_cpus() // place.num_workers)
            made = self._made(options, warns=not place.worker)
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
    return one_path(value) if isinstance(value, str | os.PathLike) else value


_WITHOUT_EFFECT = frozenset(
    {
        "path",
        "paths",  # the content is compared instead
        "threads",
        "lookahead",
        "cache_shards",
        "reader_limit",
        "max_memory_mb",
        "max_plan_size",
        "max_plan_rows",
        "scatter_block_index",
    }
)
"""Arguments of the data sets that batches do not follow from."""


def _settled(value: Any) -> Any:
    """An argument as a number or text: arrays, and lists of them, as their digest."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return repr(sorted(value.items()))
    entries = list(value)
    if all(isinstance(entry, str) for entry in entries):
        return repr(entries)
    if any(np.ndim(entry) for entry in entries):  # a table for each file
        return digest(b"".join(map(_plan_bytes, entries)))
    return digest(_plan_bytes(entries))


def _plan_bytes(plan: Any) -> bytes:
    """Tells plans apart: two plans of the same rows have the same, in whatever form they are."""
    parts = plan if isinstance(plan, tuple) and len(plan) == 4 else (plan,)  # of cell sets
    try:
        arrays = [np.asarray(part, dtype=np.int64) for part in parts]
    except (TypeError, ValueError, OverflowError):  # left to the data set to refuse
        return digest(repr(plan).encode()).encode()
    return b"".join(repr(array.shape).encode() + array.tobytes() for array in arrays)


def _content_of(state: Any) -> int:
    """The number that a state holds for the content of the files; 0 where it holds none."""
    settings = state.get("settings") if isinstance(state, Mapping) else None
    number = settings.get("path") if isinstance(settings, Mapping) else None
    return number if isinstance(number, int) else 0


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


def _has_cells(plan: Any) -> bool:
    """Whether a plan gives a batch; what is no plan is left to the data set to refuse."""
    try:
        rows = plan[1] if isinstance(plan, tuple) and len(plan) == 4 else plan  # of cell sets
        return len(plan) > 0 and len(rows) > 0
    except TypeError:
        return True


def _after(plans: Iterator[Any], n_received: int, *, epoch: int) -> Iterator[Any]:
    """The plans that follow those that batches were received of."""
    passed = sum(1 for _ in itertools.islice(plans, n_received))
    if passed < n_received:
        raise ValueError(
            f"state is at batch {n_received} of epoch {epoch}, but there are {passed} plans"
        )
    return plans


def _tensors(batches: Any) -> Iterator[Any]:
    with batches:
        for batch in batches:
            if "pairs" in batch:
                # torch's DataLoader would take a list of tuples apart, one number at a time.
                pairs = np.array(batch["pairs"], dtype=np.int64)
                batch = {**batch, "pairs": pairs}
            yield to_tensors(batch)
