"""Row and column indices as numpy takes them, and names, turned into int64 positions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from scx_core._errors import NameNotFoundError
from scx_core._names import did_you_mean

if TYPE_CHECKING:
    import pandas as pd

Positions: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Axis:
    """One of a matrix's two axes. `load_names` gives its `length` names, when one is asked for."""

    what: str
    length: int
    load_names: Callable[[], npt.NDArray[np.object_]]

    @cached_property
    def names(self) -> pd.Index[str]:
        """The names, with what finds one among them."""
        import pandas as pd

        return pd.Index(self.load_names(), dtype=object)

    def taking(self, positions: Positions) -> Axis:
        """The axis with these of its entries alone, in their order."""
        return Axis(self.what, len(positions), lambda: self.load_names()[positions])

    def positions(self, index: Any) -> Positions:
        """The positions that `index` selects, in its order.

        Taken are a whole number (a negative one counts from the end), a slice, a boolean mask, a
        name, and sequences or arrays of whole numbers from 0 or of names, with repeats.

        Raises
        ------
        IndexError
            A position beyond the axis, a negative one in an array, or a mask of another length.
        KeyError
            A name that is not there; near ones are listed.
        ValueError
            A name that is there more than once.
        TypeError
            Something that is no index, such as floats.
        """
        if isinstance(index, slice):
            return np.arange(*index.indices(self.length), dtype=np.int64)
        array = np.asarray(index)
        if array.dtype.kind == "U" and isinstance(index, list | tuple):
            array = np.array(index, dtype=object)  # numpy makes text of what is none
        if array.dtype == np.bool_:
            if array.shape != (self.length,):
                raise IndexError(
                    f"a boolean {self.what} mask must have shape ({self.length},), this one has "
                    f"{array.shape}"
                )
            return np.flatnonzero(array)
        if array.size == 0 and array.ndim == 1:
            return np.empty(0, dtype=np.int64)
        if array.ndim > 1:
            raise IndexError(f"{self.what}s are selected by one axis of them, not by {array.ndim}")
        if _holds_names(array):
            return self._named(np.atleast_1d(array).astype(object))
        if array.dtype.kind not in "iu":
            raise TypeError(
                f"{self.what}s are selected by whole numbers, names, a slice or a boolean mask, "
                f"not by {_told(index, array)}"
            )
        return np.ascontiguousarray(self._in_range(array))

    def _in_range(self, array: npt.NDArray[Any]) -> Positions:
        lowest = -self.length if array.ndim == 0 else 0
        # numpy compares uint64 with a negative number wrongly
        wrong = (array >= self.length) | (array < lowest if array.dtype.kind == "i" else False)
        if wrong.any():
            first = int(np.atleast_1d(array)[np.flatnonzero(wrong)[0]])
            if array.ndim and -self.length <= first < 0:
                raise IndexError(
                    f"{self.what} {first}: a negative number in an array selects nothing, because "
                    "it is what get_indexer gives for a name that is not there; select by the "
                    "names themselves, or count from the end with a slice"
                )
            raise IndexError(f"{self.what} {first} is out of range for {self.length} {self.what}s")
        selected: Positions = np.atleast_1d(array).astype(np.int64)
        selected[selected < 0] += self.length
        return selected

    def _named(self, wanted: npt.NDArray[np.object_]) -> Positions:
        import pandas as pd

        repeated = self.names.duplicated(keep=False)
        once = np.flatnonzero(~repeated)
        found = self.names[once].get_indexer(pd.Index(wanted, dtype=object))
        missing = wanted[found < 0]
        if not len(missing):
            return once[found].astype(np.int64, copy=False)
        there = self.names[repeated]
        for name in missing:
            if name in there:
                places = np.flatnonzero(self.names == name)
                raise ValueError(
                    f"{self.what} {name!r} is there {len(places)} times, at "
                    f"{', '.join(map(str, places[:3]))}{', ...' if len(places) > 3 else ''}: "
                    "select it by number"
                )
        more = f"; {len(missing)} of {len(wanted)} names are missing" if len(missing) > 1 else ""
        raise NameNotFoundError(
            f"there is no {self.what} {missing[0]!r}{did_you_mean(missing[0], self.names)}{more}"
        )


def _told(index: Any, array: npt.NDArray[Any]) -> str:
    kind = type(index).__name__
    if array.ndim == 0:
        return kind
    # among names or truth values, what is neither: mostly a gap
    odd = [one for one in array.flat if not isinstance(one, str | bool | np.bool_)]
    if array.dtype.kind == "O" and 0 < len(odd) < len(array):
        return f"{kind} with {odd[0]!r} in it"
    return f"{kind} of {array.dtype}"


def _holds_names(array: npt.NDArray[Any]) -> bool:
    if array.dtype.kind == "O":
        return all(isinstance(entry, str) for entry in array.flat)
    return array.dtype.kind in "UT"
