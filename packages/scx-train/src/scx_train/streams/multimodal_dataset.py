"""MultimodalTrainingDataset: the same cells of several modalities, batch by batch."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypeVar, cast

import numpy as np
import numpy.typing as npt

from scx_train import _arguments as arguments
from scx_train._arguments import Tail
from scx_train._given import one_path
from scx_train.inputs.modalities import Modalities, open_modalities
from scx_train.streams.batch import MultimodalBatch, matrix_of
from scx_train.streams.cell_stream import CellStream
from scx_train.streams.options import stream_options
from scx_train.streams.order import Rows
from scx_train.streams.pipelines import JointPipeline, PipelineShelf
from scx_train.streams.progress import digest
from scx_train.streams.transform import Transform

T = TypeVar("T")
Matrices = tuple[Any, ...]
Dtype = Literal["float32", "float16", "bfloat16"]


class MultimodalTrainingDataset(CellStream[Modalities, MultimodalBatch | Matrices]):
    """Batches of the cells of several modalities of one .scx file, in one order for all of them.

    It is to its modalities what `TrainingDataset` is to one matrix: the same order, the same cut
    into batches, the same rules for epochs, places in them, ranks, memory and `close`. Row i of
    every matrix of a batch is the same cell. **Values are normalised and logged by default**, each
    modality's by totals of its own; models of counts need `normalize=False, log1p=False`.

    Each batch is a dict:

    - `"X"`: for each modality a matrix of float32 or `dtype`, shape (cells,
      `n_output_genes[name]`).
    - `"measured"`: for each modality a boolean array of shape (cells,). Where it is False the
      modality has no such cell, and the row of its matrix is zero (with `pflog` too).
    - `"obs"`, `"cell_indices"` and, with `obsm`, `"obsm"`: as in a `TrainingDataset`.

    With `return_dict=False` a batch is a tuple: the matrices in the order of `modalities`, and
    behind them one dict of all else.

    The cells of an epoch are those that at least one of the modalities measured;
    `rows=dataset.measured["rna"] & dataset.measured["adt"]` streams those that both did. A file
    says which cells a modality measured if it was written by scx_core from modalities that share
    their cells in part. In other files every cell counts as measured, since nothing tells a cell
    without a measurement from one that is all zero.

    Parameters
    ----------
    path
        The file.
    modalities
        Names of modalities, in the order in which batches have them; None (default) for all.
    batch_size
        Cells in a batch, default 1024.
    hvg_indices
        A dict of panels by modality, as `TrainingDataset` takes one; a modality without an entry
        has all of its genes. None (default) for all genes of all.
    obs_columns, obsm
        Names of columns of obs and of embeddings that batches carry, default none: those of the
        file, or of one modality alone as `"modality:name"`, or by the name if no other has it.
        Cells that the modality lacks have code -1, or NaN in a column of floats.
    normalize, log1p, target_sum, pflog, pflog_alpha, source, layout, dtype
        As in `TrainingDataset`, for all modalities, or a dict by modality: those without an entry
        have the default.
    threads
        Decode threads of each modality; None (default) for one per CPU.
    shard_group_size, prefetch_batches, seed, shuffle, rows, drop_last, min_batch, tail, rank
        As in `TrainingDataset`.
    world_size, shard, num_shards, max_memory_mb, weights, balance_by, batch_by
        As in `TrainingDataset`; the limit on memory is one for all modalities together.
    return_dict
        False for tuples, default True.

    Raises
    ------
    KeyError
        There is no such modality, obs column, embedding or layer; the message lists those there
        are.
    TypeError, ValueError
        An argument is not valid, the file is not multimodal, or modalities differ in their shards.
    CorruptFileError, OSError
        As `TrainingDataset` does.

    Warns
    -----
    UserWarning
        As `TrainingDataset` does, for each modality.

    Examples
    --------
    >>> dataset = MultimodalTrainingDataset("cite.scx", ["rna", "adt"])  # doctest: +SKIP
    >>> for batch in dataset:  # doctest: +SKIP
    ...     loss = step(batch["X"]["rna"], batch["X"]["adt"], batch["measured"]["adt"])
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        modalities: Iterable[str] | None = None,
        batch_size: int = 1024,
        *,
        hvg_indices: Mapping[str, npt.ArrayLike] | None = None,
        obs_columns: Iterable[str] = (),
        normalize: bool | Mapping[str, bool] = True,
        log1p: bool | Mapping[str, bool] = True,
        target_sum: float | Mapping[str, float] = 1e4,
        shard_group_size: int = 8,
        prefetch_batches: int = 4,
        seed: int = 42,
        threads: int | None = None,
        shuffle: bool = True,
        rows: npt.ArrayLike | None = None,
        drop_last: bool = False,
        min_batch: int = 1,
        tail: Tail = "drop",
        rank: int | None = None,
        world_size: int | None = None,
        shard: int = 0,
        num_shards: int = 1,
        source: str | Mapping[str, str] = "X",
        obsm: Iterable[str] = (),
        pflog: bool | Mapping[str, bool] = False,
        pflog_alpha: float | Mapping[str, float | None] | None = None,
        layout: Literal["dense", "csr"] | Mapping[str, Literal["dense", "csr"]] = "dense",
        dtype: Dtype | Mapping[str, Dtype] = "float32",
        max_memory_mb: int | None = None,
        weights: npt.ArrayLike | None = None,
        balance_by: str | None = None,
        batch_by: str | None = None,
        return_dict: bool = True,
    ) -> None:
        options = stream_options(
            batch_size=batch_size,
            obs_columns=obs_columns,
            obsm=obsm,
            shard_group_size=shard_group_size,
            prefetch_batches=prefetch_batches,
            seed=seed,
            threads=threads,
            shuffle=shuffle,
            drop_last=drop_last,
            min_batch=min_batch,
            tail=tail,
            rank=rank,
            world_size=world_size,
            shard=shard,
            num_shards=num_shards,
            max_memory_mb=max_memory_mb,
            rows=rows,
            weights=weights,
            balance_by=balance_by,
            batch_by=batch_by,
        )
        self._return_dict = arguments.flag(return_dict, "return_dict")
        names = None
        if modalities is not None:
            names = arguments.column_names(modalities, "modalities", example=["rna", "adt"])
            if not names:
                raise ValueError("modalities is empty: pass None for all")
        of_source = _by_modality(source, "source", default="X")
        of_panel = _panels(hvg_indices)
        of_normalize = _by_modality(normalize, "normalize", default=True)
        of_log1p = _by_modality(log1p, "log1p", default=True)
        of_target = _by_modality(target_sum, "target_sum", default=1e4)
        of_pflog = _by_modality(pflog, "pflog", default=False)
        of_alpha = _by_modality(pflog_alpha, "pflog_alpha", default=None)
        of_layout = _by_modality(layout, "layout", default="dense")
        of_dtype: Callable[[str], str] = _by_modality(dtype, "dtype", default="float32")
        opened = open_modalities(one_path(path), names, of_source)
        self._names = tuple(opened.sources)
        for argument, value in {
            "source": source,
            "hvg_indices": hvg_indices,
            "normalize": normalize,
            "log1p": log1p,
            "target_sum": target_sum,
            "pflog": pflog,
            "pflog_alpha": pflog_alpha,
            "layout": layout,
            "dtype": dtype,
        }.items():
            _check_names(value, argument, self._names)
        transforms = {
            name: Transform.checked(
                normalize=of_normalize(name),
                log1p=of_log1p(name),
                target_sum=of_target(name),
                pflog=of_pflog(name),
                pflog_alpha=of_alpha(name),
                layout=of_layout(name),
                dtype=of_dtype(name),
            )
            for name in self._names
        }
        self._n_vars = {name: source.n_vars for name, source in opened.sources.items()}
        self._panels = {}
        self._transforms = {}
        for name, each in opened.sources.items():  # no comprehension: warnings count frames
            self._panels[name] = arguments.gene_panel(
                of_panel(name),
                n_vars=each.n_vars,
                argument=f"hvg_indices[{name!r}]",
                stacklevel=3,
            )
            self._transforms[name] = transforms[name].fitted(each, stacklevel=2)
        self._sources = {name: each.label for name, each in opened.sources.items()}
        self._measured = opened.measured
        self._var_names: dict[str, npt.NDArray[np.object_]] | None = None
        widths = self.n_output_genes
        demands = tuple(
            self._transforms[name].demand(each, n_output_genes=widths[name])
            for name, each in opened.sources.items()
        )
        masks_bytes = sum(mask.nbytes for mask in self._measured.values())
        super().__init__(
            opened, options, matrices=demands, metadata_bytes=masks_bytes, stacklevel=2
        )

    @property
    def modalities(self) -> list[str]:
        """Names of the modalities that are read, in their order."""
        return list(self._names)

    @property
    def measured(self) -> dict[str, npt.NDArray[np.bool_]]:
        """For each modality a mask over all rows of the file: which cells it has."""
        return {name: mask.copy() for name, mask in self._measured.items()}

    @property
    def n_vars(self) -> dict[str, int]:
        """How many genes each matrix has."""
        return dict(self._n_vars)

    @property
    def n_output_genes(self) -> dict[str, int]:
        """How many columns each matrix of a batch has."""
        return {
            name: self._n_vars[name] if panel is None else len(panel)
            for name, panel in self._panels.items()
        }

    @property
    def gene_indices(self) -> dict[str, npt.NDArray[np.int64]]:
        """For each modality the position in its var of each column."""
        return {
            name: np.arange(self._n_vars[name], dtype=np.int64)
            if panel is None
            else panel.astype(np.int64)
            for name, panel in self._panels.items()
        }

    @property
    def var_names(self) -> dict[str, npt.NDArray[np.object_]]:
        """For each modality the name of each column; the first use reads them from the file."""
        if self._var_names is None:
            found = {name: each.var_names() for name, each in self._reopened().sources.items()}
            self._var_names = {name: found[name][self.gene_indices[name]] for name in found}
        return {name: names.copy() for name, names in self._var_names.items()}

    @property
    def pflog_alpha(self) -> dict[str, float | None]:
        """The overdispersion that `pflog` uses, given or estimated; None without `pflog`."""
        return {name: transform.pflog_alpha for name, transform in self._transforms.items()}

    @property
    def _contents(self) -> str:
        widths = self.n_output_genes
        parts = []
        for name in self._names:
            of = "" if self._panels[name] is None else f" of {self._n_vars[name]}"
            matrix = "" if self._sources[name] == "X" else f"[{self._sources[name]}]"
            parts.append(f"{name}{matrix} {widths[name]}{of} genes")
        return f"{self._path!r}: {self.n_obs} cells × ({', '.join(parts)})"

    def _open_cells(self) -> Modalities:
        return open_modalities(self._path, self._names, self._sources.__getitem__)

    def _shelf_for(self, cells: Modalities) -> PipelineShelf:
        openers = {
            name: self._transforms[name].opener(
                each,
                panel=self._panels[name],
                batches=self._budget.demand.prefetch_batches,
                threads=self._options.threads,
            )
            for name, each in cells.sources.items()
        }
        return PipelineShelf(lambda: JointPipeline(openers))

    def _batch(self, values: Any, rows: Rows) -> MultimodalBatch | Matrices:
        matrices = {name: matrix_of(part) for name, part in values.items()}
        measured = {name: mask[rows] for name, mask in self._measured.items()}
        if not self._return_dict:
            return (*matrices.values(), self._with_obs({"measured": measured}, rows))
        batch = self._with_obs({"X": matrices, "measured": measured}, rows)
        return cast(MultimodalBatch, batch)

    @property
    def _matrix_settings(self) -> dict[str, Any]:
        indices = self.gene_indices
        settings = {"matrices": ", ".join(f"{name}/{self._sources[name]}" for name in self._names)}
        for name in self._names:
            own = {"hvg_indices": digest(indices[name].tobytes())}
            own.update(self._transforms[name].settings)
            settings.update({f"{key}[{name!r}]": value for key, value in own.items()})
        return settings


def _by_modality(value: T | Mapping[str, T], argument: str, *, default: T) -> Callable[[str], T]:
    """The value for a modality: one for all, or that of a dict, which may leave out some."""
    if not isinstance(value, Mapping):
        return lambda name: value
    return lambda name: value.get(name, default)


def _panels(value: Any) -> Callable[[str], Any]:
    if value is not None and not isinstance(value, Mapping):
        raise TypeError(
            "hvg_indices must be a dict of panels by modality, such as {'rna': [0, 5, 7]}, not "
            f"{type(value).__name__}: each modality has genes of its own"
        )
    return lambda name: None if value is None else value.get(name)


def _check_names(value: Any, argument: str, names: tuple[str, ...]) -> None:
    """KeyError for an entry of a modality that is not read."""
    for name in value if isinstance(value, Mapping) else ():
        if name not in names:
            raise KeyError(
                f"{argument} has an entry for {name!r}, but the modalities are {', '.join(names)}"
            )
