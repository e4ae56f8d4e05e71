"""What a job does: enough for any process to make any shard of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from .._bins import Tie
from .._contract import CONTRACT_VERSION
from .._rank import norm_identity
from .._sample import SampleWeight
from ._cells import InputKind
from ._vocabulary import Vocabulary

KernelName = Literal["rank", "bin", "sample"]
Transform = Literal["pass_through", "log1p_raw", "normalize_log1p"]


@dataclass(frozen=True)
class RankOptions:
    """Of `rank_tokens`; `l_max` counts special tokens too."""

    l_max: int
    target_sum: float


@dataclass(frozen=True)
class BinOptions:
    """Of `bin_values`; `l_max` counts special tokens too."""

    l_max: int
    n_bins: int
    tie: Tie
    seed: int
    edges: tuple[float, ...] | None
    transform: Transform
    target_sum: float
    include_zero_genes: bool


@dataclass(frozen=True)
class SampleOptions:
    """Of `sample_genes`."""

    n: int
    weight: SampleWeight
    seed: int


Options: TypeAlias = RankOptions | BinOptions | SampleOptions


@dataclass(frozen=True)
class Framing:
    """Tokens around those of a cell, by their names in the vocabulary; None for none.

    Attributes
    ----------
    cls, eos
        In front and behind.
    pad
        What fills up to the longest length; None leaves cells as long as they are.
    """

    cls: str | None = None
    eos: str | None = None
    pad: str | None = None

    @property
    def n_around(self) -> int:
        """Tokens in front and behind."""
        return (self.cls is not None) + (self.eos is not None)


@dataclass(frozen=True, eq=False)
class InputFile:
    """One file of a job, as it was when the job was planned.

    Attributes
    ----------
    path, kind
        The file.
    size, time
        Of the file: bytes, and nanoseconds of its last change.
    identity
        What stands for its content, hexadecimal.
    turned
        A .scx file with the same rows, for an .h5ad whose matrix is not in CSR; else None.
    n_cells
        Cells that are taken.
    places
        int32, the place of each gene in the vocabulary, -1 for none; None for each as itself.
    n_genes, n_known, n_merged, share_known
        How its genes fit the vocabulary, see `GeneMatch`.
    has_fractions
        Whether its first cells have values that are no counts.
    """

    path: str
    kind: InputKind
    size: int
    time: int
    identity: str
    turned: str | None
    n_cells: int
    places: npt.NDArray[np.int32] | None
    n_genes: int
    n_known: int
    n_merged: int
    share_known: float
    has_fractions: bool

    @property
    def draw_identity(self) -> int:
        """What stands for the file in draws: the first 8 bytes of its identity, little-endian."""
        return int.from_bytes(bytes.fromhex(self.identity)[:8], "little")


@dataclass(frozen=True, eq=False)
class Job:
    """Everything that tokens depend on. It can be pickled.

    Attributes
    ----------
    kernel, options
        What is made of each cell.
    vocabulary, framing
        Which tokens there are.
    files
        The inputs; `file_id` in the tokens counts them.
    source, modality
        Which matrix of each file.
    obs_filter
        The expression that cells have to meet; None takes all.
    obs_types
        The columns of obs that are kept, and their types in Arrow.
    folder
        Where the results lie.
    shard_rows
        Cells of a shard; the last one of a file may have fewer.
    takes_counts
        The model that needs raw counts; None where other values are as well.
    """

    kernel: KernelName
    options: Options
    vocabulary: Vocabulary
    framing: Framing
    files: tuple[InputFile, ...]
    source: str
    modality: str | None
    obs_filter: str | None
    obs_types: Mapping[str, Any]
    folder: str
    shard_rows: int
    takes_counts: str | None

    @property
    def data_folder(self) -> Path:
        """Where the shards lie."""
        return Path(self.folder) / "data"

    @property
    def n_cells(self) -> int:
        """Cells of all files."""
        return sum(file.n_cells for file in self.files)

    @cached_property
    def tasks(self) -> tuple[Task, ...]:
        """The shards that the job consists of, in the order of the files."""
        ranges = [
            (file_id, start, min(file.n_cells, start + self.shard_rows))
            for file_id, file in enumerate(self.files)
            for start in range(0, file.n_cells, self.shard_rows)
        ]
        return tuple(
            Task(number, file_id, start, stop, len(ranges))
            for number, (file_id, start, stop) in enumerate(ranges)
        )

    def described(self) -> dict[str, Any]:
        """What the tokens depend on, as JSON values: equal for jobs that give equal shards."""
        vocabulary = self.vocabulary
        norm = None
        if vocabulary.statistics is not None:
            norm = f"{norm_identity(vocabulary.statistics, vocabulary.digest):016x}"
        return {
            "kernel": self.kernel,
            "contract_version": CONTRACT_VERSION,
            "options": asdict(self.options),
            "special_tokens": asdict(self.framing),
            "vocabulary": {
                "identity": vocabulary.digest,
                "n_genes": len(vocabulary),
                "norm_identity": norm,
            },
            "source": self.source,
            "modality": self.modality,
            "obs_filter": self.obs_filter,
            "obs_columns": {name: str(kind) for name, kind in self.obs_types.items()},
            "shard_rows": self.shard_rows,
            "inputs": [{"identity": file.identity, "n_cells": file.n_cells} for file in self.files],
            "genes": [_digest(file.places) for file in self.files],
        }

    @cached_property
    def identity(self) -> str:
        """The hash of `described()`, hexadecimal."""
        text = json.dumps(self.described(), sort_keys=True)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True)
class Task:
    """One shard: cells `start` to `stop` of those that are taken of a file."""

    number: int
    file_id: int
    start: int
    stop: int
    n_tasks: int

    @property
    def n_cells(self) -> int:
        """How many cells."""
        return self.stop - self.start

    @property
    def file_name(self) -> str:
        """Of the shard."""
        return f"tokens-{self.number:05d}-of-{self.n_tasks:05d}.parquet"


def _digest(places: npt.NDArray[np.int32] | None) -> str | None:
    if places is None:
        return None
    return hashlib.sha256(places.astype("<i4").tobytes()).hexdigest()[:16]
