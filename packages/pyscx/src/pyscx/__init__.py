"""The names of pyscx, each taken from the package that provides it when it is first used.

Importing pyscx loads neither anndata nor pandas nor any other large package. A name whose package
is not installed raises an AttributeError that says which one to install; ``dir(pyscx)`` lists what
this version has.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TYPE_CHECKING, Any

from scx_core._names import no_such_name, public_names
from scx_core._version import require_version

from ._version import __version__

require_version("scx-pyscx", __version__)

if TYPE_CHECKING:
    from scx_core import (
        CorruptFileError,
        Experiment,
        compact,
        from_10x,
        from_anndata,
        from_h5ad,
        from_h5mu,
        from_mtx,
        from_mudata,
        mark_deleted,
        open,
        read,
        write,
    )
    from scx_train import (
        COLLATE_CELLSET_CONTRACT_VERSION,
        IndexPlanDataset,
        MultimodalTrainingDataset,
        SparseCellSetDataset,
        TrainingDataset,
        batch_plans,
        collate_cellset_gathered,
        downsample_counts_csr,
        downsample_file_identity,
        neighborhood_plans_from_coords,
        neighborhood_plans_from_graph,
    )

__all__ = [
    "COLLATE_CELLSET_CONTRACT_VERSION",
    "CorruptFileError",
    "Experiment",
    "IndexPlanDataset",
    "MultimodalTrainingDataset",
    "SparseCellSetDataset",
    "TrainingDataset",
    "__version__",
    "batch_plans",
    "collate_cellset_gathered",
    "compact",
    "downsample_counts_csr",
    "downsample_file_identity",
    "from_10x",
    "from_anndata",
    "from_h5ad",
    "from_h5mu",
    "from_mtx",
    "from_mudata",
    "mark_deleted",
    "neighborhood_plans_from_coords",
    "neighborhood_plans_from_graph",
    "open",
    "read",
    "write",
]

# Where each name comes from: the module, and the distribution that holds it.
_FROM_CORE = ("scx_core", "scx-core")
_FROM_TRAIN = ("scx_train", "scx-train")
_PROVIDERS = {
    "COLLATE_CELLSET_CONTRACT_VERSION": _FROM_TRAIN,
    "CorruptFileError": _FROM_CORE,
    "Experiment": _FROM_CORE,
    "IndexPlanDataset": _FROM_TRAIN,
    "MultimodalTrainingDataset": _FROM_TRAIN,
    "SparseCellSetDataset": _FROM_TRAIN,
    "TrainingDataset": _FROM_TRAIN,
    "batch_plans": _FROM_TRAIN,
    "collate_cellset_gathered": _FROM_TRAIN,
    "downsample_counts_csr": _FROM_TRAIN,
    "downsample_file_identity": _FROM_TRAIN,
    "compact": _FROM_CORE,
    "from_10x": _FROM_CORE,
    "from_anndata": _FROM_CORE,
    "from_h5ad": _FROM_CORE,
    "from_h5mu": _FROM_CORE,
    "from_mtx": _FROM_CORE,
    "from_mudata": _FROM_CORE,
    "mark_deleted": _FROM_CORE,
    "neighborhood_plans_from_coords": _FROM_TRAIN,
    "neighborhood_plans_from_graph": _FROM_TRAIN,
    "open": _FROM_CORE,
    "read": _FROM_CORE,
    "write": _FROM_CORE,
}

# A module of pyscx itself, and what it is made of.
_MODULES = {"tokenize": ("scx_tokenize", "scx-tokenize")}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        module_name, distribution = _MODULES[name]
        _imported(name, module_name, distribution)
        return importlib.import_module(f"{__name__}.{name}")
    if name not in _PROVIDERS:
        raise no_such_name(globals(), name, [*_MODULES])
    module_name, distribution = _PROVIDERS[name]
    value = getattr(_imported(name, module_name, distribution), name)
    globals()[name] = value
    return value


def _imported(name: str, module_name: str, distribution: str) -> ModuleType:
    """The module that provides a name; an AttributeError says what to install."""
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name != module_name:
            raise  # the package is there, but something that it needs is not
        raise AttributeError(
            f"pyscx.{name} comes with {distribution}, which is not installed: "
            f'python -m pip install "{distribution}=={__version__}"',
            name=name,
        ) from error


def __dir__() -> list[str]:
    return public_names(globals(), [*_MODULES])
