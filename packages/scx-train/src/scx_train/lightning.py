"""A data module for Lightning that scvi-tools trains its models from as well."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _arguments as arguments
from ._dataset import TrainingDataset
from ._given import kept, one_path
from ._source import open_source
from .torch import TrainingIterable

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

from ._scvi_columns import (
    CodedColumn,
    Rows,
    ScviColumns,
    coded_column,
    covariate,
    one_category,
)
from ._scvi_registry import scvi_registry

__all__ = ["ScxDataModule"]

N_CELLS_LOOKED_AT = 1024
# They say which cells make a batch of training; all cells are validated.
SEMI_SUPERVISED = "SCANVI"
TRAINING_ONLY = ("drop_last", "min_batch", "tail", "shuffle", "weights", "balance_by", "batch_by")


class ScxDataModule(LightningDataModule):  # type: ignore[misc]
    """Loaders over one .scx file for a `LightningModule`, and for models of scvi-tools.

    **Values are normalised and logged by default**, as those of `TrainingDataset`; models of
    counts, such as those of scvi-tools, need `normalize=False, log1p=False`.

    A batch is a dict of tensors: `X` (float32, cells x genes), `cell_indices` (int64, rows in the
    file), `batch` and `labels` (int64 codes, cells x 1; all 0 without `batch_key` and
    `labels_key`), `extra_categorical_covs` and `extra_continuous_covs` where there are such
    covariates, and `obs` where `obs_columns` names any.

    In distributed training each process gets its share of the cells, and all of them the same
    number of batches. A tail of one cell, with which batch normalisation cannot be trained, is
    merged into the batch before it, unless `min_batch` and `tail` say otherwise.

    Parameters
    ----------
    scx_path
        The file.
    batch_size
        Cells in a batch, default 1024.
    hvg_indices
        Positions in var of the genes to keep; None (default) for all.
    normalize, log1p, target_sum
        Scale each cell to `target_sum` (1e4) and take log(1 + value); both default to True.
    seed
        Decides on the order of training, and on the cells of `train_size`; default 42.
    rows
        Cells to use, as rows of the file or a boolean mask over them; None (default) for all.
    train_size
        Share of these cells to train on, above 0 and at most 1; the others, drawn at random, are
        for validation. None (default) trains on all but `validation_rows`. `scx_train.split` makes
        parts that are stratified or keep donors whole.
    validation_rows
        Cells for validation, as rows of the file or a mask; the rest of `rows` is trained on.
    batch_key, labels_key
        obs columns (categorical, text or whole numbers) of the batch and of the label.
    categorical_covariate_keys, continuous_covariate_keys
        obs columns of further covariates.
    unlabeled_category
        The label of cells without one, default "Unknown"; it becomes the last of the labels.
    model_name
        The scvi-tools model that `registry` is for, default "SCVI". For "SCANVI", which learns from
        labels, the loaders for training and validation give pairs of batches: one of all cells, and
        one of cells with a label, which come again as often as it takes. It needs `labels_key`.
    num_workers
        Workers of the DataLoaders, default 0: decoding has threads of its own.
    pin_memory
        Whether the DataLoaders pin the batches for the transfer to a GPU, default False.
    **kwargs
        Further options of `TrainingDataset`.

    Raises
    ------
    TypeError, ValueError, KeyError, OSError, CorruptFileError
        As `TrainingDataset` does; also where a column has no value for a cell that is used.

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
        scx_path: str | os.PathLike[str],
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
        unlabeled_category: str | None = "Unknown",
        model_name: str = "SCVI",
        num_workers: int = 0,
        pin_memory: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        if model_name == SEMI_SUPERVISED and labels_key is None:
            raise ValueError(f"model_name={model_name!r} learns from labels: pass labels_key")
        self._path = one_path(scx_path, "scx_path")
        self._batch_size = batch_size
        self._num_workers = arguments.whole_number(num_workers, "num_workers", lowest=0)
        self._pin_memory = arguments.flag(pin_memory, "pin_memory")
        self.model_name = model_name
        self.unlabeled_category = unlabeled_category
        self._keys = {"batch": batch_key, "labels": labels_key}
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
        with TrainingDataset(self._path, batch_size, rows=rows, **self._options) as dataset:
            self._n_vars = dataset.n_vars
            self._cells: Rows = dataset._rows.all_rows()
            self.var_names = dataset.var_names
            if self._options.get("pflog"):  # one estimate for training and validation
                self._options["pflog_alpha"] = dataset.pflog_alpha
        if hvg_indices is not None:  # has warned once if it was in another order
            self._options["hvg_indices"] = np.unique(np.asarray(self._options["hvg_indices"]))
        self._divide(train_size, validation_rows)
        self._read_columns(
            _names(categorical_covariate_keys, "categorical_covariate_keys"),
            _names(continuous_covariate_keys, "continuous_covariate_keys"),
        )
        self._training = [self._training_iterable(self.train_idx)]
        if model_name == SEMI_SUPERVISED:
            labeled = self._labeled(self.train_idx)
            if not len(labeled):
                raise ValueError(f"no cell of training has a label in labels_key={labels_key!r}")
            self._training.append(self._training_iterable(labeled))

    # ---- what there is ----

    @property
    def n_obs(self) -> int:
        """How many cells are used, for training and validation together."""
        return len(self._cells)

    @property
    def n_vars(self) -> int:
        """How many genes the file has."""
        return self._n_vars

    @property
    def n_output_genes(self) -> int:
        """How many columns the `X` of a batch has."""
        return len(self.var_names)

    @property
    def n_train(self) -> int:
        """How many cells an epoch of training has."""
        return len(self.train_idx)

    @property
    def n_val(self) -> int:
        """How many cells are for validation."""
        return len(self.val_idx)

    @property
    def n_batch(self) -> int:
        """How many batches `batch_key` tells apart; 1 without it."""
        return len(self._batch.categories)

    @property
    def n_labels(self) -> int:
        """How many labels `labels_key` has, that of unlabeled cells included; 1 without it."""
        return len(self._labels.categories)

    @property
    def n_continuous_cov(self) -> int:
        """How many continuous covariates there are."""
        return len(self._continuous)

    @property
    def n_cats_per_cov(self) -> list[int] | None:
        """How many categories each categorical covariate has; None without any."""
        return [len(column.categories) for column in self._categorical.values()] or None

    @property
    def batch_labels(self) -> npt.NDArray[Any]:
        """What the codes of `batch` stand for."""
        return self._batch.categories

    @property
    def labels(self) -> npt.NDArray[Any]:
        """What the codes of `labels` stand for."""
        return self._labels.categories

    @property
    def labels_(self) -> npt.NDArray[Any]:
        """The label of each cell that is used, in file order."""
        labels: npt.NDArray[Any] = self._labels.categories[self._labels.codes[self._cells]]
        return labels

    @property
    def label_keys(self) -> npt.NDArray[Any]:
        """The same as `labels`, by the name that scvi-tools saves them under."""
        return self._labels.categories

    @property
    def n_samples(self) -> int:
        """How many samples are modelled apart: 0, as the models that do so are not served."""
        return 0

    @property
    def for_saving(self) -> SimpleNamespace:
        """What `model.save(..., datamodule=dm.for_saving)` writes down, with the model's `n_vars`.

        It is this data module in all that scvi-tools asks for, but that its `n_vars` is
        `n_output_genes`: a model knows nothing of the genes that `hvg_indices` leaves out.
        """
        names = ("n_batch", "n_labels", "n_samples", "batch_labels", "label_keys", "registry")
        return SimpleNamespace(
            n_vars=self.n_output_genes, **{name: getattr(self, name) for name in names}
        )

    @property
    def registry(self) -> dict[str, Any]:
        """What `scvi.model.SCVI(registry=...)` and its kind are built from.

        Warns
        -----
        UserWarning
            The batches hold no counts: they are normalised, or the matrix has other values.
        """
        self._warn_unless_counts()
        return scvi_registry(
            model_name=self.model_name,
            var_names=self.var_names,
            n_obs=self.n_obs,
            keys=self._keys,
            batch=self._batch,
            labels=self._labels,
            unlabeled_category=self.unlabeled_category,
            categorical=self._categorical,
            continuous=list(self._continuous),
        )

    # ---- loaders ----

    def train_dataloader(self) -> DataLoader | CombinedLoader:
        """Shuffled batches of the cells for training; for SCANVI pairs of batches."""
        trainer = self.trainer
        for iterable in self._training:
            if trainer is not None and trainer.current_epoch > iterable.epoch:
                iterable.set_epoch(trainer.current_epoch)  # goes on from a checkpoint
        return self._one_or_pairs(self._training)

    def val_dataloader(self) -> DataLoader | CombinedLoader | None:
        """The cells for validation, in file order; None where there are none.

        For SCANVI pairs of batches, where any of the cells has a label.
        """
        if not self.n_val:
            return None
        iterables = [self._in_file_order(self.val_idx)]
        labeled = self._labeled(self.val_idx)
        if self.model_name == SEMI_SUPERVISED and len(labeled):
            iterables.append(self._in_file_order(labeled))
        return self._one_or_pairs(iterables)

    def predict_dataloader(self) -> DataLoader:
        """All cells that are used, in file order; several processes share them."""
        return self._loader(self._in_file_order(self._cells))

    def inference_dataloader(self, batch_size: int | None = None) -> DataLoader:
        """All cells that are used, in file order, in this process: one result for each.

        `batch_size` is that of the data module unless it is given.
        """
        return self._loader(self._in_file_order(self._cells, batch_size, rank=0, world_size=1))

    # ---- inside ----

    def _divide(self, train_size: float | None, validation_rows: npt.ArrayLike | None) -> None:
        if train_size is not None and validation_rows is not None:
            raise ValueError("train_size and validation_rows exclude each other: pass one of them")
        self.train_idx, self.val_idx = self._cells, self._cells[:0]
        if train_size is not None:
            self.train_idx, self.val_idx = _drawn(self._cells, train_size, self._options["seed"])
        if validation_rows is not None:
            with TrainingDataset(self._path, rows=validation_rows, **self._file_options()) as part:
                chosen: Rows = part._rows.all_rows()
            self.val_idx = chosen
            self.train_idx = np.setdiff1d(self._cells, chosen)
            self._cells = np.union1d(self._cells, chosen)
        if not len(self.train_idx):
            raise ValueError("no cell is left to train on: all are for validation")

    def _read_columns(self, categorical: tuple[str, ...], continuous: tuple[str, ...]) -> None:
        named = [key for key in (*self._keys.values(), *categorical, *continuous) if key]
        source = open_source(self._path, **self._file_options())
        columns = source.obs_columns(dict.fromkeys(named))
        n_rows, rows = source.n_obs, self._cells

        def coded(name: str | None, argument: str, unlabeled: str | None = None) -> CodedColumn:
            if name is None:
                return one_category(n_rows)
            return coded_column(
                columns[name], rows, argument=argument, name=name, unlabeled=unlabeled
            )

        self._batch = coded(self._keys["batch"], "batch_key")
        self._labels = coded(self._keys["labels"], "labels_key", self.unlabeled_category)
        self._categorical = {
            name: coded(name, "categorical_covariate_keys") for name in categorical
        }
        self._continuous = {name: covariate(columns[name], rows, name=name) for name in continuous}
        self._add_columns = ScviColumns(
            batch=self._batch,
            labels=self._labels,
            categorical=list(self._categorical.values()),
            continuous=list(self._continuous.values()),
        )

    def _labeled(self, rows: Rows) -> Rows:
        """Those of these cells that have a label."""
        labels = self._labels.categories[self._labels.codes[rows]].astype(object)
        labeled: Rows = rows[labels != self.unlabeled_category]
        return labeled

    def _training_iterable(self, rows: Rows) -> TrainingIterable:
        options = dict(self._options)
        if self._batch_size > 1 and not {"min_batch", "tail"} & options.keys():
            options.update(min_batch=2, tail="merge")
        return TrainingIterable(self._path, self._batch_size, rows=rows, **options)

    def _in_file_order(
        self, rows: Rows, batch_size: int | None = None, **place: int
    ) -> TrainingIterable:
        options = {key: self._options[key] for key in self._options.keys() - set(TRAINING_ONLY)}
        return TrainingIterable(
            self._path,
            self._batch_size if batch_size is None else batch_size,
            rows=rows,
            shuffle=False,
            **{**options, **place},
        )

    def _one_or_pairs(self, iterables: list[TrainingIterable]) -> DataLoader | CombinedLoader:
        loaders = [self._loader(iterable) for iterable in iterables]
        # The longest decides on the end of an epoch; others begin again.
        return loaders[0] if len(loaders) == 1 else CombinedLoader(loaders, "max_size_cycle")

    def _loader(self, iterable: TrainingIterable) -> DataLoader:
        return DataLoader(
            iterable,
            batch_size=None,
            collate_fn=self._add_columns,
            num_workers=self._num_workers,
            persistent_workers=self._num_workers > 0,
            pin_memory=self._pin_memory,
        )

    def _file_options(self) -> dict[str, Any]:
        """Which matrix of the file."""
        return {key: self._options[key] for key in ("source", "modality") if key in self._options}

    def _warn_unless_counts(self) -> None:
        options = self._options
        if options["normalize"] or options["log1p"] or options.get("pflog"):
            warnings.warn(
                "the batches of this ScxDataModule are normalised, but models of scvi-tools need "
                "counts: pass normalize=False, log1p=False",
                UserWarning,
                stacklevel=3,
            )
            return
        step = max(1, self.n_obs // N_CELLS_LOOKED_AT)
        rows = self._cells[::step][:N_CELLS_LOOKED_AT]
        for batch in self._in_file_order(rows, 64, rank=0, world_size=1):
            values = _values(batch["X"])
            wrong = values[(values < 0) | (values != np.floor(values))]
            if wrong.size:
                warnings.warn(
                    f"{self._path} holds values such as {wrong[0]:.6g}, which are no counts, but "
                    "models of scvi-tools need counts: choose them with source=..., for example "
                    "source='layers/counts' or source='raw'",
                    UserWarning,
                    stacklevel=3,
                )
                return


def _names(value: Iterable[str] | None, argument: str) -> tuple[str, ...]:
    return () if value is None else arguments.column_names(value, argument)


def _drawn(cells: Rows, train_size: float, seed: int) -> tuple[Rows, Rows]:
    if not 0 < train_size <= 1:
        raise ValueError(f"train_size={train_size} must be above 0 and at most 1")
    n_train = math.ceil(train_size * len(cells))
    shuffled = np.random.default_rng(seed).permutation(cells)
    return np.sort(shuffled[:n_train]), np.sort(shuffled[n_train:])


def _values(matrix: Any) -> npt.NDArray[np.float32]:
    dense = matrix.values() if matrix.is_sparse_csr else matrix
    values: npt.NDArray[np.float32] = dense.numpy()
    return values
