"""A data module for Lightning that scvi-tools trains its models from as well."""

from scx_train.lightning.data_module import ScxDataModule

__all__ = ["ScxDataModule"]
