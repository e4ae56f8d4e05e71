"""What a data module reads: its files, and the iterables over their cells."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt

from scx_core._genes import MIN_KNOWN_GENES, without_version
from scx_train._warn import told_before, warn
from scx_train.inputs.file_set import FileSet, file_options
from scx_train.inputs.source import Source, open_source
from scx_train.lightning.scvi_columns import Rows
from scx_train.lightning.scvi_setup import TrainedSetup
from scx_train.streams.places import FileGenes, FilePlaces
from scx_train.streams.training_dataset import TrainingDataset
from scx_train.torch import TrainingIterable

FILE_DEFAULTS = {
    "source": "X", "modality": None, "genes": None, "gene_key": None,
    "min_known_genes": MIN_KNOWN_GENES, "allow_repeated_files": False,
}  # fmt: skip
# With less of a model's genes scvi-tools warns as well.
SHARE_OF_GENES = 0.8
# They say which cells make a batch of training; all cells are validated and predicted.
TRAINING_ONLY = ("drop_last", "min_batch", "tail", "shuffle", "weights", "balance_by", "batch_by")


class FilesOfModule(FilePlaces):
    """The part of `ScxDataModule` that opens its files, as they were when it was built."""

    _path: Any
    _content: str
    _batch_size: int
    _options: Mapping[str, Any]
    _genes: FileGenes
    var_names: npt.NDArray[np.object_]

    def _training_iterable(self, rows: Rows) -> TrainingIterable:
        """Batches of these cells as training has them."""
        options = dict(self._options)
        if self._merges_tails:
            options.update(min_batch=2, tail="merge")
        return self._iterable(self._batch_size, rows=rows, **options)

    @property
    def _merges_tails(self) -> bool:
        """Whether a tail of one cell is merged into the batch before it."""
        return self._batch_size > 1 and not {"min_batch", "tail"} & self._options.keys()

    def _in_file_order(
        self, rows: Rows, batch_size: int | None = None, **place: int
    ) -> TrainingIterable:
        """Each of these cells once, in the order of the file."""
        options = {key: self._options[key] for key in self._options.keys() - set(TRAINING_ONLY)}
        return self._iterable(
            self._batch_size if batch_size is None else batch_size,
            rows=rows,
            shuffle=False,
            tail="merge",  # of fewer cells than processes, which would be left out otherwise
            **{**options, **place},
        )

    def _iterable(self, batch_size: int, **options: Any) -> TrainingIterable:
        """One over the very cells of which the columns were read."""
        try:
            with told_before():
                iterable = TrainingIterable(self._path, batch_size, **options)
        except ValueError as error:  # of the file that is there now?
            contents = self._contents_now()
            if contents != self._file_contents:
                raise RuntimeError(self._replaced(contents, "data module")) from error
            raise
        if iterable._content != self._content:
            raise RuntimeError(self._replaced(iterable._file_contents, "data module"))
        return iterable

    def _contents_now(self) -> tuple[str, ...]:
        with told_before(), TrainingDataset(self._path, **self._file_options()) as dataset:
            return dataset._file_contents

    def _looked_at(self, rows: Rows) -> TrainingIterable:
        return self._in_file_order(rows, 64, rank=0, world_size=1)

    def _take_genes_of(self, trained: TrainedSetup) -> None:
        """Read the matrix that a model was trained on, with the model's genes as columns."""
        for name in ("hvg_indices", "genes"):
            if self._options.get(name) is not None:
                raise ValueError(f"the genes are those of registry: leave {name} out")
        genes, options = trained.genes.tolist(), {**trained.matrix, **self._options}
        self._options = options
        paths = (self._path,) if isinstance(self._path, str) else self._path
        with suppress(ValueError), told_before():  # they differ, or will be found fault with later
            files = file_options(paths, **{**FILE_DEFAULTS, **self._file_options()})
            if files is not None and files.open().genes.names.tolist() == genes:
                if isinstance(self._path, str):
                    options.pop("gene_key", None)
                return
        twice = [name for name, n in Counter(map(without_version, genes)).items() if n > 1]
        if twice:
            raise ValueError(
                f"the model of the registry has gene {twice[0]!r} more than once, so that genes of "
                "files cannot be matched by name: they need the same genes in the same order"
            )
        self._path = paths
        self._options = {"min_known_genes": 0.0, **options, "genes": genes}

    def _look_at_genes(self) -> None:
        """What scvi-tools says of a file that lacks genes of a model.

        Raises
        ------
        ValueError
            It lacks all of them.

        Warns
        -----
        UserWarning
            It has less than `SHARE_OF_GENES` of them.
        """
        n_genes = len(self.var_names)
        enough = SHARE_OF_GENES * n_genes
        few = [match for match in self._genes.matches if match.n_measured < enough]
        if not few:
            return
        least = min(few, key=lambda match: match.n_measured)
        if not least.n_measured:
            raise ValueError(
                f"{least.path} has none of the genes of the model of the registry, which look like "
                f"{', '.join(map(str, self.var_names[:3]))}; gene_key names a column of var to "
                "match by instead of the index"
            )
        more = f" (and {len(few) - 1} more files have few)" if len(few) > 1 else ""
        warn(
            f"{least.path} has {least.n_measured} of the {n_genes} genes of the model of the "
            f"registry{more}: results may be poor, since the others are zeros",
        )

    def _file_options(self) -> dict[str, Any]:
        """Which matrix of the files, and which genes."""
        return {name: self._options[name] for name in FILE_DEFAULTS if name in self._options}

    def _opened(self) -> Source | FileSet:
        """The files, open."""
        options = {**FILE_DEFAULTS, **self._file_options()}
        files = file_options(self._path, **options)
        if files is not None:
            return files.open()
        return open_source(self._path, source=options["source"], modality=options["modality"])
