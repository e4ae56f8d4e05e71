"""What `data` holds and what was given by hand, as one set of components."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cellucid_prepare._faults import Faults
from cellucid_prepare.inputs.components import Components
from cellucid_prepare.inputs.from_anndata import anndata_components
from cellucid_prepare.inputs.from_scx import experiment_components

BY_HAND = ("obs", "var", "X", "graph", "embeddings", "vector_fields")


@contextmanager
def gathered(
    data: Any, by_hand: Components, modalities: Any, faults: Faults
) -> Iterator[Components]:
    """The components of `data`, each replaced by the one that was given by hand.

    Files that were opened for it are closed at the end of the block.
    """
    if data is None:
        yield by_hand
        return
    with _opened(data, faults) as opened:
        components = _components(opened, faults)
        for name in BY_HAND:
            if getattr(by_hand, name) is not None:
                setattr(components, name, getattr(by_hand, name))
        yield components


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
