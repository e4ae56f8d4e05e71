"""Groups and arrays of a file, the same for HDF5 and Zarr."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class StoredArray:
    """An array and how it is stored.

    `kind` is one of numpy's letters for a type, "T" for text, "V" for records and what else is no
    number. `chunks` is None where it is stored in one piece. `read` gives entries of the first
    axis, `read(0, n)`; all of a scalar. `undecodable` names the codecs that browsers lack;
    `is_packed` says whether there is any codec.
    """

    path: str
    attributes: Mapping[str, Any]
    shape: tuple[int, ...]
    kind: str
    item_bytes: int
    chunks: tuple[int, ...] | None
    read: Callable[[int, int], npt.NDArray[Any]]
    undecodable: tuple[str, ...] = ()
    is_packed: bool = True
    is_sharded: bool = False

    @property
    def n_chunks(self) -> int:
        """How many pieces it is stored in."""
        if self.chunks is None:
            return 1
        return int(
            np.prod(
                [-(-length // step) for length, step in zip(self.shape, self.chunks, strict=True)]
            )
        )

    @property
    def size(self) -> int:
        """How many entries."""
        return int(np.prod(self.shape, dtype=np.int64))

    def values(self) -> npt.NDArray[Any]:
        """All of it."""
        return self.read(0, self.shape[0] if self.shape else 1)

    def text(self) -> str:
        """A scalar text."""
        value = np.asarray(self.values()).reshape(-1)[0]
        return value.decode("utf-8") if isinstance(value, bytes) else str(value)


@dataclass(frozen=True)
class StoredGroup:
    """A group and what it holds."""

    path: str
    attributes: Mapping[str, Any]
    children: Mapping[str, Stored] = field(default_factory=dict)

    def group(self, name: str) -> StoredGroup | None:
        """The group of that name."""
        child = self.children.get(name)
        return child if isinstance(child, StoredGroup) else None

    def array(self, name: str) -> StoredArray | None:
        """The array of that name."""
        child = self.children.get(name)
        return child if isinstance(child, StoredArray) else None


Stored: TypeAlias = "StoredArray | StoredGroup"


def arrays_in(group: StoredGroup) -> Iterator[StoredArray]:
    """Every array under a group."""
    for child in group.children.values():
        if isinstance(child, StoredArray):
            yield child
        else:
            yield from arrays_in(child)


def encoding(item: Stored) -> str:
    """How anndata has encoded it; "" where nothing says so."""
    return str(item.attributes.get("encoding-type", ""))


def place(path: str) -> str:
    """A path as Python has it: ``obs['a']`` for ``obs/a``."""
    parts = path.strip("/").split("/")
    if parts[:1] == ["mod"] and len(parts) > 1:
        rest = place("/".join(parts[2:])) if len(parts) > 2 else ""
        return f"mod[{parts[1]!r}]" + (f".{rest}" if rest else "")
    named = ("obs", "var", "obsm", "varm", "obsp", "varp", "layers", "uns", "obsmap", "varmap")
    if len(parts) > 1 and parts[0] in named:
        return f"{parts[0]}[{parts[1]!r}]" + "".join(f"/{part}" for part in parts[2:])
    return "/".join(parts)
