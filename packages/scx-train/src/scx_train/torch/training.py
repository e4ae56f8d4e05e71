"""The iterables over `TrainingDataset` and `MultimodalTrainingDataset`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from scx_core._genes import GeneMatch
from scx_train.streams.multimodal_dataset import MultimodalTrainingDataset
from scx_train.streams.training_dataset import TrainingDataset
from scx_train.torch.iterable import DatasetIterable


class TrainingIterable(DatasetIterable):
    """The batches of a `TrainingDataset` as torch tensors, for `DataLoader(..., batch_size=None)`.

    It holds arguments only, so it can be sent to workers of any start method; each builds a data
    set of its own. All workers (and ranks) together give every cell once an epoch, in a new order
    each epoch, with and without `persistent_workers`. Since the workers are asked in turn, the
    batches and their order are those of `num_workers=0`.

    Workers are rarely needed: decoding happens in threads in any case, and a batch that comes from
    a worker is copied once more. They help where a `collate_fn` of your own is slow.

    A batch is a dict as `TrainingDataset` describes it, with tensors in place of arrays that share
    their memory: `batch["X"]` is float32 (or `dtype`) of shape (cells, genes), codes are int32,
    `cell_indices` int64. With `layout="csr"` `X` is a sparse CSR tensor. Labels stay a list of str.
    Each batch has a `measured` of its own, a copy, since tensors can be written to.

    The rank is that of torch.distributed where it is initialised when an epoch begins, unless
    `rank` and `world_size` say otherwise.

    Parameters
    ----------
    path
        The file, or a list of files, a folder or a pattern (see `TrainingDataset`).
    batch_size
        Cells in a batch, default 1024.
    **options
        Those of `TrainingDataset` but for `shard` and `num_shards`, which the workers decide.
        `threads` counts for each worker; without it the workers divide the CPUs among them.

    Raises
    ------
    TypeError, ValueError, KeyError, OSError, CorruptFileError
        As `TrainingDataset` does, when the iterable is built.

    Examples
    --------
    >>> cells = TrainingIterable("atlas.scx", obs_columns=["cell_type"])  # doctest: +SKIP
    >>> loader = DataLoader(cells, batch_size=None, num_workers=2)  # doctest: +SKIP
    >>> for epoch in range(3):  # doctest: +SKIP
    ...     for batch in loader:
    ...         loss = step(batch["X"], batch["obs"]["cell_type"]["codes"].long())
    """

    _DATASET = TrainingDataset

    def __init__(
        self,
        path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        batch_size: int = 1024,
        **options: Any,
    ) -> None:
        super().__init__(path, {"batch_size": batch_size, **options})

    @property
    def var_names(self) -> npt.NDArray[np.object_]:
        """The name of each column of `X`; each use reads them from the file."""
        names: npt.NDArray[np.object_] = self._var_names()
        return names

    @property
    def gene_matches(self) -> tuple[GeneMatch, ...]:
        """How well the genes of each of several files fit; empty for a single path."""
        matches: tuple[GeneMatch, ...] = self._gene_matches
        return matches

    @property
    def n_vars(self) -> int:
        """How many genes there are."""
        return int(self._n_vars)

    @property
    def n_output_genes(self) -> int:
        """How many columns the `X` of a batch has."""
        return int(self._n_output_genes)


class MultimodalTrainingIterable(DatasetIterable):
    """The batches of a `MultimodalTrainingDataset` as torch tensors, for a DataLoader.

    All that `TrainingIterable` says of workers, ranks and epochs holds here. A batch is that of the
    data set with tensors in place of arrays: `batch["X"][name]` is float32 (or `dtype`),
    `batch["measured"]` bool; with `return_dict=False` it is a tuple.

    Parameters
    ----------
    path
        The file, or a list of files, a folder or a pattern (see `TrainingDataset`).
    modalities
        Names of modalities; None (default) for all.
    batch_size
        Cells in a batch, default 1024.
    **options
        Those of `MultimodalTrainingDataset` but for `shard` and `num_shards`, which the workers
        decide. `threads` counts for each modality and worker.

    Raises
    ------
    TypeError, ValueError, KeyError, OSError, CorruptFileError
        As `MultimodalTrainingDataset` does, when the iterable is built.

    Examples
    --------
    >>> cells = MultimodalTrainingIterable("cite.scx", ["rna", "adt"])  # doctest: +SKIP
    >>> for batch in DataLoader(cells, batch_size=None):  # doctest: +SKIP
    ...     loss = step(batch["X"]["rna"], batch["X"]["adt"])
    """

    _DATASET = MultimodalTrainingDataset

    def __init__(
        self,
        path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        modalities: Iterable[str] | None = None,
        batch_size: int = 1024,
        **options: Any,
    ) -> None:
        super().__init__(path, {"modalities": modalities, "batch_size": batch_size, **options})

    @property
    def var_names(self) -> dict[str, npt.NDArray[np.object_]]:
        """For each modality the name of each column; each use reads them from the file."""
        names: dict[str, npt.NDArray[np.object_]] = self._var_names()
        return names

    @property
    def gene_matches(self) -> dict[str, tuple[GeneMatch, ...]]:
        """For each modality how well each of several files fits; empty for a single path."""
        return dict(self._gene_matches)

    @property
    def n_vars(self) -> dict[str, int]:
        """How many genes each matrix has."""
        return dict(self._n_vars)

    @property
    def n_output_genes(self) -> dict[str, int]:
        """How many columns each matrix of a batch has."""
        return dict(self._n_output_genes)
