"""A data module for Lightning that scvi-tools trains its models from as well."""

from scx_train.lightning.data_module import ScxDataModule
from scx_train.lightning.scvi_models import load_model

__all__ = ["ScxDataModule", "load_model"]
