"""MultimodalTrainingDataset: the same cells of several modalities, batch by batch."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt

from scx_core._genes import MIN_KNOWN_GENES, GeneMatch
from scx_train import _arguments as arguments
from scx_train._arguments import Tail
from scx_train._by_modality import ByModality, matchings, panels
from scx_train._given import one_path_or_list
from scx_train.inputs.file_set import matrix_of_each
from scx_train.inputs.modalities import Modalities
from scx_train.inputs.modality_set import ModalitySet, modality_options
from scx_train.streams.batch import MultimodalBatch, matrix_of
from scx_train.streams.cell_stream import CellStream
from scx_train.streams.options import stream_options
from scx_train.streams.order import Rows
from scx_train.streams.pipelines import JointPipeline, PipelineShelf
from scx_train.streams.places import genes_of_files
from scx_train.streams.progress import digest
from scx_train.streams.transform import Transform

Dtype = Literal["float32", "float16", "bfloat16"]
Matching = Literal["intersection", "union"]


class MultimodalTrainingDataset(CellStream[Modalities | ModalitySet, MultimodalBatch | Any]):
    """Batches of the cells of several modalities of .scx files, in one order for all of them.

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
    - `"file_ids"`, only with a list of files: int32, which of them each cell is of.
    - `"measured_genes"`, likewise: for each modality bool of shape (files, `n_output_genes[name]`),
      read-only, which columns each file has at all. What was not measured for a cell is what either
      of the two denies: `measured[name][:, None] & measured_genes[name][file_ids]`.

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
        The file, or a list of files, a folder or a pattern (see `TrainingDataset`) that are one
        data set, each with all of the modalities. Their
        rows are numbered on from one to the next (see `row_offsets`), and the labels of their obs
        columns share their codes. Each modality needs the same genes in the same order in all
        files, or `genes`.
    modalities
        Names of modalities, in the order in which batches have them; None (default) for all, which
        are then to be the same in all files.
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
        have the default. A `source` by file, too, stands in a dict by modality if it is a dict.
    threads
        Decode threads of each modality; None (default) for one per CPU.
    shard_group_size, prefetch_batches, seed, shuffle, rows, drop_last, min_batch, tail, rank
        As in `TrainingDataset`.
    world_size, shard, num_shards, max_memory_mb, weights, balance_by, batch_by
        As in `TrainingDataset`; the limit on memory is one for all modalities together.
    return_dict
        False for tuples, default True.
    genes
        How the genes of several files are matched by name, each modality by itself, as
        `TrainingDataset` does it: "intersection" or "union" for all modalities, or a dict by
        modality, whose entries may be lists of names too. None (default), and what a dict leaves
        out: the files must agree. `hvg_indices` are positions among the common genes.
    gene_key, min_known_genes
        As in `TrainingDataset`, for all modalities, or a dict by modality. `gene_matches` tells the
        shares of known genes.
    allow_repeated_files
        As in `TrainingDataset`.

    Raises
    ------
    KeyError
        A file has no such modality, obs column, embedding or layer; the message names it, and lists
        those there are.
    TypeError, ValueError
        An argument is not valid, a file is not multimodal, modalities differ in their shards within
        a file, or in their genes between files.
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
        path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
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
        source: str | Sequence[str] | Mapping[str, str | Sequence[str] | Mapping[str, str]] = "X",
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
        genes: Matching | Mapping[str, Matching | Sequence[str] | None] | None = None,
        gene_key: str | Mapping[str, str | None] | None = None,
        min_known_genes: float | Mapping[str, float] = MIN_KNOWN_GENES,
        allow_repeated_files: bool = False,
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
            arguments.listed(modalities, "modalities", example=("rna", "adt"))
            names = arguments.column_names(modalities, "modalities", example=("rna", "adt"))
            if not names:
                raise ValueError("modalities is empty: pass None for all")
        of_source = ByModality[Any](source, "source", default="X")
        of_panel = panels(hvg_indices)
        of_transform = {
            name: ByModality[Any](value, name, default=default)
            for name, value, default in (
                ("normalize", normalize, True),
                ("log1p", log1p, True),
                ("target_sum", target_sum, 1e4),
                ("pflog", pflog, False),
                ("pflog_alpha", pflog_alpha, None),
                ("layout", layout, "dense"),
                ("dtype", dtype, "float32"),
            )
        }
        of_genes = {
            "genes": matchings(genes),
            "gene_key": ByModality[Any](gene_key, "gene_key", default=None),
            "min_known_genes": ByModality[Any](
                min_known_genes, "min_known_genes", default=MIN_KNOWN_GENES
            ),
        }
        self._files = modality_options(
            one_path_or_list(path),
            names,
            source=of_source,
            of_genes=of_genes,
            allow_repeated_files=allow_repeated_files,
        )
        opened = self._files.open(warns=True)
        self._names = tuple(opened.sources)
        for of in (of_source, of_panel, *of_transform.values(), *of_genes.values()):
            of.check(self._names)
        self._files = replace(self._files, names=self._names)
        transforms = {
            name: Transform.checked(**{key: of(name) for key, of in of_transform.items()})
            for name in self._names
        }
        self._n_vars = {name: source.n_vars for name, source in opened.sources.items()}
        self._panels = {}
        self._transforms = {}
        for name, each in opened.sources.items():
            self._panels[name] = arguments.gene_panel(
                of_panel(name),
                n_vars=each.n_vars,
                argument=f"hvg_indices[{name!r}]",
            )
            self._transforms[name] = transforms[name].fitted(each)
        self._sources = {name: each.label for name, each in opened.sources.items()}
        self._measured = opened.measured
        self._genes = {
            name: genes_of_files(each, self._panels[name]) for name, each in opened.sources.items()
        }
        self._var_names: dict[str, npt.NDArray[np.object_]] | None = None
        widths = self.n_output_genes
        demands = tuple(
            self._transforms[name].demand(each, n_output_genes=widths[name])
            for name, each in opened.sources.items()
        )
        metadata_bytes = sum(mask.nbytes for mask in self._measured.values())
        if isinstance(opened, ModalitySet):
            metadata_bytes += opened.metadata_bytes
        super().__init__(opened, options, matrices=demands, metadata_bytes=metadata_bytes)

    @property
    def modalities(self) -> list[str]:
        """Names of the modalities that are read, in their order."""
        return list(self._names)

    @property
    def measured(self) -> dict[str, npt.NDArray[np.bool_]]:
        """For each modality a mask over all rows of the file or files: which cells it has."""
        return {name: mask.copy() for name, mask in self._measured.items()}

    @property
    def measured_genes(self) -> dict[str, npt.NDArray[np.bool_]]:
        """For each modality which columns each file has at all.

        bool, shape (files, `n_output_genes[name]`), read-only.
        """
        return {name: genes.measured for name, genes in self._genes.items()}

    @property
    def gene_matches(self) -> dict[str, tuple[GeneMatch, ...]]:
        """For each modality how well each of several files fits; empty for a single path."""
        return {name: genes.matches for name, genes in self._genes.items()}

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
        """For each modality the position of each column in its var, or among the common genes."""
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
            n_genes = max(self._n_vars[name], self._genes[name].n_genes_max)
            has_all = self._panels[name] is None and widths[name] >= n_genes
            of = "" if has_all else f" of {n_genes}"
            matrix = "" if self._sources[name] == "X" else f"[{self._sources[name]}]"
            parts.append(f"{name}{matrix} {widths[name]}{of} genes")
        return f"'{self._path}': {self.n_obs} cells × ({', '.join(parts)})"

    def _open_cells(self) -> Modalities | ModalitySet:
        return self._files.open()

    def _shelf_for(self, cells: Modalities | ModalitySet) -> PipelineShelf:
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

    def _batch(self, values: Any, rows: Rows) -> MultimodalBatch | Any:
        matrices = {name: matrix_of(part) for name, part in values.items()}
        batch: dict[str, Any] = {"X": matrices} if self._return_dict else {}
        batch["measured"] = {name: mask[rows] for name, mask in self._measured.items()}
        self._with_obs(batch, rows)
        if self._has_list:
            batch["measured_genes"] = self.measured_genes
        return cast(MultimodalBatch, batch) if self._return_dict else (*matrices.values(), batch)

    @property
    def _matrix_settings(self) -> dict[str, Any]:
        indices = self.gene_indices
        matrices = {name: matrix_of_each(self._files.sources(name)) for name in self._names}
        settings = {"matrices": ", ".join(f"{name}/{matrices[name]}" for name in self._names)}
        for name in self._names:
            own = {
                "genes": self._genes[name].digest,
                "hvg_indices": digest(indices[name].tobytes()),
                **self._transforms[name].settings,
            }
            settings.update({f"{key}[{name!r}]": value for key, value in own.items()})
        return settings
