"""TrainingDataset: shuffled batches of one file or several, epoch after epoch."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt

from scx_core._genes import MIN_KNOWN_GENES, GeneMatch
from scx_train import _arguments as arguments
from scx_train._arguments import Tail
from scx_train._given import one_path_or_list
from scx_train.inputs.file_set import FileSet, file_options, matrix_of_each
from scx_train.inputs.source import Source, open_source
from scx_train.streams.batch import Batch, matrix_of
from scx_train.streams.cell_stream import CellStream
from scx_train.streams.one_matrix import OneMatrix
from scx_train.streams.options import stream_options
from scx_train.streams.order import Rows
from scx_train.streams.pipelines import PipelineShelf
from scx_train.streams.places import genes_of_files
from scx_train.streams.progress import digest
from scx_train.streams.transform import Transform


class TrainingDataset(OneMatrix, CellStream[Source | FileSet, Batch]):
    """Batches of the cells of one .scx file or several, shuffled unless `shuffle=False`.

    Each `for batch in dataset:` is one epoch: every cell once, in a new order, in batches that are
    full but for the last. **Values are normalised and logged by default**; models of counts need
    `normalize=False, log1p=False`.

    Each batch is a dict:

    - `"X"`: float32 or `dtype`, shape (cells, `n_output_genes`); a numpy array, or with
      `layout="csr"` a `scipy.sparse.csr_matrix`.
    - `"obs"`: for each of `obs_columns` an int64 or float64 array, or for a categorical
      `{"codes": int32 array, "categories": list of str}` with code -1 for a gap. Text becomes a
      categorical with sorted labels, booleans become int64, numbers and booleans with gaps become
      float64 with NaN.
    - `"cell_indices"`: int64, the cells' rows in the file; those of several files are numbered on
      from one to the next, as everything else is that speaks of rows (see `row_offsets`).
    - `"obsm"`, only with `obsm`: for each of its names an array of shape (cells, dimensions).
    - `"file_ids"`, only with a list of files: int32, which of them each cell is of.
    - `"measured"`, likewise: bool of shape (files, `n_output_genes`), read-only, which genes each
      file has at all, so that `measured[file_ids]` tells "not measured" from zero.

    Batches may be kept: the memory of `X` is used again only when nothing refers to it any more.

    The order of an epoch follows from the file's shards, `seed`, the number of the epoch and
    `shard_group_size` alone; the threads and the time they take do not matter. The shards are
    shuffled and cut into groups, and the rows of a group are shuffled together, so a file that is
    sorted by some label mixes as far as a group reaches. The exact rule stands in
    `scx_train.streams.order`.

    Every `iter(dataset)` begins the next epoch. An iterator that is dropped half-way leaves no
    trace; two at the same time are two epochs, each with threads and buffers of its own.

    Several processes that train together share the cells of an epoch: with `rank` and `world_size`
    each gets batches of its own, all of them the same number, no cell twice.
    `scx_train.streams.cutting` says which.

    Parameters
    ----------
    path
        The file, or a list of files that are one data set; a folder stands for its .scx files by
        name, and so does a pattern such as "part-*.scx" (`**` reaches into folders), also in a
        list: `paths` has the files. They need the same genes in the same order, or `genes`. Their
        obs columns share their labels' codes; a column that holds labels in one file and numbers in
        another is refused.
    batch_size
        Cells in a batch, default 1024.
    hvg_indices
        Positions in var of the genes to keep, whole numbers in any integer dtype; None (default)
        for all. The columns of `X` are in ascending order of the position, each once: other input
        warns. Totals for `normalize` are taken over all genes all the same.
    obs_columns
        Names of the obs columns that batches carry, default none.
    normalize
        Scale each cell to `target_sum`, default True.
    log1p
        Take the natural logarithm of 1 + value, default True. Negative values and NaN count as 0.
    target_sum
        Total of a scaled cell, default 1e4.
    shard_group_size
        Shards that are shuffled together, default 8. More mix better; fewer need less of the file
        in the page cache at once.
    prefetch_batches
        Batches that are made ahead, default 4. Each takes `batch_size * n_output_genes * 4` bytes.
    seed
        0 to 2**64 - 1, default 42.
    threads
        Decode threads, at most 64; None (default) for one per CPU that the process may use.
    shuffle
        False for the cells in the order of the file, default True.
    rows
        Rows of the file to stream: whole numbers, each once, or a boolean mask over all rows. Rows
        that are marked as deleted never come: a mask may be true there, a number of one is refused.
        None
        (default) for all. They need no order; `shuffle` says in which they come.
    drop_last
        Leave out the tail, the cells at the end of an epoch that do not fill a batch (of every
        rank), default False.
    min_batch
        Cells that the tail needs to be a batch of its own, 1 to `batch_size`, default 1.
    tail
        What happens to a tail that is shorter: "drop" (default) leaves it out, "merge" adds it to
        the batch before it (where there is none, it is a batch), "keep" makes it a batch. A batch
        that a tail is merged into may have nearly twice the cells, and memory is counted for it.
    rank, world_size
        Which of how many processes that share an epoch; rank 0 to `world_size - 1`. None (default)
        takes them from torch.distributed where it is initialised, else one process. The tail is
        divided evenly; with fewer cells in it than processes it is left out unless it is merged.
    shard, num_shards
        Which of how many workers that share the batches of this process, default 0 of 1: worker
        `shard` gets batches `shard`, `shard + num_shards`, ...
    modality
        Which modality of a multimodal file; its cells alone are streamed. None (default) takes the
        first by the alphabet and warns. Without meaning in other files.
    source
        Which matrix: "X" (default), "layers/NAME", or "raw", which has genes of its own. Of several
        files also a list with one for each, or a dict by file, such as `{"b.scx": "raw"}`, in which
        "X" may be left out.
    obsm
        Names of embeddings that batches carry, default none.
    pflog
        Take the shifted logarithm of counts instead of `normalize` and `log1p`, which then do not
        matter: `ln(1 + 4 a v)` less the mean of that over all genes of the cell, also under
        `hvg_indices`. Absent genes get the negative mean. Default False.
    pflog_alpha
        The overdispersion a, positive. None (default) estimates it from the counts when the data
        set is built, as `scx_train.inputs.counts.overdispersion` says; the property tells it.
    layout
        "dense" (default), or "csr" for `X` as a `scipy.sparse.csr_matrix` of the same values, with
        int32 indices. Needs scipy, and excludes `pflog`, which leaves no value at zero.
    dtype
        What dense batches hold: "float32" (default), "float16", or "bfloat16", which numpy knows
        only as the uint16 of its bits (as torch tensors both are of the right type). Values are
        worked out in float32 and rounded to the nearest at the end, ties to even; what is beyond
        float16 becomes infinite, so counts above 65504 need one of the others. It halves the memory
        of batches and what a copy to a device moves.
    max_memory_mb
        What the data set may take beside the map of the file, in units of 2**20 bytes. Where it is
        too little, first `prefetch_batches` goes down to 2, then `shard_group_size` to 1, then
        `batch_size` is halved down to 64, as far as it takes; the order of the cells stays that of
        the `shard_group_size` asked for, and only reading ahead is reduced. None (default) stands
        for what the arguments take, but at least 512 and at most 4096.
    weights
        A weight for each row of the file, not negative: an epoch then draws as many cells as there
        are with replacement, each by its weight, so that some come several times and others not at
        all. None (default) for every cell once.
    balance_by
        An obs column of labels (categorical, text, whole numbers or booleans, also with gaps):
        draws as with `weights`, every label equally often; cells without a label never come.
    batch_by
        An obs column: each batch has cells of one label alone, every cell once; cells without a
        label are a label of their own. `min_batch`, `tail` and `drop_last` hold for each label.
    genes
        How the genes of several files are matched by name: "intersection" for those that all files
        have, in the order of the first; "union" for all of them, those of the first file first; or
        a list of names, in the order wanted. Versions of Ensembl ids do not count
        (`ENSG00000000003.15` is `ENSG00000000003`); raw values of genes of a file that so get one
        name are added. A gene without an id is left out: its entry is missing or blank, or one of
        the texts "nan", "NaN", "None", "<NA>" and "NA" that Python and R write for a missing one.
        Totals for `normalize` and PFlog's mean are over all genes that a file stores all the same.
        `hvg_indices` are positions among the common genes. None (default): the files must agree.
    gene_key
        The column of var to match genes by; None (default) for its index, the names.
    min_known_genes
        A file is refused where a smaller share of its genes is known: to any other file, or to the
        list of `genes`; or, if that is more, where it has a smaller share of theirs. 0 to 1,
        default 0.5; `gene_matches` tells it.
    allow_repeated_files
        Take a list that has a file twice, whose cells then come twice; default False: it is
        refused, also where one of the names is a link.

    Raises
    ------
    TypeError, ValueError
        An argument is not valid, the panel or `rows` names what is not there, or the file has no
        such matrix. Where several files are at fault the message names all of them, and the error
        is of the kind of the first.
    KeyError
        There is no such obs column, embedding, layer or modality; the message lists those there
        are.
    CorruptFileError
        The file is damaged or cut off. Damage in a row shows when its batch is due.
    OSError
        The file cannot be opened.

    Warns
    -----
    UserWarning
        `hvg_indices` is not ascending and distinct, the file is multimodal and no modality was
        named, values that are no counts (negative, or no whole numbers) are normalised, no file has
        a gene of `genes`, "intersection" leaves a smaller share of the genes of the file with most
        than `min_known_genes`, or `max_memory_mb` makes batches smaller or is too little even so.

    Notes
    -----
    A data set works in the process that built it. In another one (a worker of a DataLoader)
    iterating is a RuntimeError: use `num_workers=0`, or build the data set in the worker.

    Examples
    --------
    >>> dataset = TrainingDataset("atlas.scx", obs_columns=["cell_type"])  # doctest: +SKIP
    >>> for epoch in range(3):  # doctest: +SKIP
    ...     for batch in dataset:
    ...         loss = step(batch["X"], batch["obs"]["cell_type"]["codes"])
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        batch_size: int = 1024,
        *,
        hvg_indices: npt.ArrayLike | None = None,
        obs_columns: Iterable[str] = (),
        normalize: bool = True,
        log1p: bool = True,
        target_sum: float = 1e4,
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
        modality: str | None = None,
        source: str | Sequence[str] | Mapping[str, str] = "X",
        obsm: Iterable[str] = (),
        pflog: bool = False,
        pflog_alpha: float | None = None,
        layout: Literal["dense", "csr"] = "dense",
        dtype: Literal["float32", "float16", "bfloat16"] = "float32",
        max_memory_mb: int | None = None,
        weights: npt.ArrayLike | None = None,
        balance_by: str | None = None,
        batch_by: str | None = None,
        genes: Literal["intersection", "union"] | Sequence[str] | None = None,
        gene_key: str | None = None,
        min_known_genes: float = MIN_KNOWN_GENES,
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
        transform = Transform.checked(
            normalize=normalize,
            log1p=log1p,
            target_sum=target_sum,
            pflog=pflog,
            pflog_alpha=pflog_alpha,
            layout=layout,
            dtype=dtype,
        )
        modality = None if modality is None else arguments.text(modality, "modality")
        paths = one_path_or_list(path)
        self._files = file_options(
            paths,
            source=source,
            modality=modality,
            genes=genes,
            gene_key=gene_key,
            min_known_genes=min_known_genes,
            allow_repeated_files=allow_repeated_files,
        )
        opened: Source | FileSet
        if isinstance(paths, str):
            matrix = arguments.text(source, "source")
            opened = open_source(paths, source=matrix, modality=modality, warns=True)
        else:
            assert self._files is not None
            opened = self._files.open(warns=True)
        self._keep_matrix(
            n_vars=opened.n_vars,
            panel=arguments.gene_panel(hvg_indices, n_vars=opened.n_vars),
            transform=transform.fitted(opened),
            modality=None if opened.modality is None else opened.modality.name,
            source=opened.label,
        )
        self._genes = genes_of_files(opened, self._panel)
        self._var_names: npt.NDArray[np.object_] | None = None
        demand = self._transform.demand(opened, n_output_genes=self.n_output_genes)
        super().__init__(
            opened,
            options,
            matrices=(demand,),
            metadata_bytes=opened.metadata_bytes if isinstance(opened, FileSet) else 0,
        )

    @property
    def var_names(self) -> npt.NDArray[np.object_]:
        """The name of each column of `X`; the first use reads them from the file."""
        if self._var_names is None:
            names = self._reopened().var_names()
            self._var_names = names if self._panel is None else names[self._panel]
        return self._var_names.copy()

    @property
    def gene_matches(self) -> tuple[GeneMatch, ...]:
        """How well the genes of each of several files fit; empty for a single path."""
        return self._genes.matches

    @property
    def measured(self) -> npt.NDArray[np.bool_]:
        """bool, shape (files, `n_output_genes`): which genes each file has at all. Read-only."""
        return self._genes.measured

    @property
    def _contents(self) -> str:
        return self._shown(self._path, self.n_obs, self._genes.n_genes_max)

    @property
    def _matrix(self) -> str:
        """Which one is read, of several files of each where they differ."""
        if self._files is None:
            return self._source_label
        return matrix_of_each(self._files.sources)

    def _open_cells(self) -> Source | FileSet:
        if self._files is not None:
            return self._files.open()
        return open_source(self._path, source=self._source_label, modality=self._modality)

    def _shelf_for(self, cells: Source | FileSet) -> PipelineShelf:
        return PipelineShelf(
            self._transform.opener(
                cells,
                panel=self._panel,
                batches=self._budget.demand.prefetch_batches,
                threads=self._options.threads,
            )
        )

    def _batch(self, values: Any, rows: Rows) -> Batch:
        batch = self._with_obs({"X": matrix_of(values)}, rows)
        if self._files is not None:
            batch["measured"] = self._genes.measured
        return cast(Batch, batch)

    @property
    def _matrix_settings(self) -> dict[str, Any]:
        where = "" if self._modality is None else f"{self._modality}/"
        return {
            "matrix": where + self._matrix,
            "genes": self._genes.digest,
            "hvg_indices": digest(self.gene_indices.tobytes()),
            **self._transform.settings,
        }
