"""What scvi-tools asks of a data module: its labels, what to save, and a registry."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from scx_train.lightning.scvi_columns import CodedColumn, Rows
from scx_train.lightning.scvi_plans import SEMI_SUPERVISED
from scx_train.lightning.scvi_registry import scvi_registry

N_CELLS_LOOKED_AT = 1024


class ScviModule:
    """The part of `ScxDataModule` that scvi-tools reads."""

    model_name: str
    unlabeled_category: str | None
    var_names: npt.NDArray[np.object_]
    _where: str
    _cells: Rows
    _keys: Mapping[str, str | None]
    _options: Mapping[str, Any]
    _batch: CodedColumn
    _labels: CodedColumn
    _categorical: Mapping[str, CodedColumn]
    _continuous: Mapping[str, npt.NDArray[np.float32]]

    @property
    def n_obs(self) -> int:
        """How many cells are used, for training and validation together."""
        return len(self._cells)

    @property
    def n_output_genes(self) -> int:
        """How many columns the `X` of a batch has."""
        return len(self.var_names)

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

        It is this data module in all that scvi-tools asks for, but for two numbers that it builds
        the model from again when it loads it: `n_vars` is `n_output_genes`, as a model knows
        nothing of the genes that `hvg_indices` leaves out, and to SCANVI the category of the cells
        without a label is no label.
        """
        names = ("n_batch", "n_samples", "batch_labels", "label_keys", "registry")
        has_unlabeled = self.model_name == SEMI_SUPERVISED and bool(
            np.any(self.labels_ == self.unlabeled_category)
        )
        return SimpleNamespace(
            n_vars=self.n_output_genes,
            n_labels=self.n_labels - has_unlabeled,
            **{name: getattr(self, name) for name in names},
        )

    @property
    def registry(self) -> dict[str, Any]:
        """What `scvi.model.SCVI(registry=...)` and its kind are built from.

        Raises
        ------
        ValueError
            The batches are not dense or not float32, which these models take alone.

        Warns
        -----
        UserWarning
            The batches hold no counts: they are normalised, or the matrix has other values.
        """
        for option, needed in (("layout", "dense"), ("dtype", "float32")):
            given = self._options.get(option, needed)
            if given != needed:
                raise ValueError(
                    f"{option}={given!r}, but models of scvi-tools need {needed} batches: leave it "
                    "out"
                )
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

    @property
    def adata_manager(self) -> NoReturn:
        """There is none: models of scvi-tools are built from `registry`."""
        raise AttributeError(
            "a data module has no adata_manager, as there is no AnnData behind it: build the model "
            "from its registry, as in scvi.model.SCVI(registry=dm.registry)"
        )

    def _looked_at(self, rows: Rows) -> Iterable[dict[str, Any]]:
        """Batches of these cells."""
        raise NotImplementedError

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
        for batch in self._looked_at(rows):
            values = _values(batch["X"])
            wrong = values[(values < 0) | (values != np.floor(values))]
            if wrong.size:
                warnings.warn(
                    f"{self._where} holds values such as {wrong[0]:.6g}, which are no counts, but "
                    "models of scvi-tools need counts: choose them with source=..., for example "
                    "source='layers/counts' or source='raw'",
                    UserWarning,
                    stacklevel=3,
                )
                return


def _values(matrix: Any) -> npt.NDArray[np.float32]:
    dense = matrix.values() if matrix.is_sparse_csr else matrix
    values: npt.NDArray[np.float32] = dense.numpy()
    return values
