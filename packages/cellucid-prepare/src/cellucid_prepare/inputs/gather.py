"""What `data` holds and what was given by hand, as one set of components."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from cellucid_prepare._faults import Faults
from cellucid_prepare.inputs.components import Components
from cellucid_prepare.inputs.from_anndata import anndata_components
from cellucid_prepare.inputs.from_mudata import (
    MuDataComponents,
    as_one,
    chosen_modalities,
    mudata_components,
)
from cellucid_prepare.inputs.from_scx import experiment_components

BY_HAND = ("obs", "var", "X", "graph", "embeddings", "vector_fields")


@contextmanager
def gathered(
    data: Any, by_hand: Components, modalities: Any, faults: Faults
) -> Iterator[Components | MuDataComponents]:
    """The components of `data`, each replaced by the one that was given by hand.

    Files that were opened for it are closed at the end of the block.
    """
    if data is None:
        yield by_hand
        return
    with _opened(data, faults) as opened:
        mdata = _as_mudata(opened)
        if mdata is None:
            components = _components(opened, faults)
            if modalities is not None:
                faults.add("modalities", "data has a single modality", "leave it out")
            _replace(components, by_hand)
            yield components
            return
        names = chosen_modalities(mdata, modalities, faults)
        if names is None:
            faults.raise_any()
        assert names is not None
        several = mudata_components(mdata, names, faults)
        if len(names) == 1 and modalities is not None:
            components = as_one(mdata, several, names[0], faults)
            _replace(components, by_hand)
            yield components
            return
        for argument, name in (("gene_expression", "X"), ("var", "var")):
            if getattr(by_hand, name) is not None:
                faults.add(argument, "genes belong to modalities", "change them in data.mod")
        _replace(several.root, replace(by_hand, X=None, var=None))
        yield several


def _replace(components: Components, by_hand: Components) -> None:
    for name in BY_HAND:
        if getattr(by_hand, name) is not None:
            setattr(components, name, getattr(by_hand, name))


def _as_mudata(data: Any) -> Any:
    """A MuData, also of a .scx file of several modalities; None for everything else."""
    import scx_core

    if isinstance(data, scx_core.Experiment):
        return data.to_mudata() if data.is_multimodal else None
    if type(data).__module__.partition(".")[0] != "mudata":
        return None
    import mudata

    return data if isinstance(data, mudata.MuData) else None


@contextmanager
def _opened(data: Any, faults: Faults) -> Iterator[Any]:
    if not isinstance(data, str | os.PathLike):
        yield data
        return
    import scx_core
    from scx_core.sources.detect import source_kind

    path = Path(data).expanduser()
    if source_kind(path) != "scx":
        faults.add_type(
            "data",
            f"{os.fspath(path)!r} is no .scx file",
            "open other files yourself, for instance with anndata.read_h5ad(path, backed='r')",
        )
        faults.raise_any()
    with scx_core.open(path) as experiment:
        yield experiment


def _components(data: Any, faults: Faults) -> Components:
    import anndata

    import scx_core

    if isinstance(data, anndata.AnnData):
        return anndata_components(data, faults)
    if isinstance(data, scx_core.Experiment):
        return experiment_components(data, faults)
    faults.add_type(
        "data",
        f"is a {type(data).__name__}",
        "pass an AnnData, a MuData, a scx_core.Experiment or the path of a .scx file",
    )
    faults.raise_any()
    raise AssertionError
