"""Plans of one set each, put together."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from published_draws import shuffled, stream_of, words_of
from scx_train import batch_plans
from scx_train.neighborhoods.set_plans import plans_of_sets


def sets(n: int) -> list[Any]:
    """Sets of 0 to 3 rows that can be told apart; as arrays, lists and tuples."""
    plans: list[Any] = []
    for number in range(n):
        length = number % 4
        plan: Any = ([number % 3] * length, [10 * number + i for i in range(length)])
        plan = (*plan, [0, 1, 1][:length], [0, length])
        plans.append(plan if number % 2 else tuple(np.array(part, dtype=int) for part in plan))
    return plans


def taken_apart(batch: Any) -> list[tuple[list[int], list[int], list[int]]]:
    files, rows, tags, offsets = (part.tolist() for part in batch)
    assert offsets[0] == 0 and offsets[-1] == len(rows) == len(files) == len(tags)
    return [
        (files[start:stop], rows[start:stop], tags[start:stop])
        for start, stop in itertools.pairwise(offsets)
    ]


def as_lists(plans: list[Any]) -> list[tuple[list[int], list[int], list[int]]]:
    return [tuple(list(map(int, part)) for part in plan[:3]) for plan in plans]  # type: ignore[misc]


@pytest.mark.parametrize("sets_per_batch", [1, 3, 5, 10, 11, 100])
def test_sets_come_in_their_order_and_none_is_dropped(sets_per_batch: int) -> None:
    plans = sets(10)
    batches = batch_plans(iter(plans), sets_per_batch)
    sizes = [len(batch[3]) - 1 for batch in batches]
    assert sizes[:-1] == [sets_per_batch] * (len(sizes) - 1) and sum(sizes) == 10
    found = [each for batch in batches for each in taken_apart(batch)]
    assert found == as_lists(plans)
    assert [part.dtype.str for part in batches[0]] == ["<i4", "<i8", "<i4", "<i8"]


def test_a_seed_reorders_sets_never_members() -> None:
    plans = sets(50)
    orders = []
    for seed in (0, 1, 1, 2**64 - 1):
        batches = batch_plans(plans, 7, shuffle_seed=seed)
        found = [each for batch in batches for each in taken_apart(batch)]
        assert sorted(map(repr, found)) == sorted(map(repr, as_lists(plans)))
        orders.append(found)
    assert orders[1] == orders[2] != orders[0]
    assert orders[0] != as_lists(plans)


@pytest.mark.parametrize("seed", [0, 42, 2**64 - 1])
@pytest.mark.parametrize("n_sets", [1, 2, 50])
def test_the_order_is_the_documented_shuffle(seed: int, n_sets: int) -> None:
    plans = sets(n_sets)
    words = words_of(stream_of(seed, int.from_bytes(b"SCXPLSET", "big"), 0))
    expected = [as_lists(plans)[number] for number in shuffled(list(range(n_sets)), words)]
    batches = batch_plans(plans, 7, shuffle_seed=seed)
    assert [len(batch[3]) - 1 for batch in batches[:-1]] == [7] * (len(batches) - 1)
    assert [each for batch in batches for each in taken_apart(batch)] == expected


def test_no_plans() -> None:
    assert batch_plans([], 4) == []


@pytest.mark.parametrize(
    ("plan", "kind", "text"),
    [
        (([0], [1], [0]), TypeError, "plan 1 is no tuple"),
        ("abcd", TypeError, "plan 1 is no tuple"),
        (([0, 0], [1, 2], [0, 1], [0, 1, 2]), ValueError, "plan 1 has 2 sets"),
        (([0], [1], [0], [0, 2]), ValueError, r"\[0, 1\] is needed"),
        (([0, 0], [1], [0], [0, 1]), ValueError, "2 file_ids and 1 role_tags for 1 rows"),
        (([0], [1.5], [0], [0, 1]), TypeError, "rows of plan 1 holds float64"),
        (([0], [[1]], [0], [0, 1]), ValueError, "2 dimensions"),
        (([2**40], [1], [0], [0, 1]), ValueError, "file_ids of plan 1 leaves the range"),
    ],
)
def test_plans_that_are_none(plan: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        batch_plans([sets(4)[3], plan], 2)


def test_arguments() -> None:
    with pytest.raises(ValueError, match="sets_per_batch=0"):
        batch_plans(sets(3), 0)
    with pytest.raises(ValueError, match="shuffle_seed=-1"):
        batch_plans(sets(3), 1, shuffle_seed=-1)
    with pytest.raises(TypeError, match="positional"):
        batch_plans(sets(3), 1, 5)  # type: ignore[misc]


def test_shared_arrays_cannot_be_written_to() -> None:
    indptr = np.array([0, 2, 4], dtype=np.int64)
    plans = plans_of_sets(np.array([5, 6]), indptr, np.array([1, 2, 3, 4]), file_id=1)
    for plan in plans:
        for part in plan:
            with pytest.raises(ValueError, match="read-only"):
                part[0] = 9
    assert [plan[1].tolist() for plan in plans] == [[5, 1, 2], [6, 3, 4]]
