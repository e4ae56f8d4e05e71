"""Numbers of epochs that workers agree on, whatever the order in which they come."""

from __future__ import annotations

import copy
import itertools
import pickle

import pytest

from scx_train.torch.epochs import EPOCH_MAX, WORKERS_MAX, SharedEpochs


def test_a_process_counts_up() -> None:
    epochs = SharedEpochs()
    assert [epochs.begin() for _ in range(3)] == [0, 1, 2]
    assert epochs.next == 3


def test_a_chosen_epoch_is_next_and_counting_goes_on_behind_it() -> None:
    epochs = SharedEpochs()
    epochs.begin()
    for chosen in (7, 0, 0, EPOCH_MAX):
        epochs.choose(chosen)
        assert epochs.next == chosen
        assert [epochs.begin(), epochs.begin()] == [chosen, chosen + 1]


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_workers_of_a_set_agree_in_any_order(order: tuple[int, ...]) -> None:
    epochs = SharedEpochs()
    for epoch, seed in enumerate((11, 22, 33)):
        begun = [epochs.begin_in_worker(worker, seed=seed, num_workers=3) for worker in order]
        assert begun == [epoch] * 3


def test_workers_agree_when_one_looks_between_any_two_steps_of_another() -> None:
    """A second worker comes in after each write of the first one."""
    for n_writes in range(3):
        epochs = SharedEpochs()
        for worker in range(2):
            epochs.begin_in_worker(worker, seed=1, num_workers=2)
        before = epochs._words.clone()
        assert epochs.begin_in_worker(0, seed=2, num_workers=2) == 1
        after = epochs._words.clone()
        epochs._words.copy_(before)
        written = [4, 3][:n_writes]  # `first` of worker 0, then its `begun`
        assert sorted(int(place) for place in (before != after).nonzero()) == [3, 4]
        for word in written:
            epochs._words[word] = after[word]
        assert epochs.begin_in_worker(1, seed=2, num_workers=2) == 1


def test_kept_workers_count_by_themselves_even_when_one_is_late() -> None:
    epochs = SharedEpochs()
    assert [epochs.begin_in_worker(0, seed=5, num_workers=2) for _ in range(3)] == [0, 1, 2]
    assert [epochs.begin_in_worker(1, seed=5, num_workers=2) for _ in range(3)] == [0, 1, 2]


def test_kept_workers_follow_a_choice() -> None:
    epochs = SharedEpochs()
    for worker in (0, 1):
        assert epochs.begin_in_worker(worker, seed=5, num_workers=2) == 0
    epochs.choose(9)
    for epoch in (9, 10):
        for worker in (1, 0):
            assert epochs.begin_in_worker(worker, seed=5, num_workers=2) == epoch


def test_a_set_with_the_seed_of_the_one_before_it_is_told_apart() -> None:
    """Someone seeds torch anew before each epoch."""
    epochs = SharedEpochs()
    for epoch in range(3):
        for worker in (1, 0):
            assert epochs.begin_in_worker(worker, seed=5, num_workers=2) == epoch
    epochs.choose(0)
    for worker in (0, 1):
        assert epochs.begin_in_worker(worker, seed=5, num_workers=2) == 0


def test_a_set_of_which_one_worker_never_began() -> None:
    epochs = SharedEpochs()
    assert epochs.begin_in_worker(0, seed=1, num_workers=2) == 0
    for worker in (1, 0):
        assert epochs.begin_in_worker(worker, seed=2, num_workers=2) == 1
    assert epochs.begin() == 2
    assert epochs.begin_in_worker(WORKERS_MAX - 1, seed=3, num_workers=WORKERS_MAX) == 3


def test_going_on_in_the_middle_of_an_epoch() -> None:
    epochs = SharedEpochs()
    for worker in (0, 1):
        epochs.go_on_at(4, worker=worker, seed=1, num_workers=2)
    assert epochs.begin_in_worker(0, seed=1, num_workers=2) == 5
    assert epochs.begin_in_worker(1, seed=1, num_workers=2) == 5
    epochs.go_on_at(8, worker=None, seed=0, num_workers=1)
    assert epochs.begin() == 9


@pytest.mark.parametrize(
    "copied", [copy.deepcopy, lambda epochs: pickle.loads(pickle.dumps(epochs))]
)
def test_copies_count_for_themselves(copied: object) -> None:
    epochs = SharedEpochs()
    epochs.begin()
    other = copied(epochs)  # type: ignore[operator]
    assert other._words.is_shared()
    assert [other.begin(), other.begin(), epochs.begin()] == [1, 2, 1]
