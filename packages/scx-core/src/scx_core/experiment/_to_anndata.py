"""An experiment as an AnnData of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scx_core.experiment._lazy_matrix import lazy_matrix
from scx_core.experiment._matrix_view import MatrixView
from scx_core.experiment._modality import Modality
from scx_core.experiment._raw import RawView

if TYPE_CHECKING:
    import anndata

    from scx_core.experiment._experiment import Experiment


def to_anndata(experiment: Experiment, *, backed: bool, modality: str | None) -> anndata.AnnData:
    """See `Experiment.to_anndata`."""
    if experiment.is_multimodal:
        if modality is None:
            raise ValueError(
                f"{experiment.path} is multimodal: name one of {experiment.modality_names} with "
                "`modality=`, or take all with `to_mudata()`"
            )
        return modality_to_anndata(experiment, experiment.modality(modality), backed=backed)
    if modality is not None:
        raise ValueError(
            f"modality={modality!r}: {experiment.path} has a single modality without a name"
        )
    return modality_to_anndata(experiment, experiment.parts()[0], backed=backed)


def modality_to_anndata(
    experiment: Experiment, modality: Modality, *, backed: bool
) -> anndata.AnnData:
    """One modality, its own cells in its own order."""
    import anndata

    obs = modality.load_obs()
    if obs is None:
        obs = experiment.shared.load_obs()
        if modality.rows is not None:
            obs = obs.iloc[modality.rows]
    x_view, raw_view = modality.X, modality.raw
    return anndata.AnnData(
        X=None if x_view is None else _matrix(x_view, modality, backed=backed),
        obs=obs,
        var=modality.load_var(),
        uns=modality.load_uns(),
        obsm=_loaded(modality, "obsm"),
        varm=_loaded(modality, "varm"),
        obsp=_loaded(modality, "obsp"),
        varp=_loaded(modality, "varp"),
        layers={
            name: _matrix(view, modality, backed=backed) for name, view in modality.layers.items()
        },
        raw=None if raw_view is None else _raw(raw_view, modality, backed=backed),
    )


def _loaded(modality: Modality, kind: str) -> dict[str, Any]:
    return {key: load() for key, load in modality.loaders(kind).items()}


def _matrix(view: MatrixView, modality: Modality, *, backed: bool) -> Any:
    if not backed:
        return view.to_memory(rows=modality.rows)
    matrix = lazy_matrix(view)
    return matrix if modality.rows is None else matrix[modality.rows]


def _raw(view: RawView, modality: Modality, *, backed: bool) -> dict[str, Any]:
    return {
        "X": _matrix(view.X, modality, backed=backed),
        "var": view.load_var(),
        "varm": {key: load() for key, load in view.varm_loaders().items()},
    }
