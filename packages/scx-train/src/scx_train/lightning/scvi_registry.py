"""The registry that scvi-tools builds a model from when it gets no AnnData."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from scx_train.lightning.scvi_columns import CodedColumn, ColumnsOfModule, Rows
from scx_train.lightning.scvi_setup import ScviSetup


def scvi_registry(
    setup: ScviSetup,
    columns: ColumnsOfModule,
    *,
    var_names: npt.NDArray[np.object_],
    rows: Rows,
    n_labels: int,
    matrix: Mapping[str, str],
) -> dict[str, Any]:
    """A registry as that of scvi-tools 1.4 for data modules (`setup_datamodule`).

    `rows` are the cells that are used. Under "scx" it says which `matrix` of the files has the
    values and what genes are named by, for data modules over other files.
    """
    import scvi

    n_obs, n_vars = len(rows), len(var_names)
    source = matrix.get("source", "X")
    layer = source.removeprefix("layers/") if source.startswith("layers/") else None
    coded, keys = columns.coded, setup.keys
    fields = {
        "X": _field(
            ("X", None) if layer is None else ("layers", layer),
            {"n_obs": n_obs, "n_vars": n_vars, "column_names": var_names},
            {"n_vars": n_vars, "n_cells": n_obs},
        ),
        **{name: _coded(name, keys[name], column) for name, column in coded.items()},
        "size_factor": _field(
            None if keys["size_factor"] is None else ("obs", keys["size_factor"]), {}, {}
        ),
        "extra_categorical_covs": _categorical_covariates(columns.categorical),
        "extra_continuous_covs": _continuous_covariates(list(columns.continuous)),
    }
    fields["labels"]["state_registry"]["unlabeled_category"] = setup.unlabeled_category
    if setup.is_semi_supervised:
        # It takes one away where any cell has the category of those without a label.
        of_cells = coded["labels"].categories[coded["labels"].codes[rows]]
        n_labels += bool(np.any(of_cells.astype(object) == setup.unlabeled_category))
        fields["labels"]["summary_stats"]["n_labels"] = n_labels
    if "sample" in coded:
        sample = coded["sample"]
        counts = np.bincount(sample.codes[rows], minlength=len(sample.categories))
        n_cells = torch.from_numpy(counts.astype(np.float32))
        fields["sample"]["n_obs_per_sample"] = {"n_obs_per_sample": n_cells}
    return {
        "scvi_version": scvi.__version__,
        "model_name": setup.model_name,
        "setup_method_name": "setup_datamodule",
        "setup_args": {
            "layer": layer,
            **{f"{name}_key": keys[name] for name in keys if name != "sample" or name in coded},
            "categorical_covariate_keys": list(columns.categorical) or None,
            "continuous_covariate_keys": list(columns.continuous) or None,
        },
        "field_registries": fields,
        "scx": dict(matrix),
    }


def _coded(name: str, key: str | None, column: CodedColumn) -> dict[str, Any]:
    return _field(
        ("obs", f"_scvi_{name}"),
        {"categorical_mapping": column.categories, "original_key": key},
        {f"n_{name}": len(column.categories)},
    )


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


def _continuous_covariates(names: list[str]) -> dict[str, Any]:
    summary = {"n_extra_continuous_covs": len(names)}
    if not names:
        return _field(None, {}, summary)
    state = {"columns": np.array(names, dtype=object)}
    return _field(("obsm", "_scvi_extra_continuous_covs"), state, summary)
