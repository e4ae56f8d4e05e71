"""Which columns a model of scvi-tools reads, and what a trained one knows of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from scx_train import _arguments as arguments
from scx_train.lightning.scvi_plans import SEMI_SUPERVISED

SERVED = {
    "X", "batch", "labels", "sample", "ind_x", "size_factor",
    "extra_categorical_covs", "extra_continuous_covs",
}  # fmt: skip


@dataclass(frozen=True)
class TrainedSetup:
    """What the registry of a model says of the cells that it was trained on.

    Attributes
    ----------
    model_name
        The class of the model.
    genes
        object, the names of the columns of `X`.
    keys
        The obs column of "batch", "labels", "sample" and "size_factor"; None where there is none.
    categories
        What the codes of "batch", "labels" and "sample" stand for, those that the model has.
    covariates
        The categorical covariates, and what the codes of each stand for.
    continuous
        The continuous covariates.
    unlabeled_category
        The label of cells without one; None where the model has none for them.
    matrix
        Where the file had the values: "source", "modality" and "gene_key", as far as is known.
    """

    model_name: str
    genes: npt.NDArray[np.object_]
    keys: Mapping[str, str | None]
    categories: Mapping[str, npt.NDArray[Any]]
    covariates: Mapping[str, npt.NDArray[Any]]
    continuous: tuple[str, ...]
    unlabeled_category: str | None
    matrix: Mapping[str, str]

    @classmethod
    def of(cls, registry: Any) -> TrainedSetup:
        """What a registry says, of a model that was set up from a data module or an AnnData.

        Raises
        ------
        TypeError
            It is no registry.
        ValueError
            It is one of a model that reads what data modules do not give.
        """
        if not isinstance(registry, Mapping) or "field_registries" not in registry:
            raise TypeError(
                f"registry={type(registry).__name__} is no registry of a model of scvi-tools: pass "
                "registry=model.registry"
            )
        fields, setup = registry["field_registries"], dict(registry["setup_args"])
        name = str(registry["model_name"])
        others = [key for key in fields if key not in SERVED and fields[key]["data_registry"]]
        if others or "X" not in fields:
            raise ValueError(
                f"registry is that of a {name} model, which reads {', '.join(others or fields)}: "
                "ScxDataModule serves models of one matrix, batches, labels, samples, size "
                "factors and covariates"
            )

        def state(field: str) -> Mapping[str, Any]:
            found: Mapping[str, Any] = fields.get(field, {}).get("state_registry", {})
            return found

        matrix = dict(registry.get("scx", {}))
        if setup.get("layer") is not None:
            matrix.setdefault("source", f"layers/{setup['layer']}")
        coded = ("batch", "labels", "sample")
        return cls(
            model_name=name,
            genes=np.asarray(state("X")["column_names"], dtype=object),
            keys={key: setup.get(f"{key}_key") for key in (*coded, "size_factor")},
            categories={
                key: np.asarray(state(key)["categorical_mapping"]) for key in coded if state(key)
            },
            covariates={
                key: np.asarray(labels)
                for key, labels in state("extra_categorical_covs").get("mappings", {}).items()
            },
            continuous=tuple(map(str, state("extra_continuous_covs").get("columns", ()))),
            unlabeled_category=state("labels").get("unlabeled_category"),
            matrix=matrix,
        )


@dataclass(frozen=True)
class ScviSetup:
    """Which obs columns the cells of a data module have for a model.

    Attributes
    ----------
    model_name
        The class of the model.
    keys
        The obs column of "batch", "labels", "sample" and "size_factor"; None for none.
    categorical, continuous
        Those of covariates.
    unlabeled_category
        The label of cells without one.
    trained
        What the model knows already; None for one that is yet to be trained.
    extend
        Whether it is to learn more batches, samples and categories of covariates.
    """

    model_name: str
    keys: Mapping[str, str | None]
    categorical: tuple[str, ...]
    continuous: tuple[str, ...]
    unlabeled_category: str | None
    trained: TrainedSetup | None
    extend: bool

    @property
    def is_semi_supervised(self) -> bool:
        """Whether the model learns from labels, which some cells lack."""
        return self.model_name == SEMI_SUPERVISED

    def of_trained(self, trained: TrainedSetup) -> ScviSetup:
        """This for a trained model: its columns, but for those that are named otherwise here.

        Raises
        ------
        ValueError
            A column is named that the model has no use for, or another number of covariates.
        """
        for name, key in self.keys.items():
            if key is not None and trained.keys[name] is None:
                raise ValueError(
                    f"{name}_key={key!r}, but the model of the registry was trained without "
                    f"{name}_key: leave it out"
                )
        known = {"categorical": tuple(trained.covariates), "continuous": trained.continuous}
        for kind, names in known.items():
            given = getattr(self, kind)
            if given and len(given) != len(names):
                raise ValueError(
                    f"{kind}_covariate_keys names {len(given)} obs columns, but the model of the "
                    f"registry was trained with {len(names)}: "
                    + (f"name those that hold {', '.join(names)}" if names else "leave it out")
                )
        unlabeled = trained.unlabeled_category
        return replace(
            self,
            keys={name: key or trained.keys[name] for name, key in self.keys.items()},
            categorical=self.categorical or known["categorical"],
            continuous=self.continuous or known["continuous"],
            unlabeled_category=self.unlabeled_category if unlabeled is None else unlabeled,
            trained=trained,
        )


def scvi_setup(
    *,
    model_name: Any,
    keys: Mapping[str, Any],
    categorical_covariate_keys: Any,
    continuous_covariate_keys: Any,
    unlabeled_category: str | None,
    registry: Any,
    extend_categories: Any,
) -> ScviSetup:
    """Check the arguments of a data module; raises TypeError and ValueError."""
    trained = None if registry is None else TrainedSetup.of(registry)
    extend = arguments.flag(extend_categories, "extend_categories")
    if extend and trained is None:
        raise ValueError("extend_categories=True goes with the registry of a model: pass registry")
    if model_name is None:
        model_name = "SCVI" if trained is None else trained.model_name
    setup = ScviSetup(
        model_name=arguments.text(model_name, "model_name"),
        keys={
            name: None if key is None else arguments.text(key, f"{name}_key")
            for name, key in keys.items()
        },
        categorical=_names(categorical_covariate_keys, "categorical_covariate_keys"),
        continuous=_names(continuous_covariate_keys, "continuous_covariate_keys"),
        unlabeled_category=unlabeled_category,
        trained=None,
        extend=extend,
    )
    if trained is not None:
        setup = setup.of_trained(trained)
    if setup.is_semi_supervised and setup.keys["labels"] is None:
        raise ValueError(f"model_name={model_name!r} learns from labels: pass labels_key")
    return setup


def _names(value: Iterable[str] | None, argument: str) -> tuple[str, ...]:
    if value is None:
        return ()
    arguments.listed(value, argument, example=("donor", "assay"))
    return arguments.column_names(value, argument, example=("donor", "assay"))
