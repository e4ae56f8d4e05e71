"""A mapping whose values are decoded when they are first asked for, and kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Generic, TypeVar

from scx_core._errors import NameNotFoundError
from scx_core.experiment._read_only import handed_out, locked

Value = TypeVar("Value")


class LazyMapping(Mapping[str, Value], Generic[Value]):
    """Read-only, as its values are; `loaders` gives, in order, how each key's value is made.

    Looking for keys, their number and order decodes nothing.
    """

    def __init__(self, loaders: Mapping[str, Callable[[], Value]], *, what: str) -> None:
        self._loaders = dict(loaders)
        self._values: dict[str, Value] = {}
        self._what = what

    def __getitem__(self, key: str) -> Value:
        if key not in self._loaders:
            raise NameNotFoundError(f"{self._what} has no {key!r}; there are {list(self._loaders)}")
        if key not in self._values:
            self._values[key] = locked(self._loaders[key]())
        return handed_out(self._values[key])

    def __iter__(self) -> Iterator[str]:
        return iter(self._loaders)

    def __len__(self) -> int:
        return len(self._loaders)

    def __contains__(self, key: object) -> bool:
        return key in self._loaders

    def __repr__(self) -> str:
        return f"{self._what} with keys {', '.join(map(repr, self._loaders)) or '(none)'}"
