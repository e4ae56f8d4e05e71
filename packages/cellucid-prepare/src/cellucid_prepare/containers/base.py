"""What a container does, and the walk over the layout that is the same for all."""

from __future__ import annotations

import itertools
import math
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np
import numpy.typing as npt

from cellucid_prepare.encode.codecs import Wrapping, chunk_streams, padded
from cellucid_prepare.encode.pool import Encoder
from cellucid_prepare.layout.nodes import (
    ArraySpec,
    BundleLeaf,
    Group,
    Leaf,
    Node,
    Numbers,
    Text,
    joined,
    leaves,
)

Grid = tuple[int, ...]


class Container(Protocol):
    """One output that is being written."""

    @property
    def takes_any_order(self) -> bool:
        """Whether `put_chunk` may be called in any order, from several threads at once."""
        ...

    def declare_group(self, path: str, group: Group) -> None:
        """Make a group with its attributes; "" is the root."""
        ...

    def declare_array(self, path: str, spec: ArraySpec) -> None:
        """Make an array of numbers without its values."""
        ...

    def declare_text(self, path: str, text: Text) -> None:
        """Make an array of strings without its values."""
        ...

    def wrapping(self, spec: ArraySpec) -> Wrapping:
        """What is around the DEFLATE streams of an array's chunks."""
        ...

    def put_chunk(self, path: str, grid: Grid, stored: bytes) -> None:
        """Store one chunk of an array of numbers."""
        ...

    def put_whole(self, path: str, values: npt.NDArray[Any]) -> None:
        """Store the values of an array without chunks: a scalar, or one without entries."""
        ...

    def put_text(self, path: str, text: Text) -> None:
        """Store the strings."""
        ...

    def end_array(self, path: str) -> None:
        """All values of the array are there."""
        ...


def write_layout(
    root: Group, container: Container, encode: Encoder, folder: Path, done: Callable[[int], None]
) -> None:
    """Declare all that `root` holds and then write its values.

    `folder` is where temporary files may lie; `done` is told of the parts that `part_count` counts.
    """
    _declare("", root, container)
    in_order = leaves(root)
    # the first bundle is encoded while what comes before it is written
    first = next((leaf for leaf in in_order if isinstance(leaf, BundleLeaf)), None)
    runs = {} if first is None else {first.paths: _begun(_runs(first, container, encode))}
    for leaf in in_order:
        if isinstance(leaf, BundleLeaf):
            encoded = runs.pop(leaf.paths, None) or _runs(leaf, container, encode)
            _write_bundle(leaf, container, encoded, folder, done)
            continue
        if isinstance(leaf.node, Text):
            container.put_text(leaf.path, leaf.node)
        else:
            _write_numbers(leaf.path, leaf.node, container, encode)
        container.end_array(leaf.path)
        done(1)


def _declare(path: str, node: Node, container: Container) -> None:
    if isinstance(node, Group):
        container.declare_group(path, node)
        for name, child in node.children.items():
            _declare(joined(path, name), child, container)
        if node.bundle is not None:
            for name, spec in node.bundle.arrays.items():
                container.declare_array(joined(path, name), spec)
    elif isinstance(node, Numbers):
        container.declare_array(path, node.spec)
    elif isinstance(node, Text):
        container.declare_text(path, node)
    else:
        (spec,) = node.arrays.values()
        container.declare_array(path, spec)


def is_whole(spec: ArraySpec) -> bool:
    """Whether an array has no chunks: scalars and arrays without entries."""
    return not spec.shape or 0 in spec.shape


def _write_numbers(path: str, node: Numbers, container: Container, encode: Encoder) -> None:
    spec = node.spec
    if is_whole(spec):
        container.put_whole(path, node.values)
        return

    def stored(item: tuple[Grid, npt.NDArray[Any]]) -> tuple[Grid, bytes]:
        grid, values = item
        (chunk,) = stored_chunks(spec, values, container)
        return grid, chunk

    def put(item: tuple[Grid, npt.NDArray[Any]]) -> None:
        container.put_chunk(path, *stored(item))

    if container.takes_any_order:
        for _ in encode(put, grid_chunks(node.values, spec.chunks)):
            pass
        return
    for grid, chunk in encode(stored, grid_chunks(node.values, spec.chunks)):
        container.put_chunk(path, grid, chunk)


def stored_chunks(spec: ArraySpec, values: npt.NDArray[Any], container: Container) -> list[bytes]:
    """One chunk of an array, or consecutive ones of a vector; called from several threads."""
    return chunk_streams(
        values if values.ndim == 1 else padded(values, spec.chunks),
        math.prod(spec.chunks),
        shuffle=spec.shuffled,
        wrapping=container.wrapping(spec),
    )


