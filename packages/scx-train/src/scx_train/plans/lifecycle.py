"""How a plan-driven data set begins and ends."""

from __future__ import annotations

from typing import Any, NoReturn

from scx_core._closing import Closing
from scx_train._process import REMEDY, HomeProcess


class TerminalDataset(Closing):
    """A data set that works in the process that built it, until it is closed, which is for good.

    A subclass calls `super().__init__()` first, `_check_usable()` in each method but those here,
    and lets go of what it holds in `_release`. Iterators hold what they need themselves.
    """

    def __init__(self) -> None:
        self._home = HomeProcess()
        self._closed = False

    @property
    def closed(self) -> bool:
        """True from `close` on. Never raises."""
        return getattr(self, "_closed", True)

    def close(self) -> None:
        """Let the file go. Final: every other method raises a RuntimeError from then on.

        Iterators that are running hold what they need, and go on to their own end. Closing again
        does nothing.
        """
        if not self._closed:
            self._closed = True
            self._release()

    def __reduce__(self) -> NoReturn:
        raise RuntimeError(
            f"{type(self).__name__} cannot be sent to another process or copied: {REMEDY}"
        )

    def _check_usable(self) -> None:
        name = type(self).__name__
        self._home.check(name)
        if self._closed:
            raise RuntimeError(f"this {name} was closed, which is final: build a new one")

    def _release(self) -> None:
        """Let go of the file and what belongs to it."""
        raise NotImplementedError

    def __getitem__(self, place: Any) -> NoReturn:
        raise TypeError(self._what_to_do)

    def __len__(self) -> int:
        raise TypeError(self._what_to_do)

    def __bool__(self) -> bool:
        return True  # which would ask for the length

    @property
    def _what_to_do(self) -> str:
        name = type(self).__name__
        return (
            f"the batches of {name} follow plans: iterate over iter_with_plans(plans), or give a "
            f"DataLoader scx_train.torch.PlanIterable({name}, ..., plans=plans), with "
            "batch_size=None"
        )
