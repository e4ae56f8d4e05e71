"""Arguments that hold for all modalities, or are dicts by modality."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Generic, TypeVar

from scx_core._errors import NameNotFoundError

T = TypeVar("T")


class ByModality(Generic[T]):
    """An argument: one value for all modalities, or a dict, of which some may be left out.

    Parameters
    ----------
    value, argument
        What the user gave, and its name.
    default
        What holds for modalities that a dict leaves out.
    """

    def __init__(self, value: T | Mapping[str, T], argument: str, *, default: T) -> None:
        self._named = dict(value) if isinstance(value, Mapping) else {}
        self._other = default if isinstance(value, Mapping) else value
        self._argument = argument

    def __call__(self, modality: str | None) -> T:
        """What holds for this modality; None for those without an entry."""
        return self._other if modality is None else self._named.get(modality, self._other)

    @property
    def names(self) -> tuple[str, ...]:
        """The modalities with an entry of their own."""
        return tuple(self._named)

    def check(self, modalities: Collection[str]) -> None:
        """KeyError for an entry of a modality that is not read."""
        for name in self._named:
            if name not in modalities:
                raise NameNotFoundError(
                    f"{self._argument} has an entry for {name!r}, but the modalities are "
                    f"{', '.join(modalities)}"
                )


def panels(value: Any) -> ByModality[Any]:
    """Those of `hvg_indices`; TypeError where it is one for all."""
    if value is not None and not isinstance(value, Mapping):
        raise TypeError(
            "hvg_indices must be a dict of panels by modality, such as {'rna': [0, 5, 7]}, not "
            f"{type(value).__name__}: each modality has genes of its own"
        )
    return ByModality(value, "hvg_indices", default=None)


def matchings(value: Any) -> ByModality[Any]:
    """Those of `genes`; TypeError where it is one list of names for all."""
    if value is not None and not isinstance(value, str | Mapping):
        raise TypeError(
            "genes must be 'intersection', 'union', or a dict by modality, such as "
            f"{{'rna': ['CD4', 'CD8A']}}, not {type(value).__name__}: each modality has genes of "
            "its own, and names may mean something else in another"
        )
    return ByModality(value, "genes", default=None)
