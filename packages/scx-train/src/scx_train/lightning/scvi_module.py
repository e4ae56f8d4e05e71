"""What scvi-tools asks of a data module: its labels, what to save, and a registry."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from scx_core._user_warnings import warn_user
from scx_train._warn import warn
from scx_train.lightning.scvi_columns import ColumnsOfModule, Rows
from scx_train.lightning.scvi_registry import scvi_registry
from scx_train.lightning.scvi_setup import ScviSetup

N_CELLS_LOOKED_AT = 1024


class ScviModule:
    """The part of `ScxDataModule` that scvi-tools reads."""

    var_names: npt.NDArray[np.object_]
    trainer: Any
    _where: str
    _cells: Rows
    _options: Mapping[str, Any]
    _setup: ScviSetup
    _columns: ColumnsOfModule

    @property
    def model_name(self) -> str:
        """The scvi-tools model that the batches and `registry` are for."""
        return self._setup.model_name

    @property
    def unlabeled_category(self) -> str | None:
        """The label of cells without one."""
        return self._setup.unlabeled_category

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
        return len(self._columns.coded["batch"].categories)

    @property
    def n_labels(self) -> int:
        """How many labels `labels_key` has, that of unlabeled cells included; 1 without it."""
        return len(self._columns.coded["labels"].categories)

    @property
    def n_continuous_cov(self) -> int:
        """How many continuous covariates there are."""
        return len(self._columns.continuous)

    @property
    def n_cats_per_cov(self) -> list[int] | None:
        """How many categories each categorical covariate has; None without any."""
        return [len(column.categories) for column in self._columns.categorical.values()] or None

    @property
    def batch_labels(self) -> npt.NDArray[Any]:
        """What the codes of `batch` stand for."""
        return self._columns.coded["batch"].categories

    @property
    def labels(self) -> npt.NDArray[Any]:
        """What the codes of `labels` stand for."""
        return self._columns.coded["labels"].categories

    @property
    def labels_(self) -> npt.NDArray[Any]:
        """The label of each cell that is used, in file order."""
        column = self._columns.coded["labels"]
        labels: npt.NDArray[Any] = column.categories[column.codes[self._cells]]
        return labels

    @property
    def label_keys(self) -> npt.NDArray[Any]:
        """The same as `labels`, by the name that scvi-tools saves them under."""
        return self._columns.coded["labels"].categories

    @property
    def n_samples(self) -> int:
        """How many samples `sample_key` tells apart; 0 without it."""
        sample = self._columns.coded.get("sample")
        return 0 if sample is None else len(sample.categories)

    @property
    def for_saving(self) -> Any:  # scvi-tools asks for a LightningDataModule
        """What `model.save(..., datamodule=dm.for_saving)` writes down, with the model's `n_vars`.

        It is this data module in all that scvi-tools asks for, but for two numbers that it builds
        the model from again when it loads it: `n_vars` is `n_output_genes`, as a model knows
        nothing of the genes that `hvg_indices` leaves out, and to SCANVI the category of the cells
        without a label is no label.

        Warns
        -----
        UserWarning
            `load` of scvi-tools would give another model, `scx_train.lightning.load_model` not.
        """
        lost = {
            "size_factor_key": self._columns.size_factor is not None,
            "more than one of categorical_covariate_keys": len(self._columns.categorical) > 1,
        }
        if any(lost.values()):
            warn(
                f"load of scvi-tools 1.4 forgets {' and '.join(k for k in lost if lost[k])} and so "
                "gives other values without a word: load the model by "
                "scx_train.lightning.load_model",
            )
        return self._saved

    @property
    def _saved(self) -> SimpleNamespace:
        names = ("n_batch", "n_samples", "batch_labels", "label_keys", "registry")
        return SimpleNamespace(
            n_vars=self.n_output_genes,
            n_labels=self._n_model_labels,
            **{name: getattr(self, name) for name in names},
        )

    @property
    def _n_model_labels(self) -> int:
        """How many labels are labels to the model."""
        if not self._setup.is_semi_supervised:
            return self.n_labels
        return int(np.count_nonzero(self.labels.astype(object) != self.unlabeled_category))

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
        self._look_at_values()
        return scvi_registry(
            self._setup,
            self._columns,
            var_names=self.var_names,
            rows=self._cells,
            n_labels=self._n_model_labels,
            matrix={
                name: self._options[name]
                for name in ("source", "modality", "gene_key")
                if isinstance(self._options.get(name), str)
            },
        )

    def setup(self, stage: str) -> None:
        """Let a model of scvi-tools save itself while it is trained (`enable_checkpointing`)."""
        model = getattr(self.trainer, "_model", None)
        if model is not None:
            model.save = partial(type(model).save, model, datamodule=self._saved)

    def teardown(self, stage: str) -> None:
        """Take back what `setup` did."""
        model = getattr(self.trainer, "_model", None)
        if model is not None:
            vars(model).pop("save", None)

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

    def _look_at_values(self) -> None:
        """Refuse and warn as `registry` does, for the caller of the caller."""
        options = self._options
        for option, needed in (("layout", "dense"), ("dtype", "float32")):
            given = options.get(option, needed)
            if given != needed:
                raise ValueError(
                    f"{option}={given!r}, but models of scvi-tools need {needed} batches: leave it "
                    "out"
                )
        if options["normalize"] or options["log1p"] or options.get("pflog"):
            warn_user(
                "the batches of this ScxDataModule are normalised, but models of scvi-tools need "
                "counts: pass normalize=False, log1p=False",
                UserWarning,
            )
            return
        step = max(1, self.n_obs // N_CELLS_LOOKED_AT)
        rows = self._cells[::step][:N_CELLS_LOOKED_AT]
        for batch in self._looked_at(rows):
            values = _values(batch["X"])
            wrong = values[(values < 0) | (values != np.floor(values))]
            if wrong.size:
                warn_user(
                    f"{self._where} holds values such as {wrong[0]:.6g}, which are no counts, but "
                    "models of scvi-tools need counts: choose them with source=..., for example "
                    "source='layers/counts' or source='raw'",
                    UserWarning,
                )
                return


def _values(matrix: Any) -> npt.NDArray[np.float32]:
    dense = matrix.values() if matrix.is_sparse_csr else matrix
    values: npt.NDArray[np.float32] = dense.numpy()
    return values
