"""Files as anndata 0.6 and 0.7 wrote them, built by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import scipy.sparse as sp

LABELS = ["B", "NK", "T"]
CODES = [0, 2, 1, -1, 0, 2]
CELLS = [f"cell{number}" for number in range(6)]
GENES = [f"g{number}" for number in range(4)]


def matrix() -> Any:
    return sp.csr_matrix(np.arange(24).reshape(6, 4) % 3, dtype=np.float32)


def write_06(path: Path) -> None:
    """Tables of records, codes with their labels in uns, and the layout of X in attributes."""
    X = matrix()
    obs = np.zeros(6, [("index", "S8"), ("kind", "i1"), ("depth", "f4")])
    obs["index"], obs["kind"], obs["depth"] = np.array(CELLS, "S"), CODES, np.arange(6)
    var = np.zeros(4, [("index", "S8"), ("length", "i4")])
    var["index"], var["length"] = np.array(GENES, "S"), np.arange(4)
    coordinates = np.zeros(6, [("X_umap", "f4", (2,))])
    coordinates["X_umap"] = np.arange(12).reshape(6, 2)
    with h5py.File(path, "w") as file:
        file["obs"], file["var"], file["obsm"] = obs, var, coordinates
        group = file.create_group("X")
        group.attrs["h5sparse_format"] = "csr"
        group.attrs["h5sparse_shape"] = X.shape
        for name in ("data", "indices", "indptr"):
            group[name] = getattr(X, name)
        file["uns/kind_categories"] = np.array(LABELS, "S")


def write_07(path: Path, *, column: str = "kind") -> None:
    """Labels beside the table, found by an object reference."""
    X = matrix()
    with h5py.File(path, "w") as file:
        _table(file, "obs", CELLS, [column])
        _table(file, "var", GENES, [])
        group = file.create_group("X")
        group.attrs.update(
            {"encoding-type": "csr_matrix", "encoding-version": "0.1.0", "shape": X.shape}
        )
        for name in ("data", "indices", "indptr"):
            group[name] = getattr(X, name)
        file["obsm/X_umap"] = np.arange(12.0).reshape(6, 2)
        file.create_group("uns")
        # a slash in the name makes a group of its own, as it did then
        file[f"obs/__categories/{column}"] = np.array(LABELS, h5py.string_dtype())
        file[f"obs/{column}"] = np.array(CODES, "i1")
        labels = file[f"obs/__categories/{column}"]
        labels.attrs["ordered"] = False
        file[f"obs/{column}"].attrs["categories"] = labels.ref


def _table(file: h5py.File, name: str, index: list[str], columns: list[str]) -> None:
    group = file.create_group(name)
    group[f"{name}_names"] = np.array(index, h5py.string_dtype())
    group.attrs.update(
        {
            "encoding-type": "dataframe",
            "encoding-version": "0.1.0",
            "_index": f"{name}_names",
            "column-order": np.array(columns, h5py.string_dtype()),
        }
    )
