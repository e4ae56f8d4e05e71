"""The parts of an output: groups, arrays and text, and sparse matrices that come in a stream."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Attributes: TypeAlias = Mapping[str, Any]
"""Text, bool, whole numbers, or lists of these."""

Chunks: TypeAlias = Iterator[tuple[npt.NDArray[Any], ...]]
"""The values of every array of a bundle, chunk by chunk; the last one may be short. Of vectors
several chunks come at a time."""


class Turn(enum.IntEnum):
    """When an array's values are written: what opening a file reads comes first."""

    DESCRIPTION = 0
    GENE_NAMES = 1
    POINTERS = 2
    LABELS = 3
    REST = 4
    QUANTILES = 5
    BULK = 6


@dataclass(frozen=True)
class ArraySpec:
    """What is known of an array before its values: enough to declare it."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    chunks: tuple[int, ...]
    attributes: Attributes
    shuffled: bool


@dataclass(frozen=True)
class Numbers:
    """An array in memory; of shape () for a scalar."""

    values: npt.NDArray[Any]
    chunks: tuple[int, ...]
    attributes: Attributes
    turn: Turn = Turn.REST

    @property
    def spec(self) -> ArraySpec:
        """How it is declared: values of more than a byte are shuffled."""
        dtype = self.values.dtype
        return ArraySpec(
            self.values.shape, dtype, self.chunks, self.attributes, shuffled=dtype.itemsize > 1
        )


@dataclass(frozen=True)
class Text:
    """Strings: one, or a list of them."""

    values: str | list[str]
    chunk: int
    attributes: Attributes
    turn: Turn = Turn.REST

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the array; () for a single string."""
        return () if isinstance(self.values, str) else (len(self.values),)

    @property
    def chunks(self) -> tuple[int, ...]:
        """Its chunk, of as many dimensions as the array."""
        return () if isinstance(self.values, str) else (self.chunk,)


@dataclass(frozen=True)
class Bundle:
    """Arrays whose values are made together, chunk by chunk, while they are written.

    `arrays` names them in the order in which a container stores them; the arrays of `produce` come
    in the same order. `n_cells` is what `produce` reads, for telling how far it is.
    """

    arrays: Mapping[str, ArraySpec]
    produce: Callable[[], Chunks]


@dataclass(frozen=True)
class Group:
    """A folder of further nodes. A bundle's arrays lie in the group itself."""

    attributes: Attributes
    children: Mapping[str, Node] = field(default_factory=dict)
    bundle: Bundle | None = None


Node: TypeAlias = "Group | Numbers | Text | Bundle"
"""A bundle as a node stands for its single array, under the node's own name."""


@dataclass(frozen=True)
class Leaf:
    """A node with values and the path at which it lies."""

    path: str
    node: Numbers | Text


@dataclass(frozen=True)
class BundleLeaf:
    """A bundle and the paths of its arrays."""

    paths: tuple[str, ...]
    bundle: Bundle


def leaves(root: Group) -> list[Leaf | BundleLeaf]:
    """Everything with values, in the order in which values are written."""
    found = list(_walk("", root))
    return sorted(found, key=lambda leaf: leaf.node.turn if isinstance(leaf, Leaf) else Turn.BULK)


def _walk(path: str, node: Node) -> Iterator[Leaf | BundleLeaf]:
    if isinstance(node, Group):
        for name, child in node.children.items():
            yield from _walk(joined(path, name), child)
        if node.bundle is not None:
            yield BundleLeaf(tuple(joined(path, name) for name in node.bundle.arrays), node.bundle)
    elif isinstance(node, Bundle):
        yield BundleLeaf((path,), node)
    else:
        yield Leaf(path, node)


def joined(path: str, name: str) -> str:
    """The path of a member."""
    return f"{path}/{name}" if path else name
