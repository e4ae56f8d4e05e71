"""AnnData of every kind through .scx to .h5ad and back, against anndata's own files."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import anndata
import pandas as pd
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import scx_core
from anndata_samples import anndatas, assert_same

COMPONENTS = ("obsm", "varm", "obsp", "varp", "layers")
SLOW = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


def quiet() -> Any:
    """Without remarks on names, and with the strings and slashes that anndata holds back."""
    warnings.simplefilter("ignore")
    options = {"allow_write_nullable_strings": True}
    if "disallow_forward_slash_in_h5ad" in dir(anndata.settings):
        options["disallow_forward_slash_in_h5ad"] = False
    return anndata.settings.override(**options)


@SLOW
@given(adata=anndatas(), memory_budget=st.sampled_from([1, 3000, 2**31]))
def test_what_anndata_can_store(tmp_path: Path, adata: anndata.AnnData, memory_budget: int) -> None:
    scx, ours, theirs = (tmp_path / name for name in ("a.scx", "ours.h5ad", "theirs.h5ad"))
    with warnings.catch_warnings(), quiet():
        adata = storable(adata)
        adata.write_h5ad(theirs, convert_strings_to_categoricals=False)
        expected = anndata.read_h5ad(theirs)
        scx_core.from_anndata(adata, scx, overwrite=True)
        with scx_core.open(scx) as experiment:
            experiment.to_h5ad(ours, overwrite=True, memory_budget=memory_budget)
        assert_same(anndata.read_h5ad(ours), expected, exact=False)
        scx_core.from_h5ad(theirs, scx, overwrite=True, memory_budget=memory_budget)
        with scx_core.open(scx) as experiment:
            assert_same(experiment.to_anndata(), expected, exact=False)


@SLOW
@given(adata=anndatas())
def test_what_anndata_cannot_store_is_refused(tmp_path: Path, adata: anndata.AnnData) -> None:
    with warnings.catch_warnings(), quiet():
        (tmp_path / "a.h5ad").unlink(missing_ok=True)
        scx_core.from_anndata(adata, tmp_path / "a.scx", overwrite=True)
        with scx_core.open(tmp_path / "a.scx") as experiment:
            try:
                experiment.to_h5ad(tmp_path / "a.h5ad", overwrite=True)
                return
            except ValueError as error:
                message = str(error)
        assert "cannot be stored in HDF5" in message or "cannot have this name" in message
        assert not (tmp_path / "a.h5ad").exists()
        assert storable(adata, only_check=True) is None


def storable(adata: anndata.AnnData, *, only_check: bool = False) -> anndata.AnnData | None:
    """A copy without what anndata has no way to store; None where there is such, to be checked."""
    kept = adata.copy()
    found = False
    for kind in COMPONENTS:
        for key in [key for key in getattr(kept, kind) if key is not None and "/" in key]:
            del getattr(kept, kind)[key]
            found = True
    frames = [kept.obs, kept.var]
    frames += [
        value
        for kind in ("obsm", "varm")
        for value in getattr(kept, kind).values()
        if isinstance(value, pd.DataFrame)
    ]
    if kept.raw is not None:
        raw_varm = {key: value for key, value in kept.raw.varm.items() if "/" not in key}
        frames += [kept.raw.var]
        frames += [value for value in raw_varm.values() if isinstance(value, pd.DataFrame)]
        found |= len(raw_varm) < len(kept.raw.varm)
    for frame in frames:
        for name in [name for name in frame.columns if frame[name].dtype.kind in "mM"]:
            del frame[name]
            found = True
    if kept.raw is not None:
        kept.raw = anndata.AnnData(kept.raw.X, obs=kept.obs[[]], var=kept.raw.var, varm=raw_varm)
    if "nested" in kept.uns:
        # a list of numbers, text and None
        del kept.uns["nested"]["deeper"]["list"]
        found = True
    return None if only_check and found else kept
