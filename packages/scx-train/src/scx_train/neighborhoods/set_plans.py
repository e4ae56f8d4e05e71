"""Plans of one cell set each, cheap to make in large numbers, and batches of them."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import repeat
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from scx_core.native.pipeline import epoch_stream, shuffle
from scx_train import _arguments as arguments

Rows = npt.NDArray[np.int64]
Plan: TypeAlias = tuple[
    npt.NDArray[np.int32], npt.NDArray[np.int64], npt.NDArray[np.int32], npt.NDArray[np.int64]
]
"""`(file_ids, rows, role_tags, set_offsets)`"""

TAG_SETS = int.from_bytes(b"SCXPLSET", "big")
CENTER, NEIGHBOR = 0, 1


def plans_of_sets(centers: Rows | None, indptr: Rows, members: Rows, *, file_id: int) -> list[Plan]:
    """A plan for each set; set i has `members[indptr[i]:indptr[i + 1]]`, behind its centre if any.

    The rows of all plans are views of one array, and what depends on a set's length alone is made
    once for each length.
    """
    lengths = np.diff(indptr)
    if centers is not None:
        lengths = lengths + 1
        indptr, members = _with_centers(centers, indptr, members)
    tags = np.full(int(lengths.max(initial=0)), NEIGHBOR, dtype=np.int32)
    if centers is not None:
        tags[:1] = CENTER
    files = np.full(len(tags), file_id, dtype=np.int32)
    shared: dict[int, tuple[Any, Any, Any]] = {}
    for length in np.unique(lengths).tolist():
        offsets = np.array([0, length], dtype=np.int64)
        for array in (files, tags, offsets):
            array.setflags(write=False)
        shared[length] = files[:length], tags[:length], offsets
    members.setflags(write=False)
    if len(shared) == 1:
        ((length, (file_ids, role_tags, offsets)),) = shared.items()
        rows = list(members[: length * len(lengths)].reshape(len(lengths), length))
        return list(zip(repeat(file_ids), rows, repeat(role_tags), repeat(offsets), strict=False))
    plans: list[Plan] = []
    start = 0
    for stop, length in zip(indptr[1:].tolist(), lengths.tolist(), strict=True):
        file_ids, role_tags, offsets = shared[length]
        plans.append((file_ids, members[start:stop], role_tags, offsets))
        start = stop
    return plans


def _with_centers(centers: Rows, indptr: Rows, members: Rows) -> tuple[Rows, Rows]:
    """The sets with their centres in front of them."""
    n_sets = len(centers)
    starts = indptr + np.arange(n_sets + 1, dtype=np.int64)
    joined = np.empty(len(members) + n_sets, dtype=np.int64)
    is_member = np.ones(len(joined), dtype=np.bool_)
    is_member[starts[:-1]] = False
    joined[starts[:-1]] = centers
    joined[is_member] = members
    return starts, joined


def batch_plans(
    plans: Iterable[Any], sets_per_batch: int, *, shuffle_seed: int | None = None
) -> list[Plan]:
    """Plans of one set each, put together to plans of several sets.

    Parameters
    ----------
    plans
        Plans `(file_ids, rows, role_tags, set_offsets)` of one set each, from one or several
        files; lists, tuples and arrays will do.
    sets_per_batch
        How many sets a batch has. The last one has what is left: no set is dropped.
    shuffle_seed
        Reorder the sets before they are put together, by this seed (0 to 2**64 - 1) alone; the
        members of a set keep their order. None (default) keeps the order of the sets.

    Returns
    -------
    A list of plans; `file_ids` and `role_tags` int32, `rows` and `set_offsets` int64.

    Raises
    ------
    TypeError, ValueError
        A plan is none, or has another number of sets than one; or an argument is not valid.
    """
    sets_per_batch = arguments.whole_number(sets_per_batch, "sets_per_batch", lowest=1)
    if shuffle_seed is not None:
        shuffle_seed = arguments.whole_number(
            shuffle_seed, "shuffle_seed", lowest=0, highest=arguments.SEED_MAX
        )
    sets = [_checked(plan, number) for number, plan in enumerate(plans)]
    order = np.arange(len(sets), dtype=np.int64)
    if shuffle_seed is not None:
        shuffle(order, stream=epoch_stream(seed=shuffle_seed, tag=TAG_SETS, epoch=0))
    batches: list[Plan] = []
    for start in range(0, len(sets), sets_per_batch):
        chosen = [sets[number] for number in order[start : start + sets_per_batch].tolist()]
        offsets = np.zeros(len(chosen) + 1, dtype=np.int64)
        np.cumsum([len(rows) for _, rows, _ in chosen], out=offsets[1:])
        files, rows, tags = (np.concatenate(parts) for parts in zip(*chosen, strict=True))
        batches.append((files, rows, tags, offsets))
    return batches


def _checked(plan: Any, number: int) -> tuple[Any, Any, Any]:
    """The arrays of one set."""
    if isinstance(plan, str | bytes) or not hasattr(plan, "__len__") or len(plan) != 4:
        raise TypeError(
            f"plan {number} is no tuple of (file_ids, rows, role_tags, set_offsets): it is "
            f"{type(plan).__name__}"
        )
    file_ids = _whole_numbers(plan[0], np.int32, number, "file_ids")
    rows = _whole_numbers(plan[1], np.int64, number, "rows")
    role_tags = _whole_numbers(plan[2], np.int32, number, "role_tags")
    offsets = _whole_numbers(plan[3], np.int64, number, "set_offsets")
    if len(offsets) != 2:
        raise ValueError(
            f"plan {number} has {max(0, len(offsets) - 1)} sets, but plans of one set each are "
            "put together"
        )
    if offsets[0] != 0 or offsets[1] != len(rows):
        raise ValueError(
            f"plan {number} has set_offsets {offsets.tolist()} for {len(rows)} rows: [0, "
            f"{len(rows)}] is needed"
        )
    if not len(file_ids) == len(rows) == len(role_tags):
        raise ValueError(
            f"plan {number} has {len(file_ids)} file_ids and {len(role_tags)} role_tags for "
            f"{len(rows)} rows"
        )
    return file_ids, rows, role_tags


def _whole_numbers(value: Any, dtype: Any, number: int, what: str) -> npt.NDArray[Any]:
    if isinstance(value, np.ndarray) and value.dtype == dtype and value.ndim == 1:
        return value
    array = np.asarray(value)
    if array.ndim != 1:
        raise ValueError(f"{what} of plan {number} has {array.ndim} dimensions, one is needed")
    if array.size and array.dtype.kind not in "iu":
        raise TypeError(f"{what} of plan {number} holds {array.dtype}, not whole numbers")
    limits = np.iinfo(dtype)
    if array.size and not limits.min <= int(array.min()) <= int(array.max()) <= limits.max:
        raise ValueError(f"{what} of plan {number} leaves the range of {np.dtype(dtype)}")
    return array.astype(dtype)
