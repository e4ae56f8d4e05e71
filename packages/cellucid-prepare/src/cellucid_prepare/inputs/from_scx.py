"""The components of a .scx file; its matrix stays packed until it is read in blocks of cells."""

from __future__ import annotations

from typing import Any

from cellucid_prepare._faults import Faults
from cellucid_prepare.inputs.components import Components, identity_in
from cellucid_prepare.inputs.from_anndata import add_obsm, graph_in


def experiment_components(experiment: Any, faults: Faults) -> Components:
    """What an open file of a single modality holds of an output."""
    try:
        identity, defaults = identity_in(experiment.uns.get("cellucid"))
    except TypeError as error:
        faults.add_type("uns['cellucid']", f"is a {error}, not a dictionary", "remove it")
        identity, defaults = {}, {}
    X = experiment.X
    components = Components(
        obs=experiment.obs,
        var=None if X is None else experiment.var,
        X=X,
        graph=graph_in(experiment.obsp),
        identity=identity,
        defaults=defaults,
        is_data=True,
    )
    add_obsm(components, {key: experiment.obsm[key] for key in experiment.obsm})
    return components
