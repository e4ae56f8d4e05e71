"""MuData objects, and how two of them are compared."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import anndata
import mudata
import numpy as np
import pandas as pd
from anndata.tests.helpers import assert_equal

from anndata_samples import (
    SPARSE_FORMS,
    assert_same,
    random_components,
    random_frame,
    random_graphs,
    random_matrix,
)


def nothing_pulled() -> AbstractContextManager[Any]:
    """mudata's own future, where `update` leaves the columns of obs and var where they are."""
    if hasattr(mudata, "settings"):  # from 0.4 on
        return mudata.settings.override(pull_on_update=False)
    return mudata.set_options(pull_on_update=False)


@contextmanager
def quiet() -> Iterator[None]:
    """Without mudata's remarks on names that are not unique and on its own future."""
    with warnings.catch_warnings(), nothing_pulled():
        warnings.simplefilter("ignore")
        yield


def random_mudata(seed: int) -> mudata.MuData:
    """Up to three modalities with cells and genes partly in common, in orders of their own.

    It is made from a seed, not drawn, because mudata itself uses the random module.
    """
    rng = np.random.default_rng(seed)
    axis = int(rng.choice([0, 1, -1]))
    cells = [f"zelle {number}" for number in range(rng.choice([1, 5, 60]))]
    genes = [f"g/{number}" for number in range(12)]
    modalities = {}
    for name in rng.permutation(["rna", "prot", "ätac/x"])[: rng.integers(1, 4)].tolist():
        own_cells = _some(rng, cells, rng.choice([0.0, 0.6, 1.0]))
        own_genes = _some(rng, genes, 0.7)
        if axis == 0:
            own_genes = [f"{name}:{gene}" for gene in own_genes]
        elif axis == 1:
            own_cells = [f"{name}:{cell}" for cell in own_cells]
        modalities[name] = _modality(rng, own_cells, own_genes)
    with quiet():
        mdata = mudata.MuData(modalities, axis=axis)
        obs_names, var_names = mdata.obs_names, mdata.var_names
        mdata.obs = random_frame(rng, obs_names, int(rng.integers(0, 4)))
        mdata.var = random_frame(rng, var_names, int(rng.integers(0, 2)))
        for kind, names in (("obs", obs_names), ("var", var_names)):
            for key, value in random_components(rng, names).items():
                getattr(mdata, f"{kind}m")[key] = value
            for key, value in random_graphs(rng, len(names)).items():
                getattr(mdata, f"{kind}p")[key] = value
        mdata.uns["shared"] = {"a": np.arange(3)}
    return mdata


def _some(rng: np.random.Generator, names: list[str], share: float) -> list[str]:
    chosen = [name for name in names if rng.random() < share]
    if rng.random() < 0.5:
        rng.shuffle(chosen)
    return chosen


def _modality(rng: np.random.Generator, cells: list[str], genes: list[str]) -> anndata.AnnData:
    def matrix(n_cols: int) -> object:
        form = str(rng.choice([*SPARSE_FORMS, "dense"]))
        dtype = str(rng.choice(["float32", "int16", "uint8", "float64"]))
        return random_matrix(rng, len(cells), n_cols, dtype, form, 0.5)

    obs, var = pd.Index(cells, dtype=object), pd.Index(genes, dtype=object)
    with quiet():
        adata = anndata.AnnData(
            X=matrix(len(genes)) if rng.random() < 0.6 else None,
            obs=random_frame(rng, obs, 2),
            var=random_frame(rng, var, 2),
            obsm=random_components(rng, obs),
            varm=random_components(rng, var),
            obsp=random_graphs(rng, len(cells)),
            layers={"counts": matrix(len(genes))} if rng.random() < 0.6 else {},
            uns={"own": [1, 2]},
        )
        if rng.random() < 0.6:
            raw_var = pd.DataFrame(index=[*genes, "one more"])
            adata.raw = anndata.AnnData(matrix(len(genes) + 1), obs=obs.to_frame()[[]], var=raw_var)
    return adata


def assert_same_mudata(found: mudata.MuData, expected: mudata.MuData) -> None:
    """Equal in everything that MuData holds, in its order."""
    assert list(found.mod) == list(expected.mod)
    assert found.axis == expected.axis
    assert found.shape == expected.shape
    for kind in ("obs", "var"):
        pd.testing.assert_frame_equal(
            getattr(found, kind), getattr(expected, kind), check_exact=True
        )
    for kind in ("obsmap", "varmap"):
        found_maps, expected_maps = getattr(found, kind), getattr(expected, kind)
        assert list(found_maps) == list(expected_maps), kind
        for name in expected_maps:
            assert found_maps[name].dtype == expected_maps[name].dtype, (kind, name)
            np.testing.assert_array_equal(found_maps[name], expected_maps[name])
    for kind in ("obsm", "obsp", "varm", "varp"):
        found_parts, expected_parts = getattr(found, kind), getattr(expected, kind)
        assert list(found_parts) == list(expected_parts), kind
        for key in expected_parts:
            assert_equal(found_parts[key], expected_parts[key], exact=True)
            assert getattr(found_parts[key], "dtype", 0) == getattr(expected_parts[key], "dtype", 0)
    assert_equal(dict(found.uns), dict(expected.uns), exact=True)
    for name, adata in expected.mod.items():
        assert_same(found.mod[name], adata)
