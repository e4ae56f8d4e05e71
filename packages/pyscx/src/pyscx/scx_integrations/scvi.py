"""`ScxDataModule`, from which Lightning and scvi-tools train; it needs torch and Lightning."""

from __future__ import annotations

from scx_train.lightning import ScxDataModule

__all__ = ["ScxDataModule"]
