"""Saved models of scvi-tools as they were, whatever their network was built from."""

from __future__ import annotations

import inspect
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import numpy as np
import torch

ModelT = TypeVar("ModelT")


def load_model(
    model_class: type[ModelT], folder: str | os.PathLike[str], *, prefix: str = ""
) -> ModelT:
    """A model of scvi-tools that was trained from a data module, and saved.

    It is the whole model. scvi-tools 1.4 itself, which calls for the data module to load SCANVI,
    leaves out of such a model what it passes on to its network (`encode_covariates=True`), size
    factors, and all categorical covariates but the first, without a word.

    Parameters
    ----------
    model_class
        Its class, such as `scvi.model.SCVI`.
    folder
        Where `model.save` has put it. It is unpickled: load none that you do not trust.
    prefix
        That of `model.save`.

    Returns
    -------
    The model, on the CPU; `model.to_device` moves it.

    Raises
    ------
    OSError
        There is no such model.
    ValueError
        It was trained from an AnnData, or is of another class.

    Examples
    --------
    >>> model.save("typed", datamodule=dm.for_saving)  # doctest: +SKIP
    >>> model = load_model(scvi.model.SCANVI, "typed")  # doctest: +SKIP
    """
    path = Path(folder) / f"{prefix}model.pt"
    saved = torch.load(path, map_location="cpu", weights_only=False)
    attributes = saved["attr_dict"]
    registry, given = attributes["registry_"], attributes.pop("init_params_")
    if registry.get("setup_method_name") != "setup_datamodule":
        raise ValueError(
            f"{path} holds a model that was not trained from a data module: load it by "
            f"{model_class.__name__}.load"
        )
    options = dict(given["non_kwargs"])
    if options.keys() - inspect.signature(model_class).parameters.keys():
        raise ValueError(f"{path} holds a model of another class than {model_class.__name__}")
    for further in given["kwargs"].values():
        options.update(further)
    if "datamodule" in options:  # it is asked alone whether there are cells without a label
        labels = registry["field_registries"]["labels"]
        n_unlabeled = labels["summary_stats"]["n_labels"] - attributes["n_labels"]
        unlabeled = [labels["state_registry"]["unlabeled_category"]] * n_unlabeled
        options["datamodule"] = SimpleNamespace(
            registry=registry, labels_=np.array(unlabeled, dtype=object)
        )
    model: Any = model_class(registry=registry, **options)  # type: ignore[call-arg]
    for name, value in attributes.items():
        if name.endswith("_"):
            setattr(model, name, value)
    weights = saved["model_state_dict"]
    weights.pop("pyro_param_store", None)
    model.module.load_state_dict(weights)
    model.module.eval()
    loaded: ModelT = model
    return loaded