def grid_chunks(
    values: npt.NDArray[Any], chunks: tuple[int, ...]
) -> Iterator[tuple[Grid, npt.NDArray[Any]]]:
    """The chunks of an array in grid order, the last ones of an axis cut short."""
    counts = [range(-(-length // step)) for length, step in zip(values.shape, chunks, strict=True)]
    for grid in itertools.product(*counts):
        yield (
            grid,
            values[
                tuple(
                    slice(at * step, (at + 1) * step) for at, step in zip(grid, chunks, strict=True)
                )
            ],
        )


Runs = Iterator[list[tuple[bytes, ...]]]
"""Consecutive chunks of the arrays of a bundle; empty tuples for those that are stored already."""


def _runs(leaf: BundleLeaf, container: Container, encode: Encoder) -> Runs:
    specs = tuple(leaf.bundle.arrays.values())
    if is_whole(specs[0]):
        return iter(())
    places = zip(*map(chunk_grids, specs), strict=True)

    def placed() -> Iterator[tuple[list[tuple[Grid, ...]], tuple[npt.NDArray[Any], ...]]]:
        for arrays in leaf.bundle.produce():
            n_here = -(-arrays[0].size // math.prod(specs[0].chunks))
            yield list(itertools.islice(places, n_here)), arrays
            del arrays  # may be much, and the next ones are made meanwhile

    def stored(
        item: tuple[list[tuple[Grid, ...]], tuple[npt.NDArray[Any], ...]],
    ) -> list[tuple[bytes, ...]]:
        grids, arrays = item
        by_array = [
            stored_chunks(spec, values, container)
            for spec, values in zip(specs, arrays, strict=True)
        ]
        if not container.takes_any_order:
            return list(zip(*by_array, strict=True))
        for number, chunks in enumerate(by_array):
            for places_here, chunk in zip(grids, chunks, strict=True):
                container.put_chunk(leaf.paths[number], places_here[number], chunk)
        return [()] * len(grids)

    return encode(stored, placed())


def _begun(runs: Runs) -> Runs:
    """The same; the first ones are under way."""
    return itertools.chain(list(itertools.islice(runs, 1)), runs)


def _write_bundle(
    leaf: BundleLeaf, container: Container, runs: Runs, folder: Path, done: Callable[[int], None]
) -> None:
    """Write the first array as its chunks come; those of the others wait in a temporary file.

    Unless all have been stored where they were encoded.
    """
    specs = tuple(leaf.bundle.arrays.values())
    if is_whole(specs[0]):
        for path, spec in zip(leaf.paths, specs, strict=True):
            container.put_whole(path, np.zeros(spec.shape, spec.dtype))
            container.end_array(path)
        return
    with ExitStack() as stack:
        waiting = (
            []
            if container.takes_any_order
            else [
                WaitingChunks(stack.enter_context(tempfile.TemporaryFile(dir=folder)))
                for _ in specs[1:]
            ]
        )
        grids = chunk_grids(specs[0])
        for grid, chunks in zip(grids, itertools.chain.from_iterable(runs), strict=True):
            if chunks:
                container.put_chunk(leaf.paths[0], grid, chunks[0])
            for others, chunk in zip(waiting, chunks[1:], strict=True):
                others.append(chunk)
            done(1)
        container.end_array(leaf.paths[0])
        for number, (path, spec) in enumerate(zip(leaf.paths[1:], specs[1:], strict=True)):
            if waiting:
                for grid, chunk in zip(chunk_grids(spec), waiting[number].all(), strict=True):
                    container.put_chunk(path, grid, chunk)
                    done(0)
            container.end_array(path)


def chunk_grids(spec: ArraySpec) -> Iterator[Grid]:
    """The places of an array's chunks, in grid order."""
    return itertools.product(
        *(range(-(-length // step)) for length, step in zip(spec.shape, spec.chunks, strict=True))
    )


def n_chunks(spec: ArraySpec) -> int:
    """How many chunks an array has."""
    return sum(1 for _ in chunk_grids(spec))


class WaitingChunks:
    """Encoded chunks in a temporary file, in the order in which they came."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._lengths: list[int] = []

    def append(self, chunk: bytes) -> None:
        """Keep one more."""
        self._file.write(chunk)
        self._lengths.append(len(chunk))

    def all(self) -> Iterator[bytes]:
        """Every chunk, from the first on."""
        self._file.seek(0)
        for length in self._lengths:
            yield self._file.read(length)


def part_count(root: Group) -> int:
    """How many parts `write_layout` tells of: the chunks of a matrix, and each other array."""
    return sum(
        1 if isinstance(leaf, Leaf) else n_chunks(next(iter(leaf.bundle.arrays.values())))
        for leaf in leaves(root)
    )
