"""Arguments of `prepare` for tests: small, complete, and easy to change in one place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp

N_CELLS = 6
N_GENES = 4


def cell_names(n_cells: int = N_CELLS) -> list[str]:
    return [f"cell{number}" for number in range(n_cells)]


def obs(**columns: Any) -> pd.DataFrame:
    """A table of six cells."""
    return pd.DataFrame(columns, index=pd.Index(cell_names(), dtype=object))


def var(*names: str, **columns: Any) -> pd.DataFrame:
    return pd.DataFrame(columns, index=pd.Index(list(names), dtype=object))


def counts() -> Any:
    return sp.csr_matrix(np.random.default_rng(0).poisson(1, (N_CELLS, N_GENES)).astype("f4"))


def coordinates(n_axes: int = 2, n_cells: int = N_CELLS) -> Any:
    return np.random.default_rng(n_axes).normal(size=(n_cells, n_axes))


def graph(n_cells: int = N_CELLS) -> Any:
    dense = np.zeros((n_cells, n_cells))
    dense[0, 1] = dense[1, 0] = 0.5
    return sp.csr_matrix(dense)


def small(**changes: Any) -> dict[str, Any]:
    """What a small output needs, with changes; None leaves an argument out."""
    arguments: dict[str, Any] = {
        "obs": obs(),
        "embeddings": {"X_umap": coordinates()},
        "var": var("g0", "g1", "g2", "g3"),
        "gene_expression": counts(),
        "dataset_id": "small",
        "dataset_name": "A small one",
    }
    return {name: value for name, value in (arguments | changes).items() if value is not None}


def complete() -> dict[str, Any]:
    """Every component and every kind of column."""
    rng = np.random.default_rng(1)
    n_cells, n_genes = 50, 40
    table = pd.DataFrame(
        {
            "label": pd.Categorical(rng.choice(["a", "b", "c"], n_cells)),
            "number": rng.normal(size=n_cells),
            "flag": rng.random(n_cells) < 0.5,
            "whole": np.arange(n_cells),
            "gap": pd.array([None, *range(n_cells - 1)], dtype="Int64"),
            "flag_gap": pd.array([None] + [True] * (n_cells - 1), dtype="boolean"),
            "text": [f"s{number % 3}" for number in range(n_cells)],
            "unique": [f"u{number}" for number in range(n_cells)],
            "ordered": pd.Categorical(
                rng.choice(["x", "y"], n_cells), categories=["z", "y", "x"], ordered=True
            ),
        },
        index=pd.Index(cell_names(n_cells), dtype=object),
    )
    genes = pd.DataFrame(
        {"symbol": [f"S{number}" for number in range(n_genes)], "used": rng.random(n_genes) < 0.5},
        index=pd.Index([f"g{number}" for number in range(n_genes)], dtype=object),
    )
    weights = sp.random(n_cells, n_cells, 0.1, random_state=1, format="csr")
    weights = sp.csr_matrix(weights + weights.T)
    weights.setdiag(0)
    return {
        "obs": table,
        "var": genes,
        "gene_expression": sp.csr_matrix(rng.poisson(0.5, (n_cells, n_genes)).astype("f4")),
        "connectivities": weights,
        "embeddings": {
            "X_umap": rng.normal(size=(n_cells, 2)),
            "X_pca": rng.normal(size=(n_cells, 5)),
        },
        "vector_fields": {"velocity": {"X_umap": rng.normal(size=(n_cells, 2))}},
        "latent_key": "X_pca",
        "centroid_min_points": 3,
        "dataset_id": "complete",
        "dataset_name": "All of it",
        "dataset_description": "Every kind of column",
        "citation_text": "Somebody (2026)",
        "citation_url": "https://example.org/paper",
        "source_name": "Somewhere",
        "source_url": "http://example.org",
        "embedding_defaults": {"2d": ("X_pca", [2, 0])},
        "obs_keys": ["label", "number"],
        "var_gene_id_column": "symbol",
        "vector_field_default": "velocity",
        "normalize_embeddings": False,
    }
