"""The registry that scvi-tools builds a model from when it gets no AnnData."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from scx_train.lightning.scvi_columns import CodedColumn


def scvi_registry(
    *,
    model_name: str,
    var_names: npt.NDArray[np.object_],
    n_obs: int,
    keys: Mapping[str, str | None],
    batch: CodedColumn,
    labels: CodedColumn,
    unlabeled_category: str | None,
    categorical: Mapping[str, CodedColumn],
    continuous: Sequence[str],
) -> dict[str, Any]:
    """A registry as that of scvi-tools 1.4 for data modules (`setup_datamodule`).

    `keys` names the obs columns of "batch" and "labels".
    """
    import scvi

    n_vars = len(var_names)
    return {
        "scvi_version": scvi.__version__,
        "model_name": model_name,
        "setup_method_name": "setup_datamodule",
        "setup_args": {
            "layer": None,
            "batch_key": keys["batch"],
            "labels_key": keys["labels"],
            "size_factor_key": None,
            "categorical_covariate_keys": list(categorical) or None,
            "continuous_covariate_keys": list(continuous) or None,
        },
        "field_registries": {
            "X": _field(
                ("X", None),
                {"n_obs": n_obs, "n_vars": n_vars, "column_names": var_names},
                {"n_vars": n_vars, "n_cells": n_obs},
            ),
            "batch": _field(
                ("obs", "_scvi_batch"),
                {"categorical_mapping": batch.categories, "original_key": keys["batch"]},
                {"n_batch": len(batch.categories)},
            ),
            "labels": _field(
                ("obs", "_scvi_labels"),
                {
                    "categorical_mapping": labels.categories,
                    "original_key": keys["labels"],
                    "unlabeled_category": unlabeled_category,
                },
                {"n_labels": len(labels.categories)},
            ),
            "size_factor": _field(None, {}, {}),
            "extra_categorical_covs": _categorical_covariates(categorical),
            "extra_continuous_covs": _continuous_covariates(continuous),
        },
    }


def _field(
    place: tuple[str, str | None] | None, state: dict[str, Any], summary: dict[str, int]
) -> dict[str, Any]:
    data = {} if place is None else {"attr_name": place[0], "attr_key": place[1]}
    return {"data_registry": data, "state_registry": state, "summary_stats": summary}


def _categorical_covariates(columns: Mapping[str, CodedColumn]) -> dict[str, Any]:
    summary = {"n_extra_categorical_covs": len(columns)}
    if not columns:
        return _field(None, {}, summary)
    state = {
        "field_keys": list(columns),
        "mappings": {name: column.categories for name, column in columns.items()},
        "n_cats_per_key": [len(column.categories) for column in columns.values()],
    }
    return _field(("obsm", "_scvi_extra_categorical_covs"), state, summary)


def _continuous_covariates(names: Sequence[str]) -> dict[str, Any]:
    summary = {"n_extra_continuous_covs": len(names)}
    if not names:
        return _field(None, {}, summary)
    state = {"columns": np.array(names, dtype=object)}
    return _field(("obsm", "_scvi_extra_continuous_covs"), state, summary)
