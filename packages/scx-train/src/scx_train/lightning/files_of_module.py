"""What a data module reads: its files, and the iterables over their cells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scx_core._genes import MIN_KNOWN_GENES
from scx_train._warn import told_before
from scx_train.inputs.file_set import FileSet, file_options
from scx_train.inputs.source import Source, open_source
from scx_train.lightning.scvi_columns import Rows
from scx_train.streams.places import FilePlaces
from scx_train.streams.training_dataset import TrainingDataset
from scx_train.torch import TrainingIterable

FILE_DEFAULTS = {
    "source": "X", "modality": None, "genes": None, "gene_key": None,
    "min_known_genes": MIN_KNOWN_GENES,
}  # fmt: skip
# They say which cells make a batch of training; all cells are validated.
TRAINING_ONLY = ("drop_last", "min_batch", "tail", "shuffle", "weights", "balance_by", "batch_by")


class FilesOfModule(FilePlaces):
    """The part of `ScxDataModule` that opens its files, as they were when it was built."""

    _path: Any
    _content: str
    _batch_size: int
    _options: Mapping[str, Any]

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
