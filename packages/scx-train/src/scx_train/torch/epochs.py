"""Which epoch comes next, agreed on by a process and the workers of its DataLoaders.

The workers of a DataLoader are started anew for each epoch or kept, forked or spawned, and the
process that starts them runs none of our code then. What they agree on therefore lies in memory
that all of them share. No lock guards it, since there is none that every start method can hand on;
instead each 64-bit word is written by one place alone, whole:

- The first word holds how often an epoch was chosen with `set_epoch`, and the epoch chosen last.
- Behind it, each place (0 for the process itself, 1 + i for worker i) has two words: `begun`, the
  choice that was in force and the epoch that the place began last; and `first`, a key of the set
  of workers that it belongs to, and the epoch that this set began with.

A worker that finds the key of its set at its own place goes on with the epoch behind its last one.
One that finds it at another place takes the epoch that stands there. One that finds it nowhere
takes the epoch behind the last one begun at any place, or the chosen one where none was begun
since. All workers of a set that look at the same time so come to the same number, whichever of
them writes first.
"""

from __future__ import annotations

import os
import weakref
import zlib
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import get_worker_info

EPOCH_BITS = 31
EPOCH_MASK = 2**EPOCH_BITS - 1
EPOCH_MAX = 2**30  # of those that are chosen; as many again can follow before the bits run out
WORKERS_MAX = 1023
PLACES = 1 + WORKERS_MAX


class SharedEpochs:
    """Numbers the epochs of a data set across processes, from 0.

    A copy that a DataLoader hands to its workers shares the memory; one that is made by `pickle`
    or `copy` goes on by itself.
    """

    def __init__(self) -> None:
        self._words = torch.zeros(1 + 2 * PLACES, dtype=torch.int64).share_memory_()
        self._owner = os.getpid()
        _living.add(self)
        self.choose(0)

    def __getstate__(self) -> dict[str, Any]:
        self.make_own()
        return self.__dict__

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        _living.add(self)
        if not self._words.is_shared():  # a copy, which may get workers of its own
            self._words.share_memory_()
            self._owner = os.getpid()

    def make_own(self) -> None:
        """Part from the words of the process that these come from, unless this is its worker."""
        if self._owner != os.getpid() and get_worker_info() is None:
            self._words = self._words.clone().share_memory_()
            self._owner = os.getpid()

    def choose(self, epoch: int) -> None:
        """Make `epoch`, 0 to `EPOCH_MAX`, the next one."""
        self.make_own()
        times, _ = _unpack(self._words[0])
        self._words[0] = _pack(times % EPOCH_MASK + 1, epoch)

    @property
    def next(self) -> int:
        """The epoch that comes next."""
        self.make_own()
        return self._behind_the_last()

    @property
    def workers_have_begun(self) -> bool:
        """Whether workers began an epoch since one was chosen last."""
        choice, _ = _unpack(self._words[0])
        return any(_unpack(word)[0] == choice for word in self._words[3::2].tolist())

    def begin(self) -> int:
        """Begin the next epoch in the process itself; returns its number."""
        self.make_own()
        epoch = self._behind_the_last()
        self._note(0, epoch)
        return epoch

    def begin_in_worker(self, worker: int, *, seed: int, num_workers: int) -> int:
        """Begin the next epoch in a worker; returns its number.

        `seed` is what torch drew for all workers that were started together.
        """
        place, key = 1 + worker, self._key(seed, num_workers)
        # Before the look for the key: whoever wrote a new epoch there has written its key already.
        epoch = self._behind_the_last()
        begun = self._words[1::2].tolist()
        first = self._words[2::2].tolist()
        if _unpack(first[place])[0] == key:
            epoch = _unpack(begun[place])[1] + 1
        else:
            epoch = next(self._first_epochs(first, key), epoch)
            self._words[2 + 2 * place] = _pack(key, epoch)
        self._note(place, epoch)
        return epoch

    def go_on_at(self, epoch: int, *, worker: int | None, seed: int, num_workers: int) -> None:
        """Note that a place (None for the process itself) goes on in the middle of an epoch."""
        self.make_own()
        if worker is not None:
            key = self._key(seed, num_workers)
            self._words[2 + 2 * (1 + worker)] = _pack(key, epoch)
        self._note(0 if worker is None else 1 + worker, epoch)

    def _behind_the_last(self) -> int:
        choice, chosen = _unpack(self._words[0])
        begun = [
            epoch for times, epoch in map(_unpack, self._words[1::2].tolist()) if times == choice
        ]
        return max(begun) + 1 if begun else chosen

    def _first_epochs(self, first: list[int], key: int) -> Iterator[int]:
        return (epoch for found, epoch in map(_unpack, first) if found == key)

    def _note(self, place: int, epoch: int) -> None:
        choice, _ = _unpack(self._words[0])
        self._words[1 + 2 * place] = _pack(choice, epoch)

    def _key(self, seed: int, num_workers: int) -> int:
        choice, _ = _unpack(self._words[0])
        return zlib.crc32(f"{seed} {num_workers} {choice}".encode())


def _pack(upper: int, epoch: int) -> int:
    return upper << EPOCH_BITS | epoch


def _unpack(word: int | torch.Tensor) -> tuple[int, int]:
    number = int(word)
    return number >> EPOCH_BITS, number & EPOCH_MASK


_living: weakref.WeakSet[SharedEpochs] = weakref.WeakSet()


def _before_fork() -> None:
    for epochs in list(_living):
        epochs.make_own()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork)
