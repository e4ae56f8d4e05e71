"""A multimodal experiment as a MuData of its own."""

from __future__ import annotations

import importlib.util
import warnings
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from scx_core.experiment._to_anndata import modality_to_anndata

if TYPE_CHECKING:
    import anndata
    import mudata

    from scx_core.experiment._experiment import Experiment


def to_mudata(experiment: Experiment, *, backed: bool) -> mudata.MuData:
    """See `Experiment.to_mudata`."""
    if not experiment.is_multimodal:
        raise ValueError(f"{experiment.path} has a single modality: use `to_anndata()`")
    if importlib.util.find_spec("mudata") is None:
        raise ImportError("to_mudata() needs mudata, which is not installed: `pip install mudata`")
    modalities = {
        modality.name: modality_to_anndata(experiment, modality, backed=backed)
        for modality in experiment.parts()
    }
    shared = experiment.shared
    obs = shared.load_obs()
    var = shared.load_var() if shared.has_var else None
    parts: dict[str, Any] = {
        kind: {key: load() for key, load in shared.loaders(kind).items()}
        for kind in ("obsm", "varm", "obsp", "varp")
    }
    maps: dict[str, dict[str, npt.NDArray[np.uint32]]] = {"obsmap": {}, "varmap": {}}
    for modality in experiment.parts():
        rows = modality.rows
        if rows is not None:
            maps["obsmap"][modality.name] = member_map(rows, len(obs))
        columns = None if var is None else modality.columns(len(var))
        if var is not None and columns is not None:
            maps["varmap"][modality.name] = member_map(columns, len(var))
    return _assembled(
        modalities, obs=obs, var=var, uns=shared.load_uns(), axis=shared.axis, **parts, **maps
    )


def _assembled(modalities: dict[str, anndata.AnnData], **parts: Any) -> mudata.MuData:
    """A MuData of exactly these parts.

    Its constructor ends with `update()`, which derives obs, var and everything aligned with them
    from the modalities anew: in another order, with other dtypes, or not at all where names
    repeat. The parts come from an object that was whole, so that step is left out; where the file
    has no var over all modalities there is something to derive.
    """
    import mudata

    class Assembled(mudata.MuData):  # type: ignore[misc]
        def update(self) -> None:
            if parts["var"] is None:
                super().update()

    with warnings.catch_warnings(), no_columns_pulled():
        # names that repeat did so in the object that was written: its owner knows
        warnings.simplefilter("ignore")
        mdata = Assembled(modalities, **parts)
    mdata.__class__ = mudata.MuData
    return mdata


def no_columns_pulled() -> AbstractContextManager[Any]:
    """mudata leaves the columns of obs and var where they are, whatever the user has set."""
    import mudata

    # mudata 0.4 has an object of settings instead of a function
    set_options = mudata.settings.override if hasattr(mudata, "settings") else mudata.set_options
    return cast("AbstractContextManager[Any]", set_options(pull_on_update=False))


def member_map(positions: npt.NDArray[np.int64], length: int) -> npt.NDArray[np.uint32]:
    """MuData's map of an axis: the member at each of its places, from 1; 0 where there is none."""
    members: npt.NDArray[np.uint32] = np.zeros(length, dtype=np.uint32)
    members[positions] = np.arange(1, len(positions) + 1, dtype=np.uint32)
    return members
