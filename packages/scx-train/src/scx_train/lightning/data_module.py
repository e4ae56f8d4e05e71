"""A data module for Lightning that scvi-tools trains its models from as well."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from scx_core._genes import GeneMatch
from scx_train import _arguments as arguments
from scx_train._given import kept, one_path_or_list
from scx_train._warn import told_before, warn
from scx_train.inputs.cells import in_both
from scx_train.streams.sampling import of_single_cells
from scx_train.streams.split import drawn
from scx_train.streams.training_dataset import TrainingDataset
from scx_train.torch import TrainingIterable

try:
    from lightning.pytorch import LightningDataModule
    from lightning.pytorch.utilities import CombinedLoader
except ModuleNotFoundError:
    try:
        from pytorch_lightning import LightningDataModule
        from pytorch_lightning.utilities import CombinedLoader
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            'scx_train.lightning needs Lightning: python -m pip install "scx-train[lightning]"',
            name="lightning",
        ) from error

from torch.utils.data import DataLoader

from scx_train.lightning.files_of_module import FilesOfModule
from scx_train.lightning.loaders import TrainingLoader
from scx_train.lightning.scvi_columns import ColumnsOfModule, Rows, ScviColumns
from scx_train.lightning.scvi_module import ScviModule
from scx_train.lightning.scvi_plans import SEMI_SUPERVISED, refuse_other_model
from scx_train.lightning.scvi_setup import scvi_setup


class ScxDataModule(FilesOfModule, ScviModule, LightningDataModule):  # type: ignore[misc]
    """Loaders over .scx files for a `LightningModule`, and for models of scvi-tools.

    **Values are normalised and logged by default**, as those of `TrainingDataset`; models of
    counts, such as those of scvi-tools, need `normalize=False, log1p=False`.

    A batch is a dict of tensors: `X` (float32, cells x genes), `cell_indices` (int64, rows in the
    file; those of several files are numbered on from one to the next), `batch` and `labels` (int64
    codes, cells x 1; all 0 without `batch_key` and `labels_key`), `sample` (int64) and
    `size_factor` (float32) where there are such keys, `extra_categorical_covs` (int64) and
    `extra_continuous_covs` (float32) where there are such covariates, `obs` where `obs_columns`
    names any, and with a list of files `file_ids` (int32).

    In distributed training each process gets its share of the cells, and all of them the same
    number of batches. A tail of one cell, with which batch normalisation cannot be trained, is
    merged into the batch before it, unless `min_batch` and `tail` say otherwise; labels of
    `batch_by` that have a single cell warn.

    `train_idx` and `val_idx` are the rows of the cells for training and validation (int64,
    ascending), `var_names` the names of the columns of `X`.

    Parameters
    ----------
    scx_path
        The file, or a list of files, a folder or a pattern that are one data set. They need the
        same genes in the same order, or `genes` (see `TrainingDataset`); a label of `batch_key` or
        `labels_key` is one over all of them.
    batch_size
        Cells in a batch, default 1024.
    hvg_indices
        Positions in var of the genes to keep; None (default) for all.
    normalize, log1p, target_sum
        Scale each cell to `target_sum` (1e4) and take log(1 + value); both default to True.
    seed
        Decides on the order of training, and on the cells of `train_size`; default 42.
    rows
        Cells to use, as rows of the file or files, or a boolean mask over them; None (default) for
        all.
    train_size
        Share of these cells to train on, above 0 and at most 1; the others, drawn at random, are
        for validation. None (default) trains on all but `validation_rows`. `scx_train.split` makes
        parts that are stratified or keep donors whole.
    validation_rows
        Cells for validation, as rows of the file or a mask; the rest of `rows` is trained on.
    batch_key, labels_key
        obs columns (categorical, text, booleans or whole numbers) of the batch and of the label.
    categorical_covariate_keys, continuous_covariate_keys
        obs columns of further covariates.
    sample_key
        The obs column of the sample, for models that tell samples apart, such as TorchMRVI.
    size_factor_key
        The obs column of size factors, numbers above 0, by which a model scales the means of a cell
        instead of by its total.
    unlabeled_category
        The label of cells without one, default "Unknown"; it becomes the last of the labels.
    model_name
        The scvi-tools model that the batches are for; None (default) for that of `registry`, or
        "SCVI". For "SCANVI", which learns from labels, the loaders for training and validation give
        pairs of batches: one of all cells, and one of cells with a label, which come again as often
        as it takes. It needs `labels_key`.
    registry
        `model.registry` of a trained model, to bring it other files: batches, labels, samples and
        covariates have the codes that the model knows them by, and the columns of `X` are its genes
        by name, whatever their order in the file; genes that the file lacks are columns of zeros.
        Keys, matrix and genes are those of the model unless they are given. For SCANVI the cells
        may all be without a label, or the files without the column of labels; training then has
        single batches. None (default) for a model that is yet to be trained.
    extend_categories
        With `registry`: take batches, samples and categories of covariates that the model does not
        know as further ones, which `load_query_data` of scvi-tools (scArches) makes room for.
        Default False: they are refused. Labels that SCANVI does not know are always refused.
    num_workers
        Workers of the DataLoaders, default 0: decoding has threads of its own.
    pin_memory
        Whether the DataLoaders pin the batches for the transfer to a GPU, default False.
    **kwargs
        Further options of `TrainingDataset`.

    Raises
    ------
    TypeError, ValueError, KeyError, OSError, CorruptFileError
        As `TrainingDataset` does; also where a column has no value for a cell that is used, or with
        `registry` one that the model does not know, or a file has none of the model's genes.

    Warns
    -----
    UserWarning
        As `TrainingDataset` does; with `registry` also where a file has less than 80 % of the
        model's genes, there is no column of labels, or the batches hold no counts.

    Examples
    --------
    >>> dm = ScxDataModule(
    ...     "atlas.scx", normalize=False, log1p=False, batch_key="donor", train_size=0.9
    ... )  # doctest: +SKIP
    >>> model = scvi.model.SCVI(registry=dm.registry)  # doctest: +SKIP
    >>> model.train(datamodule=dm, max_epochs=20)  # doctest: +SKIP
    >>> latent = model.get_latent_representation(
    ...     dataloader=dm.inference_dataloader()
    ... )  # doctest: +SKIP
    """

    def __init__(
        self,
        scx_path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        batch_size: int = 1024,
        hvg_indices: npt.ArrayLike | None = None,
        *,
        normalize: bool = True,
        log1p: bool = True,
        target_sum: float = 1e4,
        seed: int = 42,
        rows: npt.ArrayLike | None = None,
        train_size: float | None = None,
        validation_rows: npt.ArrayLike | None = None,
        batch_key: str | None = None,
        labels_key: str | None = None,
        categorical_covariate_keys: Iterable[str] | None = None,
        continuous_covariate_keys: Iterable[str] | None = None,
        sample_key: str | None = None,
        size_factor_key: str | None = None,
        unlabeled_category: str | None = "Unknown",
        model_name: str | None = None,
        registry: Mapping[str, Any] | None = None,
        extend_categories: bool = False,
        num_workers: int = 0,
        pin_memory: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        self._setup = scvi_setup(
            model_name=model_name,
            keys={
                "batch": batch_key, "labels": labels_key,
                "sample": sample_key, "size_factor": size_factor_key,
            },
            categorical_covariate_keys=categorical_covariate_keys,
            continuous_covariate_keys=continuous_covariate_keys,
            unlabeled_category=unlabeled_category,
            registry=registry,
            extend_categories=extend_categories,
        )  # fmt: skip
        trained = self._setup.trained
        self._path: Any = one_path_or_list(scx_path, "scx_path")
        self._batch_size = batch_size
        self._num_workers = arguments.whole_number(num_workers, "num_workers", lowest=0)
        self._pin_memory = arguments.flag(pin_memory, "pin_memory")
        self._options = kept(
            {
                "hvg_indices": hvg_indices,
                "normalize": normalize,
                "log1p": log1p,
                "target_sum": target_sum,
                "seed": seed,
                **kwargs,
            }
        )
        if trained is not None:
            self._take_genes_of(trained)
        with warnings.catch_warnings():
            if trained is not None:  # `_look_at_genes` tells of genes that are not there
                warnings.filterwarnings("ignore", "no file has", UserWarning)
            dataset = TrainingDataset(self._path, batch_size, rows=rows, **self._options)
        with dataset:
            self._n_vars = dataset.n_vars
            self._where = dataset._path
            self._content = dataset._content
            self._share_places(dataset)
            self._genes = dataset._genes
            self._cells: Rows = dataset._rows.all_rows()
            self.var_names = dataset.var_names if trained is None else trained.genes.copy()
            if self._options.get("pflog"):  # one estimate for training and validation
                self._options["pflog_alpha"] = dataset.pflog_alpha
        with told_before():
            self._divide(train_size, validation_rows)
        if trained is not None:
            self._look_at_genes()
        self._read_columns()
        self._loaders: list[TrainingLoader | None] = []
        self._make_training()
        if self.model_name == SEMI_SUPERVISED and len(self._training) == 1 and trained is None:
            raise ValueError(f"no cell of training has a label in labels_key={labels_key!r}")
        if trained is not None:
            self._look_at_values()

    @property
    def batch_size(self) -> int:
        """Cells in a batch. Loaders that are made after it was set have the new size."""
        return self._batch_size

    @batch_size.setter
    def batch_size(self, value: int) -> None:
        self._batch_size = arguments.batch_size(value)
        self._make_training()

    @property
    def n_vars(self) -> int:
        """How many genes the file has."""
        return self._n_vars

    @property
    def measured(self) -> npt.NDArray[np.bool_]:
        """bool, shape (files, `n_output_genes`): which genes each file has at all. Read-only."""
        return self._genes.measured

    @property
    def gene_matches(self) -> tuple[GeneMatch, ...]:
        """How well the genes of each of several files fit; empty for a single path."""
        return self._genes.matches

    @property
    def n_train(self) -> int:
        """How many cells an epoch of training has."""
        return len(self.train_idx)

    @property
    def n_val(self) -> int:
        """How many cells are for validation."""
        return len(self.val_idx)

    def train_dataloader(self) -> DataLoader | CombinedLoader:
        """Shuffled batches of the cells for training; for SCANVI pairs of batches.

        Under a trainer their epoch is that of the trainer (with its `overfit_batches` always the
        first one, so that the same cells come again), and a checkpoint goes on in the middle
        of one (without workers; with some, it begins the epoch again).

        Raises
        ------
        RuntimeError
            A trainer trains a model of scvi-tools from it that `model_name` is not for.
        """
        refuse_other_model(self.trainer, self.model_name)
        loaders = [
            self._loader(
                iterable,
                TrainingLoader,
                trainer_epoch=self._trainer_epoch,
                before=before,
                repeats=self.trainer is not None and self.trainer.overfit_batches > 0,
            )
            for iterable, before in zip(self._training, self._loaders, strict=True)
        ]
        self._loaders = list(loaders)
        return _one_or_pairs(loaders)

    def val_dataloader(self) -> DataLoader | CombinedLoader | list[Any] | None:
        """The cells for validation, in file order; None where there are none.

        Several processes share them, each cell once, and all have the same number of batches, as
        distributed models need: a tail of fewer cells than processes is merged into the batches
        before it. Only where there are fewer cells than processes none is validated.

        For SCANVI pairs of batches, where any of the cells has a label. A trainer, which takes no
        None, gets an empty list for it, and so does not validate.
        """
        refuse_other_model(self.trainer, self.model_name)
        if not self.n_val:
            return None if self.trainer is None else []
        iterables = [self._in_file_order(self.val_idx)]
        labeled = self._labeled(self.val_idx)
        if self.model_name == SEMI_SUPERVISED and len(labeled):
            iterables.append(self._in_file_order(labeled))
        return _one_or_pairs([self._loader(iterable) for iterable in iterables])

    def predict_dataloader(self) -> DataLoader:
        """All cells that are used, in file order.

        Of several processes, as they are when the loader is made, each has a stretch of them: all
        cells come once, and the results of one process after the other are in file order. The
        numbers of cells differ by 1 at most, and so may those of batches.
        """
        rank, world_size = arguments.rank_and_world_size(None, None)
        n_cells = len(self._cells)
        own = self._cells[rank * n_cells // world_size : (rank + 1) * n_cells // world_size]
        if not len(own):
            self.allow_zero_length_dataloader_with_multiple_devices = True
            return DataLoader([], batch_size=None)
        return self._loader(self._in_file_order(own, rank=0, world_size=1))

    def inference_dataloader(self, batch_size: int | None = None) -> Any:
        """All cells that are used, in file order, in this process: one result for each.

        `batch_size` is that of the data module unless it is given. It is a DataLoader, which
        scvi-tools takes where its hints ask for an iterator.
        """
        return self._loader(self._in_file_order(self._cells, batch_size, rank=0, world_size=1))

    def _make_training(self) -> None:
        parts = [self.train_idx]
        if self.model_name == SEMI_SUPERVISED:
            parts += [labeled] if len(labeled := self._labeled(self.train_idx)) else []
        self._training = [self._training_iterable(rows) for rows in parts]
        self._loaders = [None] * len(parts)

    def _divide(self, train_size: float | None, validation_rows: npt.ArrayLike | None) -> None:
        if train_size is not None and validation_rows is not None:
            raise ValueError("train_size and validation_rows exclude each other: pass one of them")
        self.train_idx, self.val_idx = self._cells, self._cells[:0]
        if train_size is not None:
            seed = arguments.seed(self._options["seed"])
            self.train_idx, self.val_idx = drawn(self._cells, train_size, seed)
        if validation_rows is not None:
            source = self._opened()
            given = arguments.row_selection(
                validation_rows,
                n_obs=source.n_obs,
                deleted=source.deleted_rows,
                argument="validation_rows",
            )
            chosen = in_both(given, source.rows)
            assert chosen is not None
            self.val_idx = chosen
            self.train_idx = np.setdiff1d(self._cells, chosen)
            self._cells = np.union1d(self._cells, chosen)
        if not len(self.train_idx):
            raise ValueError("no cell is left to train on: all are for validation")

    def _read_columns(self) -> None:
        with told_before():
            source = self._opened()
        self._columns = ColumnsOfModule.read(source, self._cells, self._setup)
        self._add_columns = ScviColumns(self._columns)
        batch_by = self._options.get("batch_by")
        if batch_by is not None and self._merges_tails:
            column = source.obs_columns((batch_by,))[batch_by]
            message = of_single_cells(column, self.train_idx, batch_by)
            if message:
                warn(message)

    def _labeled(self, rows: Rows) -> Rows:
        """Those of these cells that have a label."""
        column = self._columns.coded["labels"]
        labels = column.categories[column.codes[rows]].astype(object)
        labeled: Rows = rows[labels != self.unlabeled_category]
        return labeled

    def _trainer_epoch(self) -> int | None:
        """How many epochs the trainer has been through; None without one."""
        if self.trainer is None:
            return None
        # Its `current_epoch` is one behind where a checkpoint of an epoch's end was loaded.
        return int(self.trainer.fit_loop.epoch_progress.current.processed)

    def _loader(
        self, iterable: TrainingIterable, kind: type[DataLoader] = DataLoader, **options: Any
    ) -> DataLoader:
        return kind(
            iterable,
            batch_size=None,
            collate_fn=self._add_columns,
            num_workers=self._num_workers,
            persistent_workers=self._num_workers > 0,
            pin_memory=self._pin_memory,
            **options,
        )


def _one_or_pairs(loaders: list[DataLoader]) -> DataLoader | CombinedLoader:
    # The longest decides on the end of an epoch; others begin again.
    return loaders[0] if len(loaders) == 1 else CombinedLoader(loaders, "max_size_cycle")
